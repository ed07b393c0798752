// SPDX-License-Identifier: MIT
// The density normalization on rows in device memory. It does what host_density.h does on the host.
#ifndef EQUI_DEVICE_DENSITY_H
#define EQUI_DEVICE_DENSITY_H

#include "kokkos/geometry/device_radial_set.h"
#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/device_batch.h"
#include "kokkos/layers/density/density_constants.h"

#include <cstdint>
#include <tuple>
#include <vector>

namespace equi {

// T: float, double or a Dual of them.
template <class T>
class DeviceDensity {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  DeviceDensity(const DeviceExec &exec, DensityConstants constants);
  void forward(DeviceBatch<T> &batch, FeatureRows<R> x, FeatureRows<R> y, D *norm, int direction);
  void backward(DeviceBatch<T> &batch, FeatureRows<R> x, FeatureRows<R> y_adj, const D *norm, int direction);

  const DensityConstants &constants() const { return constants_; }
  void for_batch_arrays(int64_t num_atoms, int64_t num_edges, const ArrayVisitor &f) {
    f(value_, num_edges);
    f(derivative_, num_edges);
    f(dot_, num_atoms);
  }
  auto members() const { return std::tie(radial_set_, powers_, edges_); }    // besides those of a batch

  // Computes the density of the batch's edges and its derivatives, for the above. Public because nvcc requires it of
  // functions with kernels.
  void evaluate(const DeviceExec &exec, const DeviceBatchEdges &edges, const D *distance, const int *pair);

 private:
  DensityConstants constants_;    // without the polynomials
  DeviceRadialSet radial_set_;
  DeviceBuffer<double> powers_;
  DeviceBuffer<D> value_, derivative_, dot_;    // of a batch's edges and atoms
  DeviceRadialEdges<D> edges_;
  std::vector<D> host_value_, host_derivative_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The density normalization on a device. It does what host_density.h does on the host.
#ifndef EQUI_DEVICE_DENSITY_H
#define EQUI_DEVICE_DENSITY_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/geometry/device_radial_set.h"
#include "kokkos/layers/density/host_density.h"

#include <vector>

namespace equi {

// T: float, double or a Dual of them.
template <class T>
class DeviceDensity {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  DeviceDensity(const DeviceExec &exec, HostDensity<T> density);

  // Computes y = x / norm. direction: for duals, whose tangents are in plane 1 + direction. The batch's atoms are
  // receivers. distance, pair and distance_adj are indexed by edge; norm: [batch.num_atoms].
  template <class G>
  void forward(const DeviceExec &exec, const DeviceBatchEdges &batch, const G *distance, const int *pair,
               FeatureRows<const R> x, FeatureRows<R> y, D *norm, int direction);
  // Replaces x by its adjoint, and adds the derivative with respect to the distance of edge e to distance_adj[e *
  // stride].
  template <class G>
  void backward(const DeviceExec &exec, const DeviceBatchEdges &batch, const G *distance, const int *pair,
                FeatureRows<R> x, FeatureRows<const R> y_adj, const D *norm, G *distance_adj, int stride,
                int direction);

  const HostDensity<T> &host() const { return density_; }
  std::size_t bytes() const;
  // Bytes that a batch of this many atoms and edges will add.
  std::size_t additional_bytes(int64_t num_atoms, int64_t num_edges) const {
    return value_.additional_bytes(num_edges) + derivative_.additional_bytes(num_edges) +
           dot_.additional_bytes(num_atoms);
  }

  // Computes the density of the batch's edges and its derivatives, for the above. Public because nvcc requires it of
  // functions with kernels.
  template <class G>
  void evaluate(const DeviceExec &exec, const DeviceBatchEdges &batch, const G *distance, const int *pair);

 private:
  HostDensity<T> density_;
  DeviceRadialSet radial_set_;
  DeviceBuffer<double> powers_;    // [bins of all tables][coefficients]
  DeviceBuffer<D> value_, derivative_, dot_;
  DeviceRadialEdges<D> edges_;
  std::vector<D> host_value_, host_derivative_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The grid network of rows in device memory, some atoms at a time. The backward pass evaluates the hidden layers
// again.
#ifndef EQUI_DEVICE_GRID_NETWORK_H
#define EQUI_DEVICE_GRID_NETWORK_H

#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layers/grid_network/grid_network_constants.h"
#include "kokkos/runtime/device_exec.h"

#include <tuple>
#include <vector>

namespace equi {

template <class T>
class DeviceGridNetwork {
  using R = Real<T>;

 public:
  DeviceGridNetwork(const DeviceExec &exec, const GridNetworkConstants &constants);

  // Size of the scratch for a call with this many rows.
  int64_t scratch_size(int64_t count) const { return scratch_.size(count); }
  // direction: for duals, whose tangents are in plane 1 + direction.
  void forward(const DeviceExec &exec, int count, FeatureRows<const R> x, FeatureRows<R> y, R *scratch,
               int direction) const;
  // Replaces x by its adjoint.
  void backward(const DeviceExec &exec, int count, FeatureRows<R> x, FeatureRows<const R> y_adj, R *scratch,
                int direction) const;
  auto members() const { return std::tie(data_); }

 private:
  using Work = GridNetworkWork<R>;    // [planes][atom][component or point][width] each
  // Position in data_ of a matrix [in][out]; -1: none.
  struct Place {
    int in, out;
    int64_t begin;
  };

  // c = a m, or a times the transpose of m, for this many rows of each plane.
  void multiply(const DeviceExec &exec, const Place &m, bool transpose, int64_t rows, const R *a, R *c) const;
  void read(const DeviceExec &exec, const FeatureComponents &components, FeatureRows<const R> x, int first,
            int direction, int width, const Work &work) const;
  void write(const DeviceExec &exec, const FeatureComponents &components, FeatureRows<R> y, int first, int direction,
             int width, int64_t bias, const Work &work) const;
  // to = m from, or the transpose of m times from, for each atom and channel: converts between components and
  // points.
  void transform(const DeviceExec &exec, const Place &m, bool transpose, int width, int n, const R *from, R *to) const;
  void evaluate(const DeviceExec &exec, FeatureRows<const R> x, int first, int direction, const Work &work) const;
  void activate_layer(const DeviceExec &exec, int k, const Work &work) const;

  FeatureComponents in_, out_;
  int num_points_;
  GridNetworkScratch scratch_;
  Activation activation_;
  R scale_;
  std::vector<int> width_;    // widths of hidden layers
  DeviceBuffer<R> data_;
  Place to_, from_, first_, last_;
  std::vector<Place> between_;
  std::vector<int64_t> bias_;    // biases of the hidden layers
  int64_t last_bias_;
};

}    // namespace equi

#endif

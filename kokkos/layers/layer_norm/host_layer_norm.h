// SPDX-License-Identifier: MIT
// The layer norm of rows in host memory.
#ifndef EQUI_HOST_LAYER_NORM_H
#define EQUI_HOST_LAYER_NORM_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/layers/feature_rows.h"
#include "kokkos/layers/layer_norm/layer_norm_row.h"

#include <vector>

namespace equi {

template <class T>
class HostLayerNorm {
  using R = Real<T>;

 public:
  HostLayerNorm(const LayerNorm &layer, const FeatureLayout &layout)
      : group_(layout.group(0)),
        num_channels_(static_cast<int>(layer.weight.size())),
        epsilon_(layer.epsilon),
        constants_(layer_norm_constants(layer, layout)) {}
  // direction: of duals, whose tangents are in plane 1 + direction.
  void forward(const HostKernels<T> &, int count, FeatureRows<const R> x, FeatureRows<R> y, int direction) const {
    for (int a = 0; a < count; a++) row().forward(at<const T>(x, a, direction), at<T>(y, a, direction), 0, alone);
  }
  // x is replaced by its adjoint.
  void backward(const HostKernels<T> &, int count, FeatureRows<R> x, FeatureRows<const R> y_adj, int direction) const {
    for (int a = 0; a < count; a++) row().backward(at<T>(x, a, direction), at<const T>(y_adj, a, direction), 0, alone);
  }
  std::size_t bytes() const { return constants_.size() * sizeof(double); }

 private:
  static DoubleOf<T> alone(DoubleOf<T> sum) { return sum; }
  LayerNormRow<T, 1> row() const {
    return LayerNormRow<T, 1>::from(constants_.data(), group_.channels, num_channels_, epsilon_);
  }
  template <class N, class Rows>
  Pointer<N> at(const Rows &rows, int64_t row, int direction) const {
    return make_pointer<N>(rows.group(group_) + row * group_.width(), (1 + direction) * group_.channels);
  }

  FeatureGroup group_;
  int num_channels_;
  double epsilon_;
  std::vector<double> constants_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The spherical norm of rows in host memory.
#ifndef EQUI_HOST_SPHERICAL_NORM_H
#define EQUI_HOST_SPHERICAL_NORM_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/layers/spherical_norm/spherical_norm_row.h"

#include <vector>

namespace equi {

template <class T>
class HostSphericalNorm {
  using R = Real<T>;

 public:
  // irreps, layout: of the input. Throws std::invalid_argument for more blocks than a kernel takes.
  HostSphericalNorm(const SphericalNorm &layer, const Irreps &irreps, const FeatureLayout &layout)
      : shape_(layer, irreps), layout_(layout), constants_(shape_.constants(layer)) {}
  // direction: of duals, whose tangents are in plane 1 + direction.
  void forward(const HostKernels<T> &, int count, FeatureRows<const R> x, FeatureRows<R> y, int direction) const {
    const SphericalNormRow<T, const T, T, 1> rows(shape_, constants_.data(), layout_, x, y, direction);
    for (int a = 0; a < count; a++) rows.forward(a, 0, alone);
  }
  // x is replaced by its adjoint.
  void backward(const HostKernels<T> &, int count, FeatureRows<R> x, FeatureRows<const R> y_adj, int direction) const {
    const SphericalNormRow<T, T, const T, 1> rows(shape_, constants_.data(), layout_, x, y_adj, direction);
    for (int a = 0; a < count; a++) rows.backward(a, 0, alone);
  }
  std::size_t bytes() const { return constants_.size() * sizeof(double); }

 private:
  static DoubleOf<T> alone(DoubleOf<T> sum) { return sum; }

  SphericalNormShape shape_;
  FeatureLayout layout_;
  std::vector<double> constants_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The spherical norm of rows in device memory.
#ifndef EQUI_DEVICE_SPHERICAL_NORM_H
#define EQUI_DEVICE_SPHERICAL_NORM_H

#include "kokkos/layers/feature_rows.h"
#include "kokkos/layers/spherical_norm/spherical_norm_row.h"
#include "kokkos/runtime/device_exec.h"

namespace equi {

template <class T>
class DeviceSphericalNorm {
  using R = Real<T>;

 public:
  // irreps, layout: of the input. Throws std::invalid_argument for more blocks than a kernel takes.
  DeviceSphericalNorm(const DeviceExec &exec, const SphericalNorm &layer, const Irreps &irreps,
                      const FeatureLayout &layout);
  void forward(const DeviceExec &exec, int count, FeatureRows<const R> x, FeatureRows<R> y, int direction) const;
  // x is replaced by its adjoint.
  void backward(const DeviceExec &exec, int count, FeatureRows<R> x, FeatureRows<const R> y_adj, int direction) const;
  std::size_t bytes() const { return constants_.bytes(); }

 private:
  SphericalNormShape shape_;
  FeatureLayout layout_;
  DeviceBuffer<double> constants_;
};

}    // namespace equi

#endif

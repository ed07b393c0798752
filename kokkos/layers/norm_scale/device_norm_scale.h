// SPDX-License-Identifier: MIT
// The scale by norms of rows in device memory.
#ifndef EQUI_DEVICE_NORM_SCALE_H
#define EQUI_DEVICE_NORM_SCALE_H

#include "kokkos/layers/feature_rows.h"
#include "kokkos/runtime/device_exec.h"
#include "src/layers/norm_scale.h"
#include "src/numbers/dual.h"

namespace equi {

template <class T>
class DeviceNormScale {
  using R = Real<T>;

 public:
  // Throws std::invalid_argument for more blocks than a kernel takes.
  DeviceNormScale(const NormScale &layer, const FeatureLayout &layout);
  void forward(const DeviceExec &exec, int count, FeatureRows<const R> x, FeatureRows<R> y, int direction) const;
  // x is replaced by its adjoint.
  void backward(const DeviceExec &exec, int count, FeatureRows<R> x, FeatureRows<const R> y_adj, int direction) const;
  std::size_t bytes() const { return 0; }

 private:
  FeatureLayout layout_;
  double offset_, factor_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The layer norm of rows in device memory.
#ifndef EQUI_DEVICE_LAYER_NORM_H
#define EQUI_DEVICE_LAYER_NORM_H

#include "kokkos/layers/feature_rows.h"
#include "kokkos/layers/layer_norm/layer_norm_row.h"
#include "kokkos/runtime/device_exec.h"

namespace equi {

template <class T>
class DeviceLayerNorm {
  using R = Real<T>;

 public:
  DeviceLayerNorm(const DeviceExec &exec, const LayerNorm &layer, const FeatureLayout &layout);
  void forward(const DeviceExec &exec, int count, FeatureRows<const R> x, FeatureRows<R> y, int direction) const;
  // x is replaced by its adjoint.
  void backward(const DeviceExec &exec, int count, FeatureRows<R> x, FeatureRows<const R> y_adj, int direction) const;
  std::size_t bytes() const { return constants_.bytes(); }

 private:
  LayerNormRow<T, DeviceTraits<>::LANES> row() const;

  FeatureGroup group_;
  int num_channels_;
  double epsilon_;
  DeviceBuffer<double> constants_;
};

}    // namespace equi

#endif

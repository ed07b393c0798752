// SPDX-License-Identifier: MIT
// The layer norm on a device.
#ifndef EQUI_DEVICE_LAYER_NORM_LAYER_H
#define EQUI_DEVICE_LAYER_NORM_LAYER_H

#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/layer_norm/device_layer_norm.h"
#include "kokkos/layers/layer_op.h"

namespace equi {

template <class T, class G>
class DeviceLayerNormLayer : public LayerOp<DeviceBatch<T, G>> {
  using Batch = DeviceBatch<T, G>;

 public:
  DeviceLayerNormLayer(const DeviceExec &exec, const LayerNorm &layer, const FeatureLayout &layout)
      : input_(layer.input), output_(layer.output), op_(exec, layer, layout) {}
  void forward(Batch &batch) override {
    op_.forward(batch.step.exec, batch.count, batch.rows(input_), batch.rows(output_));
  }
  void backward(Batch &batch) override {
    batch.replace_by_adjoint(input_, [&](FeatureRows<Real<T>> x) {
      op_.backward(batch.step.exec, batch.count, x, batch.rows(output_, true));
    });
  }
  std::size_t bytes() const override { return op_.bytes(); }

 private:
  int input_, output_;
  DeviceLayerNorm<T> op_;
};

}    // namespace equi

#endif

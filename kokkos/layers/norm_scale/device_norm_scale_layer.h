// SPDX-License-Identifier: MIT
// The scale by norms on a device.
#ifndef EQUI_DEVICE_NORM_SCALE_LAYER_H
#define EQUI_DEVICE_NORM_SCALE_LAYER_H

#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/layer_op.h"
#include "kokkos/layers/norm_scale/device_norm_scale.h"

namespace equi {

template <class T, class G>
class DeviceNormScaleLayer : public LayerOp<DeviceBatch<T, G>> {
  using Batch = DeviceBatch<T, G>;

 public:
  DeviceNormScaleLayer(const NormScale &layer, const FeatureLayout &layout)
      : input_(layer.input), output_(layer.output), op_(layer, layout) {}
  void forward(Batch &batch) override {
    op_.forward(batch.step.exec, batch.count, batch.rows(input_), batch.rows(output_));
  }
  void backward(Batch &batch) override {
    batch.replace_by_adjoint(input_, [&](FeatureRows<Real<T>> x) {
      op_.backward(batch.step.exec, batch.count, x, batch.rows(output_, true));
    });
  }

 private:
  int input_, output_;
  DeviceNormScale<T> op_;
};

}    // namespace equi

#endif

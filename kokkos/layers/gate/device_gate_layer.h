// SPDX-License-Identifier: MIT
// The gate on a device.
#ifndef EQUI_DEVICE_GATE_LAYER_H
#define EQUI_DEVICE_GATE_LAYER_H

#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/gate/device_gate.h"
#include "kokkos/layers/layer_op.h"

namespace equi {

template <class T, class G>
class DeviceGateLayer : public LayerOp<DeviceBatch<T, G>> {
  using Batch = DeviceBatch<T, G>;

 public:
  DeviceGateLayer(const Gate &layer, const FeatureLayout &in, const FeatureLayout &out)
      : input_(layer.input), output_(layer.output), op_(GateOp<T>(layer, in, out)) {}
  void forward(Batch &batch) override {
    op_.forward(batch.step.exec, batch.count, batch.rows(input_), batch.rows(output_));
  }
  void backward(Batch &batch) override {
    batch.replace_by_adjoint(input_, [&](FeatureRows<Real<T>> z) {
      op_.backward(batch.step.exec, batch.count, batch.rows(output_, true), z);
    });
  }

 private:
  int input_, output_;
  DeviceGate<T> op_;
};

}    // namespace equi

#endif

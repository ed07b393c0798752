// SPDX-License-Identifier: MIT
// The symmetric contraction on a device.
#ifndef EQUI_DEVICE_CONTRACTION_LAYER_H
#define EQUI_DEVICE_CONTRACTION_LAYER_H

#include "kokkos/layers/contraction/device_contraction.h"
#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/layer_op.h"

#include <string>

namespace equi {

template <class T, class G>
class DeviceContractionLayer : public LayerOp<DeviceBatch<T, G>> {
  using Batch = DeviceBatch<T, G>;

 public:
  DeviceContractionLayer(const DeviceContext &context, const SymmetricContraction &layer)
      : input_(layer.input),
        output_(layer.output),
        op_(context.exec,
            ContractionOp<T>(layer, context.layout(input_), context.layout(output_), context.model.num_species())) {}
  void forward(Batch &batch) override {
    op_.forward(batch.step.exec, batch.count, batch.rows(input_), batch.rows(output_), batch.species);
  }
  void backward(Batch &batch) override {
    batch.replace_by_adjoint(input_, [&](FeatureRows<Real<T>> x, int) {
      op_.backward(batch.step.exec, batch.count, x, batch.rows(output_, true), batch.species);
    });
  }
  std::size_t bytes() const override { return op_.bytes(); }
  std::string describe() const override { return "symmetric contraction: " + op_.host().describe(); }

 private:
  int input_, output_;
  DeviceContraction<T> op_;
};

}    // namespace equi

#endif

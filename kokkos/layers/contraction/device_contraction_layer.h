// SPDX-License-Identifier: MIT
// The symmetric contraction and the node product on a device.
#ifndef EQUI_DEVICE_CONTRACTION_LAYER_H
#define EQUI_DEVICE_CONTRACTION_LAYER_H

#include "kokkos/layers/contraction/device_contraction.h"
#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/layer_op.h"

#include <string>
#include <utility>

namespace equi {

template <class T, class G>
class DeviceContractionLayer : public LayerOp<DeviceBatch<T, G>> {
  using Batch = DeviceBatch<T, G>;

 public:
  // name: of the layer, for the log.
  DeviceContractionLayer(const DeviceContext &context, const Ports &ports, const char *name,
                         const ContractionProduct &product)
      : inputs_(ports.inputs()),
        output_(ports.output),
        name_(name),
        op_(context.exec, ContractionOp<T>(product, context.plan.inputs(ports), context.layout(output_),
                                           context.model.num_species())) {}
  void forward(Batch &batch) override {
    const InputRows<Real<T>> x = input_rows(batch, inputs_);
    for (int d = 0; d < batch.step.num_directions(); d++)
      op_.forward(batch.step.exec, batch.count, x, batch.rows(output_), batch.species, d);
  }
  void backward(Batch &batch) override {
    batch.replace_by_adjoints(inputs_, [&](const InputRows<Real<T>> &x, int direction) {
      op_.backward(batch.step.exec, batch.count, x, batch.rows(output_, true), batch.species, direction);
    });
  }
  std::size_t bytes() const override { return op_.bytes(); }
  std::string describe() const override { return name_ + (": " + op_.host().describe()); }

 private:
  InputFeatures inputs_;
  int output_;
  const char *name_;
  DeviceContraction<T> op_;
};

}    // namespace equi

#endif

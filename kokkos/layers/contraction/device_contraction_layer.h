// SPDX-License-Identifier: MIT
// The symmetric contraction and the node product on a device.
#ifndef EQUI_DEVICE_CONTRACTION_LAYER_H
#define EQUI_DEVICE_CONTRACTION_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/contraction/device_contraction.h"
#include "kokkos/layers/device_batch.h"

#include <string>
#include <utility>

namespace equi {

template <class T, class G>
class DeviceContractionLayer : public BatchLayer<DeviceBatch<T, G>> {
  using Batch = DeviceBatch<T, G>;

 public:
  // name: name of the layer, for the log.
  DeviceContractionLayer(const DeviceContext &context, const Ports &ports, const char *name,
                         const ContractionProduct &product)
      : inputs_(ports.inputs()),
        output_(ports.output),
        name_(name),
        contraction_(context.exec, HostContraction<T>(product, context.plan.inputs(ports), context.layout(output_),
                                                      context.model.num_species())) {}
  void forward(Batch &batch) override {
    const InputRows<Real<T>> x = input_rows(batch, inputs_);
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      contraction_.forward(batch.evaluation.exec, batch.count, x, batch.rows(output_), batch.species, d);
  }
  void backward(Batch &batch) override {
    batch.replace_by_adjoints(inputs_, [&](const InputRows<Real<T>> &x, int direction) {
      contraction_.backward(batch.evaluation.exec, batch.count, x, batch.rows(output_, true), batch.species, direction);
    });
  }
  std::size_t bytes() const override { return contraction_.bytes(); }
  std::string describe() const override { return name_ + (": " + contraction_.host().describe()); }

 private:
  InputFeatures inputs_;
  int output_;
  const char *name_;
  DeviceContraction<T> contraction_;
};

}    // namespace equi

#endif

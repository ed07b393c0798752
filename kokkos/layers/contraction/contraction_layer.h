// SPDX-License-Identifier: MIT
// Layers that use the kernels of contractions: symmetric contractions and node products.
#ifndef EQUI_CONTRACTION_LAYER_H
#define EQUI_CONTRACTION_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/input_rows.h"
#include "kokkos/layers/contraction/device_contraction.h"
#include "kokkos/layers/contraction/host_contraction.h"

#include <cstddef>
#include <string>

namespace equi {

template <class Backend>
class ContractionLayer : public BatchLayer<typename Backend::Batch> {
  using T = typename Backend::Number;
  using Batch = typename Backend::Batch;
  using R = typename Batch::R;

 public:
  // name: name of the layer, for the log.
  ContractionLayer(const typename Backend::Context &context, const Ports &ports, const char *name,
                   const ContractionProduct &product)
      : inputs_(ports.inputs()),
        output_(ports.output),
        name_(name),
        contraction_(context.target(), ContractionConstants<T>(product, context.plan.inputs(ports),
                                                               context.layout(output_), context.model.num_species())) {}
  void forward(Batch &batch) override {
    const InputRows<R> x = input_rows(batch, inputs_);
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      contraction_.forward(batch.evaluation.work(), x, batch.rows(output_), species(batch), scratch(batch), d);
  }
  void backward(Batch &batch) override {
    batch.replace_by_adjoints(inputs_, [&](const InputRows<R> &x, int direction) {
      contraction_.backward(batch.evaluation.work(), x, batch.rows(output_, true), species(batch), scratch(batch),
                            direction);
    });
  }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, contraction_); }
  std::string describe() const override { return name_ + (": " + contraction_.constants().describe()); }
  void report_kernels(KernelReport &report) const override {
    // kernels for duals are all generic
    if (!IS_DUAL<T>) report.generic_contractions += contraction_.is_generic();
    report.keys.push_back(contraction_.constants().schedule.key());
  }

 private:
  SpeciesOrder species(Batch &batch) const { return batch.species_order(contraction_.constants().per_species()); }
  void *scratch(Batch &batch) const {
    const std::size_t bytes = contraction_.scratch_bytes(batch.evaluation.work());
    return batch.layer_scratch(static_cast<int64_t>((bytes + sizeof(R) - 1) / sizeof(R)));
  }

  InputFeatures inputs_;
  int output_;
  const char *name_;
  typename Backend::template Choose<HostContraction<T>, DeviceContraction<T>> contraction_;
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const SymmetricContraction &layer) {
  return std::make_unique<ContractionLayer<Backend>>(context, layer.ports(), "symmetric contraction",
                                                     layer.polynomials());
}
template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const NodeProduct &layer) {
  return std::make_unique<ContractionLayer<Backend>>(context, layer.ports(), "node product", layer.polynomials());
}

}    // namespace equi

#endif

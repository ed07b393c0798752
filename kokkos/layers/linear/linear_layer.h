// SPDX-License-Identifier: MIT
// The equivariant linear layer.
#ifndef EQUI_LINEAR_LAYER_H
#define EQUI_LINEAR_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layers/linear/device_linear.h"
#include "kokkos/layers/linear/host_linear.h"

#include <cstddef>
#include <cstdint>

namespace equi {

template <class Backend>
class LinearLayer : public BatchLayer<typename Backend::Batch> {
  using Batch = typename Backend::Batch;
  using R = typename Batch::R;

 public:
  LinearLayer(const typename Backend::Context &context, const Linear &layer)
      : input_(layer.input),
        output_(layer.output),
        accumulates_(layer.accumulate),
        linear_(context.target(),
                LinearConstants(layer, context.layout(input_), context.layout(output_), context.model.num_species())) {}

  // For an input that depends only on the species: computes a row per species, which forward copies or adds.
  void prepare(Batch &species) override {
    const FeatureLayout &layout = species.layout(output_);
    const FeatureRows<R> rows{species_rows_.reserve(static_cast<int64_t>(species.count) * layout.row_size()),
                              species.count, 0};
    species.zero_planes(layout, rows, {0, layout.planes()});
    apply(species, rows);
  }
  void forward(Batch &batch) override {
    const FeatureRows<R> y = batch.rows(output_);
    if (!species_rows_.data())
      apply(batch, y);
    else if (!batch.evaluation.tangents_alone())
      batch.copy_species_rows(batch.layout(output_), species_rows_.data(), y, accumulates_);
    else if (!accumulates_)
      batch.zero_planes(batch.layout(output_), y, batch.evaluation.planes);
  }
  void backward(Batch &batch) override {
    linear_.backward(batch.evaluation.work(), batch.count, batch.rows(output_, true), batch.rows(input_, true),
                     batch.adds(input_), order(batch), scratch(batch), batch.evaluation.planes);
  }
  int64_t scratch_size(int64_t count) const override { return linear_.scratch_size(count); }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, linear_, species_rows_); }

 private:
  SpeciesOrder order(Batch &batch) const { return linear_.per_species() ? batch.species_order(true) : SpeciesOrder{}; }
  R *scratch(Batch &batch) const { return batch.layer_scratch(linear_.scratch_size(batch.count)); }
  void apply(Batch &batch, FeatureRows<R> y) const {
    linear_.forward(batch.evaluation.work(), batch.count, batch.rows(input_), y, order(batch), scratch(batch),
                    batch.evaluation.planes);
  }

  int input_, output_;
  bool accumulates_;
  typename Backend::template Choose<HostLinear<R>, DeviceLinear<R>> linear_;
  typename Backend::template Array<R> species_rows_;    // [species][row], or none
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Linear &layer) {
  return std::make_unique<LinearLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The embedding of species: each atom gets the row of its species.
#ifndef EQUI_EMBEDDING_LAYER_H
#define EQUI_EMBEDDING_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "src/layers/species_embedding.h"

#include <cstddef>
#include <vector>

namespace equi {

template <class Backend>
class EmbeddingLayer : public BatchLayer<typename Backend::Batch> {
  using Batch = typename Backend::Batch;
  using R = typename Batch::R;

 public:
  EmbeddingLayer(const typename Backend::Context &context, const SpeciesEmbedding &layer) : output_(layer.output) {
    const FeatureGroup &group = context.layout(output_).group(0);
    std::vector<R> rows(static_cast<size_t>(layer.weight.rows) * group.width(), R(0));
    for (int s = 0; s < layer.weight.rows; s++)
      for (int u = 0; u < layer.weight.cols; u++)
        rows[static_cast<size_t>(s) * group.width() + u] = static_cast<R>(layer.weight(s, u));
    Backend::copy(context.target(), rows, species_rows_);
  }
  void forward(Batch &batch) override {
    const FeatureLayout &layout = batch.layout(output_);
    if (batch.evaluation.tangents_alone())
      batch.zero_planes(layout, batch.rows(output_), batch.evaluation.planes);
    else
      batch.copy_species_rows(layout, species_rows_.data(), batch.rows(output_), false);
  }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, species_rows_); }

 private:
  int output_;
  typename Backend::template Array<R> species_rows_;    // [species][row]
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const SpeciesEmbedding &layer) {
  return std::make_unique<EmbeddingLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The linear layer on the host.
#ifndef EQUI_HOST_LINEAR_LAYER_H
#define EQUI_HOST_LINEAR_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/host_batch.h"
#include "kokkos/layers/linear/host_linear.h"

namespace equi {

template <class T, class G>
class HostLinearLayer : public BatchLayer<HostBatch<T, G>> {
  using R = Real<T>;

 public:
  HostLinearLayer(const HostContext &context, const Linear &layer)
      : input_(layer.input),
        output_(layer.output),
        linear_(layer, context.layout(input_), context.layout(output_), context.model.num_species(), context.set) {}

  // Of an input that depends on the species alone: a row per species, which forward copies or adds.
  void prepare(HostBatch<T, G> &species) override {
    of_species_.assign(static_cast<size_t>(species.count) * linear_.out().row_size(), R(0));
    apply(species, {of_species_.data(), species.count, 0});
  }
  void forward(HostBatch<T, G> &batch) override {
    const FeatureRows<R> y = batch.rows(output_);
    if (of_species_.empty())
      apply(batch, y);
    else if (!batch.evaluation.tangents_alone())
      take_rows_of_species(batch, y);
    else if (!linear_.accumulate())
      set_to_zero(y, linear_.out(), batch.count, batch.evaluation.planes);
  }
  void backward(HostBatch<T, G> &batch) override {
    linear_.backward(batch.count, batch.rows(output_, true), batch.rows(input_, true), batch.adds(input_), order(batch),
                     batch.scratch.linear.reserve(linear_.scratch_size(batch.count)), batch.evaluation.planes);
  }

 private:
  SpeciesOrder order(HostBatch<T, G> &batch) const {
    return linear_.per_species() ? batch.species_order(true) : SpeciesOrder{};
  }
  void apply(HostBatch<T, G> &batch, FeatureRows<R> y) const {
    linear_.forward(batch.count, batch.rows(input_), y, order(batch),
                    batch.scratch.linear.reserve(linear_.scratch_size(batch.count)), batch.evaluation.planes);
  }
  void take_rows_of_species(const HostBatch<T, G> &batch, FeatureRows<R> y) const {
    const FeatureRows<const R> from{of_species_.data(), batch.evaluation.num_species, 0};
    for (const FeatureGroup &group : linear_.out().groups()) {
      for (int64_t a = 0; a < batch.count; a++) {
        const R *f = from.group(group) + static_cast<int64_t>(batch.species[a]) * group.width();
        R *to = y.group(group) + a * group.width();
        for (int c = 0; c < group.width(); c++) to[c] = linear_.accumulate() ? to[c] + f[c] : f[c];
      }
    }
  }

  int input_, output_;
  HostLinear<R> linear_;
  AlignedVector<R> of_species_;
};

}    // namespace equi

#endif

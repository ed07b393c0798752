// SPDX-License-Identifier: MIT
// Forces that a model predicts directly, as vectors of a feature.
#ifndef EQUI_DIRECT_FORCES_LAYER_H
#define EQUI_DIRECT_FORCES_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "src/layers/direct_forces.h"

#include <cstdint>

namespace equi {

// Writes number n of forces [count][3] = scale x; x: the vectors (l = 1) in a channel of a group.
template <class R>
struct DirectForcesNumber {
  const R *x;
  int64_t width, stride;
  double scale;
  double *forces;
  EQUI_FUNCTION void operator()(int64_t n) const {
    forces[n] = scale * static_cast<double>(x[n / 3 * width + n % 3 * stride]);    // in the order x, y, z
  }
};

template <class Backend>
class DirectForcesLayer : public BatchLayer<typename Backend::Batch> {
  using Batch = typename Backend::Batch;

 public:
  DirectForcesLayer(const typename Backend::Context &context, const DirectForces &layer)
      : input_(layer.input),
        block_(context.layout(input_).block(layer.block)),
        group_(context.layout(input_).group(block_.group)),
        scale_(layer.scale) {}

  void forward(Batch &batch) override {
    if (!batch.evaluation.direct_forces) return;
    Backend::for_numbers(batch.evaluation.work(), "equi:direct_forces", 3 * static_cast<int64_t>(batch.count),
                         DirectForcesNumber<typename Batch::R>{
                             batch.rows(input_).group(group_) + block_.channel, group_.width(), group_.stride(), scale_,
                             batch.evaluation.direct_forces + 3 * static_cast<int64_t>(batch.first)});
  }

 private:
  int input_;
  FeatureBlock block_;
  FeatureGroup group_;
  double scale_;
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const DirectForces &layer) {
  return std::make_unique<DirectForcesLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The scale by norms on the host.
#ifndef EQUI_HOST_NORM_SCALE_LAYER_H
#define EQUI_HOST_NORM_SCALE_LAYER_H

#include "kokkos/layers/host_batch.h"
#include "kokkos/layers/layer_op.h"
#include "kokkos/layers/norm_scale/norm_scale_rows.h"
#include "src/layers/norm_scale.h"

namespace equi {

template <class T, class G>
class HostNormScaleLayer : public LayerOp<HostBatch<T, G>> {
  using R = Real<T>;

 public:
  HostNormScaleLayer(const NormScale &layer, const FeatureLayout &layout) : layer_(layer), layout_(layout) {
    check_norm_blocks(layout);
  }
  void forward(HostBatch<T, G> &batch) override {
    const FeatureRows<const R> x = batch.rows(layer_.input);
    for (int d = 0; d < batch.step.num_directions(); d++) {
      const NormScaleRows<T, const T, T> rows(layout_, layer_.offset, layer_.factor, x, batch.rows(layer_.output), d);
      for_channels(batch.count, [&](int64_t row, int u) { rows.template forward<CHANNEL_PAD>(row, u); });
    }
  }
  void backward(HostBatch<T, G> &batch) override {
    const FeatureRows<const R> y_adj = batch.rows(layer_.output, true);
    batch.replace_by_adjoint(layer_.input, [&](FeatureRows<R> x, int d) {
      const NormScaleRows<T, T, const T> rows(layout_, layer_.offset, layer_.factor, x, y_adj, d);
      for_channels(batch.count, [&](int64_t row, int u) { rows.template backward<CHANNEL_PAD>(row, u); });
    });
  }

 private:
  // f(row, first channel) for blocks of channels.
  template <class F>
  void for_channels(int64_t count, const F &f) const {
    for (int64_t row = 0; row < count; row++)
      for (int u = 0; u < padded(layout_.block(0).mul); u += CHANNEL_PAD) f(row, u);
  }

  NormScale layer_;
  FeatureLayout layout_;
};

}    // namespace equi

#endif

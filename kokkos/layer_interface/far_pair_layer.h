// SPDX-License-Identifier: MIT
// What layers over far edges (LayerTraits) share: the channels that they read of both atoms, and their adjoints.
#ifndef EQUI_FAR_PAIR_LAYER_H
#define EQUI_FAR_PAIR_LAYER_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "src/numbers/dual.h"

#include <cstdint>

namespace equi {

// Adds numbers of receivers, [rows][channels], to channels of their rows, which are `width` numbers apart.
template <class T>
struct AddToChannels {
  const DoubleOf<T> *numbers;
  Pointer<T> to;
  int64_t width, num_channels;

  template <int LANES>
  EQUI_FUNCTION void channels(int64_t a, int u) const {
    const int end = num_channels - u < LANES ? static_cast<int>(num_channels) : u + LANES;
    for (int c = u; c < end; c++) {
      const int64_t at = a * width + c;
      put(to, at, to[at] + static_cast<T>(numbers[a * num_channels + c]));
    }
  }
};

// A pair is an edge of both atoms. So the edges of a receiver contain all contributions to the adjoints of its own
// channels, and the forward pass, which visits them anyway, also sums up these adjoints.
template <class Backend>
class FarPairLayer : public BatchLayer<typename Backend::Batch> {
 protected:
  using T = typename Backend::Number;
  using D = DoubleOf<T>;
  using Batch = typename Backend::Batch;
  using R = typename Batch::R;

 public:
  void backward(Batch &batch) override {
    const FeatureRows<R> x_adj = batch.rows(input_, true);
    if (!batch.adds(input_)) batch.zero_planes(batch.layout(input_), x_adj, {0, group_.planes});
    Backend::for_channels(
        batch.evaluation.work(), "equi:far_pair_adjoint", batch.count, num_channels_,
        AddToChannels<T>{adjoints(batch), channel_of<T>(x_adj, group_, first_, 0), group_.width(), num_channels_});
  }
  void for_arrays(const ArrayVisitor &f) override { f(adjoint_, num_channels_); }

 protected:
  // The layer reads `num_channels` channels of the group of a block, from channel `first` of the group on.
  FarPairLayer(const FeatureLayout &layout, int input, int block, int first, int num_channels)
      : input_(input), first_(first), num_channels_(num_channels), group_(layout.group(layout.block(block).group)) {}

  // The channels in all rows, `width()` numbers apart.
  Pointer<const T> values(const Batch &batch) const {
    const FeatureRows<const R> x{batch.evaluation.features.data(input_), batch.evaluation.num_rows, 0};
    return channel_of<const T>(x, group_, first_, 0);
  }
  int64_t width() const { return group_.width(); }
  // Adjoints of the batch's receivers, [count][num_channels], which the forward pass writes.
  D *adjoints(const Batch &batch) { return adjoint_.data() + static_cast<int64_t>(batch.first) * num_channels_; }

 private:
  int input_, first_, num_channels_;
  FeatureGroup group_;
  typename Backend::template Array<D> adjoint_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The Coulomb energy of charges (src/layers/coulomb.h).
#ifndef EQUI_COULOMB_LAYER_H
#define EQUI_COULOMB_LAYER_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/far_pair_layer.h"
#include "kokkos/layer_interface/receiver_edges.h"
#include "src/layers/coulomb.h"
#include "src/numbers/dual.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace equi {

// Channels of charges without padding.
struct CoulombBlock {
  int first, end;
};

// Adds the energies of a receiver's pairs, and their derivatives with respect to the distances. Stores those with
// respect to the receiver's own charges. T: type of charges.
template <class T>
struct CoulombOfReceiver {
  using D = DoubleOf<T>;
  ReceiverEdges<D> edges;
  CoulombFunction function;
  double cutoff;            // of this layer, not larger than that of the edges
  const double *scale;      // of energies, per species of the receiver
  const double *weights;    // [channels]
  const CoulombBlock *blocks;
  int64_t num_blocks;
  Pointer<const T> q;    // charges of all rows, `width` numbers apart
  int64_t width, channels;
  int64_t first;        // row of the first receiver
  D *energy, *q_adj;    // [count], [count][channels]

  EQUI_FUNCTION Pointer<const T> charges(int64_t row) const { return q + row * width; }
  template <class F>
  EQUI_FUNCTION void for_charges(const F &f) const {
    for (int64_t b = 0; b < num_blocks; b++)
      for (int c = blocks[b].first; c < blocks[b].end; c++) f(c);
  }

  EQUI_FUNCTION void operator()(int64_t a) const {
    const CoulombFunction kernel = function;    // a copy, which stores of derivatives cannot change
    const Pointer<const T> own = charges(first + a);
    const double own_scale = scale[edges.species[a]];
    D *sums = q_adj + a * channels;
    for (int64_t c = 0; c < channels; c++) sums[c] = 0.0;
    add_pairs(edges, a, 0.5 * own_scale, energy[a], [&](int64_t e, D r, PairEnergy<D> &pair) {
      if (value_of(r) >= cutoff) return false;    // NaN passes this test
      const Pointer<const T> other = charges(edges.sender_row[e]);
      const Jet k = kernel(value_of(r));
      const double along = tangent_of(r);
      const D value = make_number<D>(k.d[0], k.d[1] * along);
      const double both = own_scale + scale[edges.sender_species[e]];
      const D factor = 0.5 * both * value;
      D product = 0.0;
      for_charges([&](int c) {
        const D of_other = static_cast<D>(other[c]);
        product += weights[c] * (static_cast<D>(own[c]) * of_other);
        sums[c] += factor * of_other;
      });
      pair = {value * product, make_number<D>(k.d[1], k.d[2] * along) * product};
      return true;
    });
    for_charges([&](int c) { sums[c] *= weights[c]; });
  }
};

// The channels of charges. All blocks are scalars, so they form one group. Channels between blocks have weights of 0.
// Blocks whose weights are all 0 are left out: other layers read them.
struct CoulombChannels {
  std::vector<CoulombBlock> blocks;
  std::vector<double> weights;

  CoulombChannels(const FeatureLayout &layout, const Coulomb &layer) {
    auto from = layer.weights.begin();
    for (int b = 0; b < layout.num_blocks(); b++) {
      const FeatureBlock &block = layout.block(b);
      const auto end = from + block.mul;
      if (std::any_of(from, end, [](double w) { return w != 0.0; })) {
        weights.resize(block.channel, 0.0);
        weights.insert(weights.end(), from, end);
        blocks.push_back({block.channel, block.channel + block.mul});
      }
      from = end;
    }
  }
};

template <class Backend>
class CoulombLayer : public FarPairLayer<Backend> {
  using Base = FarPairLayer<Backend>;
  using T = typename Backend::Number;
  using Batch = typename Backend::Batch;

 public:
  CoulombLayer(const typename Backend::Context &context, const Coulomb &layer)
      : CoulombLayer(context, layer, CoulombChannels(context.layout(layer.input), layer)) {}
  // Adds energies and their derivatives with respect to the distances, which need no cotangent.
  void forward(Batch &batch) override {
    Backend::for_numbers(batch.evaluation.work(), "equi:coulomb", batch.count,
                         CoulombOfReceiver<T>{receiver_edges(batch, *batch.evaluation.far_edges), function_, cutoff_,
                                              scale_.data(), weights_.data(), blocks_.data(), num_blocks_,
                                              Base::values(batch), Base::width(), channels_, batch.first,
                                              batch.evaluation.energy_of(0) + batch.first, Base::adjoints(batch)});
  }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, blocks_, weights_, scale_); }

 private:
  CoulombLayer(const typename Backend::Context &context, const Coulomb &layer, const CoulombChannels &channels)
      : Base(context.layout(layer.input), layer.input, 0, 0, static_cast<int>(channels.weights.size())),
        function_(layer.function),
        cutoff_(layer.cutoff),
        num_blocks_(static_cast<int64_t>(channels.blocks.size())),
        channels_(static_cast<int64_t>(channels.weights.size())) {
    Backend::copy(context.target(), channels.blocks, blocks_);
    Backend::copy(context.target(), channels.weights, weights_);
    Backend::copy(context.target(), context.pair_scale, scale_);
  }

  CoulombFunction function_;
  double cutoff_;
  int64_t num_blocks_, channels_;
  typename Backend::template Array<CoulombBlock> blocks_;
  typename Backend::template Array<double> weights_, scale_;    // [channels], [species]
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Coulomb &layer) {
  return std::make_unique<CoulombLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The Coulomb energy of charges (src/layers/coulomb.h).
#ifndef EQUI_COULOMB_LAYER_H
#define EQUI_COULOMB_LAYER_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/feature_rows.h"
#include "kokkos/layers/receiver_edges.h"
#include "src/layers/coulomb.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace equi {

// Channels of charges without padding.
struct CoulombBlock {
  int first, end;
};

// The pairs of a batch's receivers. T: type of charges.
template <class T>
struct CoulombPairs {
  using D = DoubleOf<T>;
  ReceiverEdges<D> edges;
  CoulombFunction function;
  const double *scale;      // of energies, per species of the receiver
  const double *weights;    // [channels]
  const CoulombBlock *blocks;
  int64_t num_blocks;
  Pointer<const T> q;    // charges of all rows, `width` numbers apart
  int64_t width, channels;

  EQUI_FUNCTION Pointer<const T> charges(int64_t row) const { return q + row * width; }
  EQUI_FUNCTION D product(Pointer<const T> own, Pointer<const T> other) const {
    D sum = 0;
    for (int64_t b = 0; b < num_blocks; b++)
      for (int c = blocks[b].first; c < blocks[b].end; c++)
        sum += weights[c] * (static_cast<D>(own[c]) * static_cast<D>(other[c]));
    return sum;
  }
};

// Adds the energies of a receiver's pairs, and their derivatives with respect to the distances.
template <class T>
struct CoulombOfReceiver {
  using D = DoubleOf<T>;
  CoulombPairs<T> pairs;
  int64_t first;    // row of the first receiver
  D *energy;

  EQUI_FUNCTION void operator()(int64_t a) const {
    const ReceiverEdges<D> &edges = pairs.edges;
    const CoulombFunction function = pairs.function;    // a copy, which stores of derivatives cannot change
    const Pointer<const T> own = pairs.charges(first + a);
    const double half = 0.5 * pairs.scale[edges.species[a]];
    D sum = energy[a];
    for (int64_t e = edges.begin[a]; e < edges.begin[a + 1]; e++) {
      const D product = pairs.product(own, pairs.charges(edges.sender_row[e])), r = edges.distance[e];
      const Jet k = function(value_of(r));
      const double along = tangent_of(r);
      sum += half * (make_number<D>(k.d[0], k.d[1] * along) * product);
      edges.distance_adj[e * edges.stride] += half * (make_number<D>(k.d[1], k.d[2] * along) * product);
    }
    energy[a] = sum;
  }
};

// Adds the adjoints of the receivers' own charges. A pair is an edge of both atoms, so the edges of an atom contain
// all contributions of its charges.
template <class T>
struct CoulombAdjoints {
  using D = DoubleOf<T>;
  CoulombPairs<T> pairs;
  Pointer<T> q_adj;    // of the receivers

  template <int LANES>
  EQUI_FUNCTION void channels(int64_t a, int u) const {
    const ReceiverEdges<D> &edges = pairs.edges;
    const int size = pairs.channels - u < LANES ? static_cast<int>(pairs.channels - u) : LANES;
    D sum[LANES];
    for (int c = 0; c < LANES; c++) sum[c] = 0;
    for (int64_t e = edges.begin[a]; e < edges.begin[a + 1]; e++) {
      const Pointer<const T> other = pairs.charges(edges.sender_row[e]) + u;
      const D r = edges.distance[e];
      const Jet k = pairs.function(value_of(r));
      const double both = pairs.scale[edges.species[a]] + pairs.scale[edges.sender_species[e]];
      const D factor = 0.5 * both * make_number<D>(k.d[0], k.d[1] * tangent_of(r));
      for (int c = 0; c < size; c++) sum[c] += factor * static_cast<D>(other[c]);
    }
    const int64_t at = a * pairs.width + u;
    for (int c = 0; c < size; c++) put(q_adj, at + c, q_adj[at + c] + static_cast<T>(pairs.weights[u + c] * sum[c]));
  }
};

template <class Backend>
class CoulombLayer : public BatchLayer<typename Backend::Batch> {
  using T = typename Backend::Number;
  using Batch = typename Backend::Batch;
  using R = typename Batch::R;

 public:
  CoulombLayer(const typename Backend::Context &context, const Coulomb &layer)
      : input_(layer.input), function_(layer.function), group_(context.layout(input_).group(0)) {
    const FeatureLayout &layout = context.layout(input_);
    // All blocks are scalars, so they form one group. Channels between them have weights of zero.
    std::vector<CoulombBlock> blocks;
    std::vector<double> weights;
    const double *from = layer.weights.data();
    for (int b = 0; b < layout.num_blocks(); b++) {
      const FeatureBlock &block = layout.block(b);
      weights.resize(block.channel, 0.0);
      weights.insert(weights.end(), from, from + block.mul);
      blocks.push_back({block.channel, block.channel + block.mul});
      from += block.mul;
    }
    num_blocks_ = layout.num_blocks();
    channels_ = static_cast<int>(weights.size());
    Backend::copy(context.target(), blocks, blocks_);
    Backend::copy(context.target(), weights, weights_);
    Backend::copy(context.target(), context.pair_scale, scale_);
  }
  // Adds energies and their derivatives with respect to the distances, which need no cotangent.
  void forward(Batch &batch) override {
    Backend::for_numbers(batch.evaluation.work(), "equi:coulomb", batch.count,
                         CoulombOfReceiver<T>{pairs(batch), batch.first, batch.evaluation.energy_of(0) + batch.first});
  }
  void backward(Batch &batch) override {
    const FeatureRows<R> x_adj = batch.rows(input_, true);
    if (!batch.adds(input_)) batch.zero_planes(batch.layout(input_), x_adj, {0, group_.planes});
    Backend::for_channels(batch.evaluation.work(), "equi:coulomb_adjoint", batch.count, channels_,
                          CoulombAdjoints<T>{pairs(batch), channel_of<T>(x_adj, group_, 0, 0)});
  }
  std::size_t bytes() const override { return blocks_.bytes() + weights_.bytes() + scale_.bytes(); }

 private:
  CoulombPairs<T> pairs(const Batch &batch) const {
    const FeatureRows<const R> x{batch.evaluation.features.data(input_), batch.evaluation.num_rows, 0};
    return {receiver_edges(batch, *batch.evaluation.far_edges),
            function_,
            scale_.data(),
            weights_.data(),
            blocks_.data(),
            num_blocks_,
            channel_of<const T>(x, group_, 0, 0),
            group_.width(),
            channels_};
  }

  int input_;
  CoulombFunction function_;
  FeatureGroup group_;
  int num_blocks_, channels_;
  typename Backend::template Array<CoulombBlock> blocks_;
  typename Backend::template Array<double> weights_, scale_;    // [channels], [species]
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Coulomb &layer) {
  return std::make_unique<CoulombLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The Coulomb energy of charges (src/layers/coulomb.h) on the host.
#ifndef EQUI_HOST_COULOMB_LAYER_H
#define EQUI_HOST_COULOMB_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/coulomb/coulomb_channels.h"
#include "kokkos/layers/host_batch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace equi {

template <class T, class G>
class HostCoulombLayer : public BatchLayer<HostBatch<T, G>> {
  using Batch = HostBatch<T, G>;
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  HostCoulombLayer(const HostContext &context, const Coulomb &layer)
      : input_(layer.input),
        function_(layer.function),
        channels_(coulomb_channels(layer, context.layout(layer.input))),
        scale_(context.pair_scale) {}

  // Adds energies and their derivatives with respect to the distances, which need no cotangent.
  void forward(Batch &batch) override {
    Edges<T, G> &edges = *batch.evaluation.far_edges;
    const FeatureRows<R> x = all_rows(batch);
    for (int a = 0; a < batch.count; a++) {
      const int i = batch.first + a;
      const double scale = scale_[batch.species[a]];
      for (int64_t e = edges.begin()[i]; e < edges.begin()[i + 1]; e++) {
        D product = 0;
        for_runs(x, [&](const CoulombRun &run, Pointer<const T> q, int64_t width) {
          const Pointer<const T> own = q + i * width, other = q + edges.sender_row()[e] * width;
          for (int c = 0; c < run.channels; c++)
            product += run.weights[c] * (static_cast<D>(own[c]) * static_cast<D>(other[c]));
        });
        const G distance = edges.distance()[e];
        const Jet k = function_(value_of(distance));
        const double along = tangent_of(distance), half = 0.5 * scale;
        batch.evaluation.energy_of(i, 0) += half * (make_number<D>(k.d[0], k.d[1] * along) * product);
        edges.adjoint()[e * edges.num_y()] += static_cast<G>(half * (make_number<D>(k.d[1], k.d[2] * along) * product));
      }
    }
  }

  // A pair is an edge of both atoms, so the edges of an atom contain all contributions of its charges. Senders
  // contribute nothing.
  void backward(Batch &batch) override {
    const Edges<T, G> &edges = *batch.evaluation.far_edges;
    const FeatureRows<R> x = all_rows(batch), x_adj = batch.rows(input_, true);
    if (!batch.adds(input_))
      set_to_zero(x_adj, batch.layout(input_), batch.count, {0, batch.layout(input_).group(0).planes});
    for (int a = 0; a < batch.count; a++) {
      const int64_t begin = edges.begin()[batch.first + a], count = edges.begin()[batch.first + a + 1] - begin;
      D *factor = batch.scratch.pair_factor.reserve(count);
      for (int64_t n = 0; n < count; n++) {
        const G distance = edges.distance()[begin + n];
        const Jet k = function_(value_of(distance));
        const double both = scale_[batch.species[a]] + scale_[edges.sender_species()[begin + n]];
        factor[n] = 0.5 * both * make_number<D>(k.d[0], k.d[1] * tangent_of(distance));
      }
      for_runs(x, [&](const CoulombRun &run, Pointer<const T> q, int64_t width) {
        const FeatureGroup &group = run.group;
        const auto to = make_pointer<T>(x_adj.group(group) + a * width + run.first, group.channels);
        constexpr int BLOCK = 16;
        for (int first = 0; first < run.channels; first += BLOCK) {
          const int size = std::min(BLOCK, run.channels - first);
          D sum[BLOCK] = {};
          for (int64_t n = 0; n < count; n++) {
            const Pointer<const T> other = q + edges.sender_row()[begin + n] * width + first;
            for (int c = 0; c < size; c++) sum[c] += factor[n] * static_cast<D>(other[c]);
          }
          for (int c = 0; c < size; c++)
            put(to, first + c, to[first + c] + static_cast<T>(run.weights[first + c] * sum[c]));
        }
      });
    }
  }
  std::size_t bytes() const override { return bytes_of(channels_) + scale_.size() * sizeof(double); }

 private:
  FeatureRows<R> all_rows(const Batch &batch) const {
    return {batch.evaluation.features.data(input_), batch.evaluation.num_rows, 0};
  }
  // Calls f(run, its first channel in row 0, numbers per row).
  template <class F>
  void for_runs(FeatureRows<R> x, const F &f) const {
    for (const CoulombRun &run : channels_)
      f(run, make_pointer<const T>(x.group(run.group) + run.first, run.group.channels), run.group.width());
  }

  int input_;
  CoulombFunction function_;
  std::vector<CoulombRun> channels_;
  std::vector<double> scale_;    // per species of the receiver
};

}    // namespace equi

#endif

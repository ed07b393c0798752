// SPDX-License-Identifier: MIT
// Pair repulsion (pair_repulsion.h) on the host.
#ifndef EQUI_HOST_REPULSION_LAYER_H
#define EQUI_HOST_REPULSION_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/host_batch.h"
#include "src/layers/pair_repulsion.h"

#include <vector>

namespace equi {

template <class T, class G>
class HostRepulsionLayer : public BatchLayer<HostBatch<T, G>> {
 public:
  HostRepulsionLayer(const HostContext &context, const PairRepulsion &layer)
      : pair_(layer), scale_(context.pair_scale) {}

  // Adds energies and their derivatives with respect to the distances, which need no cotangent.
  void forward(HostBatch<T, G> &batch) override {
    Edges<T, G> &edges = batch.evaluation.edges;
    for (int a = 0; a < batch.count; a++) {
      const int i = batch.first + a, species = batch.species[a];
      for (int64_t e = edges.begin()[i]; e < edges.begin()[i + 1]; e++)
        for (int d = 0; d < batch.evaluation.num_directions(); d++) {
          double first, second;
          const G distance = edges.distance(d)[e];
          const double energy = pair_.energy(species, edges.sender_species()[e], value_of(distance), &first, &second);
          const double along = tangent_of(distance);
          batch.evaluation.energy_of(i, d) += scale_[species] * make_number<DoubleOf<T>>(energy, first * along);
          edges.adjoint(d)[e * edges.num_y()] +=
              static_cast<G>(scale_[species] * make_number<DoubleOf<T>>(first, second * along));
        }
    }
  }

 private:
  PairRepulsion pair_;
  std::vector<double> scale_;    // per species of the receiver
};

}    // namespace equi

#endif

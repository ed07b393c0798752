// SPDX-License-Identifier: MIT
// The pair repulsion.
#ifndef EQUI_REPULSION_LAYER_H
#define EQUI_REPULSION_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/receiver_edges.h"
#include "src/functions/repulsion_function.h"
#include "src/layers/pair_repulsion.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace equi {

// Adds the energies of a receiver's pairs, and their derivatives with respect to the distances. Pairs of species are
// [receiver][sender].
template <class D>
struct RepulsionOfReceiver {
  ReceiverEdges<D> edges;
  const double *prefactor, *length, *cutoff;    // per pair of species
  const double *coefficients, *exponents;
  const double *scale;    // of energies, per species of the receiver
  double p;
  int64_t num_species, num_terms;
  D *energy;

  EQUI_FUNCTION void operator()(int64_t a) const {
    const int64_t first_pair = edges.species[a] * num_species;
    const double factor = scale[edges.species[a]];
    D sum = energy[a];
    for (int64_t e = edges.begin[a]; e < edges.begin[a + 1]; e++) {
      const int64_t k = first_pair + edges.sender_species[e];
      const D r = edges.distance[e];
      const double along = tangent_of(r);
      if (value_of(r) >= cutoff[k]) continue;    // NaN passes this test
      const Jet pair = repulsion_function(Jet::variable(value_of(r)), prefactor[k], length[k], cutoff[k], p,
                                          static_cast<int>(num_terms), coefficients, exponents);
      sum += factor * make_number<D>(pair.value(), pair.d[1] * along);
      edges.distance_adj[e * edges.stride] += factor * make_number<D>(pair.d[1], pair.d[2] * along);
    }
    energy[a] = sum;
  }
};

template <class Backend>
class RepulsionLayer : public BatchLayer<typename Backend::Batch> {
  using D = DoubleOf<typename Backend::Number>;
  using Batch = typename Backend::Batch;

 public:
  RepulsionLayer(const typename Backend::Context &context, const PairRepulsion &layer)
      : num_pairs_(static_cast<int64_t>(layer.prefactor.data.size())),
        num_terms_(static_cast<int64_t>(layer.coefficients.size())),
        p_(layer.p) {
    std::vector<double> data;
    for (const std::vector<double> *part : {&layer.prefactor.data, &layer.length.data, &layer.cutoff.data,
                                            &layer.coefficients, &layer.exponents, &context.pair_scale})
      data.insert(data.end(), part->begin(), part->end());
    Backend::copy(context.target(), data, data_);
  }
  // Adds energies and their derivatives with respect to the distances, which need no cotangent.
  void forward(Batch &batch) override {
    const double *prefactor = data_.data(), *length = prefactor + num_pairs_, *cutoff = length + num_pairs_,
                 *coefficients = cutoff + num_pairs_, *exponents = coefficients + num_terms_;
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      Backend::for_numbers(
          batch.evaluation.work(), "equi:repulsion", batch.count,
          RepulsionOfReceiver<D>{receiver_edges(batch, batch.evaluation.edges, d), prefactor, length, cutoff,
                                 coefficients, exponents, exponents + num_terms_, p_, batch.evaluation.num_species,
                                 num_terms_, batch.evaluation.energy_of(d) + batch.first});
  }
  std::size_t bytes() const override { return data_.bytes(); }

 private:
  int64_t num_pairs_, num_terms_;
  double p_;
  // Prefactors, lengths and cutoffs of all pairs of species; coefficients; exponents; scales.
  typename Backend::template Array<double> data_;
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const PairRepulsion &layer) {
  return std::make_unique<RepulsionLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The pair repulsion.
#ifndef EQUI_REPULSION_LAYER_H
#define EQUI_REPULSION_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/receiver_edges.h"
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
  RepulsionFunction function;
  const double *prefactor, *length, *cutoff;    // per pair of species
  const double *scale;                          // of energies, per species of the receiver
  int64_t num_species;
  D *energy;

  EQUI_FUNCTION void operator()(int64_t a) const {
    const int64_t first_pair = edges.species[a] * num_species;
    add_pairs(edges, a, scale[edges.species[a]], energy[a], [&](int64_t e, D r, PairEnergy<D> &pair) {
      const int64_t k = first_pair + edges.sender_species[e];
      if (value_of(r) >= cutoff[k]) return false;    // NaN passes this test
      const Jet found = function(Jet::variable(value_of(r)), prefactor[k], length[k], cutoff[k]);
      const double along = tangent_of(r);
      pair = {make_number<D>(found.value(), found.d[1] * along), make_number<D>(found.d[1], found.d[2] * along)};
      return true;
    });
  }
};

template <class Backend>
class RepulsionLayer : public BatchLayer<typename Backend::Batch> {
  using D = DoubleOf<typename Backend::Number>;
  using Batch = typename Backend::Batch;

 public:
  RepulsionLayer(const typename Backend::Context &context, const PairRepulsion &layer)
      : num_pairs_(static_cast<int64_t>(layer.prefactor.data.size())), function_(layer.function()) {
    std::vector<double> data;
    for (const std::vector<double> *part : {&layer.prefactor.data, &layer.length.data, &layer.cutoff.data,
                                            &layer.coefficients, &layer.exponents, &context.pair_scale})
      data.insert(data.end(), part->begin(), part->end());
    Backend::copy(context.target(), data, data_);
  }
  // Adds energies and their derivatives with respect to the distances, which need no cotangent.
  void forward(Batch &batch) override {
    const double *prefactor = data_.data(), *length = prefactor + num_pairs_, *cutoff = length + num_pairs_,
                 *coefficients = cutoff + num_pairs_, *exponents = coefficients + function_.num_terms;
    RepulsionFunction function = function_;
    function.coefficients = coefficients;
    function.exponents = exponents;
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      Backend::for_numbers(
          batch.evaluation.work(), "equi:repulsion", batch.count,
          RepulsionOfReceiver<D>{receiver_edges(batch, batch.evaluation.edges, d), function, prefactor, length, cutoff,
                                 exponents + function.num_terms, batch.evaluation.num_species,
                                 batch.evaluation.energy_of(d) + batch.first});
  }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, data_); }

 private:
  int64_t num_pairs_;
  RepulsionFunction function_;
  // Prefactors, lengths and cutoffs of all pairs of species; coefficients; exponents; scales.
  typename Backend::template Array<double> data_;
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const PairRepulsion &layer) {
  return std::make_unique<RepulsionLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif

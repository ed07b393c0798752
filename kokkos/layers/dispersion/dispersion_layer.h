// SPDX-License-Identifier: MIT
// The dispersion energy of atoms (src/layers/dispersion.h).
#ifndef EQUI_DISPERSION_LAYER_H
#define EQUI_DISPERSION_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/far_pair_layer.h"
#include "kokkos/layer_interface/receiver_edges.h"
#include "src/layers/dispersion.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace equi {

// Adds the energies of a receiver's pairs, and their derivatives with respect to the distances. Stores the derivative
// of the whole energy with respect to the receiver's own ratio: a pair is an edge of both atoms, so the edges of an
// atom contain all contributions. T: type of the ratios.
template <class T>
struct DispersionOfReceiver {
  using D = DoubleOf<T>;
  ReceiverEdges<D> edges;
  DispersionFunction function;
  const double *polarizability;    // [species]
  const double *coefficient;       // [species, species]
  const double *scale;             // of energies, per species of the receiver
  int64_t num_species;
  Pointer<const T> ratio;    // of all rows, `width` numbers apart
  int64_t width, first;      // first: row of the first receiver
  D *energy, *ratio_adj;     // of the receivers

  EQUI_FUNCTION void operator()(int64_t a) const {
    const DispersionFunction of_pair = function;    // a copy, which stores of derivatives cannot change
    const int species = edges.species[a];
    const double own_polarizability = polarizability[species], own_scale = scale[species];
    const D own = static_cast<D>(ratio[(first + a) * width]);
    D sum = 0.0;
    add_pairs(edges, a, 0.5 * own_scale, energy[a], [&](int64_t e, D r, PairEnergy<D> &pair) {
      if (value_of(r) >= of_pair.cutoff) return false;    // NaN passes this test
      const int sender = edges.sender_species[e];
      const D other = static_cast<D>(ratio[edges.sender_row[e] * width]);
      const D mean = 0.5 * (own_polarizability * own + polarizability[sender] * other);
      const double c = coefficient[species * num_species + sender];
      const PairDispersion<D> found = of_pair(r, mean, c * (own * other));
      pair = {found.energy, found.by_distance};
      sum += 0.5 * (own_scale + scale[sender]) *
             (c * (other * found.by_coefficient) + 0.5 * own_polarizability * found.by_polarizability);
      return true;
    });
    ratio_adj[a] = sum;
  }
};

template <class Backend>
class DispersionLayer : public FarPairLayer<Backend> {
  using Base = FarPairLayer<Backend>;
  using T = typename Backend::Number;
  using Batch = typename Backend::Batch;

 public:
  DispersionLayer(const typename Backend::Context &context, const Dispersion &layer)
      : Base(context.layout(layer.input), layer.input, layer.block,
             context.layout(layer.input).block(layer.block).channel, 1),
        num_species_(static_cast<int64_t>(layer.c6.size())),
        function_(layer.function) {
    std::vector<double> constants = layer.polarizability;
    for (int a = 0; a < num_species_; a++)
      for (int b = 0; b < num_species_; b++) constants.push_back(layer.coefficient(a, b));
    constants.insert(constants.end(), context.pair_scale.begin(), context.pair_scale.end());
    Backend::copy(context.target(), constants, constants_);
  }
  // Adds energies and their derivatives with respect to the distances, which need no cotangent.
  void forward(Batch &batch) override {
    const double *polarizability = constants_.data(), *coefficient = polarizability + num_species_;
    Backend::for_numbers(batch.evaluation.work(), "equi:dispersion", batch.count,
                         DispersionOfReceiver<T>{receiver_edges(batch, *batch.evaluation.far_edges), function_,
                                                 polarizability, coefficient, coefficient + num_species_ * num_species_,
                                                 num_species_, Base::values(batch), Base::width(), batch.first,
                                                 batch.evaluation.energy_of(0) + batch.first, Base::adjoints(batch)});
  }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, constants_); }

 private:
  int64_t num_species_;
  DispersionFunction function_;
  typename Backend::template Array<double> constants_;    // polarizabilities, coefficients of pairs, scales
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Dispersion &layer) {
  return std::make_unique<DispersionLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif

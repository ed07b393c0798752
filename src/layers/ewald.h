// SPDX-License-Identifier: MIT
// This layer adds the energy of charges with a Gaussian width and of all their periodic images.
#ifndef EQUI_EWALD_H
#define EQUI_EWALD_H

#include "src/functions/ewald_function.h"
#include "src/layers/layer.h"

#include <string>
#include <vector>

namespace equi {

// With x the channels of a feature that has only 0e blocks, in the order of the blocks, the charge of an atom is q_i =
// sum_c w_c x_c(i). The energy of all atoms is that of EwaldFunction, of which e_i = q_i phi_i / 2 is the part of an
// atom. It needs a cell that is periodic in three directions. A layer scale_shift does not scale it.
struct Ewald {
  static constexpr const char *TYPE = "ewald";

  int input;
  std::vector<double> weights;    // w [channels]
  EwaldFunction function;
  double cutoff;               // of wave vectors, 1/Angstrom
  std::string wave_vectors;    // sphere, frozen or converged

  static const FieldSpecs &fields();
  static Ewald read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, -1}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.sums_over_atoms = t.needs_geometric_input = t.tangents_need_values = t.is_single = true;
    t.needs_periodic_cell = t.sums_over_waves = true;
    return t;
  }
  void restrict_to(const KeptSpecies &) {}
};

}    // namespace equi

#endif

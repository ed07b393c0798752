// SPDX-License-Identifier: MIT
// This layer adds the Coulomb energy of the charges that a model has assigned to its atoms.
#ifndef EQUI_COULOMB_H
#define EQUI_COULOMB_H

#include "src/functions/coulomb_function.h"
#include "src/layers/layer.h"

#include <vector>

namespace equi {

// With q the channels of a feature that has only 0e blocks, in the order of the blocks:
//   e_i += 1/2 sum_j k(r_ij) sum_c w_c q_c(i) q_c(j),
// where the sum runs over neighbors within the layer's own cutoff, which may be larger than that of the model. With a
// reaction field of permittivity p beyond the cutoff R, k vanishes there: square = (p - 1)/((2 p + 1) R^3), shift = 3
// p/((2 p + 1) R). Charges with a width may have a kernel that vanishes there, too. Otherwise k is the
// bare interaction, and the sum must include all pairs. A structure in which two atoms are farther apart, or an atom
// has an image within the cutoff, is refused.
struct Coulomb {
  static constexpr const char *TYPE = "coulomb";

  int input;
  std::vector<double> weights;    // w [channels]
  double cutoff;                  // R, Angstrom
  bool is_over_all_pairs = false;
  CoulombFunction function;

  static const FieldSpecs &fields();
  static Coulomb read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, -1}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.adds_pair_energy = t.depends_on_edges = t.is_single = true;
    t.needs_geometric_input = t.tangents_need_values = true;
    t.far_cutoff = cutoff;
    t.needs_all_pairs = is_over_all_pairs;
    return t;
  }
  void restrict_to(const KeptSpecies &) {}
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// This layer adds the dispersion energy of atoms whose effective volumes a model has computed.
#ifndef EQUI_DISPERSION_H
#define EQUI_DISPERSION_H

#include "src/functions/dispersion_function.h"
#include "src/layers/layer.h"

#include <vector>

namespace equi {

// With v the only channel of a 0e block, the ratio of the volume of an atom to that of the free atom:
//   e_i += 1/2 sum_j D(r_ij; (A_i v_i + A_j v_j)/2, v_i v_j K_ij),
//   K_ij = 2 C_i C_j A_i A_j / (A_i^2 C_j + A_j^2 C_i).
// A and C are the polarizabilities and C6 coefficients of free atoms, in atomic units. D is the DispersionFunction. The
// sum runs over neighbors within the layer's own cutoff, which may be larger than that of the model.
struct Dispersion {
  static constexpr const char *TYPE = "dispersion";

  int input, block;
  std::vector<double> polarizability, c6;    // A, C [species]
  DispersionFunction function;

  // K of two species.
  double coefficient(int a, int b) const;

  static const FieldSpecs &fields();
  static Dispersion read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, -1}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.adds_pair_energy = t.depends_on_edges = true;
    t.needs_geometric_input = t.tangents_need_values = true;
    t.far_cutoff = function.cutoff;
    return t;
  }
  void restrict_to(const KeptSpecies &kept);
};

}    // namespace equi

#endif

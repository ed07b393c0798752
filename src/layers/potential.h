// SPDX-License-Identifier: MIT
// This layer computes what an atom feels of the multipoles of all atoms and of all their periodic images.
#ifndef EQUI_POTENTIAL_H
#define EQUI_POTENTIAL_H

#include "src/functions/multipole_function.h"
#include "src/layers/layer.h"

#include <array>
#include <string>
#include <vector>

namespace equi {

// The input has a block of C charges q, 0e, and may have one of C dipoles p, 1o, in the order x, y, z. Channel c n + w
// of the output belongs to channel c of the input and width w of n:
//   0e: factor_0w U_cw - own_0w q_c,   1o: factor_1w grad U_cw - own_1w p_c
// where U_cw is the potential that a Gaussian probe of width w feels (MultipoleFunction). The output may lack the
// second block. It needs a cell that is periodic in three directions.
struct Potential {
  static constexpr const char *TYPE = "potential";

  int input, output;
  int channels;
  bool has_dipoles, has_gradients;    // blocks 1o of the input and of the output
  MultipoleFunction function;
  std::array<std::vector<double>, 2> factors, own;    // by degree and width
  double cutoff;                                      // of wave vectors, 1/Angstrom
  std::string wave_vectors;                           // sphere, frozen or converged

  static const FieldSpecs &fields();
  static Potential read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, output}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.sums_over_atoms = t.needs_geometric_input = t.tangents_need_values = t.needs_periodic_cell = true;
    return t;
  }
  void restrict_to(const KeptSpecies &) {}
};

}    // namespace equi

#endif

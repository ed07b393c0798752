// SPDX-License-Identifier: MIT
// This layer computes what an atom feels of the multipoles of all atoms and of all their periodic images.
#ifndef EQUI_POTENTIAL_H
#define EQUI_POTENTIAL_H

#include "src/functions/multipole_function.h"
#include "src/layers/layer.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace equi {

// The input has a block of C charges q, 0e, and may have one of C dipoles p, 1o, in the order x, y, z. Channel c n + w
// of the output belongs to channel c of the input and width w of n:
//   0e: factor_0w U_cw - own_0w q_c,   1o: factor_1w grad U_cw - own_1w p_c
// where U_cw is the potential that a Gaussian probe of width w feels (MultipoleFunction). The output may lack the
// second block.
//
// A cell that is periodic in the first two directions is a slab: with n the unit vector normal to them, U_cw also has
//   prefactor/V D_c n . (r - r0),   D_c = sum_j (q_jc n . (r_j - r0) + n . p_jc),   r0 the mean of all positions,
// which removes the interaction of the slab's images along n. In an open system U_cw is that of the other atoms alone
// (GaussianPair), and own_0w, own_1w are minus the numbers of Open.
//
// In a uniform electric field E, U_cw also has -share E . (r - o), for unwrapped positions. The origin o is r0 or 0.
struct Potential {
  static constexpr const char *TYPE = "potential";

  int input, output;
  int channels;
  bool has_dipoles, has_gradients;    // blocks 1o of the input and of the output
  MultipoleFunction function;
  std::array<std::vector<double>, 2> factors, own;    // by degree and width
  double cutoff;                                      // of wave vectors, 1/Angstrom
  std::string wave_vectors;                           // sphere, frozen or converged

  struct Open {
    double offset;                               // of displaced charges, Angstrom
    double softening;                            // is added to distances, Angstrom
    std::array<std::vector<double>, 2> added;    // by degree and width, of an atom's own charge and dipole
  };
  std::optional<Open> open;    // for open systems and slabs; none: the cell is periodic in three directions
  struct Field {
    double share;
    bool has_mean_origin;
  };
  std::optional<Field> of_field;
  std::array<double, 3> field{};    // E, V/Angstrom

  bool has_field() const { return of_field && field != std::array<double, 3>{}; }
  // Whether turning an open system may change its energy.
  bool depends_on_axes(OpenSum sum) const {
    return open && sum == OpenSum::framework && (has_dipoles || has_gradients);
  }

  static const FieldSpecs &fields();
  static Potential read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, output}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.sums_over_atoms = t.needs_geometric_input = t.tangents_need_values = t.sums_over_waves = true;
    t.needs_periodic_cell = !open;
    t.needs_field_of_all = has_field();
    return t;
  }
  void restrict_to(const KeptSpecies &) {}
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// This layer adds a short-range repulsion between pairs of atoms. It is the universal potential of Ziegler, Biersack
// and Littmark (The Stopping and Range of Ions in Solids, 1985), with the constants of each framework.
#ifndef EQUI_PAIR_REPULSION_H
#define EQUI_PAIR_REPULSION_H

#include "src/layers/layer.h"
#include "src/numbers/matrix.h"

#include <vector>

namespace equi {

// For each neighbor j of i within the cutoff: e_i += prefactor / r sum_k c_k exp(-b_k r / length) f(r / cutoff), where
// f is the polynomial cutoff function. Matrices are [receiver species, sender species].
struct PairRepulsion {
  static constexpr const char *TYPE = "pair_repulsion";

  Matrix prefactor;    // eV Angstrom
  Matrix length;       // Angstrom
  Matrix cutoff;       // Angstrom
  double p = 6.0;
  std::vector<double> coefficients, exponents;

  // Energy of one directed pair in eV; *derivative (eV/Angstrom) by r and *second derivative, or null. Zero beyond the
  // cutoff.
  double energy(int receiver, int sender, double r, double *derivative, double *second = nullptr) const;

  static const FieldSpecs &fields();
  static PairRepulsion read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.adds_pair_energy = t.depends_on_edges = true;
    return t;
  }
  void restrict_to(const KeptSpecies &kept);
};

}    // namespace equi

#endif

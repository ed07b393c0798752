// SPDX-License-Identifier: MIT
// This layer adds a short-range repulsion between pairs of atoms. It is the universal potential of Ziegler, Biersack
// and Littmark (The Stopping and Range of Ions in Solids, 1985), with the constants of each framework.
#ifndef EQUI_PAIR_REPULSION_H
#define EQUI_PAIR_REPULSION_H

#include "src/functions/repulsion_function.h"
#include "src/layers/layer.h"
#include "src/numbers/matrix.h"

#include <vector>

namespace equi {

// For each neighbor j of i within the cutoff: e_i += prefactor / r sum_k c_k exp(-b_k r / length) f(r / cutoff) w(r).
// f is the polynomial or the cosine cutoff function, and w the switch. Matrices are [receiver species, sender species].
struct PairRepulsion {
  static constexpr const char *TYPE = "pair_repulsion";

  Matrix prefactor;              // eV Angstrom
  Matrix length;                 // Angstrom
  Matrix cutoff;                 // Angstrom
  double p = 6.0;                // of the polynomial cutoff function; 0: the cosine
  double on = 0.0, off = 0.0;    // of the switch, Angstrom; off 0: none
  std::vector<double> coefficients, exponents;

  // Energy of one directed pair in eV; *derivative (eV/Angstrom) by r and *second derivative, or null. Zero beyond the
  // cutoff.
  double energy(int receiver, int sender, double r, double *derivative, double *second = nullptr) const;

  // It refers to the coefficients and exponents of this layer.
  RepulsionFunction function() const {
    return {p, on, off, static_cast<int>(coefficients.size()), coefficients.data(), exponents.data()};
  }

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

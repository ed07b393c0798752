// SPDX-License-Identifier: MIT
// The energy of a pair (pair_repulsion.h) as a function of the distance, for hosts and devices.
#ifndef EQUI_REPULSION_FUNCTION_H
#define EQUI_REPULSION_FUNCTION_H

#include "src/functions/cutoff_function.h"
#include "src/functions/switch_function.h"

namespace equi {

// The constants that all pairs share.
struct RepulsionFunction {
  double p;          // power of the polynomial cutoff function; 0: the cosine
  double on, off;    // of the switch, Angstrom; off 0: none
  int num_terms;
  const double *coefficients, *exponents;    // [num_terms]

  // The other arguments are constants of one pair; r is below the cutoff.
  EQUI_FUNCTION Jet operator()(const Jet &r, double prefactor, double length, double cutoff) const {
    if (off > 0.0 && r.value() >= off) return Jet();
    Jet screening;
    for (int k = 0; k < num_terms; ++k) screening = screening + coefficients[k] * exp(-exponents[k] / length * r);
    const Jet u = 1.0 / cutoff * r;
    const Jet energy = prefactor / r * screening * (p > 0.0 ? polynomial_cutoff(u, p) : cosine_cutoff(u));
    return off > 0.0 ? energy * switch_function(r, on, off) : energy;
  }
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The energy of a pair (pair_repulsion.h) as a function of the distance, for hosts and devices.
#ifndef EQUI_REPULSION_FUNCTION_H
#define EQUI_REPULSION_FUNCTION_H

#include "src/functions/cutoff_function.h"

namespace equi {

// The arguments are constants of one pair and constants that all pairs share; r is below the cutoff.
EQUI_FUNCTION Jet repulsion_function(const Jet &r, double prefactor, double length, double cutoff, double p,
                                     int num_terms, const double *coefficients, const double *exponents) {
  Jet screening;
  for (int k = 0; k < num_terms; ++k) screening = screening + coefficients[k] * exp(-exponents[k] / length * r);
  return prefactor / r * screening * polynomial_cutoff(1.0 / cutoff * r, p);
}

}    // namespace equi

#endif

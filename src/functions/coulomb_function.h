// SPDX-License-Identifier: MIT
// The energy of two unit charges as a function of their distance, for hosts and devices.
#ifndef EQUI_COULOMB_FUNCTION_H
#define EQUI_COULOMB_FUNCTION_H

#include "src/numbers/jet.h"

namespace equi {

// prefactor h(r) (1/r + square r^2 - shift), with h(r) = 1 - exp(1 - 1/(1 - (r/damping)^2)) below the distance
// `damping` and 1 beyond it.
struct CoulombFunction {
  double prefactor;        // eV Angstrom
  double damping;          // Angstrom; 0: none
  double square, shift;    // reaction field, 1/Angstrom^3 and 1/Angstrom; 0: none

  EQUI_FUNCTION Jet operator()(double distance) const {
    // The exponential and its derivatives underflow long before its argument becomes infinite.
    constexpr double ALMOST_ONE = 1.0 - 1e-6;
    const Jet r = Jet::variable(distance);
    const Jet e = prefactor * (1.0 / r + square * (r * r) - shift);
    if (distance >= ALMOST_ONE * damping) return e;
    const Jet square_of_u = 1.0 / (damping * damping) * (r * r);
    // 1 - 1/(1 - u^2) and the difference from 1, in a form without cancellation at short distances.
    return -1.0 * expm1(-1.0 * (square_of_u / (1.0 - square_of_u))) * e;
  }
};

}    // namespace equi

#endif

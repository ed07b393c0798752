// SPDX-License-Identifier: MIT
// The energy of two unit charges as a function of their distance, for hosts and devices.
#ifndef EQUI_COULOMB_FUNCTION_H
#define EQUI_COULOMB_FUNCTION_H

#include "src/functions/error_function.h"
#include "src/functions/switch_function.h"

#include <cmath>

namespace equi {

// Point charges: prefactor h(r) (1/r + square r^2 - shift), with h(r) = 1 - exp(1 - 1/(1 - (r/damping)^2)) below the
// distance `damping` and 1 beyond it. Charges with a width: prefactor (v - v(R) - (1 - w) v'(R) (r - R)), with v(r) =
// erf(r/width)/r and w the switch between `on` and the cutoff R.
struct CoulombFunction {
  double prefactor;                     // eV Angstrom
  double damping = 0.0;                 // Angstrom; 0: none
  double square = 0.0, shift = 0.0;     // reaction field, 1/Angstrom^3 and 1/Angstrom; 0: none
  double width = 0.0;                   // Angstrom; 0: point charges
  double on = 0.0, cutoff = 0.0;        // Angstrom
  double end = 0.0, end_slope = 0.0;    // v and its derivative at the cutoff

  static CoulombFunction of_width(double prefactor, double width, double on, double cutoff) {
    CoulombFunction f{prefactor};
    f.width = width;
    f.on = on;
    f.cutoff = cutoff;
    const Jet v = f.of_charges_with_width(Jet::variable(cutoff));
    f.end = v.d[0];
    f.end_slope = v.d[1];
    return f;
  }

  EQUI_FUNCTION Jet operator()(double distance) const {
    const Jet r = Jet::variable(distance);
    if (width > 0.0) {
      const Jet of_force = end_slope * ((1.0 - switch_function(r, on, cutoff)) * (r - cutoff));
      return prefactor * (of_charges_with_width(r) - end - of_force);
    }
    // The exponential and its derivatives underflow long before its argument becomes infinite.
    constexpr double ALMOST_ONE = 1.0 - 1e-6;
    const Jet e = prefactor * (1.0 / r + square * (r * r) - shift);
    if (distance >= ALMOST_ONE * damping) return e;
    const Jet square_of_u = 1.0 / (damping * damping) * (r * r);
    // 1 - 1/(1 - u^2) and the difference from 1, in a form without cancellation at short distances.
    return -1.0 * expm1(-1.0 * (square_of_u / (1.0 - square_of_u))) * e;
  }

 private:
  EQUI_FUNCTION Jet of_charges_with_width(const Jet &r) const {
    return 1.0 / width * error_function_quotient(1.0 / width * r);
  }
};

}    // namespace equi

#endif

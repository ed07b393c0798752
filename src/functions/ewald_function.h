// SPDX-License-Identifier: MIT
// The energy of charges with a Gaussian width in a periodic cell, as a sum over wave vectors.
#ifndef EQUI_EWALD_FUNCTION_H
#define EQUI_EWALD_FUNCTION_H

#include "src/functions/multipole_function.h"
#include "src/functions/wave_vectors.h"

#include <cmath>

namespace equi {

// With S(k) = sum_i q_i exp(i k . r_i) and the sum over one of each pair k and -k,
//   E = sum_k h(k) |S(k)|^2 - self/2 sum_i q_i^2,   h(k) = (prefactor / V) exp(-sigma^2 k^2 / 2) / k^2.
// If all k take part and the self-interaction is removed, the charges interact by (prefactor / 4 pi) erf(r / (sqrt2
// sigma)) / r with all periodic images. A charged cell has a uniform background, because k = 0 is left out.
struct EwaldFunction {
  double sigma;         // Angstrom
  double prefactor;     // 1/eps0, eV Angstrom per squared unit of charge
  bool removes_self;    // the interaction of each charge with itself

  // prefactor / ((2 pi)^(3/2) sigma), or 0: eV per squared unit of charge
  double self() const {
    return removes_self ? prefactor / (WaveVectors::TWO_PI * std::sqrt(WaveVectors::TWO_PI) * sigma) : 0.0;
  }
  // E without the self-interaction is half of that one's sum, if sources and probes are the charges.
  MultipoleFunction of_multipoles() const { return {prefactor, sigma, {0.0}}; }
};

}    // namespace equi

#endif

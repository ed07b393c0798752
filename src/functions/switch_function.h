// SPDX-License-Identifier: MIT
// A switch that falls from one to zero between two distances, with all its derivatives zero at both of them.
#ifndef EQUI_SWITCH_FUNCTION_H
#define EQUI_SWITCH_FUNCTION_H

#include "src/numbers/jet.h"

namespace equi {

// exp(-1/x) for positive x, else 0.
EQUI_FUNCTION Jet exp_of_inverse(const Jet &x) {
  constexpr double LEAST = 1e-3;    // the function and its derivatives underflow below it
  if (x.value() <= LEAST) return Jet();
  return exp(-1.0 / x);
}

// g(1 - c) / (g(1 - c) + g(c) + 1e-12) with g = exp_of_inverse and c = (r - on) / (off - on). The small constant, which
// is that of SO3LR, makes the largest value differ from 1 by less than 3e-12.
EQUI_FUNCTION Jet switch_function(const Jet &r, double on, double off) {
  constexpr double SMALL = 1e-12;
  const Jet c = 1.0 / (off - on) * (r - on), inner = exp_of_inverse(1.0 - c);
  return inner / (inner + exp_of_inverse(c) + SMALL);
}

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The error function divided by its argument, for hosts and devices.
#ifndef EQUI_ERROR_FUNCTION_H
#define EQUI_ERROR_FUNCTION_H

#include "src/numbers/jet.h"

#include <cmath>

namespace equi {

// erf(x)/x
EQUI_FUNCTION Jet error_function_quotient(const Jet &x) {
  constexpr double FACTOR = 1.1283791670955126;    // 2/sqrt(pi)
  const double v = x.value();
  double f[Jet::MAX_ORDER + 1] = {};
  if (std::fabs(v) < 1.0) {
    // With y = x^2 it is the sum of (-y)^k / (k! (2k+1)). A derivative by y increases the last factor by 2 and changes
    // the sign. The recurrence below would lose digits like 1/x^q.
    double term = FACTOR;
    for (int k = 0; k < 20; ++k) {
      for (int q = 0; q <= Jet::MAX_ORDER; ++q) f[q] += (q % 2 ? -term : term) / (2 * (k + q) + 1);
      term *= -v * v / (k + 1);
    }
    return compose(f, x * x);
  }
  // x f = erf x, differentiated q times: x f^(q) + q f^(q-1) = erf^(q) x
  const double gauss = FACTOR * std::exp(-v * v),
               right[] = {std::erf(v), gauss, -2.0 * v * gauss, (4.0 * v * v - 2.0) * gauss};
  f[0] = right[0] / v;
  for (int q = 1; q <= Jet::MAX_ORDER; ++q) f[q] = (right[q] - q * f[q - 1]) / v;
  return compose(f, x);
}

}    // namespace equi

#endif

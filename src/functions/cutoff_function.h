// SPDX-License-Identifier: MIT
// The cutoff functions of doc/model_file.rst, which fall from one to zero at the cutoff. The radial functions
// and the repulsion of pairs use them.
#ifndef EQUI_CUTOFF_FUNCTION_H
#define EQUI_CUTOFF_FUNCTION_H

#include "src/numbers/jet.h"

namespace equi {

// u = r/cutoff in [0, 1].
EQUI_FUNCTION Jet polynomial_cutoff(const Jet &u, double p) {
  return 1.0 - 0.5 * (p + 1.0) * (p + 2.0) * pow(u, p) + p * (p + 2.0) * pow(u, p + 1.0) -
         0.5 * p * (p + 1.0) * pow(u, p + 2.0);
}

// u = r/cutoff in [0, 1].
EQUI_FUNCTION Jet cosine_cutoff(const Jet &u) {
  constexpr double PI = 3.14159265358979323846;
  const double c = 0.5 * std::cos(PI * u.value()), s = 0.5 * std::sin(PI * u.value());
  const double f[] = {0.5 + c, -PI * s, -PI * PI * c, PI * PI * PI * s};
  return compose(f, u);
}

// The branch beyond r_on, where the function differs from one.
EQUI_FUNCTION Jet xplor_cutoff(const Jet &r, double r_on, double cutoff) {
  const Jet s = r * r;
  const double cc = cutoff * cutoff, on = r_on * r_on, width = cc - on;
  const Jet a = cc - s;
  return 1.0 / (width * width * width) * (a * a * (cc - 3.0 * on + 2.0 * s));
}

}    // namespace equi

#endif

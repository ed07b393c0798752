// SPDX-License-Identifier: MIT
// A jet is a number with its derivatives along one variable, up to the third: a formula that is written once computes
// value and derivatives. Jets are used only for functions of distances, which are sums, products and compositions of a
// few elementary functions.
#ifndef EQUI_JET_H
#define EQUI_JET_H

#include "src/numbers/host_device.h"

#include <cmath>

namespace equi {

struct Jet {
  static constexpr int MAX_ORDER = 3;

  double d[MAX_ORDER + 1] = {};    // d[q]: q-th derivative

  EQUI_FUNCTION Jet() {}
  EQUI_FUNCTION Jet(double constant) : d{constant} {}    // implicit: constants take part in formulas
  EQUI_FUNCTION static Jet variable(double value) {
    Jet x(value);
    x.d[1] = 1.0;
    return x;
  }
  // Copies from and to rows [order+1][stride]; derivatives above the order read as zero.
  EQUI_FUNCTION static Jet load(const double *row, int order, size_t stride) {
    Jet x;
    for (int q = 0; q <= order; ++q) x.d[q] = row[q * stride];
    return x;
  }
  EQUI_FUNCTION void store(double *row, int order, size_t stride) const {
    for (int q = 0; q <= order; ++q) row[q * stride] = d[q];
  }

  EQUI_FUNCTION double value() const { return d[0]; }
};

EQUI_FUNCTION Jet operator+(Jet a, const Jet &b) {
  for (int q = 0; q <= Jet::MAX_ORDER; ++q) a.d[q] += b.d[q];
  return a;
}

EQUI_FUNCTION Jet operator-(Jet a, const Jet &b) {
  for (int q = 0; q <= Jet::MAX_ORDER; ++q) a.d[q] -= b.d[q];
  return a;
}

EQUI_FUNCTION Jet operator*(double a, Jet b) {
  for (double &v : b.d) v *= a;
  return b;
}

// Leibniz' rule.
EQUI_FUNCTION Jet operator*(const Jet &a, const Jet &b) {
  Jet c;
  c.d[0] = a.d[0] * b.d[0];
  c.d[1] = a.d[0] * b.d[1] + a.d[1] * b.d[0];
  c.d[2] = a.d[0] * b.d[2] + 2.0 * a.d[1] * b.d[1] + a.d[2] * b.d[0];
  c.d[3] = a.d[0] * b.d[3] + 3.0 * (a.d[1] * b.d[2] + a.d[2] * b.d[1]) + a.d[3] * b.d[0];
  return c;
}

// f(x) by Faa di Bruno's formula; f[q]: q-th derivative of the outer function at x.
EQUI_FUNCTION Jet compose(const double f[Jet::MAX_ORDER + 1], const Jet &x) {
  const double x1 = x.d[1], x2 = x.d[2];
  Jet y(f[0]);
  y.d[1] = f[1] * x1;
  y.d[2] = f[2] * x1 * x1 + f[1] * x2;
  y.d[3] = f[3] * x1 * x1 * x1 + 3.0 * f[2] * x1 * x2 + f[1] * x.d[3];
  return y;
}

// Leibniz' rule for a = c b, without powers of 1/b, which would leave the range of numbers long before c does.
EQUI_FUNCTION Jet operator/(const Jet &a, const Jet &b) {
  const double i = 1.0 / b.d[0];
  Jet c;
  c.d[0] = a.d[0] * i;
  c.d[1] = (a.d[1] - c.d[0] * b.d[1]) * i;
  c.d[2] = (a.d[2] - 2.0 * c.d[1] * b.d[1] - c.d[0] * b.d[2]) * i;
  c.d[3] = (a.d[3] - 3.0 * (c.d[2] * b.d[1] + c.d[1] * b.d[2]) - c.d[0] * b.d[3]) * i;
  return c;
}

EQUI_FUNCTION Jet exp(const Jet &x) {
  const double e = std::exp(x.value()), f[] = {e, e, e, e};
  return compose(f, x);
}

EQUI_FUNCTION Jet expm1(const Jet &x) {
  const double e = std::exp(x.value()), f[] = {std::expm1(x.value()), e, e, e};
  return compose(f, x);
}

// f[q]: q-th derivative of the hyperbolic tangent at x.
EQUI_FUNCTION void tanh_derivatives(double x, double f[Jet::MAX_ORDER + 1]) {
  const double t = std::tanh(x), t1 = 1.0 - t * t;
  f[0] = t;
  f[1] = t1;
  f[2] = -2.0 * t * t1;
  f[3] = t1 * (6.0 * t * t - 2.0);
}

EQUI_FUNCTION Jet tanh(const Jet &x) {
  double f[Jet::MAX_ORDER + 1];
  tanh_derivatives(x.value(), f);
  return compose(f, x);
}

EQUI_FUNCTION Jet inverse_sqrt(const Jet &x) {
  const double i = 1.0 / x.value(), s = std::sqrt(i);
  const double f[] = {s, -0.5 * s * i, 0.75 * s * i * i, -1.875 * s * i * i * i};
  return compose(f, x);
}

// x^power for x >= 0. A derivative that is infinite at x = 0 is replaced by that at a tiny x: no run reaches such a
// distance.
EQUI_FUNCTION Jet pow(const Jet &x, double power) {
  constexpr double TINY = 1e-12;
  double f[Jet::MAX_ORDER + 1];
  if (x.value() > TINY) {    // one call of std::pow, which needs most of the time
    f[0] = std::pow(x.value(), power);
    for (int q = 0; q < Jet::MAX_ORDER; ++q) f[q + 1] = f[q] * ((power - q) / x.value());
    return compose(f, x);
  }
  double coefficient = 1.0;
  for (int q = 0; q <= Jet::MAX_ORDER; ++q) {
    const double exponent = power - q;
    // Avoids 0 * infinity for whole powers at zero.
    f[q] = coefficient == 0.0 ? 0.0 : coefficient * std::pow(exponent < 0.0 ? TINY : x.value(), exponent);
    coefficient *= exponent;
  }
  return compose(f, x);
}

}    // namespace equi

#endif

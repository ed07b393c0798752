// SPDX-License-Identifier: MIT
// The functions of a RadialBasis at one distance, with derivatives, for host and device.
#ifndef EQUI_BASIS_FUNCTIONS_H
#define EQUI_BASIS_FUNCTIONS_H

#include "src/functions/cutoff_function.h"
#include "src/functions/radial_function.h"

namespace equi {

// Derivatives of sin(x)/x; those above `order` are zero.
EQUI_FUNCTION Jet sinc(const Jet &x, int order) {
  double s[Jet::MAX_ORDER + 1] = {};
  const double v = x.value();
  if (std::fabs(v) < 1.0) {
    // sum (-1)^k x^2k / (2k+1)!, differentiated term by term; ten terms reach 1e-19 at x = 1. The recurrence below
    // would lose digits like 1/x^q.
    for (int q = 0; q <= order; ++q) {
      double sum = 0.0, factorial = 1.0;
      for (int k = 0; k < 12; ++k) {
        if (k > 0) factorial *= -(2.0 * k) * (2.0 * k + 1.0);
        const int power = 2 * k - q;
        if (power < 0) continue;
        double term = 1.0 / factorial;
        for (int i = 0; i < q; ++i) term *= 2 * k - i;
        for (int i = 0; i < power; ++i) term *= v;
        sum += term;
      }
      s[q] = sum;
    }
  } else {
    // x s = sin x, differentiated q times: x s^(q) + q s^(q-1) = sin^(q) x
    const double sine = std::sin(v), cosine = std::cos(v);
    const double rhs[4] = {sine, cosine, -sine, -cosine};
    s[0] = sine / v;
    for (int q = 1; q <= order; ++q) s[q] = (rhs[q] - q * s[q - 1]) / v;
  }
  return compose(s, x);
}

// sin(pi v)^2 = (1 - cos(2 pi v))/2.
EQUI_FUNCTION Jet sine_square(const Jet &v) {
  constexpr double FACTOR = 2.0 * 3.14159265358979323846;
  const double c = 0.5 * std::cos(FACTOR * v.value()), s = 0.5 * std::sin(FACTOR * v.value());
  const double f[] = {0.5 - c, FACTOR * s, FACTOR * FACTOR * c, -FACTOR * FACTOR * FACTOR * s};
  return compose(f, v);
}

// A RadialBasis of one pair of species as plain data. `numbers` points into that basis, or into a copy elsewhere.
struct BasisFunctions {
  RadialBasis::Kind kind;
  RadialBasis::Transform transform;
  RadialBasis::Cutoff cutoff_kind;
  bool apply_cutoff;
  int size;
  const double *numbers;    // [size] wave numbers, centers or factors, [2 size] means and factors; or none
  double prefactor, width, decay, end_of_decay;
  double r0, agnesi_q, agnesi_p, agnesi_a, soft_alpha, stretch;
  double cutoff, p, r_on;
  int span;

  // The cutoff function and its derivatives; side: see RadialBasis::derivatives.
  EQUI_FUNCTION Jet cutoff_function(double r, int side) const {
    if (cutoff_kind == RadialBasis::Cutoff::polynomial) return polynomial_cutoff(1.0 / cutoff * Jet::variable(r), p);
    if (cutoff_kind == RadialBasis::Cutoff::cosine) return cosine_cutoff(1.0 / cutoff * Jet::variable(r));
    if (cutoff_kind == RadialBasis::Cutoff::none) return Jet(1.0);
    const bool is_before = r < r_on || (r == r_on && side <= 0);    // false if r is not a number
    return is_before ? Jet(1.0) : xplor_cutoff(Jet::variable(r), r_on, cutoff);
  }

  // The argument x(r) of the functions.
  EQUI_FUNCTION Jet transformed(const Jet &r) const {
    switch (transform) {
      case RadialBasis::Transform::agnesi: {
        // u^q / (1 + u^(q-p)), multiplied out so that no power of u is negative.
        const Jet u = 1.0 / r0 * r;
        const double most = agnesi_q < agnesi_p ? agnesi_p : agnesi_q;
        return 1.0 / (1.0 + agnesi_a * (pow(u, most) / (1.0 + pow(u, std::fabs(agnesi_q - agnesi_p)))));
      }
      case RadialBasis::Transform::soft: {
        const double p0 = 0.75 * r0, p1 = 4.0 / 3.0 * r0;
        return p0 + 0.5 * ((r - p0) * (1.0 + tanh(soft_alpha / (p1 - p0) * (r - 0.5 * (p0 + p1)))));
      }
      case RadialBasis::Transform::none:
        break;
    }
    return stretch * r;
  }

  // Calls f(n, value and derivatives up to `order`) for each function. Derivatives above the order have no meaning.
  template <class F>
  EQUI_FUNCTION void derivatives(double r, int order, int side, const F &f) const {
    derivatives(r, order, side, 0, size, f);
  }
  // The same for the functions first <= n < last. `first` is 0 for Chebyshev polynomials, which are computed one after
  // another.
  template <class F>
  EQUI_FUNCTION void derivatives(double r, int order, int side, int first, int last, const F &f) const {
    const Jet of_cutoff = apply_cutoff ? cutoff_function(r, side) : Jet(1.0);
    const Jet x = transformed(Jet::variable(r));
    Jet before = 1.0, polynomial = x;    // T_i and T_{i+1}
    for (int i = first; i < last; ++i) {
      Jet b;
      switch (kind) {
        case RadialBasis::Kind::bessel:
          // sin(kx)/x = k sinc(kx)
          b = prefactor * numbers[i] * sinc(numbers[i] * x, order);
          break;
        case RadialBasis::Kind::gaussian: {
          const Jet distance = x - numbers[i];
          b = exp(-0.5 / (width * width) * (distance * distance));
          break;
        }
        case RadialBasis::Kind::exp_normal: {
          const Jet distance = exp(-decay * x) - numbers[i];
          b = exp(-numbers[size + i] * (distance * distance));
          break;
        }
        case RadialBasis::Kind::bernstein: {
          const bool has_ended = x.value() > end_of_decay || (x.value() == end_of_decay && side > 0);
          const Jet by_decay = -decay * (has_ended ? Jet(end_of_decay) : x);
          b = numbers[i] * exp(i * by_decay) * pow(-1.0 * expm1(by_decay), size - 1 - i);
          break;
        }
        case RadialBasis::Kind::chebyshev: {
          b = polynomial;
          const Jet next = 2.0 * (x * polynomial) - before;
          before = polynomial;
          polynomial = next;
          break;
        }
        case RadialBasis::Kind::cosine_bump: {
          const Jet v = 1.0 / (span + 1.0) * (size / (stretch * cutoff) * x - (i - span));
          if (v.value() <= 0.0 || v.value() >= 1.0) break;    // three derivatives are continuous
          const Jet square = sine_square(v);
          b = square * square;
          break;
        }
      }
      f(i, b * of_cutoff);
    }
  }
};

// The distance from which the functions of a bernstein basis are constant.
inline double end_of_decay(const RadialBasis &basis) {
  return -std::log(RadialBasis::LEAST_Z) / basis.decay;
}

// The array to which BasisFunctions::numbers points.
inline const std::vector<double> &numbers_of(const RadialBasis &basis) {
  if (basis.kind == RadialBasis::Kind::gaussian) return basis.centers;
  if (basis.kind == RadialBasis::Kind::bernstein) return basis.binomials;
  return basis.kind == RadialBasis::Kind::exp_normal ? basis.exponentials : basis.wave_numbers;
}

// basis: that of one pair; it must outlive the result.
inline BasisFunctions basis_functions(const RadialBasis &basis) {
  return {
      basis.kind,      basis.transform, basis.cutoff_kind, basis.apply_cutoff,  basis.size(), numbers_of(basis).data(),
      basis.prefactor, basis.width,     basis.decay,       end_of_decay(basis), basis.r0,     basis.agnesi_q,
      basis.agnesi_p,  basis.agnesi_a,  basis.soft_alpha,  basis.stretch,       basis.cutoff, basis.p,
      basis.r_on,      basis.span};
}

}    // namespace equi

#endif

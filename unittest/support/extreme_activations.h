// SPDX-License-Identifier: MIT
// Arguments for which exponentials and products leave the range of float32 or float64, or a function is almost
// constant, with the activations there in all digits of a long double.
#ifndef EQUI_TEST_EXTREME_ACTIVATIONS_H
#define EQUI_TEST_EXTREME_ACTIVATIONS_H

#include "src/functions/network.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace equi {
namespace testing {

constexpr Activation EXTREME_ACTIVATIONS[] = {Activation::identity, Activation::silu, Activation::tanh,
                                              Activation::sigmoid,  Activation::relu, Activation::abs,
                                              Activation::ssp,      Activation::mish, Activation::gelu};

inline std::vector<double> extreme_arguments() {
  std::vector<double> x = {0.0};
  for (const double size :
       {1e-45, 1e-38, 1e-30, 1e-19, 1e-8, 1e-3, 0.4,  1.0,   1.28,  2.4,   5.0, 9.5, 17.0, 20.0, 36.5, 40.0,
        80.0,  87.0,  88.6,  90.0,  104., 150., 600., 708.5, 709.9, 746.0, 1e3, 1e5, 1e10, 2e19, 1e30})
    x.insert(x.end(), {size, -size});
  return x;
}

// Values and derivatives, and the size of their terms, to which rounding is relative.
struct ExactActivation {
  long double d[3], terms[3];
};

inline ExactActivation exact_activation(Activation a, long double x) {
  const long double e = std::exp(-std::fabs(x)), sum = 1 + e, sign = x < 0 ? -1 : 1;
  const long double s = (x < 0 ? e : 1) / sum, s1 = e / (sum * sum), s2 = sign * s1 * std::expm1(-std::fabs(x)) / sum;
  switch (a) {
    case Activation::silu:
      return {{x * s, s + x * s1, 2 * s1 + x * s2}, {x * s, s + std::fabs(x * s1), 2 * s1 + std::fabs(x * s1)}};
    case Activation::sigmoid:
      return {{s, s1, s2}, {s, s1, s1}};
    case Activation::ssp:
      return {{(x > 0 ? x : 0) + std::log1p(e) - std::log(2.0L), s, s1}, {1 + (x > 0 ? x : 0), s, s1}};
    case Activation::tanh: {
      // Its derivative is computed from its value, which is almost 1.
      const long double t = std::tanh(x), q = std::exp(-2 * std::fabs(x)), t1 = 4 * q / ((1 + q) * (1 + q));
      return {{t, t1, -2 * t * t1}, {t, 1, 2 * std::fabs(t)}};
    }
    case Activation::mish: {
      const long double softplus = (x > 0 ? x : 0) + std::log1p(e), q = std::exp(-2 * softplus);
      const long double t = std::tanh(softplus), w = 4 * q / ((1 + q) * (1 + q)), t1 = w * s;
      const long double t2 = w * s1 - 2 * t * t1 * s, size = std::fabs(w * s1) + std::fabs(2 * t * t1 * s);
      return {{x * t, t + x * t1, 2 * t1 + x * t2}, {x * t, t + std::fabs(x * t1), 2 * t1 + std::fabs(x) * size}};
    }
    case Activation::gelu: {
      // The square of the argument, which is rounded, is an exponent.
      const long double up_to = std::erfc(-x * std::sqrt(0.5L)) / 2, square = x * x;
      const long double density = std::exp(-square / 2) / std::sqrt(2 * std::acos(-1.0L));
      return {{x * up_to, up_to + x * density, density * (2 - square)},
              {x * up_to * (1 + square), (up_to + std::fabs(x) * density) * (1 + square),
               density * (2 + square) * (1 + square)}};
    }
    case Activation::relu:
      return {{x > 0 ? x : 0, x > 0 ? 1.0L : 0, 0}, {x, 1, 0}};
    case Activation::abs:
      return {{std::fabs(x), x > 0 ? 1.0L : x < 0 ? -1.0L : 0, 0}, {x, 1, 0}};
    default:
      return {{x, 1, 0}, {x, 1, 0}};
  }
}

// Results in R for the argument x. Below the least normal number there are no digits.
template <class R>
void expect_digits(R found, long double exact, long double terms, double x, const std::string &what) {
  constexpr long double ROUNDING = 16 * std::numeric_limits<R>::epsilon();
  const long double least = std::numeric_limits<R>::min() * (1 + std::fabs(static_cast<long double>(x)));
  EXPECT_LE(std::fabs(found - exact), ROUNDING * std::fabs(terms) + std::fmin(least, 1e-30L))
      << what << " at " << x << ": " << found << " instead of " << exact;
}

}    // namespace testing
}    // namespace equi

#endif

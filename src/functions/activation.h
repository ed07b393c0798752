// SPDX-License-Identifier: MIT
// Activation functions with their first derivative, for host and device; with duals, derivatives of both. If the
// argument is not a number, the value is not a number either, and neither is the derivative unless it is constant. So a
// broken number reaches the result, where it is seen.
#ifndef EQUI_ACTIVATION_H
#define EQUI_ACTIVATION_H

#include "src/functions/network.h"
#include "src/numbers/dual.h"

#include <cmath>

namespace equi {

template <class T>
struct ValueAndDerivative {
  T value, derivative;
};

// The sigmoid, computed from an exponential that does not overflow: an infinite dual would have no derivative. Both
// numbers have all their digits where the sigmoid is almost 0 or 1.
template <class T>
EQUI_FUNCTION ValueAndDerivative<T> sigmoid(T x) {
  using std::exp;
  const T e = exp(x < T(0) ? x : -x), inverse = T(1) / (T(1) + e);
  return {x < T(0) ? e * inverse : inverse, e * inverse * inverse};
}

// tanh(log(1 + e^x)) and one minus its square, from an exponential that does not overflow.
template <class T>
struct MishFactor {
  T value, one_minus_square;
};
template <class T>
EQUI_FUNCTION MishFactor<T> mish_factor(T x) {
  using std::exp;
  const T e = exp(x < T(0) ? x : -x), square = e * e, twice = e + e;
  // With n = e^2x + 2 e^x the value is n / (n + 2), which is almost 1 for large x.
  const T inverse = T(1) / (x < T(0) ? square + twice + T(2) : T(1) + twice + square + square);
  const T rest = (x < T(0) ? T(2) : square + square) * inverse;
  const T value = x < T(0) ? (square + twice) * inverse : T(1) - rest;
  return {value, rest * (T(1) + value)};
}

// The integral of the normal distribution up to x, and its density at x. Powers of the `x` here times the density do
// not overflow.
template <class T>
struct NormalDistribution {
  T integral, density, x;
};
template <class T>
EQUI_FUNCTION NormalDistribution<T> normal_distribution(T x) {
  using std::erfc, std::exp;
  constexpr double ROOT_OF_HALF = 0.70710678118654752440, FACTOR = 0.39894228040143267794;
  const T far = T(40), bounded = x > far ? far : (x < -far ? -far : x);
  return {T(0.5) * erfc(T(-ROOT_OF_HALF) * x), T(FACTOR) * exp(T(-0.5) * bounded * bounded), bounded};
}

template <class T>
EQUI_FUNCTION ValueAndDerivative<T> activate(Activation a, T x) {
  using std::abs, std::exp, std::log1p, std::tanh;
  switch (a) {
    case Activation::silu: {
      const ValueAndDerivative<T> s = sigmoid(x);
      return {x * s.value, s.value + x * s.derivative};
    }
    case Activation::tanh: {
      const T t = tanh(x);
      return {t, T(1) - t * t};
    }
    case Activation::sigmoid:
      return sigmoid(x);
    // NOLINTBEGIN(misc-redundant-expression)
    case Activation::relu:
      // x - x is zero at zero, and not a number where x is not a number.
      return {x > T(0) ? x : (x < T(0) ? T(0) : x - x), x > T(0) ? T(1) : (x < T(0) ? T(0) : x - x)};
    case Activation::abs:
      return {abs(x), x > T(0) ? T(1) : (x < T(0) ? T(-1) : x - x)};
    case Activation::ssp: {
      const T least = log1p(exp(x < T(0) ? x : -x));    // log1p(exp(-|x|))
      return {(x < T(0) ? least : x + least) - T(0.69314718055994530942), sigmoid(x).value};
    }
    // NOLINTEND(misc-redundant-expression)
    case Activation::mish: {
      const MishFactor<T> m = mish_factor(x);
      return {x * m.value, m.value + x * m.one_minus_square * sigmoid(x).value};
    }
    case Activation::gelu: {
      const NormalDistribution<T> n = normal_distribution(x);
      return {x * n.integral, n.integral + n.x * n.density};
    }
    case Activation::identity:
      break;
  }
  return {x, T(1)};
}

}    // namespace equi

#endif

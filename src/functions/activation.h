// SPDX-License-Identifier: MIT
// Activation functions with their first derivative, for host and device; of duals, derivatives of both. Where the
// argument is not a number, the value is not a number either, and so is the derivative unless it is a constant: a
// broken number must be seen at the end.
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

template <class T>
EQUI_FUNCTION ValueAndDerivative<T> activate(Activation a, T x) {
  using std::abs, std::exp, std::log1p, std::tanh;
  switch (a) {
    case Activation::silu: {
      const T s = T(1) / (T(1) + exp(-x));
      return {x * s, s * (T(1) + x * (T(1) - s))};
    }
    case Activation::tanh: {
      const T t = tanh(x);
      return {t, T(1) - t * t};
    }
    case Activation::sigmoid: {
      const T s = T(1) / (T(1) + exp(-x));
      return {s, s * (T(1) - s)};
    }
    // NOLINTBEGIN(misc-redundant-expression)
    case Activation::relu:
      // x - x is zero at zero, and of what is not a number not a number.
      return {x > T(0) ? x : (x < T(0) ? T(0) : x - x), x > T(0) ? T(1) : (x < T(0) ? T(0) : x - x)};
    case Activation::abs:
      return {abs(x), x > T(0) ? T(1) : (x < T(0) ? T(-1) : x - x)};
    case Activation::ssp: {
      const T softplus = x > T(0) ? x + log1p(exp(-x)) : log1p(exp(x));
      return {softplus - T(0.69314718055994530942), T(1) / (T(1) + exp(-x))};
    }
    // NOLINTEND(misc-redundant-expression)
    case Activation::identity:
      break;
  }
  return {x, T(1)};
}

}    // namespace equi

#endif

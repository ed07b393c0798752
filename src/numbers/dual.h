// SPDX-License-Identifier: MIT
// A dual is a number with its derivative along one direction. The evaluation of a model is written over a number type.
// With duals it computes the directional derivative of all its results. That of the forces is minus the Hessian times
// the direction. Kernels of all instruction sets use this header: everything in it is always inlined.
#ifndef EQUI_DUAL_H
#define EQUI_DUAL_H

#include "src/numbers/host_device.h"

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace equi {

// Comparisons compare the values only.
template <class T>
struct Dual {
  T value, tangent;

  Dual() = default;
  EQUI_FUNCTION Dual(T value, T tangent = T(0)) : value(value), tangent(tangent) {}    // implicit: constants
  template <class U>
  EQUI_FUNCTION explicit Dual(const Dual<U> &d) : value(static_cast<T>(d.value)), tangent(static_cast<T>(d.tangent)) {}

  EQUI_FUNCTION friend Dual operator-(Dual a) { return {-a.value, -a.tangent}; }
  EQUI_FUNCTION friend Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.tangent + b.tangent}; }
  EQUI_FUNCTION friend Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.tangent - b.tangent}; }
  EQUI_FUNCTION friend Dual operator*(Dual a, Dual b) {
    return {a.value * b.value, a.tangent * b.value + a.value * b.tangent};
  }
  EQUI_FUNCTION friend Dual operator*(T a, Dual b) { return {a * b.value, a * b.tangent}; }
  EQUI_FUNCTION friend Dual operator*(Dual a, T b) { return b * a; }
  EQUI_FUNCTION friend Dual operator/(Dual a, Dual b) {
    const T q = a.value / b.value;
    return {q, (a.tangent - q * b.tangent) / b.value};
  }
  EQUI_FUNCTION Dual &operator+=(Dual b) { return *this = *this + b; }
  EQUI_FUNCTION Dual &operator-=(Dual b) { return *this = *this - b; }
  EQUI_FUNCTION Dual &operator*=(Dual b) { return *this = *this * b; }
  EQUI_FUNCTION Dual &operator*=(T b) { return *this = *this * b; }
  EQUI_FUNCTION friend bool operator>(Dual a, Dual b) { return a.value > b.value; }
  EQUI_FUNCTION friend bool operator<(Dual a, Dual b) { return a.value < b.value; }

  EQUI_FUNCTION friend Dual sqrt(Dual a) {
    const T s = std::sqrt(a.value);
    return {s, s > T(0) ? a.tangent / (T(2) * s) : T(0)};
  }
  EQUI_FUNCTION friend Dual exp(Dual a) {
    const T e = std::exp(a.value);
    return {e, e * a.tangent};
  }
  EQUI_FUNCTION friend Dual log1p(Dual a) { return {std::log1p(a.value), a.tangent / (T(1) + a.value)}; }
  EQUI_FUNCTION friend Dual tanh(Dual a) {
    const T t = std::tanh(a.value);
    return {t, (T(1) - t * t) * a.tangent};
  }
  EQUI_FUNCTION friend Dual erfc(Dual a) {
    constexpr T SLOPE = T(-1.12837916709551257390);    // -2 / sqrt(pi)
    return {std::erfc(a.value), SLOPE * std::exp(-a.value * a.value) * a.tangent};
  }
  // Not a number where the argument is not a number, and 0 at 0.
  EQUI_FUNCTION friend Dual abs(Dual a) {
    return a.value < T(0) ? -a : a.value > T(0) ? a : Dual(std::abs(a.value), a.value - a.value);
  }
};

// Numbers in two planes, values and tangents, which are `distance` numbers apart. Within a plane they are adjacent, and
// SIMD lanes run over them. T may be const.
template <class T>
struct DualPointer {
  T *value;
  int64_t distance;

  EQUI_FUNCTION DualPointer operator+(int64_t n) const { return {value + n, distance}; }
  EQUI_FUNCTION DualPointer &operator+=(int64_t n) {
    value += n;
    return *this;
  }
  EQUI_FUNCTION DualPointer &operator++() { return *this += 1; }
  EQUI_FUNCTION Dual<std::remove_const_t<T>> operator[](int64_t k) const { return {value[k], value[k + distance]}; }
  EQUI_FUNCTION explicit operator bool() const { return value; }
  EQUI_FUNCTION operator DualPointer<const T>() const { return {value, distance}; }
};

// The parts of a number type: their type, their number, the pointer to numbers in planes, and the same number in
// float64.
template <class T>
struct NumberOf {
  using Real = std::remove_const_t<T>;
  using Double = double;
  using Pointer = T *;
  static constexpr int PLANES = 1;
};
template <class T>
struct NumberOf<Dual<T>> {
  using Real = T;
  using Double = Dual<double>;
  using Pointer = DualPointer<T>;
  static constexpr int PLANES = 2;
};
template <class T>
struct NumberOf<const Dual<T>> : NumberOf<Dual<T>> {
  using Pointer = DualPointer<const T>;
};
template <class T>
using Real = typename NumberOf<T>::Real;
template <class T>
using DoubleOf = typename NumberOf<T>::Double;
template <class T>
using Pointer = typename NumberOf<T>::Pointer;
template <class T>
constexpr int PLANES = NumberOf<T>::PLANES;
template <class T>
constexpr bool IS_DUAL = PLANES<T> == 2;

// Pointer to numbers of T whose tangents, if it has any, are `distance` numbers further.
template <class T, class R>
EQUI_FUNCTION Pointer<T> make_pointer(R *value, int64_t distance) {
  if constexpr (IS_DUAL<T>)
    return {value, distance};
  else
    return (void)distance, value;
}

template <class T>
EQUI_FUNCTION void put(T *p, int64_t k, T number) {
  p[k] = number;
}
template <class T>
EQUI_FUNCTION void put(DualPointer<T> p, int64_t k, Dual<T> number) {
  p.value[k] = number.value;
  p.value[k + p.distance] = number.tangent;
}

// A number from its value and tangent, and back; plain numbers have no tangent.
template <class T>
EQUI_FUNCTION T make_number(Real<T> value, Real<T> tangent) {
  if constexpr (IS_DUAL<T>)
    return {value, tangent};
  else
    return (void)tangent, value;
}
template <class T>
EQUI_FUNCTION Real<T> value_of(T number) {
  if constexpr (IS_DUAL<T>)
    return number.value;
  else
    return number;
}
template <class T>
EQUI_FUNCTION Real<T> tangent_of(T number) {
  if constexpr (IS_DUAL<T>)
    return number.tangent;
  else
    return (void)number, Real<T>(0);
}

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Interactions of Gaussian multipoles by derivatives of the error function, or by displaced charges.
#include "src/functions/gaussian_multipoles.h"

#include <cmath>

namespace equi {

namespace {

constexpr int MOST = 4;    // n of the last Boys function
constexpr double TWO_BY_ROOT_PI = 1.1283791670955126;

template <class T>
T square_of(const std::array<T, 3> &x) {
  return x[0] * x[0] + x[1] * x[1] + x[2] * x[2];
}

}    // namespace

// Small arguments: a series of positive terms for the largest n, then the recurrence downwards. Others: the error
// function, then the recurrence upwards. Either direction loses no digits there.
BoysFunctions boys_functions(double y) {
  constexpr double SMALL = 5.0;
  BoysFunctions f{};
  const double gauss = std::exp(-y);
  if (y < SMALL) {
    double term = 1.0 / (2 * MOST + 1), sum = term;
    for (int k = 1; term > 1e-18 * sum; k++) sum += term *= 2.0 * y / (2 * (MOST + k) + 1);
    f[MOST] = gauss * sum;
    for (int n = MOST; n > 0; n--) f[n - 1] = (2.0 * y * f[n] + gauss) / (2 * n - 1);
    return f;
  }
  const double root = std::sqrt(y);
  f[0] = std::erf(root) / (TWO_BY_ROOT_PI * root);
  for (int n = 0; n < MOST; n++) f[n + 1] = ((2 * n + 1) * f[n] - gauss) / (2.0 * y);
  return f;
}

template <class T>
typename GaussianPair<T>::Derivatives GaussianPair<T>::derivatives(T square) const {
  const double scale = 1.0 / (4.0 * total_width_ * total_width_);
  const BoysFunctions f = boys_functions(scale * value_of(square));
  double factor = TWO_BY_ROOT_PI * std::sqrt(scale);
  Derivatives found;
  for (int n = 0; n < 4; n++, factor *= -scale)
    found[n] = make_number<T>(factor * f[n], -factor * scale * f[n + 1] * tangent_of(square));
  return found;
}

// With the softening e it is (|x| / (|x| + e)) erf(|x| / 2W) / |x|.
template <class T>
T GaussianPair<T>::softened(const Vector &x) const {
  const T square = square_of(x), r = sqrt(square);
  return derivatives(square)[0] * (r / (r + T(softening_)));
}

template <class T>
typename GaussianPair<T>::Vector GaussianPair<T>::softened_gradient(const Vector &x) const {
  const T square = square_of(x), r = sqrt(square), whole = r + T(softening_);
  if (!(value_of(r) > 0.0)) return {T(0.0), T(0.0), T(0.0)};
  const Derivatives k = derivatives(square);
  const T slope = T(2.0) * k[1] * (r / whole) + k[0] * (T(softening_) / (whole * whole * r));
  return {slope * x[0], slope * x[1], slope * x[2]};
}

// Between the places of two charges: the atom (0), or at the offset along axis a (1 + a).
template <class T>
typename GaussianPair<T>::Vector GaussianPair<T>::displaced(const Vector &x, int probe, int source) const {
  Vector y = x;
  if (probe > 0) y[probe - 1] += T(offset_);
  if (source > 0) y[source - 1] -= T(offset_);
  return y;
}

template <class T>
typename GaussianPair<T>::Matrix GaussianPair<T>::matrix(const Vector &x) const {
  Matrix m{};
  if (is_exact_) {
    const Derivatives k = derivatives(square_of(x));
    m[0][0] = k[0];
    for (int a = 0; has_vectors_ && a < 3; a++) {
      m[1 + a][0] = T(2.0) * x[a] * k[1];
      m[0][1 + a] = -m[1 + a][0];
      for (int b = 0; b < 3; b++) m[1 + a][1 + b] = T(-4.0) * (x[a] * x[b]) * k[2] - (a == b ? T(2.0) * k[1] : T(0.0));
    }
    return m;
  }
  Matrix charges{};
  const int places = has_vectors_ ? 4 : 1;
  for (int p = 0; p < places; p++)
    for (int s = 0; s < places; s++) charges[p][s] = p == s && p > 0 ? charges[0][0] : softened(displaced(x, p, s));
  m[0][0] = charges[0][0];
  const double by_offset = 1.0 / offset_;
  for (int a = 1; a < places; a++) {
    m[a][0] = T(by_offset) * (charges[a][0] - charges[0][0]);
    m[0][a] = T(by_offset) * (charges[0][a] - charges[0][0]);
    for (int b = 1; b < places; b++)
      m[a][b] = T(by_offset * by_offset) * ((charges[a][b] - charges[a][0]) - (charges[0][b] - charges[0][0]));
  }
  return m;
}

template <class T>
typename GaussianPair<T>::Vector GaussianPair<T>::gradient(const Vector &x, const Matrix &factors) const {
  Vector g{T(0.0), T(0.0), T(0.0)};
  if (is_exact_) {
    const Derivatives k = derivatives(square_of(x));
    const auto first = [&](int c) { return T(2.0) * x[c] * k[1]; };
    const auto second = [&](int b, int c) { return T(4.0) * (x[b] * x[c]) * k[2] + (b == c ? T(2.0) * k[1] : T(0.0)); };
    for (int c = 0; c < 3; c++) {
      g[c] = factors[0][0] * first(c);
      for (int b = 0; has_vectors_ && b < 3; b++) {
        g[c] += (factors[1 + b][0] - factors[0][1 + b]) * second(b, c);
        for (int a = 0; a < 3; a++) {
          T third = T(8.0) * (x[a] * x[b] * x[c]) * k[3];
          if (a == b) third += T(4.0) * x[c] * k[2];
          if (b == c) third += T(4.0) * x[a] * k[2];
          if (a == c) third += T(4.0) * x[b] * k[2];
          g[c] -= factors[1 + a][1 + b] * third;
        }
      }
    }
    return g;
  }
  const auto add = [&](T factor, const Vector &y) {
    const Vector slope = softened_gradient(y);
    for (int c = 0; c < 3; c++) g[c] += factor * slope[c];
  };
  if (!has_vectors_) {
    add(factors[0][0], x);
    return g;
  }
  // Factors of pairs of charges. Charges at the same displacement from both atoms have the distance of the atoms.
  const T by_offset(1.0 / offset_);
  T at_atoms = factors[0][0];
  for (int a = 1; a < 4; a++) {
    T of_probe = by_offset * factors[a][0], of_source = by_offset * factors[0][a];
    at_atoms -= of_probe + of_source;
    for (int b = 1; b < 4; b++) {
      const T both = by_offset * by_offset * factors[a][b];
      of_probe -= both;
      of_source -= by_offset * by_offset * factors[b][a];
      at_atoms += both;
      if (a == b)
        at_atoms += both;
      else
        add(both, displaced(x, a, b));
    }
    add(of_probe, displaced(x, a, 0));
    add(of_source, displaced(x, 0, a));
  }
  add(at_atoms, x);
  return g;
}

template class GaussianPair<double>;
template class GaussianPair<Dual<double>>;

}    // namespace equi

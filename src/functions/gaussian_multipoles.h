// SPDX-License-Identifier: MIT
// The interaction of two multipoles with Gaussian widths at a distance, without periodic images.
#ifndef EQUI_GAUSSIAN_MULTIPOLES_H
#define EQUI_GAUSSIAN_MULTIPOLES_H

#include "src/functions/multipole_function.h"
#include "src/numbers/dual.h"
#include "src/numbers/host_device.h"

#include <cmath>

namespace equi {

// The integrals of t^(2n) exp(-y t^2) over t from 0 to 1, for n = 0 .. 4. Those of larger n are minus the derivatives
// by y. erf(sqrt y)/sqrt y is 2/sqrt(pi) times the first one.
struct BoysFunctions {
  static constexpr int LAST = 4;
  double value[LAST + 1];
  EQUI_FUNCTION double operator[](int n) const { return value[n]; }
};
// Small arguments: a series of positive terms for the largest n, then the recurrence downwards. Others: the error
// function, then the recurrence upwards. Either direction loses no digits there.
EQUI_FUNCTION BoysFunctions boys_functions(double y) {
  constexpr double SMALL = 5.0, TWO_BY_ROOT_PI = 1.1283791670955126;
  constexpr int LAST = BoysFunctions::LAST;
  BoysFunctions f{};
  const double gauss = std::exp(-y);
  if (y < SMALL) {
    double term = 1.0 / (2 * LAST + 1), sum = term;
    for (int k = 1; term > 1e-18 * sum; k++) sum += term *= 2.0 * y / (2 * (LAST + k) + 1);
    f.value[LAST] = gauss * sum;
    for (int n = LAST; n > 0; n--) f.value[n - 1] = (2.0 * y * f[n] + gauss) / (2 * n - 1);
    return f;
  }
  const double root = std::sqrt(y);
  f.value[0] = std::erf(root) / (TWO_BY_ROOT_PI * root);
  for (int n = 0; n < LAST; n++) f.value[n + 1] = ((2 * n + 1) * f[n] - gauss) / (2.0 * y);
  return f;
}

// The numbers of a multipole are a charge and the three components of a dipole, or their probes g0 and g1
// (multipole_function.h). With x = r_probe - r_source and the total width W = sqrt((s^2 + w^2) / 2), the exact
// interaction is
//   (g0 + g1 . d/dx)(q - p . d/dx) erf(|x| / 2W) / |x|.
// graph-longrange, by which models were trained, replaces derivatives by differences: a dipole is a charge p_a/h at a
// distance h along each axis a, and minus their sum at the atom; g1 is treated in the same way. Its distances have a
// small number added to them in the denominator. The result depends on the orientation.
//
// T: double, or Dual<double> for derivatives along one direction.
template <class T>
class GaussianPair {
 public:
  struct Vector {
    T component[3];
    EQUI_FUNCTION T &operator[](int a) { return component[a]; }
    EQUI_FUNCTION const T &operator[](int a) const { return component[a]; }
  };
  struct Matrix {    // [probe][source]
    T number[4][4];
    EQUI_FUNCTION T *operator[](int probe) { return number[probe]; }
    EQUI_FUNCTION const T *operator[](int probe) const { return number[probe]; }
  };

  GaussianPair() = default;
  // W, h and softening in Angstrom. has_vectors: whether sources have dipoles or probes have gradients; otherwise only
  // the first number of the matrix is computed.
  GaussianPair(OpenSum sum, double total_width, double offset, double softening, bool has_vectors)
      : is_exact_(sum == OpenSum::exact),
        has_vectors_(has_vectors),
        total_width_(total_width),
        offset_(offset),
        softening_(softening) {}

  // The interaction of each number of the probe with each number of the source.
  EQUI_FUNCTION Matrix matrix(const Vector &x) const {
    Matrix m{};
    if (is_exact_) {
      const Derivatives k = derivatives(square_of(x));
      m[0][0] = k[0];
      for (int a = 0; has_vectors_ && a < 3; a++) {
        m[1 + a][0] = T(2.0) * x[a] * k[1];
        m[0][1 + a] = -m[1 + a][0];
        for (int b = 0; b < 3; b++)
          m[1 + a][1 + b] = T(-4.0) * (x[a] * x[b]) * k[2] - (a == b ? T(2.0) * k[1] : T(0.0));
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

  // The derivative by x of the sum of all numbers of the matrix times those of `factors`.
  EQUI_FUNCTION Vector gradient(const Vector &x, const Matrix &factors) const {
    return is_exact_ ? exact_gradient(x, factors) : displaced_gradient(x, factors);
  }

 private:
  struct Derivatives {
    T number[4];    // by the square of the distance, from the 0th to the third
    EQUI_FUNCTION T operator[](int n) const { return number[n]; }
  };
  EQUI_FUNCTION static T square_of(const Vector &x) { return x[0] * x[0] + x[1] * x[1] + x[2] * x[2]; }
  EQUI_FUNCTION Derivatives derivatives(T square) const {
    constexpr double TWO_BY_ROOT_PI = 1.1283791670955126;
    const double scale = 1.0 / (4.0 * total_width_ * total_width_);
    const BoysFunctions f = boys_functions(scale * value_of(square));
    double factor = TWO_BY_ROOT_PI * std::sqrt(scale);
    Derivatives found;
    for (int n = 0; n < 4; n++, factor *= -scale)
      found.number[n] = make_number<T>(factor * f[n], -factor * scale * f[n + 1] * tangent_of(square));
    return found;
  }
  // With the softening e it is (|x| / (|x| + e)) erf(|x| / 2W) / |x|.
  EQUI_FUNCTION T softened(const Vector &x) const {
    const T square = square_of(x), r = root(square);
    return derivatives(square)[0] * (r / (r + T(softening_)));
  }
  EQUI_FUNCTION Vector softened_gradient(const Vector &x) const {
    const T square = square_of(x), r = root(square), whole = r + T(softening_);
    if (!(value_of(r) > 0.0)) return {T(0.0), T(0.0), T(0.0)};
    const Derivatives k = derivatives(square);
    const T slope = T(2.0) * k[1] * (r / whole) + k[0] * (T(softening_) / (whole * whole * r));
    return {slope * x[0], slope * x[1], slope * x[2]};
  }
  EQUI_FUNCTION static T root(T square) {
    using std::sqrt;
    return sqrt(square);
  }
  // Between the places of two charges: the atom (0), or at the offset along axis a (1 + a).
  EQUI_FUNCTION Vector displaced(const Vector &x, int probe, int source) const {
    Vector y = x;
    if (probe > 0) y[probe - 1] += T(offset_);
    if (source > 0) y[source - 1] -= T(offset_);
    return y;
  }
  EQUI_FUNCTION Vector exact_gradient(const Vector &x, const Matrix &factors) const {
    Vector g{T(0.0), T(0.0), T(0.0)};
    const Derivatives k = derivatives(square_of(x));
    for (int c = 0; c < 3; c++) {
      g[c] = factors[0][0] * (T(2.0) * x[c] * k[1]);
      for (int b = 0; has_vectors_ && b < 3; b++) {
        const T second = T(4.0) * (x[b] * x[c]) * k[2] + (b == c ? T(2.0) * k[1] : T(0.0));
        g[c] += (factors[1 + b][0] - factors[0][1 + b]) * second;
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
  // g += factor times the gradient at y.
  EQUI_FUNCTION void add_softened(T factor, const Vector &y, Vector &g) const {
    const Vector slope = softened_gradient(y);
    for (int c = 0; c < 3; c++) g[c] += factor * slope[c];
  }
  EQUI_FUNCTION Vector displaced_gradient(const Vector &x, const Matrix &factors) const {
    Vector g{T(0.0), T(0.0), T(0.0)};
    if (!has_vectors_) {
      add_softened(factors[0][0], x, g);
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
          add_softened(both, displaced(x, a, b), g);
      }
      add_softened(of_probe, displaced(x, a, 0), g);
      add_softened(of_source, displaced(x, 0, a), g);
    }
    add_softened(at_atoms, x, g);
    return g;
  }

  int is_exact_, has_vectors_;    // no bool: all bytes of what devices get are written
  double total_width_, offset_, softening_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The interaction of two multipoles with Gaussian widths at a distance, without periodic images.
#ifndef EQUI_GAUSSIAN_MULTIPOLES_H
#define EQUI_GAUSSIAN_MULTIPOLES_H

#include "src/functions/multipole_function.h"
#include "src/numbers/dual.h"

#include <array>

namespace equi {

// The integrals of t^(2n) exp(-y t^2) over t from 0 to 1, for n = 0 .. 4. Those of larger n are minus the derivatives
// by y. erf(sqrt y)/sqrt y is 2/sqrt(pi) times the first one.
using BoysFunctions = std::array<double, 5>;
BoysFunctions boys_functions(double y);

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
  using Vector = std::array<T, 3>;
  using Matrix = std::array<std::array<T, 4>, 4>;    // [probe][source]

  // W, h and softening in Angstrom. has_vectors: whether sources have dipoles or probes have gradients; otherwise only
  // the first number of the matrix is computed.
  GaussianPair(OpenSum sum, double total_width, double offset, double softening, bool has_vectors)
      : is_exact_(sum == OpenSum::exact),
        has_vectors_(has_vectors),
        total_width_(total_width),
        offset_(offset),
        softening_(softening) {}

  // The interaction of each number of the probe with each number of the source.
  Matrix matrix(const Vector &x) const;
  // The derivative by x of the sum of all numbers of the matrix times those of `factors`.
  Vector gradient(const Vector &x, const Matrix &factors) const;

 private:
  using Derivatives = std::array<T, 4>;    // by the square of the distance, from the 0th to the third
  Derivatives derivatives(T square) const;
  T softened(const Vector &x) const;
  Vector softened_gradient(const Vector &x) const;
  Vector displaced(const Vector &x, int probe, int source) const;

  bool is_exact_, has_vectors_;
  double total_width_, offset_, softening_;
};

}    // namespace equi

#endif

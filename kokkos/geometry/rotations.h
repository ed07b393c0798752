// SPDX-License-Identifier: MIT
// Rotations into the frame of an edge, in the conventions of irreps.h: the y axis of the frame is the edge's direction
// n, and D_l Y_l(p) = Y_l(R p) for the rotation R that turns n to (0, 1, 0). Which of these R is taken depends on n
// alone.
#ifndef EQUI_ROTATIONS_H
#define EQUI_ROTATIONS_H

#include "kokkos/host_kernels/so2_kernels.h"
#include "src/numbers/dual.h"

#include <cmath>
#include <vector>

namespace equi {

// Parts of axes are taken for equal up to this.
constexpr double SAME_PART = 1e-3;

// R, row by row, of a unit vector n. Discontinuous in n, where another axis is the one that n has least of. D: double
// or a dual of it.
template <class D>
EQUI_FUNCTION void edge_frame(const D n[3], D r[9]) {
  using std::sqrt;
  // The axis that n has least of, so that its part across n is far from 0. Of those that n has almost as little of it
  // is the first: in crystals they are equal but for rounding.
  const auto part = [&](int k) { return std::fabs(value_of(n[k])); };
  double least = part(0);
  for (int k = 1; k < 3; k++) least = part(k) < least ? part(k) : least;
  int axis = 0;
  while (axis < 2 && !(part(axis) <= least + SAME_PART)) axis++;
  D square = 0.0;
  for (int k = 0; k < 3; k++) {
    r[k] = D(k == axis ? 1.0 : 0.0) - n[axis] * n[k];
    square += r[k] * r[k];
  }
  const D inverse = D(1.0) / sqrt(square);
  for (int k = 0; k < 3; k++) {
    r[k] = inverse * r[k];
    r[3 + k] = n[k];
  }
  for (int k = 0; k < 3; k++) {    // z = x * y
    const int a = (k + 1) % 3, b = (k + 2) % 3;
    r[6 + k] = r[a] * n[b] - r[b] * n[a];
  }
}

// Component m of order l: the sum of value * (component a of order 1) * (component b of order l - 1). The squares of
// these values sum up to 1.
struct RotationTerm {
  int a, b;
  double value;
};

// Rotations of all orders from that of order 1, as plain data for hosts and devices.
struct RotationRecursion {
  int lmax;
  const int *begin;    // [(lmax + 1)^2 + 1] the terms of component m of order l, number l^2 + l + m
  const RotationTerm *terms;

  // As Rotations::evaluate.
  template <class D>
  EQUI_FUNCTION void evaluate(const D r[9], D *d) const {
    d[0] = 1.0;
    for (int k = 0; lmax > 0 && k < 9; k++) d[1 + k] = r[k];
    D half[3 * (2 * SO2_LMAX - 1)];    // one side of D_1 x D_(l-1) coupled to a component of l
    for (int l = 2; l <= lmax; l++) {
      const D *const before = d + rotations_size(l - 2);
      D *const now = d + rotations_size(l - 1);
      const int dim = 2 * l + 1, smaller = 2 * l - 1;
      const int *const of_component = begin + l * l;
      for (int m = 0; m < dim; m++) {
        for (int k = 0; k < 3 * smaller; k++) half[k] = D(0.0);
        for (int t = of_component[m]; t < of_component[m + 1]; t++)
          for (int a = 0; a < 3; a++)
            for (int b = 0; b < smaller; b++)
              half[a * smaller + b] += terms[t].value * r[3 * terms[t].a + a] * before[terms[t].b * smaller + b];
        for (int n = 0; n < dim; n++) {
          D sum = 0.0;
          for (int t = of_component[n]; t < of_component[n + 1]; t++)
            sum += terms[t].value * half[terms[t].a * smaller + terms[t].b];
          now[m * dim + n] = sum;
        }
      }
    }
  }
};

class Rotations {
 public:
  // lmax: up to SO2_LMAX, else std::invalid_argument is thrown.
  explicit Rotations(int lmax);

  int lmax() const { return lmax_; }
  int size() const { return rotations_size(lmax_); }

  // D: double or a dual of it.
  template <class D>
  static void frame(const D n[3], D r[9]) {
    edge_frame(n, r);
  }
  // d [size()]: D_0, D_1 = R, ..., each row by row, of any rotation R. They come by recursion over l from the coupling
  // of l - 1 and 1 to l.
  template <class D>
  void evaluate(const D r[9], D *d) const {
    RotationRecursion{lmax_, begin_.data(), terms_.data()}.evaluate(r, d);
  }
  // The arrays of a RotationRecursion.
  const std::vector<int> &begin() const { return begin_; }
  const std::vector<RotationTerm> &terms() const { return terms_; }

  // d D_l / dt = J_k D_l for R = exp(t K_k) R_0, K_k being the rotation about axis k = x, y, z: the nonzero J_k[m, n]
  // with |m| <= mmax of all orders up to lmax.
  template <class R>
  static std::vector<So2Generator<R>> generators(int lmax, int mmax);

 private:
  int lmax_;
  std::vector<int> begin_;
  std::vector<RotationTerm> terms_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Rotations into the frame of an edge, in the conventions of irreps.h. The y axis of the frame is the edge's
// direction n, and D_l Y_l(p) = Y_l(R p) for the rotation R that turns n to (0, 1, 0). The choice among these R
// depends only on n.
#ifndef EQUI_ROTATIONS_H
#define EQUI_ROTATIONS_H

#include "kokkos/host_kernels/so2_kernels.h"
#include "src/numbers/dual.h"

#include <cmath>
#include <vector>

namespace equi {

// Components along axes count as equal if their difference is below this.
constexpr double SAME_PART = 1e-3;

// R, row by row, for a unit vector n. It is discontinuous in n where the axis with the smallest component changes.
// D: double or a dual of it.
template <class D>
EQUI_FUNCTION void edge_frame(const D n[3], D r[9]) {
  using std::sqrt;
  // The axis along which n has the smallest component, so that its part perpendicular to n is far from 0. Among axes
  // with almost equal components it is the first one: in crystals they are equal except for rounding.
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

// Component m of order l: the sum of value * (component a of order 1) * (component b of order l - 1). The sum of the
// squares of these values is 1.
struct RotationTerm {
  int a, b;
  double value;
};

// Computes rotations of all orders from that of order 1; plain data for hosts and devices.
struct RotationRecursion {
  int lmax;
  const int *begin;    // [(lmax + 1)^2 + 1] the terms of component m of order l, at number l^2 + l + m
  const RotationTerm *terms;

  // Like Rotations::evaluate.
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
  // lmax: up to SO2_LMAX, else throws std::invalid_argument.
  explicit Rotations(int lmax);

  int lmax() const { return lmax_; }
  int size() const { return rotations_size(lmax_); }

  // D: double or a dual of it.
  template <class D>
  static void frame(const D n[3], D r[9]) {
    edge_frame(n, r);
  }
  // Computes d [size()]: D_0, D_1 = R, ..., each row by row, for any rotation R. A recursion over l uses the
  // coupling of l - 1 and 1 to l.
  template <class D>
  void evaluate(const D r[9], D *d) const {
    RotationRecursion{lmax_, begin_.data(), terms_.data()}.evaluate(r, d);
  }
  // The arrays of a RotationRecursion.
  const std::vector<int> &begin() const { return begin_; }
  const std::vector<RotationTerm> &terms() const { return terms_; }

  // d D_l / dt = J_k D_l for R = exp(t K_k) R_0; K_k is the rotation about axis k = x, y, z. Returns the nonzero
  // J_k[m, n] with |m| <= mmax, of all orders up to lmax.
  template <class R>
  static std::vector<So2Generator<R>> generators(int lmax, int mmax);

 private:
  int lmax_;
  std::vector<int> begin_;
  std::vector<RotationTerm> terms_;
};

}    // namespace equi

#endif

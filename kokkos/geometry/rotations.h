// SPDX-License-Identifier: MIT
// Rotations into the frame of an edge, in the conventions of irreps.h: the y axis of the frame is the edge's direction
// n, and D_l Y_l(p) = Y_l(R p) for the rotation R that turns n to (0, 1, 0). Which of these R is taken depends on n
// alone.
#ifndef EQUI_ROTATIONS_H
#define EQUI_ROTATIONS_H

#include "kokkos/host_kernels/so2_kernels.h"

#include <vector>

namespace equi {

class Rotations {
 public:
  // lmax: up to SO2_LMAX, else std::invalid_argument is thrown.
  explicit Rotations(int lmax);

  int lmax() const { return lmax_; }
  int size() const { return rotations_size(lmax_); }

  // D: double or a dual of it.
  //
  // R, row by row, of a unit vector. Discontinuous in n, where another axis is the one that n has least of.
  template <class D>
  static void frame(const D n[3], D r[9]);
  // d [size()]: D_0, D_1 = R, ..., each row by row, of any rotation R. They come by recursion over l from the coupling
  // of l - 1 and 1 to l.
  template <class D>
  void evaluate(const D r[9], D *d) const;

  // d D_l / dt = J_k D_l for R = exp(t K_k) R_0, K_k being the rotation about axis k = x, y, z: the nonzero J_k[m, n]
  // with |m| <= mmax of all orders up to lmax.
  template <class R>
  static std::vector<So2Generator<R>> generators(int lmax, int mmax);

 private:
  // Component m of order l: the sum of value * (component a of order 1) * (component b of order l - 1). The squares of
  // these values sum up to 1.
  struct Term {
    int a, b;
    double value;
  };
  int lmax_;
  std::vector<std::vector<std::vector<Term>>> terms_;    // of [l][l + m]
};

}    // namespace equi

#endif

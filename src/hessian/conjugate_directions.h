// SPDX-License-Identifier: MIT
// Solves A x = b for several right sides at once, with a symmetric matrix that is known by its products with vectors,
// which are split among ranks.
#ifndef EQUI_CONJUGATE_DIRECTIONS_H
#define EQUI_CONJUGATE_DIRECTIONS_H

#include "src/hessian/symmetric_operator.h"

#include <vector>

namespace equi {

struct LinearSolutions {
  std::vector<std::vector<double>> x;    // this rank's parts, one for each right side
  double residual = 0.0;                 // the largest length of b - A x
  int products = 0;
  // False: the residual stays above what is allowed after max_products, or because A is not positive along a direction
  // that was met.
  bool converged = false, positive = true;
};

// right_sides: this rank's parts; they lie in the space where A is positive. Each product makes a direction, conjugate
// to all before it, from the largest residual, and improves the solutions for all right sides. The errors of the
// numbers b^T x fall with the square of the residual. residual: what is allowed.
LinearSolutions solve_by_conjugate_directions(const SymmetricOperator &a, std::vector<std::vector<double>> right_sides,
                                              double residual, int max_products);

}    // namespace equi

#endif

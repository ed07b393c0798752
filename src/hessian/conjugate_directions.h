// SPDX-License-Identifier: MIT
// Solves A x = b for several right sides at once. The symmetric matrix is known by its products with vectors, which are
// split among ranks.
#ifndef EQUI_CONJUGATE_DIRECTIONS_H
#define EQUI_CONJUGATE_DIRECTIONS_H

#include "src/hessian/symmetric_operator.h"

#include <vector>

namespace equi {

struct LinearSolutions {
  std::vector<std::vector<double>> x;    // this rank's parts, one per right side
  double residual = 0.0;                 // the largest length of b - A x
  int products = 0;
  // `converged` is false if the residual stays above the allowed one after max_products, or if A is not positive along
  // some direction. `positive` is false in the second case.
  bool converged = false, positive = true;
};

// right_sides: this rank's parts, in the space where A is positive. Each product makes a direction from the largest
// residual, conjugate to all previous ones, and improves the solutions for all right sides. The errors of the numbers
// b^T x decrease with the square of the residual. residual: the largest one allowed.
LinearSolutions solve_by_conjugate_directions(const SymmetricOperator &a, std::vector<std::vector<double>> right_sides,
                                              double residual, int max_products);

}    // namespace equi

#endif

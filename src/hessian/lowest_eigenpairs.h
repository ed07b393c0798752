// SPDX-License-Identifier: MIT
// Computes the lowest eigenvalues of a symmetric matrix that is known by its products with vectors, which are split
// among ranks.
#ifndef EQUI_LOWEST_EIGENPAIRS_H
#define EQUI_LOWEST_EIGENPAIRS_H

#include "src/hessian/symmetric_operator.h"

#include <functional>
#include <vector>

namespace equi {

struct EigenOptions {
  int count = 1;
  // Number of eigenvectors among the start vectors. Their convergence proves nothing about others, which may be lower.
  // So this number of additional pairs must converge.
  int num_known = 0;
  double tolerance = 1e-8;    // bound of the residual |A x - value x|, relative to the largest eigenvalue met
  int max_products = 1000;
};

struct Eigenpairs {
  std::vector<double> values;                  // ascending
  std::vector<std::vector<double>> vectors;    // this rank's parts, of length one
  std::vector<double> residuals;               // relative, like the tolerance
  int products = 0;
  bool converged = false;
};

// start: this rank's parts of at least one vector. progress(products, number converged) after each round.
Eigenpairs lowest_eigenpairs(const SymmetricOperator &a, std::vector<std::vector<double>> start,
                             const EigenOptions &options, const std::function<void(int, int)> &progress);

}    // namespace equi

#endif

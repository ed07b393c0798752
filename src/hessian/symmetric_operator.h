// SPDX-License-Identifier: MIT
// The interface between the solvers of this folder and a matrix that is split among ranks.
#ifndef EQUI_SYMMETRIC_OPERATOR_H
#define EQUI_SYMMETRIC_OPERATOR_H

#include <functional>
#include <vector>

namespace equi {

// A symmetric matrix that is known by its products with vectors, which are split among ranks.
struct SymmetricOperator {
  // w = A v for this rank's parts of the vectors; collective.
  std::function<void(const std::vector<double> &v, std::vector<double> &w)> multiply;
  // Replaces numbers by their sums over ranks; collective.
  std::function<void(std::vector<double> &numbers)> sum_over_ranks;
};

}    // namespace equi

#endif

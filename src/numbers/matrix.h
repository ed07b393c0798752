// SPDX-License-Identifier: MIT
#ifndef EQUI_MATRIX_H
#define EQUI_MATRIX_H

#include <cstddef>
#include <vector>

namespace equi {

// Row-major matrix in float64.
struct Matrix {
  int rows = 0, cols = 0;
  std::vector<double> data;
  double operator()(int i, int j) const { return data[static_cast<size_t>(i) * cols + j]; }
};

}    // namespace equi

#endif

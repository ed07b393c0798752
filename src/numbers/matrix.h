// SPDX-License-Identifier: MIT
// A dense matrix for constants of models, and its products.
#ifndef EQUI_MATRIX_H
#define EQUI_MATRIX_H

#include <cstddef>
#include <tuple>
#include <vector>

namespace equi {

// Row-major matrix in float64.
struct Matrix {
  int rows = 0, cols = 0;
  std::vector<double> data;
  auto members() const { return std::tie(data); }    // owned_memory.h
  double operator()(int i, int j) const { return data[static_cast<size_t>(i) * cols + j]; }
};

// sign * m^T
inline Matrix transpose(const Matrix &m, double sign = 1.0) {
  Matrix t{m.cols, m.rows, std::vector<double>(m.data.size())};
  for (int i = 0; i < m.rows; i++)
    for (int j = 0; j < m.cols; j++) t.data[static_cast<size_t>(j) * m.rows + i] = sign * m(i, j);
  return t;
}

// a b
inline Matrix multiply(const Matrix &a, const Matrix &b) {
  Matrix c{a.rows, b.cols, std::vector<double>(static_cast<size_t>(a.rows) * b.cols)};
  for (int i = 0; i < a.rows; i++)
    for (int k = 0; k < a.cols; k++)
      for (int j = 0; j < b.cols; j++) c.data[static_cast<size_t>(i) * b.cols + j] += a(i, k) * b(k, j);
  return c;
}

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Rows of features for tests of layers that act on each atom alone.
#ifndef EQUI_TEST_NODE_ROWS_H
#define EQUI_TEST_NODE_ROWS_H

#include "kokkos/layers/gate/host_gate.h"
#include "kokkos/layers/linear/host_linear.h"
#include "unittest/support/packed_feature.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace equi {
namespace testing {

// Dot products of some tens of numbers of order one.
template <class T>
constexpr double ROUNDING = sizeof(T) == 4 ? 1e-5 : 1e-13;

class Random {
 public:
  explicit Random(unsigned seed) : random_(seed) {}
  double operator()() { return normal_(random_); }
  Rows rows(int n, int dim) {
    Rows r(n, std::vector<double>(dim));
    for (auto &row : r)
      for (double &v : row) v = (*this)();
    return r;
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
};

// Rows first .. first + count - 1 of a feature in separate memory, between NaN rows.
template <class T>
class PackedRows {
 public:
  PackedRows(const Irreps &irreps, const Rows &x) : irreps_(irreps), layout_(irreps) {
    Rows with_margin(FIRST, std::vector<double>(irreps.dim(), NAN));
    with_margin.insert(with_margin.end(), x.begin(), x.end());
    with_margin.emplace_back(irreps.dim(), NAN);
    num_rows_ = with_margin.size();
    data_ = pack<T>(irreps, with_margin);
  }
  PackedRows(const Irreps &irreps, size_t rows) : irreps_(irreps), layout_(irreps) {
    num_rows_ = rows + FIRST + 1;
    data_ = nan_vector<T>(num_rows_ * layout_.row_size());
  }
  const FeatureLayout &layout() const { return layout_; }
  FeatureRows<T> rows() { return {data_.data(), static_cast<int64_t>(num_rows_), FIRST}; }
  Rows values() const {
    const Rows all = unpack<T>(irreps_, data_, num_rows_);
    return Rows(all.begin() + FIRST, all.end() - 1);
  }
  // Sum of magnitudes in the padding of these rows.
  double padding() const {
    double sum = 0.0;
    for (size_t r = FIRST; r + 1 < num_rows_; ++r)
      for (int b = 0; b < irreps_.size(); ++b)
        for (int u = irreps_[b].mul; u < padded(irreps_[b].mul); ++u)
          for (int m = 0; m < irreps_[b].irrep.dim(); ++m)
            sum += std::fabs(data_[packed_index(layout_, num_rows_, r, b, u, m)]);
    return sum;
  }

 private:
  static constexpr int FIRST = 2;
  Irreps irreps_;
  FeatureLayout layout_;
  size_t num_rows_;
  AlignedVector<T> data_;
};

inline void expect_near(const Rows &found, const Rows &expected, double tolerance, const std::string &what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t r = 0; r < found.size(); ++r)
    for (size_t k = 0; k < found[r].size(); ++k)
      ASSERT_NEAR(found[r][k], expected[r][k], tolerance) << what << ", row " << r << ", number " << k;
}

}    // namespace testing
}    // namespace equi

#endif

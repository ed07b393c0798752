// SPDX-License-Identifier: MIT
// Windows of the distance: their functions compared with those of the set, and their small number.
#include "kokkos/geometry/radial_windows.h"
#include "unittest/support/wide_radial_function.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace equi;
using equi::testing::wide_radial_function;

namespace {

constexpr int NUM_SPECIES = 2;

RadialSet tables(int num_species) {
  EvaluatorOptions options;
  options.precision = Precision::double_;
  return {wide_radial_function(num_species, true, true), num_species, options};
}

// The rest of v after its projection onto the rows of P, which are orthonormal or 0.
std::vector<double> left_of(const Matrix &p, std::vector<double> v) {
  const std::vector<double> before = v;
  for (int i = 0; i < p.rows; ++i) {
    double along = 0.0;
    for (int k = 0; k < p.cols; ++k) along += p(i, k) * before[k];
    for (int k = 0; k < p.cols; ++k) v[k] -= along * p(i, k);
  }
  return v;
}

double length(const std::vector<double> &v) {
  double sum = 0.0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

TEST(RadialWindows, leave_no_more_than_the_tolerance) {
  const RadialSet set = tables(NUM_SPECIES);
  const int n = set.num_outputs();
  for (const int num_windows : {1, 3, 8})
    for (const double tolerance : {1e-3, 1e-7}) {
      const RadialWindows windows = RadialWindows::divide(set, num_windows, tolerance);
      ASSERT_EQ(static_cast<int>(windows.functions.size()), num_windows);
      double largest[2] = {}, left[2] = {};
      int first_bin = 0;
      for (int t = 0; t < set.num_functions(); ++t) {
        const RadialTable &table = set.table(t);
        for (double r = 1.03; r < 4.4; r += 0.0317) {
          const int window = windows.of_bin[first_bin + table.bin_of(r).bin];
          EXPECT_NEAR(window + 0.5, r / table.pieces.back().r_end * num_windows, 0.5 + 0.1 * num_windows);
          std::vector<double> f(2 * n);
          set.function(t).derivatives(r, 1, 1, f.data());
          for (int d = 0; d < 2; ++d) {
            const std::vector<double> v(f.begin() + d * n, f.begin() + (d + 1) * n);
            largest[d] = std::max(largest[d], length(v));
            left[d] = std::max(left[d], length(left_of(windows.functions[window], v)));
          }
        }
        first_bin += table.num_bins();
      }
      ASSERT_EQ(windows.of_bin.size(), static_cast<size_t>(first_bin));
      // The largest errors of bins may occur between the tested distances.
      for (int d = 0; d < 2; ++d) {
        EXPECT_LT(left[d], 1.1 * tolerance * largest[d]) << num_windows << " windows";
        EXPECT_GT(largest[d], 0.0);
      }
    }
}

TEST(RadialWindows, need_fewer_functions_the_more_they_are) {
  const RadialSet set = tables(1);
  int before = set.num_outputs() + 1;
  for (const int num_windows : {1, 4, 16}) {
    const RadialWindows windows = RadialWindows::divide(set, num_windows, 1e-7);
    EXPECT_LT(windows.functions.front().rows, before);
    before = windows.functions.front().rows;
    for (const Matrix &p : windows.functions)
      for (int i = 0; i < p.rows; ++i)
        for (int j = 0; j < p.rows; ++j) {
          double product = 0.0;
          for (int k = 0; k < p.cols; ++k) product += p(i, k) * p(j, k);
          EXPECT_TRUE(std::fabs(product - (i == j)) < 1e-12 || (i == j && product == 0.0)) << i << " " << j;
        }
  }
}

TEST(RadialWindows, of_functions_that_are_zero_have_none) {
  RadialFunction zero = wide_radial_function(1, true, false);
  std::fill(zero.network.weights.back().data.begin(), zero.network.weights.back().data.end(), 0.0);
  EvaluatorOptions options;
  options.precision = Precision::double_;
  const RadialWindows windows = RadialWindows::divide(RadialSet(zero, 1, options), 4, 1e-7);
  for (const Matrix &p : windows.functions) EXPECT_EQ(p.rows, 0);
}

}    // namespace

// SPDX-License-Identifier: MIT
// Sums over rows on a device: of several terms in the same launches, from none to many rows.
#include "kokkos/runtime/device_sum.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace equi;

// Whole numbers, whose sums are exact.
double number(int64_t row, int column, int term) {
  return static_cast<double>((row * 7 + column * 3 + term) % 11 - 4);
}

TEST(DeviceSum, is_that_of_each_term) {
  const DeviceExec exec;
  DeviceSum sum;
  const int widths[] = {1, 9, 3, 2};
  const int64_t cases[][4] = {{1, 1, 1, 1},     {0, 5, 0, 31},       {32, 33, 1024, 1025}, {40000, 3, 33000, 0},
                              {0, 0, 0, 70000}, {1000, 1000, 64, 2}, {2, 40000, 2, 1024}};
  for (const auto &rows : cases)
    for (int num_terms = 1; num_terms <= 4; ++num_terms) {
      DeviceBuffer<double> numbers[4], total[4];
      std::vector<DeviceSum::Term> terms;
      for (int t = 0; t < num_terms; ++t) {
        std::vector<double> values;
        for (int64_t r = 0; r < rows[t]; ++r)
          for (int c = 0; c < widths[t]; ++c) values.push_back(number(r, c, t));
        assign(exec, numbers[t], values);
        device_fill(exec, total[t].reserve(widths[t]), widths[t], 1e30);
        terms.push_back({numbers[t].data(), rows[t], widths[t], total[t].data()});
      }
      sum.add_up(exec, terms);
      for (int t = 0; t < num_terms; ++t) {
        std::vector<double> found(widths[t]);
        copy_to_host(exec, found.data(), total[t].data(), widths[t]);
        for (int c = 0; c < widths[t]; ++c) {
          double expected = 0.0;
          for (int64_t r = 0; r < rows[t]; ++r) expected += number(r, c, t);
          EXPECT_EQ(found[c], expected) << rows[t] << " rows of term " << t << " of " << num_terms << ", column " << c;
        }
      }
    }
}

}    // namespace

// SPDX-License-Identifier: MIT
// Rows and columns by 32-bit and by 64-bit division.
#include "kokkos/kernel_interface/place_in_rows.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using namespace equi;

TEST(PlaceInRows, is_quotient_and_rest_below_and_above_32_bits) {
  constexpr int64_t LIMIT = INT64_C(1) << 32;
  for (const int width : {1, 5, 13, 33, 480, INT32_MAX})
    for (const int64_t n : {INT64_C(0), INT64_C(1), INT64_C(479), INT64_C(480), LIMIT / 2, LIMIT - 1, LIMIT, LIMIT + 1,
                            7 * LIMIT + 3, INT64_MAX}) {
      const PlaceInRows place = place_in_rows(n, width);
      EXPECT_EQ(place.row, n / width) << n << " by " << width;
      EXPECT_EQ(place.column, n % width) << n << " by " << width;
    }
}

}    // namespace

// SPDX-License-Identifier: MIT
// Row and column of a number in rows of equal width. A GPU divides 32-bit numbers several times faster than 64-bit
// ones, and kernels that do little more than copy wait for this division.
#ifndef EQUI_PLACE_IN_ROWS_H
#define EQUI_PLACE_IN_ROWS_H

#include "src/numbers/host_device.h"

#include <cstdint>

namespace equi {

struct PlaceInRows {
  int64_t row;
  int column;
};

EQUI_FUNCTION PlaceInRows place_in_rows(int64_t n, int width) {
  if (n <= INT64_C(0xffffffff)) {
    const uint32_t small = static_cast<uint32_t>(n), row = small / static_cast<uint32_t>(width);
    return {row, static_cast<int>(small - row * static_cast<uint32_t>(width))};
  }
  return {n / width, static_cast<int>(n % width)};
}

}    // namespace equi

#endif

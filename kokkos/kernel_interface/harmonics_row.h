// SPDX-License-Identifier: MIT
// The layout of the harmonics of edges on a device. They are stored in rows in which the orders from 1 on begin at a
// multiple of four numbers, so kernels load four numbers at a time. Pointers refer to the harmonic of order 0 of
// edge 0.
#ifndef EQUI_HARMONICS_ROW_H
#define EQUI_HARMONICS_ROW_H

#include "src/numbers/host_device.h"

#include <cstdint>

namespace equi {

constexpr int NUMBERS_BEFORE_HARMONICS = 3;    // unused, in each row

// Numbers in a row with this many harmonics.
EQUI_FUNCTION constexpr int harmonics_row(int num_y) {
  return (NUMBERS_BEFORE_HARMONICS + num_y + 3) / 4 * 4;
}

// Reserves memory for this many rows in a buffer.
template <class Buffer>
auto reserve_harmonics(Buffer &buffer, int64_t rows, int num_y) {
  return buffer.reserve(rows * harmonics_row(num_y)) + NUMBERS_BEFORE_HARMONICS;
}

}    // namespace equi

#endif

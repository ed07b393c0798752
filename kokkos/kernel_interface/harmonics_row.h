// SPDX-License-Identifier: MIT
// How a device keeps the harmonics of edges: in rows in which those from order 1 on begin at a multiple of four
// numbers, so that kernels load them four at a time. Pointers are to the harmonic of order 0 of edge 0.
#ifndef EQUI_HARMONICS_ROW_H
#define EQUI_HARMONICS_ROW_H

#include "src/numbers/host_device.h"

#include <cstdint>

namespace equi {

constexpr int NUMBERS_BEFORE_HARMONICS = 3;    // unused ones, in each row

// Numbers of a row with so many harmonics.
EQUI_FUNCTION constexpr int harmonics_row(int num_y) {
  return (NUMBERS_BEFORE_HARMONICS + num_y + 3) / 4 * 4;
}

// Memory for so many rows in a buffer.
template <class Buffer>
auto reserve_harmonics(Buffer &buffer, int64_t rows, int num_y) {
  return buffer.reserve(rows * harmonics_row(num_y)) + NUMBERS_BEFORE_HARMONICS;
}

}    // namespace equi

#endif

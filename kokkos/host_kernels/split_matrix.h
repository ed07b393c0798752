// SPDX-License-Identifier: MIT
// Constant matrices of float32 for matrix units, which multiply bfloat16: each number is the sum of three bfloat16
// numbers. Plain data, without Kokkos and standard containers (host_kernels.h).
//
// A float32 has 24 bits, and a bfloat16 has 8 of them. x = x_0 + x_1 + x_2 is exact: x_0 is x rounded, x_1 is the rest
// rounded, and the last rest fits. Two numbers have nine products of parts, and the six with i + j <= 2 matter; the
// others are at most 2^-24 of the product.
#ifndef EQUI_SPLIT_MATRIX_H
#define EQUI_SPLIT_MATRIX_H

#include <cstdint>

namespace equi {

// A bfloat16: the upper half of a float32.
struct BFloat16 {
  uint16_t bits;
};

constexpr int SPLIT_PARTS = 3;
// A tile is a part of 32 rows and 16 columns of a matrix: 16 rows of 64 bytes, row k with the rows 2 k and 2 k + 1 of
// the matrix in pairs, as the unit reads them.
constexpr int TILE_DEPTH = 32, TILE_COLUMNS = 16, TILE_NUMBERS = TILE_DEPTH * TILE_COLUMNS;
// Columns that a product computes at a time.
constexpr int SPLIT_PANEL = 2 * TILE_COLUMNS;

constexpr int split_tiles(int in) {
  return (in + TILE_DEPTH - 1) / TILE_DEPTH;
}
// Tiles are ordered by panels of SPLIT_PANEL columns, of which the last may have one tile; then by depth, part and
// column. This is the place of the number in row i and column j, in a matrix with `in` rows and `out` columns.
constexpr int64_t split_place(int in, int out, int part, int i, int j) {
  const int panel = j / SPLIT_PANEL, left = out - panel * SPLIT_PANEL, columns = left > TILE_COLUMNS ? 2 : 1;
  const int64_t before = int64_t(panel) * 2 * SPLIT_PARTS * split_tiles(in);
  const int64_t tile =
      before + (int64_t(i / TILE_DEPTH) * SPLIT_PARTS + part) * columns + j % SPLIT_PANEL / TILE_COLUMNS;
  return tile * TILE_NUMBERS + i % TILE_DEPTH / 2 * 2 * TILE_COLUMNS + 2 * (j % TILE_COLUMNS) + i % 2;
}
constexpr int64_t split_size(int in, int out) {
  return int64_t((out + TILE_COLUMNS - 1) / TILE_COLUMNS) * SPLIT_PARTS * split_tiles(in) * TILE_NUMBERS;
}

inline float float_of(BFloat16 x) {
  const uint32_t bits = uint32_t(x.bits) << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
// Rounds to nearest, ties to even. Not a number stays none.
inline BFloat16 bfloat16_of(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  if (x != x) return {uint16_t(bits >> 16 | 0x40)};
  return {uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
inline void split(float x, BFloat16 parts[SPLIT_PARTS]) {
  for (int k = 0; k < SPLIT_PARTS; k++) {
    parts[k] = bfloat16_of(x);
    x -= float_of(parts[k]);
  }
}

}    // namespace equi

#endif

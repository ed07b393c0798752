// SPDX-License-Identifier: MIT
// Products with matrices in parts (split_matrix.h) by a unit that multiplies tiles. Tiles: the unit's eight tiles of 16
// rows of 64 bytes, with
//   begin(), end()             around all other calls of a thread
//   zero<T>(), load<T>(p, s), store<T>(p, s)    a tile whose rows are s bytes apart in memory
//   multiply<C, A, B>()        C[16][16] += A[16][32] B[32][16], with C in float32, and A and B in bfloat16
#ifndef EQUI_HOST_SPLIT_IMPL_H
#define EQUI_HOST_SPLIT_IMPL_H

#include "kokkos/host_kernels/host_kernels.h"

namespace equi {

template <class Tiles>
class SplitProducts {
 public:
  static void product(const ProductCall<float, BFloat16> &p) {
    Tiles::begin();
    alignas(64) BFloat16 a[size_of_rows(MOST_TILES)];
    alignas(64) float sum[ROWS * SPLIT_PANEL];
    const int tiles = split_tiles(p.in);
    for (int64_t first = 0; first < p.rows; first += ROWS) {
      const int rows = rows_at(first, p.rows);
      for (int tile = 0; tile < tiles; tile += MOST_TILES) {
        const int depth = least(MOST_TILES, tiles - tile);
        split_rows(rows, p.a + first * p.a_stride, p.a_stride, tile, depth, p.in, a);
        const bool begins = tile == 0 && !p.add;
        for (int column = 0; column < p.out; column += SPLIT_PANEL) {
          const int columns = least(SPLIT_PANEL, p.out - column);
          multiply(rows, columns, depth, a, panel(p.b, p.in, column, columns, tile), sum);
          for (int i = 0; i < rows; i++) {
            float *const c = p.c + (first + i) * p.c_stride + column;
            const float *const s = sum + i * SPLIT_PANEL;
            if (!begins)
              for (int j = 0; j < columns; j++) c[j] += s[j];
            else if (p.bias)
              for (int j = 0; j < columns; j++) c[j] = s[j] + p.bias[column + j];
            else
              for (int j = 0; j < columns; j++) c[j] = s[j];
          }
        }
      }
    }
    Tiles::end();
  }

  static void so2_product(const So2ProductCall<float, BFloat16> &p) {
    if (!p.has_minus) return product({p.rows, p.in, p.out, p.weights[0], p.u, p.v, p.in, p.out, false, p.bias});
    Tiles::begin();
    alignas(64) BFloat16 a[3][size_of_rows(MOST_TILES / 3)];
    alignas(64) float sum[3][ROWS * SPLIT_PANEL];
    const int tiles = split_tiles(p.in), stride = 2 * p.in;
    for (int64_t first = 0; first < p.rows; first += ROWS) {
      const int rows = rows_at(first, p.rows);
      const float *const u = p.u + first * stride;
      for (int i = 0; i < rows; i++)
        for (int k = 0; k < p.in; k++)
          p.sums[int64_t(i) * p.in + k] = u[int64_t(i) * stride + k] + u[int64_t(i) * stride + p.in + k];
      for (int tile = 0; tile < tiles; tile += MOST_TILES / 3) {
        const int depth = least(MOST_TILES / 3, tiles - tile);
        split_rows(rows, u, stride, tile, depth, p.in, a[0]);
        split_rows(rows, u + p.in, stride, tile, depth, p.in, a[1]);
        split_rows(rows, p.sums, p.in, tile, depth, p.in, a[2]);
        for (int column = 0; column < p.out; column += SPLIT_PANEL) {
          const int columns = least(SPLIT_PANEL, p.out - column);
          for (int k = 0; k < 3; k++)
            multiply(rows, columns, depth, a[k], panel(p.weights[k], p.in, column, columns, tile), sum[k]);
          for (int i = 0; i < rows; i++) {
            float *const plus = p.v + (first + i) * 2 * p.out + column, *const minus = plus + p.out;
            const float *const same = sum[0] + i * SPLIT_PANEL, *const other = sum[1] + i * SPLIT_PANEL,
                               *const both = sum[2] + i * SPLIT_PANEL;
            if (tile == 0)
              for (int j = 0; j < columns; j++) {
                plus[j] = same[j] - other[j];
                minus[j] = both[j] - same[j] - other[j];
              }
            else
              for (int j = 0; j < columns; j++) {
                plus[j] += same[j] - other[j];
                minus[j] += both[j] - same[j] - other[j];
              }
          }
        }
      }
    }
    Tiles::end();
  }

 private:
  static constexpr int TILE_ROWS = 16, ROWS = 2 * TILE_ROWS;
  // Tiles along the depth whose rows are split at a time. Their parts, 36 kB, stay in the first-level cache.
  static constexpr int MOST_TILES = 6;

  static constexpr int least(int a, int b) { return a < b ? a : b; }
  static constexpr int64_t size_of_rows(int depth) { return int64_t(depth) * SPLIT_PARTS * 2 * TILE_ROWS * TILE_DEPTH; }
  static int rows_at(int64_t first, int64_t all) { return all - first < ROWS ? static_cast<int>(all - first) : ROWS; }
  // The tiles of a panel, from one along the depth on.
  static const BFloat16 *panel(const BFloat16 *b, int in, int column, int columns, int tile) {
    return b + (int64_t(column / TILE_COLUMNS) * split_tiles(in) + int64_t(tile) * (columns > TILE_COLUMNS ? 2 : 1)) *
                   SPLIT_PARTS * TILE_NUMBERS;
  }

  // 16 numbers.
  typedef float Floats __attribute__((vector_size(64)));
  typedef uint32_t Words __attribute__((vector_size(64)));
  typedef uint16_t Halves __attribute__((vector_size(32)));

  // Splits the numbers of 16 columns; parts are `distance` apart.
  static void split_columns(const float *from, BFloat16 *to, int64_t distance) {
    Floats x;
    __builtin_memcpy(&x, from, sizeof x);
    for (int part = 0; part < SPLIT_PARTS; part++) {
      Words bits;
      __builtin_memcpy(&bits, &x, sizeof bits);
      const Words rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, is_number = (Words)(x == x);
      const Words upper = (rounded & is_number) | ((bits >> 16 | 0x40) & ~is_number);
      const Halves halves = __builtin_convertvector(upper, Halves);
      __builtin_memcpy(to + part * distance, &halves, sizeof halves);
      const Words wide = upper << 16;
      Floats rest;
      __builtin_memcpy(&rest, &wide, sizeof rest);
      x -= rest;
    }
  }

  // Splits these rows of a, from tile `first` along the depth on: to[depth][part][row][TILE_DEPTH], with zeros in
  // rows up to a whole tile and beyond column `in`.
  static void split_rows(int rows, const float *a, int64_t stride, int first, int depth, int in, BFloat16 *to) {
    const int all = rows > TILE_ROWS ? 2 * TILE_ROWS : TILE_ROWS;
    const int64_t part = int64_t(all) * TILE_DEPTH;
    alignas(64) float some[TILE_DEPTH];
    for (int tile = 0; tile < depth; tile++)
      for (int i = 0; i < all; i++) {
        const int begin = (first + tile) * TILE_DEPTH, left = i < rows ? in - begin : 0;
        const float *from = a + i * stride + begin;
        if (left < TILE_DEPTH) {
          for (int k = 0; k < TILE_DEPTH; k++) some[k] = k < left ? from[k] : 0.0f;
          from = some;
        }
        BFloat16 *const row = to + int64_t(tile) * SPLIT_PARTS * part + int64_t(i) * TILE_DEPTH;
        split_columns(from, row, part);
        split_columns(from + 16, row + 16, part);
      }
  }

  // Tiles 0 to 3 are sums, 4 and 5 rows of a, 6 and 7 columns of b.
  template <int ROW_TILES, int COLUMN_TILES>
  static void multiply_tiles() {
    Tiles::template multiply<0, 4, 6>();
    if constexpr (COLUMN_TILES > 1) Tiles::template multiply<1, 4, 7>();
    if constexpr (ROW_TILES > 1) Tiles::template multiply<2, 5, 6>();
    if constexpr (ROW_TILES > 1 && COLUMN_TILES > 1) Tiles::template multiply<3, 5, 7>();
  }

  // sum [ROWS][SPLIT_PANEL] = a b
  template <int ROW_TILES, int COLUMN_TILES>
  static void multiply(int depth, const BFloat16 *a, const BFloat16 *b, float *sum) {
    constexpr int ROW_BYTES = TILE_DEPTH * sizeof(BFloat16), SUM_BYTES = SPLIT_PANEL * sizeof(float),
                  A_PART = ROW_TILES * TILE_ROWS * TILE_DEPTH, B_PART = COLUMN_TILES * TILE_NUMBERS;
    Tiles::template zero<0>();
    if constexpr (COLUMN_TILES > 1) Tiles::template zero<1>();
    if constexpr (ROW_TILES > 1) Tiles::template zero<2>();
    if constexpr (ROW_TILES > 1 && COLUMN_TILES > 1) Tiles::template zero<3>();
    const auto load_a = [&](int part) {
      Tiles::template load<4>(a + part * A_PART, ROW_BYTES);
      if constexpr (ROW_TILES > 1) Tiles::template load<5>(a + part * A_PART + TILE_ROWS * TILE_DEPTH, ROW_BYTES);
    };
    const auto load_b = [&](int part) {
      Tiles::template load<6>(b + part * B_PART, ROW_BYTES);
      if constexpr (COLUMN_TILES > 1) Tiles::template load<7>(b + part * B_PART + TILE_NUMBERS, ROW_BYTES);
    };
    const auto add = [] { multiply_tiles<ROW_TILES, COLUMN_TILES>(); };
    for (int tile = 0; tile < depth; tile++, a += SPLIT_PARTS * A_PART, b += SPLIT_PARTS * B_PART) {
      load_b(0), load_a(2), add();
      load_a(1), add();
      load_a(0), add();
      load_b(1), add();
      load_a(1), add();
      load_b(2), load_a(0), add();
    }
    Tiles::template store<0>(sum, SUM_BYTES);
    if constexpr (COLUMN_TILES > 1) Tiles::template store<1>(sum + TILE_COLUMNS, SUM_BYTES);
    if constexpr (ROW_TILES > 1) Tiles::template store<2>(sum + TILE_ROWS * SPLIT_PANEL, SUM_BYTES);
    if constexpr (ROW_TILES > 1 && COLUMN_TILES > 1)
      Tiles::template store<3>(sum + TILE_ROWS * SPLIT_PANEL + TILE_COLUMNS, SUM_BYTES);
  }
  static void multiply(int rows, int columns, int depth, const BFloat16 *a, const BFloat16 *b, float *sum) {
    if (rows > TILE_ROWS)
      columns > TILE_COLUMNS ? multiply<2, 2>(depth, a, b, sum) : multiply<2, 1>(depth, a, b, sum);
    else
      columns > TILE_COLUMNS ? multiply<1, 2>(depth, a, b, sum) : multiply<1, 1>(depth, a, b, sum);
  }
};

}    // namespace equi

#endif

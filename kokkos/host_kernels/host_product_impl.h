// SPDX-License-Identifier: MIT
// The dense product for one instruction set, included by host_kernels_impl.h. Its matrix is stored in the order in
// which registers read it (product_kernels.h), so a product needs no copies.
#ifndef EQUI_HOST_PRODUCT_IMPL_H
#define EQUI_HOST_PRODUCT_IMPL_H

#include "kokkos/host_kernels/product_kernels.h"
#include "kokkos/kernel_interface/host_simd.h"

namespace equi {
namespace EQUI_ISA {

// Registers hold a tile of the result; there are 32 or 16 registers.
constexpr int TILE_ROWS = EQUI_SIMD_BYTES == 64 ? 8 : 4;
template <class R>
constexpr int PANEL = PANEL_REGISTERS *LANES<R>;

// Registers in memory of any alignment, which rows of a result without padding need. In a template clang++ ignores
// the alignment of such a vector, but not that of a packed class, with which g++ makes slower tiles.
template <class R>
struct UnalignedSimdOf {
#if defined(__clang__)
  struct __attribute__((packed, may_alias)) type {
    Simd<R> v;
    EQUI_INLINE void operator=(Simd<R> b) { v = b; }
    EQUI_INLINE void operator+=(Simd<R> b) { v += b; }
  };
#else
  typedef R type __attribute__((vector_size(EQUI_SIMD_BYTES), aligned(sizeof(R))));
#endif
};
template <class R>
EQUI_INLINE typename UnalignedSimdOf<R>::type &unaligned(R *p) {
  return *reinterpret_cast<typename UnalignedSimdOf<R>::type *>(p);
}
template <class R>
EQUI_INLINE Simd<R> load_unaligned(const R *p) {
  Simd<R> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Memory that a tile prefetches while it is computed, some of it with each row of its panel: the next panel. A large
// matrix has left the second-level cache when its next rows are multiplied. Waiting for each panel would cost a
// fifth of the time.
struct Ahead {
  const char *next;
  int64_t step;
};

// c (+)= a b for a tile, whose panel b has `in` rows. Each number is summed in the order of these rows. The bias, if
// any, is added last.
template <int ROWS, int REGISTERS, class R>
EQUI_INLINE void tile_product(int in, const R *a, int64_t a_stride, const R *b, R *c, int64_t c_stride, bool add,
                              Ahead ahead, const R *bias = nullptr) {
  Simd<R> sum[ROWS][REGISTERS] = {};
  for (int k = 0; k < in; k++, b += REGISTERS * LANES<R>) {
    if constexpr (REGISTERS == PANEL_REGISTERS) __builtin_prefetch(ahead.next + k * ahead.step, 0, 2);
    Simd<R> row[REGISTERS];
    EQUI_UNROLL_SIMD
    for (int v = 0; v < REGISTERS; v++) row[v] = load(b + v * LANES<R>);
    EQUI_UNROLL_SIMD
    for (int i = 0; i < ROWS; i++) {
      const Simd<R> factor = a[i * a_stride + k] - Simd<R>{};
      EQUI_UNROLL_SIMD
      for (int v = 0; v < REGISTERS; v++) sum[i][v] += factor * row[v];
    }
  }
  if (bias)
    for (int v = 0; v < REGISTERS; v++) {
      const Simd<R> of_panel = load_unaligned(bias + v * LANES<R>);
      EQUI_UNROLL_SIMD
      for (int i = 0; i < ROWS; i++) sum[i][v] += of_panel;
    }
  if (add) {
    EQUI_UNROLL_SIMD
    for (int i = 0; i < ROWS; i++) EQUI_UNROLL_SIMD
    for (int v = 0; v < REGISTERS; v++) unaligned(c + i * c_stride + v * LANES<R>) += sum[i][v];
  } else {
    EQUI_UNROLL_SIMD
    for (int i = 0; i < ROWS; i++) EQUI_UNROLL_SIMD
    for (int v = 0; v < REGISTERS; v++) unaligned(c + i * c_stride + v * LANES<R>) = sum[i][v];
  }
}

// For the tile that begins with row `first` of `rows`, in the panel at `column` of matrix b: its share of the next
// panel. Only the last panel is narrower, and no panel follows it.
template <int REGISTERS, class R>
EQUI_INLINE Ahead next_panel(const R *b, int in, int out, int64_t rows, int64_t first, int column) {
  const int next = column + PANEL<R>;
  const char *const panel = reinterpret_cast<const char *>(b + int64_t(next) * in);
  if (REGISTERS < PANEL_REGISTERS || next >= out) return {reinterpret_cast<const char *>(b), 0};
  const int left = (out - next + LANES<R> - 1) / LANES<R>, registers = left < PANEL_REGISTERS ? left : PANEL_REGISTERS;
  const int64_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS, step = (registers * EQUI_SIMD_BYTES + tiles - 1) / tiles;
  return {panel + first / TILE_ROWS * step * in, step};
}

// The whole product; its rows are cut into tiles.
template <class R>
struct TiledProduct {
  const ProductCall<R> &p;

  template <int ROWS, int REGISTERS>
  EQUI_INLINE void tile(int64_t first, int column) const {
    const Ahead ahead = next_panel<REGISTERS>(p.b, p.in, p.out, p.rows, first, column);
    const R *const a = p.a + first * p.a_stride, *const b = p.b + int64_t(column) * p.in;
    R *const c = p.c + first * p.c_stride + column;
    const int left = p.out - column;
    if (left >= REGISTERS * LANES<R>)
      return tile_product<ROWS, REGISTERS>(p.in, a, p.a_stride, b, c, p.c_stride, p.add, ahead,
                                           p.bias ? p.bias + column : nullptr);
    alignas(64) R wide[ROWS * REGISTERS * LANES<R>];    // with columns that the result does not have
    tile_product<ROWS, REGISTERS>(p.in, a, p.a_stride, b, wide, REGISTERS * LANES<R>, false, ahead);
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < left; j++) {
        const R sum = wide[i * REGISTERS * LANES<R> + j] + (p.bias ? p.bias[column + j] : R(0));
        c[i * p.c_stride + j] = p.add ? c[i * p.c_stride + j] + sum : sum;
      }
  }
};

// Calls tiles.tile<rows, registers>(first row, first column) for all rows of the panel that begins with this column.
template <int REGISTERS, class Tiles>
static void for_tiles(int64_t rows, int column, const Tiles &tiles) {
  int64_t i = 0;
  for (; i + TILE_ROWS <= rows; i += TILE_ROWS) tiles.template tile<TILE_ROWS, REGISTERS>(i, column);
  if (TILE_ROWS > 4 && i + 4 <= rows) tiles.template tile<4, REGISTERS>(i, column), i += 4;
  if (i + 2 <= rows) tiles.template tile<2, REGISTERS>(i, column), i += 2;
  if (i < rows) tiles.template tile<1, REGISTERS>(i, column);
}

// The same for all panels of a matrix with this number of columns.
template <class R, class Tiles>
static void for_panels(int64_t rows, int out, const Tiles &tiles) {
  int column = 0;
  for (; out - column > 2 * LANES<R>; column += PANEL<R>) for_tiles<PANEL_REGISTERS>(rows, column, tiles);
  if (out - column > LANES<R>)
    for_tiles<2>(rows, column, tiles);
  else if (out > column)
    for_tiles<1>(rows, column, tiles);
}

template <class R>
static void product(const ProductCall<R> &p) {
  for_panels<R>(p.rows, p.out, TiledProduct<R>{p});
}

}    // namespace EQUI_ISA
}    // namespace equi

#endif

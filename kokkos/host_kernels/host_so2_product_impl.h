// SPDX-License-Identifier: MIT
// The products of matrices in SO(2) convolutions for one instruction set, included by host_kernels_impl.h: for m > 0
// three dense products and the sums of their results, tile by tile.
#ifndef EQUI_HOST_SO2_PRODUCT_IMPL_H
#define EQUI_HOST_SO2_PRODUCT_IMPL_H

#include "kokkos/host_kernels/host_product_impl.h"
#include "kokkos/host_kernels/so2_kernels.h"

namespace equi {
namespace EQUI_ISA {

template <class R>
struct So2Tiles {
  const So2ProductCall<R> &p;

  template <int ROWS, int REGISTERS>
  EQUI_INLINE void tile(int64_t first, int column) const {
    const int64_t panel = int64_t(column) * p.in, stride = 2 * p.in, v_stride = 2 * p.out;
    const R *const u = p.u + first * stride;
    R *const v = p.v + first * v_stride + column, *const minus = v + p.out;
    alignas(64) R other[ROWS * REGISTERS * LANES<R>];    // u_-m W'
    const auto ahead = [&](int k) { return next_panel<REGISTERS>(p.weights[k], p.in, p.out, p.rows, first, column); };
    tile_product<ROWS, REGISTERS>(p.in, u, stride, p.weights[0] + panel, v, v_stride, false, ahead(0));
    tile_product<ROWS, REGISTERS>(p.in, u + p.in, stride, p.weights[1] + panel, other, REGISTERS * LANES<R>, false,
                                  ahead(1));
    tile_product<ROWS, REGISTERS>(p.in, p.sums + first * p.in, p.in, p.weights[2] + panel, minus, v_stride, false,
                                  ahead(2));
    EQUI_UNROLL_SIMD
    for (int i = 0; i < ROWS; i++) EQUI_UNROLL_SIMD
    for (int k = 0; k < REGISTERS; k++) {
      const Simd<R> same = load(v + i * v_stride + k * LANES<R>),
                    crossed = load(other + (i * REGISTERS + k) * LANES<R>);
      store(minus + i * v_stride + k * LANES<R>, load(minus + i * v_stride + k * LANES<R>) - same - crossed);
      store(v + i * v_stride + k * LANES<R>, same - crossed);
    }
  }
};

template <class R>
static void so2_product(const So2ProductCall<R> &p) {
  if (!p.has_minus) return product<R>({p.rows, p.in, p.out, p.weights[0], p.u, p.v, p.in, p.out, false, p.bias});
  for (int64_t i = 0; i < p.rows; i++)
    for (int k = 0; k < p.in; k += LANES<R>)
      store(p.sums + i * p.in + k, load(p.u + 2 * i * p.in + k) + load(p.u + (2 * i + 1) * p.in + k));
  for_panels<R>(p.rows, p.out, So2Tiles<R>{p});
}

}    // namespace EQUI_ISA
}    // namespace equi

#endif

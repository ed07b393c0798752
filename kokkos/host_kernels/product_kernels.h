// SPDX-License-Identifier: MIT
// Dense products with matrices that never change: the layout of such a matrix in memory, and the call of the host's
// kernel. Plain data, for all instruction sets (host_kernels.h). R: float or double.
#ifndef EQUI_PRODUCT_KERNELS_H
#define EQUI_PRODUCT_KERNELS_H

#include <cstdint>

namespace equi {

// A matrix [in][out] consists of panels of HostKernels::product_panel columns, one after another, each stored row by
// row. A full panel has PANEL_REGISTERS registers per row. The last panel is narrower: it has as many registers as
// its columns need, filled with zeros.
constexpr int PANEL_REGISTERS = 3;

// c = a b, or c += a b if `add`; with a bias, c = a b + bias. A row of the result depends neither on the number of
// rows nor on its place.
// B: R, or BFloat16 for a matrix in parts (split_matrix.h).
template <class R, class B = R>
struct ProductCall {
  int64_t rows;
  int in, out;    // numbers in a row of a and c
  const B *b;     // packed, aligned to 64 bytes
  const R *a;
  R *c;
  int64_t a_stride, c_stride;    // between rows
  bool add;
  const R *bias = nullptr;    // [out], not used if `add`
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Dense products on node features: one small interface to the host's BLAS. Each thread calls it for a product of its
// own, so the library is kept at a single thread.
#ifndef EQUI_DENSE_H
#define EQUI_DENSE_H

#include <cstdint>
#include <string>

namespace equi {

// C = A B + beta C, all row-major; A [m,k], C [m,n] with rows so far apart (0: contiguous); B is [k,n], or [n,k] if
// transpose_b.
void gemm(bool transpose_b, int64_t m, int n, int k, const float *a, const float *b, float beta, float *c,
          int a_stride = 0, int c_stride = 0);
void gemm(bool transpose_b, int64_t m, int n, int k, const double *a, const double *b, double beta, double *c,
          int a_stride = 0, int c_stride = 0);

// Must be called once before the first product.
void start_dense();

// What the library says of itself, in a line: its name, its version, and the processor whose kernels it has chosen.
std::string describe_dense();

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
#include "kokkos/runtime/dense.h"

#include <cblas.h>

#include <algorithm>

#define EQUI_JOIN2(a, b) a##b
#define EQUI_JOIN(a, b)  EQUI_JOIN2(a, b)
#ifdef EQUI_BLAS_PREFIX
#define EQUI_BLAS(name) EQUI_JOIN(EQUI_BLAS_PREFIX, name)
#else
#define EQUI_BLAS(name) name
#endif

namespace equi {

namespace {

// OpenBLAS multiplies matrices of up to this many products without packing them first, if none is transposed. For the
// shapes of node features that is 1.6 times faster than its general route (170 against 105 GFLOP/s on one core of an
// Ice Lake Xeon), so tall products go in slices of rows.
constexpr int64_t UNPACKED_PRODUCTS = 1000000;
constexpr int64_t FEWEST_ROWS = 8;

// f(first row, number of rows) for the slices of m rows.
template <class F>
void in_slices(bool transpose_b, int64_t m, int n, int k, const F &f) {
  int64_t rows = transpose_b ? m : UNPACKED_PRODUCTS / (static_cast<int64_t>(n) * k) / FEWEST_ROWS * FEWEST_ROWS;
  if (rows < FEWEST_ROWS) rows = m;
  for (int64_t first = 0; first < m; first += rows) f(first, static_cast<int>(std::min(rows, m - first)));
}

}    // namespace

void gemm(bool transpose_b, int64_t m, int n, int k, const float *a, const float *b, float beta, float *c, int a_stride,
          int c_stride) {
  const int lda = a_stride > 0 ? a_stride : k, ldc = c_stride > 0 ? c_stride : n;
  in_slices(transpose_b, m, n, k, [&](int64_t first, int rows) {
    EQUI_BLAS(cblas_sgemm)
    (CblasRowMajor, CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, rows, n, k, 1.0f, a + first * lda, lda, b,
     transpose_b ? k : n, beta, c + first * ldc, ldc);
  });
}

void gemm(bool transpose_b, int64_t m, int n, int k, const double *a, const double *b, double beta, double *c,
          int a_stride, int c_stride) {
  const int lda = a_stride > 0 ? a_stride : k, ldc = c_stride > 0 ? c_stride : n;
  in_slices(transpose_b, m, n, k, [&](int64_t first, int rows) {
    EQUI_BLAS(cblas_dgemm)
    (CblasRowMajor, CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, rows, n, k, 1.0, a + first * lda, lda, b,
     transpose_b ? k : n, beta, c + first * ldc, ldc);
  });
}

void start_dense() {
#ifdef EQUI_BLAS_OPENBLAS
  EQUI_BLAS(openblas_set_num_threads)(1);
#endif
}

std::string describe_dense() {
#ifdef EQUI_BLAS_OPENBLAS
  const std::string config = EQUI_BLAS(openblas_get_config)();
  // Its name and version; what follows are options that it was built with.
  return config.substr(0, config.find(' ', config.find(' ') + 1)) + " for " + EQUI_BLAS(openblas_get_corename)();
#else
  return "not known";
#endif
}

}    // namespace equi

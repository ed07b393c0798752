#include "dense.h"

#include <cblas.h>

#define EQUI_JOIN2(a, b) a##b
#define EQUI_JOIN(a, b)  EQUI_JOIN2(a, b)
#ifdef EQUI_BLAS_PREFIX
#define EQUI_BLAS(name) EQUI_JOIN(EQUI_BLAS_PREFIX, name)
#else
#define EQUI_BLAS(name) name
#endif

namespace equi {

void gemm(bool transpose_b, int64_t m, int n, int k, const float *a, const float *b, float beta, float *c) {
  EQUI_BLAS(cblas_sgemm)
  (CblasRowMajor, CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, static_cast<int>(m), n, k, 1.0f, a, k, b,
   transpose_b ? k : n, beta, c, n);
}

void gemm(bool transpose_b, int64_t m, int n, int k, const double *a, const double *b, double beta, double *c) {
  EQUI_BLAS(cblas_dgemm)
  (CblasRowMajor, CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, static_cast<int>(m), n, k, 1.0, a, k, b,
   transpose_b ? k : n, beta, c, n);
}

void start_dense() {
#ifdef EQUI_BLAS_OPENBLAS
  EQUI_BLAS(openblas_set_num_threads)(1);
#endif
}

}    // namespace equi

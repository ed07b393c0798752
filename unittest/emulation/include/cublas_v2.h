// SPDX-License-Identifier: MIT
// The part of cuBLAS that the sources for devices use, on the emulated GPU (emulation.h): plain loops.
#ifndef EQUI_EMULATED_CUBLAS_H
#define EQUI_EMULATED_CUBLAS_H

#include "unittest/emulation/include/cuda_runtime.h"

struct cublasContext;
using cublasHandle_t = cublasContext *;
enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasMath_t { CUBLAS_DEFAULT_MATH = 0, CUBLAS_PEDANTIC_MATH = 2, CUBLAS_TF32_TENSOR_OP_MATH = 3 };

cublasStatus_t cublasCreate(cublasHandle_t *handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, std::size_t bytes);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
const char *cublasGetStatusString(cublasStatus_t status);
// C = alpha op(A) op(B) + beta C, column-major.
cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                           const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta,
                           float *c, int ldc);
cublasStatus_t cublasDgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                           const double *alpha, const double *a, int lda, const double *b, int ldb, const double *beta,
                           double *c, int ldc);
// The same for several products, whose matrices begin at this distance.
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                         int n, int k, const float *alpha, const float *a, int lda, long long stride_a,
                                         const float *b, int ldb, long long stride_b, const float *beta, float *c,
                                         int ldc, long long stride_c, int count);
cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                         int n, int k, const double *alpha, const double *a, int lda,
                                         long long stride_a, const double *b, int ldb, long long stride_b,
                                         const double *beta, double *c, int ldc, long long stride_c, int count);

#endif

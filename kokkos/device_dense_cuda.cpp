// SPDX-License-Identifier: MIT
// Dense products on CUDA: cuBLAS on the stream of the kernels.
#include "device_dense.h"

#include <cublas_v2.h>

#include <limits>
#include <stdexcept>
#include <string>

namespace equi {

namespace {

cublasHandle_t HANDLE = nullptr;
// What cuBLAS recommends for Hopper. Of its own it would allocate memory within recorded work (device_recorder.h).
constexpr std::size_t WORKSPACE_BYTES = 32 << 20;
void *WORKSPACE = nullptr;

void check(cublasStatus_t status, const char *call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(call) + " failed: " + cublasGetStatusString(status));
}

cublasHandle_t handle_on(const Kokkos::Cuda &exec) {
  check(cublasSetStream(HANDLE, exec.cuda_stream()), "cublasSetStream");
  check(cublasSetWorkspace(HANDLE, WORKSPACE, WORKSPACE_BYTES), "cublasSetWorkspace");    // the stream resets it
  return HANDLE;
}

// cuBLAS counts rows with int; the chunks of an evaluation are far below.
int as_int(int64_t m) {
  if (m > std::numeric_limits<int>::max()) throw std::length_error("a dense product with more than 2^31 rows");
  return static_cast<int>(m);
}

}    // namespace

// cuBLAS is column-major and computes the transpose, C^T = B^T A^T, of the same memory.
template <>
void device_gemm(const Kokkos::Cuda &exec, bool transpose_b, int64_t m, int n, int k, const float *a, const float *b,
                 float beta, float *c) {
  if (m == 0) return;
  const float one = 1.0f;
  check(cublasSgemm(handle_on(exec), transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, n, as_int(m), k, &one, b,
                    transpose_b ? k : n, a, k, &beta, c, n),
        "cublasSgemm");
}
template <>
void device_gemm(const Kokkos::Cuda &exec, bool transpose_b, int64_t m, int n, int k, const double *a, const double *b,
                 double beta, double *c) {
  if (m == 0) return;
  const double one = 1.0;
  check(cublasDgemm(handle_on(exec), transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, n, as_int(m), k, &one, b,
                    transpose_b ? k : n, a, k, &beta, c, n),
        "cublasDgemm");
}

template <>
void start_device_dense(const Kokkos::Cuda &) {
  if (HANDLE) return;
  check(cublasCreate(&HANDLE), "cublasCreate");
  WORKSPACE = Kokkos::kokkos_malloc<Kokkos::CudaSpace>("equi:cublas", WORKSPACE_BYTES);
  // TF32 would cost three of seven digits of the forces.
  check(cublasSetMathMode(HANDLE, CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
  Kokkos::push_finalize_hook([] {
    cublasDestroy(HANDLE);
    HANDLE = nullptr;
    Kokkos::kokkos_free<Kokkos::CudaSpace>(WORKSPACE);
  });
}

}    // namespace equi

// SPDX-License-Identifier: MIT
// Dense products on CUDA: cuBLAS on the stream of the kernels.
#include "kokkos/runtime/device_dense.h"

#include <cublas_v2.h>

#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

namespace equi {

namespace {

// One handle, which a thread has for the time of a call: its stream and its workspace are set before each product.
cublasHandle_t HANDLE = nullptr;
std::mutex MUTEX;
// What cuBLAS recommends for Hopper. Of its own it would allocate memory within recorded work (device_recorder.h).
constexpr std::size_t WORKSPACE_BYTES = 32 << 20;
// Products of two threads may run side by side and must not share one; those of a thread wait for each other.
std::map<std::thread::id, void *> WORKSPACES;

void check(cublasStatus_t status, const char *call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(call) + " failed: " + cublasGetStatusString(status));
}

void *workspace_of_thread() {
  void *&workspace = WORKSPACES[std::this_thread::get_id()];
  if (!workspace) {
    RecordingLaunches::refuse("a thread's first product");
    workspace = Kokkos::kokkos_malloc<Kokkos::CudaSpace>("equi:cublas", WORKSPACE_BYTES);
  }
  return workspace;
}

// product(handle) on the instance's stream.
template <class Product>
void multiply(const Kokkos::Cuda &exec, const char *name, const Product &product) {
  const std::lock_guard<std::mutex> lock(MUTEX);
  check(cublasSetStream(HANDLE, exec.cuda_stream()), "cublasSetStream");
  check(cublasSetWorkspace(HANDLE, workspace_of_thread(), WORKSPACE_BYTES),
        "cublasSetWorkspace");    // the stream resets it
  check(product(HANDLE), name);
}

// cuBLAS counts rows with int; the chunks of an evaluation are far below.
int as_int(int64_t m) {
  if (m > std::numeric_limits<int>::max()) throw std::length_error("a dense product with more than 2^31 rows");
  return static_cast<int>(m);
}

}    // namespace

// cuBLAS is column-major and computes the transpose, C^T = B^T A^T, of the same memory.
void device_gemm(const Kokkos::Cuda &exec, bool transpose_b, int64_t m, int n, int k, const float *a, const float *b,
                 float beta, float *c) {
  if (m == 0) return;
  const float one = 1.0f;
  multiply(exec, "cublasSgemm", [&](cublasHandle_t handle) {
    return cublasSgemm(handle, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, n, as_int(m), k, &one, b,
                       transpose_b ? k : n, a, k, &beta, c, n);
  });
}
void device_gemm(const Kokkos::Cuda &exec, bool transpose_b, int64_t m, int n, int k, const double *a, const double *b,
                 double beta, double *c) {
  if (m == 0) return;
  const double one = 1.0;
  multiply(exec, "cublasDgemm", [&](cublasHandle_t handle) {
    return cublasDgemm(handle, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, n, as_int(m), k, &one, b,
                       transpose_b ? k : n, a, k, &beta, c, n);
  });
}

void start_device_dense(const Kokkos::Cuda &) {
  const std::lock_guard<std::mutex> lock(MUTEX);
  if (HANDLE) return;
  check(cublasCreate(&HANDLE), "cublasCreate");
  workspace_of_thread();
  // TF32 would cost three of seven digits of the forces.
  check(cublasSetMathMode(HANDLE, CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
  Kokkos::push_finalize_hook([] {
    cublasDestroy(HANDLE);
    HANDLE = nullptr;
    for (const auto &workspace : WORKSPACES) Kokkos::kokkos_free<Kokkos::CudaSpace>(workspace.second);
    WORKSPACES.clear();
  });
}

}    // namespace equi

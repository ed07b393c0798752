// SPDX-License-Identifier: MIT
// Dense products where the device is the host.
#include "kokkos/runtime/device_dense.h"

#include "kokkos/runtime/dense.h"
#include "kokkos/runtime/host_exec.h"

#include <algorithm>

namespace equi {

namespace {

// Rows per task, so that the threads share a product; the same at any number of threads.
constexpr int64_t BLOCK = 256;

template <class T>
void gemm_on_threads(const HostExec &exec, bool transpose_b, int64_t m, int n, int k, const T *a, const T *b, T beta,
                     T *c) {
  Kokkos::parallel_for("equi:gemm", Kokkos::RangePolicy<HostExec>(exec, 0, (m + BLOCK - 1) / BLOCK),
                       [=](int64_t block) {
                         const int64_t first = block * BLOCK;
                         gemm(transpose_b, std::min(BLOCK, m - first), n, k, a + first * k, b, beta, c + first * n);
                       });
}

}    // namespace

void device_gemm(const HostExec &exec, bool transpose_b, int64_t m, int n, int k, const float *a, const float *b,
                 float beta, float *c) {
  gemm_on_threads(exec, transpose_b, m, n, k, a, b, beta, c);
}
void device_gemm(const HostExec &exec, bool transpose_b, int64_t m, int n, int k, const double *a, const double *b,
                 double beta, double *c) {
  gemm_on_threads(exec, transpose_b, m, n, k, a, b, beta, c);
}

DeviceDense::DeviceDense(const HostExec &exec) : exec_(exec) {
  start_dense();
}
DeviceDense::~DeviceDense() = default;

}    // namespace equi

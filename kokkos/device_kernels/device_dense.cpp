// SPDX-License-Identifier: MIT
// Dense products if the device is the host.
#include "kokkos/device_kernels/device_dense.h"

#include "kokkos/host_kernels/packed_matrix.h"
#include "kokkos/runtime/host_exec.h"

#include <algorithm>

namespace equi {

namespace {

// Rows per task, so that the threads share a product; the same for any number of threads.
constexpr int64_t BLOCK = 256;

// The constants of a device are stored row by row, so B is packed for each product. This costs one number for each
// row of A.
template <class T>
void gemm_on_threads(const HostExec &exec, bool transpose_b, int64_t m, int n, int k, const T *a, const T *b, bool add,
                     T *c, const DensePlanes *of_planes) {
  static const HostKernels<T> &kernels = host_kernels<T>(best_instruction_set());
  static thread_local Buffer<T> memory;
  const int panel = kernels.product_panel;
  T *const packed_b = memory.reserve(static_cast<std::size_t>(k) * packed_columns(n, panel));
  const int64_t row_stride = transpose_b ? 1 : n, column_stride = transpose_b ? k : 1;
  pack_matrix(
      k, n, panel, [&](int i, int j) { return b[i * row_stride + j * column_stride]; }, packed_b);
  const DensePlanes planes = of_planes ? *of_planes : DensePlanes{1, k, n};
  Kokkos::parallel_for(
      "equi:gemm", Kokkos::RangePolicy<HostExec>(exec, 0, (m + BLOCK - 1) / BLOCK), [=](int64_t block) {
        const int64_t first = block * BLOCK;
        for (int p = 0; p < planes.count; p++)
          kernels.product({std::min(BLOCK, m - first), k, n, packed_b, a + first * planes.a_stride + p * k,
                           c + first * planes.c_stride + p * n, planes.a_stride, planes.c_stride, add});
      });
}

}    // namespace

void device_gemm(const HostExec &exec, bool transpose_b, int64_t m, int n, int k, const float *a, const float *b,
                 bool add, float *c, const DensePlanes *planes, int, bool) {
  gemm_on_threads(exec, transpose_b, m, n, k, a, b, add, c, planes);
}
void device_gemm(const HostExec &exec, bool transpose_b, int64_t m, int n, int k, const double *a, const double *b,
                 bool add, double *c, const DensePlanes *planes, int, bool) {
  gemm_on_threads(exec, transpose_b, m, n, k, a, b, add, c, planes);
}

DeviceDense::DeviceDense(const HostExec &exec) : exec_(exec) {}
DeviceDense::~DeviceDense() = default;

// The threads share each product, so branches run one after another.
DenseBranches::DenseBranches(const HostExec &exec) : exec_(exec) {}
DenseBranches::~DenseBranches() = default;

}    // namespace equi

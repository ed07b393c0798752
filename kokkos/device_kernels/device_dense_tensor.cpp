// SPDX-License-Identifier: MIT
#include "kokkos/device_kernels/device_dense_tensor.h"

#include <cutlass/gemm/device/gemm.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace equi {

namespace {

constexpr int NUMBERS = 4;    // in a load

// A block of threads makes M x N numbers of C, a warp of them WARP_M x WARP_N.
template <int M, int N, int WARP_M, int WARP_N, int STAGES, class LayoutB>
void multiply(cudaStream_t stream, const TensorProduct32 &p) {
  using RowMajor = cutlass::layout::RowMajor;
  constexpr int DEPTH = 16;
  using Gemm = cutlass::gemm::device::Gemm<
      float, RowMajor, float, LayoutB, float, RowMajor, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
      cutlass::gemm::GemmShape<M, N, DEPTH>, cutlass::gemm::GemmShape<WARP_M, WARP_N, DEPTH>,
      cutlass::gemm::GemmShape<16, 8, 8>, cutlass::epilogue::thread::LinearCombination<float, NUMBERS, float, float>,
      cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, STAGES, NUMBERS, NUMBERS, false,
      cutlass::arch::OpMultiplyAddFastF32>;
  const int b_stride = p.transpose_b ? p.k : p.n;
  Gemm gemm;
  const cutlass::Status status = gemm({{p.m, p.n, p.k},
                                       {p.a, p.a_stride},
                                       {p.b, b_stride},
                                       {p.c, p.c_stride},
                                       {p.c, p.c_stride},
                                       {1.0f, p.add ? 1.0f : 0.0f}},
                                      nullptr, stream);
  if (status != cutlass::Status::kSuccess)
    throw std::runtime_error(std::string("a product on tensor cores failed: ") + cutlassGetStatusString(status));
}

// Small blocks where larger ones would not give each multiprocessor two. Measured on an H200 with the products of
// SevenNet-0, at 64 to 16,384 atoms.
template <class LayoutB>
void choose_blocks(cudaStream_t stream, int num_multiprocessors, const TensorProduct32 &p) {
  const int64_t num_blocks = (static_cast<int64_t>(p.m) + 127) / 128 * ((p.n + 31) / 32);
  if (num_blocks < 2 * num_multiprocessors)
    multiply<64, 32, 32, 16, 4, LayoutB>(stream, p);
  else if (p.n == 64 || p.n == 128)
    multiply<128, 64, 64, 32, 3, LayoutB>(stream, p);
  else
    multiply<128, 32, 32, 32, 3, LayoutB>(stream, p);
}

}    // namespace

bool fits_tensor_cores(const TensorProduct32 &p) {
  const auto is_aligned = [](const float *numbers) {
    return reinterpret_cast<std::uintptr_t>(numbers) % (NUMBERS * sizeof(float)) == 0;
  };
  return p.n % NUMBERS == 0 && p.k % NUMBERS == 0 && p.a_stride % NUMBERS == 0 && p.c_stride % NUMBERS == 0 &&
         is_aligned(p.a) && is_aligned(p.b) && is_aligned(p.c);
}

void multiply_on_tensor_cores(cudaStream_t stream, int num_multiprocessors, const TensorProduct32 &p) {
  if (p.transpose_b)
    choose_blocks<cutlass::layout::ColumnMajor>(stream, num_multiprocessors, p);
  else
    choose_blocks<cutlass::layout::RowMajor>(stream, num_multiprocessors, p);
}

}    // namespace equi

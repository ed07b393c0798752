// SPDX-License-Identifier: MIT
// Dense products of float32 on tensor cores, with CUTLASS, and the measured correction of their sums.
#include "kokkos/device_kernels/device_dense_tensor.h"

#include "kokkos/runtime/cuda_calls.h"

#include <cutlass/gemm/device/gemm.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace equi {

namespace {

constexpr int NUMBERS = 4;    // in a load
constexpr int LEAST_TERMS = 32;

// The final operation on the sums, for CUTLASS: C = sum + loss * sum, or C += that. A factor 1 + loss would hold
// only one digit of the loss.
class PutBack {
 public:
  using ElementOutput = float;
  using ElementSource = float;
  using ElementAccumulator = float;
  using ElementCompute = float;
  static constexpr int kCount = NUMBERS;
  using FragmentOutput = cutlass::Array<float, kCount>;
  using FragmentSource = FragmentOutput;
  using FragmentAccumulator = FragmentOutput;
  struct Params {
    float loss;
    bool add;
  };
  CUTLASS_HOST_DEVICE explicit PutBack(const Params &params) : params_(params) {}
  CUTLASS_HOST_DEVICE bool is_source_needed() const { return params_.add; }
  CUTLASS_HOST_DEVICE void set_k_partition(int, int) {}    // sums are not divided among several blocks
  CUTLASS_HOST_DEVICE FragmentOutput operator()(const FragmentAccumulator &sum) const {
    FragmentOutput c;
    CUTLASS_PRAGMA_UNROLL
    for (int n = 0; n < kCount; n++) c[n] = sum[n] + params_.loss * sum[n];
    return c;
  }
  CUTLASS_HOST_DEVICE FragmentOutput operator()(const FragmentAccumulator &sum, const FragmentSource &before) const {
    FragmentOutput c = (*this)(sum);
    CUTLASS_PRAGMA_UNROLL
    for (int n = 0; n < kCount; n++) c[n] += before[n];
    return c;
  }

 private:
  Params params_;
};

// A block of threads computes M x N numbers of C and reads DEPTH of the summands at a time. A warp computes WARP_M x
// WARP_N and reads WARP_DEPTH at a time; if that is less than DEPTH, several warps share the summands.
template <int M, int N, int DEPTH, int WARP_M, int WARP_N, int WARP_DEPTH, int STAGES, class LayoutB>
void launch(cudaStream_t stream, const TensorProduct32 &p, float loss) {
  using RowMajor = cutlass::layout::RowMajor;
  using Gemm = cutlass::gemm::device::Gemm<
      float, RowMajor, float, LayoutB, float, RowMajor, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
      cutlass::gemm::GemmShape<M, N, DEPTH>, cutlass::gemm::GemmShape<WARP_M, WARP_N, WARP_DEPTH>,
      cutlass::gemm::GemmShape<16, 8, 8>, PutBack, cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, STAGES,
      NUMBERS, NUMBERS, false, cutlass::arch::OpMultiplyAddFastF32>;
  const int b_stride = p.transpose_b ? p.k : p.n;
  Gemm gemm;
  const cutlass::Status status =
      gemm({{p.m, p.n, p.k}, {p.a, p.a_stride}, {p.b, b_stride}, {p.c, p.c_stride}, {p.c, p.c_stride}, {loss, p.add}},
           nullptr, stream);
  if (status != cutlass::Status::kSuccess)
    throw std::runtime_error(std::string("a product on tensor cores failed: ") + cutlassGetStatusString(status));
}

// Uses small blocks if larger ones would leave multiprocessors idle. Measured on an H200 with the products of
// SevenNet-0, at 64 to 16,384 atoms. Those of SO(2) convolutions, with wide matrices and many terms, were not: wider
// blocks read their operands half as often.
template <class LayoutB>
void choose_blocks(cudaStream_t stream, int num_multiprocessors, const TensorProduct32 &p, float loss) {
  const auto num_blocks = [&](int rows, int columns) {
    return (static_cast<int64_t>(p.m) + rows - 1) / rows * ((p.n + columns - 1) / columns);
  };
  if (num_blocks(32, 32) <= num_multiprocessors)
    launch<32, 32, 32, 16, 32, 16, 3, LayoutB>(stream, p, loss);
  else if (num_blocks(128, 32) < 2 * num_multiprocessors)
    launch<64, 32, 32, 32, 32, 16, 3, LayoutB>(stream, p, loss);
  else if (p.n == 64 || p.n == 128 || (p.n % 64 == 0 && p.k >= 256))
    launch<128, 64, 16, 64, 32, 16, 3, LayoutB>(stream, p, loss);
  else
    launch<128, 32, 16, 32, 32, 16, 3, LayoutB>(stream, p, loss);
}

void multiply_by_cores(cudaStream_t stream, int num_multiprocessors, const TensorProduct32 &p, float loss) {
  if (p.transpose_b)
    choose_blocks<cutlass::layout::ColumnMajor>(stream, num_multiprocessors, p, loss);
  else
    choose_blocks<cutlass::layout::RowMajor>(stream, num_multiprocessors, p, loss);
}

// The mean relative error by which the sums of a product of random numbers are too small.
float measured_loss(cudaStream_t stream, int num_multiprocessors) {
  constexpr int M = 512, N = 64, K = 128;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> number(-1.0f, 1.0f);
  std::vector<float> operands(M * K + K * N), c(M * N);
  for (float &x : operands) x = number(random);
  const float *a = operands.data(), *b = a + M * K;
  float *on_device;
  const std::size_t bytes = operands.size() * sizeof(float), bytes_of_c = c.size() * sizeof(float);
  check_call(cudaMalloc(&on_device, bytes + bytes_of_c), "cudaMalloc");
  const std::unique_ptr<float, decltype(&cudaFree)> owner(on_device, cudaFree);
  check_call(cudaMemcpyAsync(on_device, a, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  float *c_on_device = on_device + operands.size();
  multiply_by_cores(stream, num_multiprocessors,
                    {false, M, N, K, on_device, on_device + M * K, c_on_device, K, N, false}, 0.0f);
  check_call(cudaMemcpyAsync(c.data(), c_on_device, bytes_of_c, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  check_call(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  double difference = 0.0, square = 0.0;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double sum = 0.0;
      for (int k = 0; k < K; k++) sum += static_cast<double>(a[i * K + k]) * static_cast<double>(b[k * N + j]);
      difference += (sum - static_cast<double>(c[i * N + j])) * sum;
      square += sum * sum;
    }
  return static_cast<float>(difference / square);
}

}    // namespace

bool fits_tensor_cores(const TensorProduct32 &p) {
  const auto is_aligned = [](const float *numbers) {
    return reinterpret_cast<std::uintptr_t>(numbers) % (NUMBERS * sizeof(float)) == 0;
  };
  return p.k >= LEAST_TERMS && p.n % NUMBERS == 0 && p.k % NUMBERS == 0 && p.a_stride % NUMBERS == 0 &&
         p.c_stride % NUMBERS == 0 && is_aligned(p.a) && is_aligned(p.b) && is_aligned(p.c);
}

TensorCores::TensorCores(cudaStream_t stream, int num_multiprocessors) : num_multiprocessors_(num_multiprocessors) {
  static std::mutex mutex;
  static std::map<int, float> losses;    // by number of the GPU
  int gpu;
  check_call(cudaGetDevice(&gpu), "cudaGetDevice");
  const std::lock_guard<std::mutex> lock(mutex);
  const auto known = losses.find(gpu);
  loss_ = known != losses.end() ? known->second : losses[gpu] = measured_loss(stream, num_multiprocessors);
}

void TensorCores::multiply(cudaStream_t stream, const TensorProduct32 &p) const {
  multiply_by_cores(stream, num_multiprocessors_, p, loss_);
}

}    // namespace equi

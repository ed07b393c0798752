// SPDX-License-Identifier: MIT
// Dense products on CUDA: cuBLAS on the stream of the kernels.
#include "kokkos/device_kernels/device_dense.h"

#include <cublas_v2.h>

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

namespace equi {

namespace {

// What cuBLAS recommends for Hopper. Of its own it would allocate memory within recorded work (device_recorder.h).
constexpr std::size_t WORKSPACE_BYTES = 32 << 20;

void check(cublasStatus_t status, const char *call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(call) + " failed: " + cublasGetStatusString(status));
}

// Products of one stream wait for each other, so that they can have one workspace; those of several run side by side.
class Library {
 public:
  explicit Library(cudaStream_t stream)
      : workspace_(Kokkos::view_alloc("equi:cublas", Kokkos::WithoutInitializing), WORKSPACE_BYTES) {
    check(cublasCreate(&handle_), "cublasCreate");
    try {
      check(cublasSetStream(handle_, stream), "cublasSetStream");
      check(cublasSetWorkspace(handle_, workspace_.data(), WORKSPACE_BYTES), "cublasSetWorkspace");
      // TF32 would cost three of seven digits of the forces.
      check(cublasSetMathMode(handle_, CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
    } catch (...) {
      cublasDestroy(handle_);
      throw;
    }
  }
  ~Library() { cublasDestroy(handle_); }
  Library(const Library &) = delete;
  Library &operator=(const Library &) = delete;

  // product(handle), by one thread at a time.
  template <class Product>
  void multiply(const char *name, const Product &product) {
    const std::lock_guard<std::mutex> lock(mutex_);
    check(product(handle_), name);
  }

 private:
  Kokkos::View<char *, Kokkos::CudaSpace> workspace_;
  cublasHandle_t handle_ = nullptr;
  std::mutex mutex_;
};

struct Entry {
  std::shared_ptr<Library> library;
  int num_users = 0;
};
std::mutex MUTEX;    // of the map
std::map<cudaStream_t, Entry> LIBRARIES;

std::shared_ptr<Library> library_of(const Kokkos::Cuda &exec) {
  const std::lock_guard<std::mutex> lock(MUTEX);
  const auto found = LIBRARIES.find(exec.cuda_stream());
  if (found == LIBRARIES.end()) throw std::logic_error("a dense product on an instance without DeviceDense");
  return found->second.library;
}

// cuBLAS counts rows with int; the batches of an evaluation are far below.
int as_int(int64_t m) {
  if (m > std::numeric_limits<int>::max()) throw std::length_error("a dense product with more than 2^31 rows");
  return static_cast<int>(m);
}

// cuBLAS is column-major and computes the transpose, C^T = B^T A^T, of the same memory. Planes are a batch of products.
template <class T, class Gemm, class Batched>
void gemm(const Kokkos::Cuda &exec, const Gemm &one_product, const Batched &batch, bool transpose_b, int64_t m, int n,
          int k, const T *a, const T *b, bool add, T *c, const DensePlanes *planes) {
  if (m == 0) return;
  static constexpr const char *SINGLE[] = {"cublasSgemm", "cublasSgemmStridedBatched"},
                              *DOUBLE[] = {"cublasDgemm", "cublasDgemmStridedBatched"};
  const T one = 1, beta = add ? 1 : 0;
  const cublasOperation_t op_b = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int b_stride = transpose_b ? k : n;
  library_of(exec)->multiply((sizeof(T) == 4 ? SINGLE : DOUBLE)[planes ? 1 : 0], [&](cublasHandle_t handle) {
    if (!planes) return one_product(handle, op_b, CUBLAS_OP_N, n, as_int(m), k, &one, b, b_stride, a, k, &beta, c, n);
    return batch(handle, op_b, CUBLAS_OP_N, n, as_int(m), k, &one, b, b_stride, 0, a, as_int(planes->a_stride), k,
                 &beta, c, as_int(planes->c_stride), n, planes->count);
  });
}

}    // namespace

void device_gemm(const Kokkos::Cuda &exec, bool transpose_b, int64_t m, int n, int k, const float *a, const float *b,
                 bool add, float *c, const DensePlanes *planes) {
  gemm(exec, cublasSgemm, cublasSgemmStridedBatched, transpose_b, m, n, k, a, b, add, c, planes);
}
void device_gemm(const Kokkos::Cuda &exec, bool transpose_b, int64_t m, int n, int k, const double *a, const double *b,
                 bool add, double *c, const DensePlanes *planes) {
  gemm(exec, cublasDgemm, cublasDgemmStridedBatched, transpose_b, m, n, k, a, b, add, c, planes);
}

DeviceDense::DeviceDense(const Kokkos::Cuda &exec) : exec_(exec) {
  const std::lock_guard<std::mutex> lock(MUTEX);
  const cudaStream_t stream = exec_.cuda_stream();
  auto found = LIBRARIES.find(stream);
  if (found == LIBRARIES.end()) found = LIBRARIES.emplace(stream, Entry{std::make_shared<Library>(stream)}).first;
  found->second.num_users++;
}
DeviceDense::~DeviceDense() {
  const std::lock_guard<std::mutex> lock(MUTEX);
  const auto found = LIBRARIES.find(exec_.cuda_stream());
  if (--found->second.num_users == 0) LIBRARIES.erase(found);
}

}    // namespace equi

// SPDX-License-Identifier: MIT
// Dense products on CUDA: with cuBLAS, or on tensor cores if float32 fits them. They run on the stream of the
// kernels, and branches also on other streams.
#include "kokkos/device_kernels/device_dense.h"

#include "kokkos/runtime/cuda_calls.h"

#ifdef EQUI_TENSOR_CORES
#include "kokkos/device_kernels/device_dense_tensor.h"
#endif

#include <cublas_v2.h>

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace equi {

namespace {

// Number of branches that run at the same time; further ones share these.
constexpr int NUM_BRANCHES = 4;
// What cuBLAS recommends for Hopper, and less for the branches other than exec's own, which are for small products.
// By default cuBLAS would allocate memory within recorded work (device_recorder.h).
constexpr std::size_t WORKSPACE_BYTES = 32 << 20, BRANCH_WORKSPACE_BYTES = 8 << 20;

void check(cublasStatus_t status, const char *call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(call) + " failed: " + cublasGetStatusString(status));
}

// Owners of CUDA's objects; errors when these are destroyed do not matter.
struct Destroy {
  void operator()(cublasHandle_t handle) const { cublasDestroy(handle); }
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

// The products of a stream. Those of a branch wait for each other, so they can share a workspace. Those of several
// branches, and of several streams, run at the same time. The constructor creates all objects, because a capture may
// begin later.
class Library {
 public:
  explicit Library(const Kokkos::Cuda &exec)
      : workspace_(Kokkos::view_alloc("equi:cublas", Kokkos::WithoutInitializing),
                   WORKSPACE_BYTES + (NUM_BRANCHES - 1) * BRANCH_WORKSPACE_BYTES)
#ifdef EQUI_TENSOR_CORES
        ,
        tensor_cores_(exec.cuda_stream(), exec.cuda_device_prop().multiProcessorCount)
#endif
  {
    cublasHandle_t handle;
    check(cublasCreate(&handle), "cublasCreate");
    handle_.reset(handle);
    choose_math(false);
    char *workspace = workspace_.data();
    for (Branch &b : branches_) {
      const bool is_first = &b == branches_;
      b.stream = exec.cuda_stream();
      if (!is_first) {
        check_call(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
        b.owned_stream.reset(b.stream);
      }
      cudaEvent_t event;
      check_call(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
      b.reached.reset(event);
      b.workspace = workspace;
      b.workspace_bytes = is_first ? WORKSPACE_BYTES : BRANCH_WORKSPACE_BYTES;
      workspace += b.workspace_bytes;
    }
    select(branches_[0]);
  }
  Library(const Library &) = delete;
  Library &operator=(const Library &) = delete;

  // Calls product(handle), in one thread at a time.
  template <class Product>
  void multiply(const char *name, int branch, bool tf32, const Product &product) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    select(open(branch));
    if (tf32 != is_tf32_) choose_math(tf32);
    check(product(handle_.get()), name);
  }
#ifdef EQUI_TENSOR_CORES
  // The same on tensor cores, for each plane.
  void multiply(int branch, TensorProduct32 p, int num_planes) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    check_launches();    // otherwise CUTLASS would report an error of an earlier call as its own
    for (int plane = 0; plane < num_planes; plane++, p.a += p.k, p.c += p.n)
      tensor_cores_.multiply(open(branch).stream, p);
  }
#endif

  // Between fork() and join(), only this thread can request products. A branch begins with its first product; a
  // branch without products costs nothing.
  void fork() {
    std::unique_lock<std::recursive_mutex> lock(mutex_);
    if (is_forked_) throw std::logic_error("branches of dense products within others");
    check_call(cudaEventRecord(branches_[0].reached.get(), branches_[0].stream), "cudaEventRecord");
    is_forked_ = true;
    lock.release();
  }
  // Also called after a product that failed: a capture can end only when all branches have returned to its stream.
  // CUDA keeps an error of these calls for check_launches().
  void join() noexcept {
    for (Branch &b : branches_) {
      if (!b.is_open) continue;
      if (cudaEventRecord(b.reached.get(), b.stream) == cudaSuccess)
        cudaStreamWaitEvent(branches_[0].stream, b.reached.get(), 0);
      b.is_open = false;
    }
    is_forked_ = false;
    mutex_.unlock();
  }

 private:
  struct Branch {
    cudaStream_t stream = nullptr;
    Owned<cudaStream_t> owned_stream;    // null for the first branch, whose stream is the caller's
    Owned<cudaEvent_t> reached;          // recorded by the first branch at the fork, by others at the join
    char *workspace = nullptr;
    std::size_t workspace_bytes = 0;
    bool is_open = false;    // for branches other than the first: whether it has products since the fork
  };

  // The branch with this number, which begins with its first product.
  const Branch &open(int branch) {
    Branch &b = branches_[is_forked_ ? branch % NUM_BRANCHES : 0];
    if (&b != branches_ && !b.is_open) {
      check_call(cudaStreamWaitEvent(b.stream, branches_[0].reached.get(), 0), "cudaStreamWaitEvent");
      b.is_open = true;
    }
    return b;
  }

  // TF32 alone costs three of seven digits, so it is only for products that allow it.
  void choose_math(bool tf32) {
    check(cublasSetMathMode(handle_.get(), tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_PEDANTIC_MATH),
          "cublasSetMathMode");
    is_tf32_ = tf32;
  }

  // Assigns the next products of cuBLAS to a branch.
  void select(const Branch &b) {
    if (selected_ == &b) return;
    selected_ = nullptr;
    check(cublasSetStream(handle_.get(), b.stream), "cublasSetStream");    // resets the workspace
    check(cublasSetWorkspace(handle_.get(), b.workspace, b.workspace_bytes), "cublasSetWorkspace");
    selected_ = &b;
  }

  Kokkos::View<char *, Kokkos::CudaSpace> workspace_;
  Branch branches_[NUM_BRANCHES];
  Owned<cublasHandle_t> handle_;    // destroyed before its streams
  const Branch *selected_ = nullptr;
  bool is_tf32_ = false;    // whether the next products of cuBLAS may round operands to TF32
#ifdef EQUI_TENSOR_CORES
  TensorCores tensor_cores_;
#endif
  bool is_forked_ = false;
  std::recursive_mutex mutex_;
};

struct Entry {
  std::shared_ptr<Library> library;
  int num_users = 0;
};
std::mutex MUTEX;    // protects the map
std::map<cudaStream_t, Entry> LIBRARIES;

std::shared_ptr<Library> library_of(const Kokkos::Cuda &exec) {
  const std::lock_guard<std::mutex> lock(MUTEX);
  const auto found = LIBRARIES.find(exec.cuda_stream());
  if (found == LIBRARIES.end()) throw std::logic_error("a dense product on an instance without DeviceDense");
  return found->second.library;
}

// cuBLAS counts rows with int; the batches of an evaluation are far smaller.
int as_int(int64_t m) {
  if (m > std::numeric_limits<int>::max()) throw std::length_error("a dense product with more than 2^31 rows");
  return static_cast<int>(m);
}

// cuBLAS is column-major and computes the transpose, C^T = B^T A^T, in the same memory. Planes are a batch of
// products.
template <class T, class Gemm, class Batched>
void gemm(const Kokkos::Cuda &exec, const Gemm &one_product, const Batched &batch, bool transpose_b, int64_t m, int n,
          int k, const T *a, const T *b, bool add, T *c, const DensePlanes *planes, int branch, bool tf32) {
  if (m == 0) return;
  static constexpr const char *SINGLE[] = {"cublasSgemm", "cublasSgemmStridedBatched"},
                              *DOUBLE[] = {"cublasDgemm", "cublasDgemmStridedBatched"};
  const T one = 1, beta = add ? 1 : 0;
#ifdef EQUI_TENSOR_CORES
  if constexpr (std::is_same_v<T, float>) {
    const DensePlanes all = planes ? *planes : DensePlanes{1, k, n};
    const TensorProduct32 p{transpose_b, as_int(m), n, k, a, b, c, as_int(all.a_stride), as_int(all.c_stride), add};
    if (!tf32 && fits_tensor_cores(p)) return library_of(exec)->multiply(branch, p, all.count);
  }
#endif
  const cublasOperation_t op_b = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int b_stride = transpose_b ? k : n;
  library_of(exec)->multiply(
      (sizeof(T) == 4 ? SINGLE : DOUBLE)[planes ? 1 : 0], branch, tf32, [&](cublasHandle_t handle) {
        if (!planes)
          return one_product(handle, op_b, CUBLAS_OP_N, n, as_int(m), k, &one, b, b_stride, a, k, &beta, c, n);
        return batch(handle, op_b, CUBLAS_OP_N, n, as_int(m), k, &one, b, b_stride, 0, a, as_int(planes->a_stride), k,
                     &beta, c, as_int(planes->c_stride), n, planes->count);
      });
}

}    // namespace

void device_gemm(const Kokkos::Cuda &exec, bool transpose_b, int64_t m, int n, int k, const float *a, const float *b,
                 bool add, float *c, const DensePlanes *planes, int branch, bool tf32) {
  gemm(exec, cublasSgemm, cublasSgemmStridedBatched, transpose_b, m, n, k, a, b, add, c, planes, branch, tf32);
}
void device_gemm(const Kokkos::Cuda &exec, bool transpose_b, int64_t m, int n, int k, const double *a, const double *b,
                 bool add, double *c, const DensePlanes *planes, int branch, bool) {
  gemm(exec, cublasDgemm, cublasDgemmStridedBatched, transpose_b, m, n, k, a, b, add, c, planes, branch, false);
}

DeviceDense::DeviceDense(const Kokkos::Cuda &exec) : exec_(exec) {
  const std::lock_guard<std::mutex> lock(MUTEX);
  const cudaStream_t stream = exec_.cuda_stream();
  auto found = LIBRARIES.find(stream);
  if (found == LIBRARIES.end()) found = LIBRARIES.emplace(stream, Entry{std::make_shared<Library>(exec_)}).first;
  found->second.num_users++;
}
DeviceDense::~DeviceDense() {
  const std::lock_guard<std::mutex> lock(MUTEX);
  const auto found = LIBRARIES.find(exec_.cuda_stream());
  if (--found->second.num_users == 0) LIBRARIES.erase(found);
}

DenseBranches::DenseBranches(const Kokkos::Cuda &exec) : exec_(exec) {
  library_of(exec)->fork();
}
DenseBranches::~DenseBranches() {
  library_of(exec_)->join();
}

}    // namespace equi

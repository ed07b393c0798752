// SPDX-License-Identifier: MIT
// The state of the emulated Kokkos and cuBLAS in a process.
#include "unittest/emulation/engine.h"

#include <cublas_v2.h>
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {
enum class Process { not_started, running, ended } process = Process::not_started;
}    // namespace

namespace Kokkos {

bool is_initialized() {
  return process == Process::running;
}
bool is_finalized() {
  return process == Process::ended;
}
void initialize(const InitializationSettings &) {
  if (process != Process::not_started) throw std::runtime_error("Kokkos::initialize: called twice");
  process = Process::running;
}
void finalize() {
  if (process != Process::running) throw std::runtime_error("Kokkos::finalize: Kokkos is not running");
  fence("Kokkos::finalize");
  process = Process::ended;
}

Tools::Experimental::EventSet &Tools::Experimental::callbacks() {
  static EventSet events;
  return events;
}

namespace Impl {

void launch_range(const std::string &label, emulation::Stream *stream, std::int64_t count, const emulation::Call &call,
                  const std::type_info &type, void (*run)(const void *functor, std::int64_t k), std::int64_t begin) {
  emulation::enqueue(stream, {label, &type, [=] {
                                const emulation::RandomOrder order(count);
                                for (std::int64_t k = 0; k < count; k++) run(call.functor(), begin + order[k]);
                              }});
}

void check_team(int size, int most_threads, std::size_t scratch) {
  if (size < 1 || size > most_threads || size > emulation::MAX_THREADS)
    throw std::runtime_error("Kokkos::Impl::ParallelFor< Cuda > requested too large team size " + std::to_string(size));
  if (bytes_of_team(size) + scratch > emulation::MAX_SHARED_BYTES)
    throw std::runtime_error("Kokkos::Impl::ParallelFor< Cuda > insufficient shared memory for " +
                             std::to_string(scratch) + " bytes");
}

void launch_teams(const std::string &label, emulation::Stream *stream, std::int64_t league, int size,
                  std::size_t scratch, const emulation::Call &call, const std::type_info &type,
                  void (*run)(const void *functor, const EmulatedTeamMember &member)) {
  emulation::enqueue(stream, {label, &type, [=] {
                                emulation::run_blocks(league, size, scratch, [=](std::int64_t block, int thread) {
                                  run(call.functor(),
                                      EmulatedTeamMember(block, static_cast<int>(league), thread, size, scratch));
                                });
                              }});
}

}    // namespace Impl

}    // namespace Kokkos

struct cublasContext {
  emulation::Stream *stream = emulation::default_stream();
  void *workspace = nullptr;
  cublasMath_t mode = CUBLAS_DEFAULT_MATH;
};

cublasStatus_t cublasCreate(cublasHandle_t *handle) {
  emulation::refuse_in_capture("cublasCreate");
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  emulation::refuse_in_capture("cublasDestroy");
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
// Also removes the workspace.
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = emulation::stream_of(stream);
  handle->workspace = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, std::size_t bytes) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!emulation::check_range("cublasSetWorkspace", workspace, bytes, true)) return CUBLAS_STATUS_INVALID_VALUE;
  handle->workspace = workspace;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}
const char *cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS           ? "success"
         : status == CUBLAS_STATUS_NOT_INITIALIZED ? "the library was not initialized"
         : status == CUBLAS_STATUS_INVALID_VALUE   ? "an unsupported value or parameter was passed"
                                                   : "the launch of a kernel failed";
}

namespace {

// Numbers between the matrices of several products.
struct Batch {
  int count;
  std::int64_t a, b, c;
};

// The nearest number of 11 bits.
float rounded_to_tf32(float number) {
  constexpr std::uint32_t LOST = 13;
  std::uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  bits = (bits + (1u << (LOST - 1))) >> LOST << LOST;
  std::memcpy(&number, &bits, sizeof bits);
  return number;
}
double rounded_to_tf32(double number) {
  return number;
}

// A block of a product, whose sums stay in registers: many of the tests' operations are those of products.
constexpr int BLOCK_ROWS = 4, BLOCK_COLUMNS = 4;

// Each number is summed in the order of l.
template <class T>
void multiply_block(std::int64_t k, const T *a, std::int64_t rows, const T *b, std::int64_t columns,
                    T (&product)[BLOCK_COLUMNS][BLOCK_ROWS]) {
  T sum[BLOCK_COLUMNS][BLOCK_ROWS] = {};
  for (std::int64_t l = 0; l < k; l++)
    for (int j = 0; j < BLOCK_COLUMNS; j++)
      for (int i = 0; i < BLOCK_ROWS; i++) sum[j][i] += a[l * rows + i] * b[l * columns + j];
  for (int j = 0; j < BLOCK_COLUMNS; j++) std::copy_n(sum[j], BLOCK_ROWS, product[j]);
}

template <class T>
cublasStatus_t multiply(cublasHandle_t handle, const char *name, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                        int n, int k, T alpha, const T *a, int lda, const T *b, int ldb, T beta, T *c, int ldc,
                        const Batch &batch = {1, 0, 0, 0}) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const int rows_a = op_a == CUBLAS_OP_N ? m : k, rows_b = op_b == CUBLAS_OP_N ? k : n;
  if (m < 0 || n < 0 || k < 0 || lda < std::max(1, rows_a) || ldb < std::max(1, rows_b) || ldc < std::max(1, m) ||
      batch.count < 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  // It would allocate one.
  if (!handle->workspace && emulation::is_capturing()) emulation::report("%s without a workspace is captured", name);
  const bool rounds = handle->mode == CUBLAS_TF32_TENSOR_OP_MATH;
  const auto work = [=] {
    const std::int64_t step_a = op_a == CUBLAS_OP_N ? 1 : lda, next_a = op_a == CUBLAS_OP_N ? lda : 1,
                       step_b = op_b == CUBLAS_OP_N ? ldb : 1, next_b = op_b == CUBLAS_OP_N ? 1 : ldb;
    // op(A) and op(B) with adjacent numbers, l by l, and zeros up to whole blocks.
    const int rows = (m + BLOCK_ROWS - 1) / BLOCK_ROWS * BLOCK_ROWS,
              columns = (n + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS * BLOCK_COLUMNS;
    std::vector<T> packed_a(static_cast<std::size_t>(rows) * k), packed_b(static_cast<std::size_t>(columns) * k);
    for (int p = 0; p < batch.count; p++) {
      const T *of_a = a + p * batch.a, *of_b = b + p * batch.b;
      T *of_c = c + p * batch.c;
      for (std::int64_t l = 0; l < k; l++) {
        for (std::int64_t i = 0; i < m; i++) packed_a[l * rows + i] = of_a[i * step_a + l * next_a];
        for (std::int64_t j = 0; j < n; j++) packed_b[l * columns + j] = of_b[l * next_b + j * step_b];
      }
      if (rounds)
        for (std::vector<T> *packed : {&packed_a, &packed_b})
          for (T &number : *packed) number = rounded_to_tf32(number);
      for (int first_row = 0; first_row < m; first_row += BLOCK_ROWS)
        for (int first_column = 0; first_column < n; first_column += BLOCK_COLUMNS) {
          T sum[BLOCK_COLUMNS][BLOCK_ROWS];
          multiply_block(k, packed_a.data() + first_row, rows, packed_b.data() + first_column, columns, sum);
          for (int j = 0; j < std::min(BLOCK_COLUMNS, n - first_column); j++)
            for (int i = 0; i < std::min(BLOCK_ROWS, m - first_row); i++) {
              T &to = of_c[first_row + i + static_cast<std::int64_t>(first_column + j) * ldc];
              to = beta == T(0) ? alpha * sum[j][i] : alpha * sum[j][i] + beta * to;    // with beta = 0 it is not read
            }
        }
    }
  };
  return emulation::enqueue(handle->stream, {name, &typeid(work), work}) ? CUBLAS_STATUS_SUCCESS
                                                                         : CUBLAS_STATUS_EXECUTION_FAILED;
}

}    // namespace

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                           const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta,
                           float *c, int ldc) {
  return multiply(handle, "cublasSgemm", op_a, op_b, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
}
cublasStatus_t cublasDgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                           const double *alpha, const double *a, int lda, const double *b, int ldb, const double *beta,
                           double *c, int ldc) {
  return multiply(handle, "cublasDgemm", op_a, op_b, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
}
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                         int n, int k, const float *alpha, const float *a, int lda, long long stride_a,
                                         const float *b, int ldb, long long stride_b, const float *beta, float *c,
                                         int ldc, long long stride_c, int count) {
  return multiply(handle, "cublasSgemmStridedBatched", op_a, op_b, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc,
                  {count, stride_a, stride_b, stride_c});
}
cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                         int n, int k, const double *alpha, const double *a, int lda,
                                         long long stride_a, const double *b, int ldb, long long stride_b,
                                         const double *beta, double *c, int ldc, long long stride_c, int count) {
  return multiply(handle, "cublasDgemmStridedBatched", op_a, op_b, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc,
                  {count, stride_a, stride_b, stride_c});
}

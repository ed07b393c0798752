// SPDX-License-Identifier: MIT
// Measures the peak rate of multiply-adds and the memory bandwidth of the machine.
#include "bench/peak.h"

#include "bench/on_threads.h"
#include "kokkos/runtime/buffer.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

namespace equi {
namespace bench {

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A processor starts up to two multiply-adds per cycle and finishes them four or five cycles later. Twelve chains keep
// it busy and fit into 16 registers with the two constants. Named variables are used, because g++ keeps arrays of
// vectors in memory. It is a macro, because the instruction set is an attribute of the function.
constexpr int CHAINS = 12;
#define EQUI_FMA_LOOP(name, attribute, bytes)                         \
  template <class T>                                                  \
  attribute T name(int64_t count, T m, T c) {                         \
    typedef T V __attribute__((vector_size(bytes)));                  \
    V a0 = V{} + c, a1 = a0 + c, a2 = a1 + c, a3 = a2 + c;            \
    V a4 = a3 + c, a5 = a4 + c, a6 = a5 + c, a7 = a6 + c;             \
    V a8 = a7 + c, a9 = a8 + c, a10 = a9 + c, a11 = a10 + c;          \
    const V k = V{} + m, s = V{} + c;                                 \
    for (int64_t n = 0; n < count; ++n) {                             \
      a0 = a0 * k + s, a1 = a1 * k + s, a2 = a2 * k + s;              \
      a3 = a3 * k + s, a4 = a4 * k + s, a5 = a5 * k + s;              \
      a6 = a6 * k + s, a7 = a7 * k + s, a8 = a8 * k + s;              \
      a9 = a9 * k + s, a10 = a10 * k + s, a11 = a11 * k + s;          \
    }                                                                 \
    a0 += a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;     \
    T sum = 0;                                                        \
    for (int i = 0; i < static_cast<int>((bytes) / sizeof(T)); ++i) { \
      sum += a0[i];                                                   \
    }                                                                 \
    return sum;                                                       \
  }

EQUI_FMA_LOOP(fma_loop, , 16)    // a baseline without fused multiply-adds needs two instructions
#if defined(__x86_64__)
EQUI_FMA_LOOP(fma_loop_avx2, __attribute__((target("avx2,fma"))), 32)
EQUI_FMA_LOOP(fma_loop_avx512, __attribute__((target("avx512f,fma"))), 64)
#endif
#undef EQUI_FMA_LOOP

struct alignas(ALIGNMENT) Result {    // one cache line for each thread
  double value = 0.0;
};

}    // namespace

template <class T>
double peak_gflops(InstructionSet set, int threads) {
  set = vector_set(set);
  T (*loop)(int64_t, T, T) = fma_loop<T>;
  int bytes = 16;
#if defined(__x86_64__)
  if (set == InstructionSet::avx2) loop = fma_loop_avx2<T>, bytes = 32;
  if (set == InstructionSet::avx512) loop = fma_loop_avx512<T>, bytes = 64;
#else
  (void)set;
#endif
  // A run needs about a millisecond, so one of many falls into a time in which no other process has the core. The first
  // runs let the processor settle its clock.
  constexpr int64_t COUNT = 400000;
  constexpr int RUNS = 150;
  std::vector<Result> best(threads);
  on_threads(threads, [&](int t) {
    volatile T sink;
    for (int run = 0; run < RUNS; ++run) {
      const auto begin = std::chrono::steady_clock::now();
      sink = loop(COUNT, T(0.5), T(0.001));
      best[t].value = std::max(best[t].value, 1.0 / seconds_since(begin));
    }
    (void)sink;
  });
  double sum = 0.0;
  for (const Result &r : best) sum += r.value;
  return 2e-9 * CHAINS * (bytes / sizeof(T)) * COUNT * sum;
}

template double peak_gflops<float>(InstructionSet, int);
template double peak_gflops<double>(InstructionSet, int);

double triad_gbytes(int threads) {
  constexpr int64_t SIZE = int64_t(1) << 25;    // 3 x 256 MiB: a server's last cache may have several hundred MiB
  constexpr int RUNS = 6;
  struct Free {
    void operator()(double *p) const { ::operator delete(p, std::align_val_t(ALIGNMENT)); }
  };
  std::unique_ptr<double[], Free> arrays[3];
  for (auto &array : arrays)
    array.reset(static_cast<double *>(::operator new(SIZE * sizeof(double), std::align_val_t(ALIGNMENT))));
  double *a = arrays[0].get(), *b = arrays[1].get(), *c = arrays[2].get();
  const auto begin_of = [&](int t) { return SIZE / threads * t; };
  // Each thread touches its part first, so the part is allocated in the memory next to its core.
  on_threads(threads, [&](int t) {
    for (int64_t i = begin_of(t); i < begin_of(t) + SIZE / threads; ++i) a[i] = 0.0, b[i] = 1.0, c[i] = 2.0;
  });
  double best = 0.0;
  for (int run = 0; run < RUNS; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    on_threads(threads, [&](int t) {
      for (int64_t i = begin_of(t); i < begin_of(t) + SIZE / threads; ++i) a[i] = b[i] + 0.5 * c[i];
    });
    best = std::max(best, 3e-9 * sizeof(double) * static_cast<double>(SIZE / threads * threads) / seconds_since(begin));
  }
  return best;
}

}    // namespace bench
}    // namespace equi

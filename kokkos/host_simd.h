// SIMD registers and what the host's kernels do with them. The including file defines EQUI_ISA (a namespace name) and
// EQUI_SIMD_BYTES (the width of a register).
#ifndef EQUI_HOST_SIMD_H
#define EQUI_HOST_SIMD_H

#include "unit_kernel.h"

#include <cstdint>
#include <type_traits>
#include <utility>

#define EQUI_INLINE __attribute__((always_inline)) inline

namespace equi {
namespace EQUI_ISA {

template <class T>
struct SimdOf {
  typedef T type __attribute__((vector_size(EQUI_SIMD_BYTES)));    // g++ lets vectors alias their elements
};
template <class T>
using Simd = typename SimdOf<T>::type;
template <class T>
constexpr int LANES = EQUI_SIMD_BYTES / sizeof(T);

template <class T>
EQUI_INLINE Simd<T> load(const T *p) {
  return *reinterpret_cast<const Simd<T> *>(p);
}
template <class T>
EQUI_INLINE void store(T *p, Simd<T> v) {
  *reinterpret_cast<Simd<T> *>(p) = v;
}
template <class T>
EQUI_INLINE void add_to(T *p, Simd<T> v) {
  *reinterpret_cast<Simd<T> *>(p) += v;
}

// Keeps a value in a register. Without it g++ reads what it loaded once more for each use, and on the machines that we
// measured loads are scarcer than multiply-adds.
template <class V>
EQUI_INLINE V in_register(V v) {
#if defined(__x86_64__)
  asm("" : "+v"(v));
#endif
  return v;
}

// The polynomial with ROWS coefficients row[k * STRIDE] at f.
template <int ROWS, int STRIDE, class T>
EQUI_INLINE Simd<T> polynomial(const T *row, Simd<T> f) {
  Simd<T> w = load(row + (ROWS - 1) * STRIDE);
  for (int k = ROWS - 2; k >= 0; k--) w = w * f + load(row + k * STRIDE);
  return w;
}

// The same and its derivative by f.
template <int ROWS, int STRIDE, class T>
EQUI_INLINE void polynomial(const T *row, Simd<T> f, Simd<T> &w, Simd<T> &dw) {
  dw = load(row + (ROWS - 1) * STRIDE);
  w = dw * f + load(row + (ROWS - 2) * STRIDE);
  for (int k = ROWS - 3; k >= 0; k--) {
    dw = dw * f + w;
    w = w * f + load(row + k * STRIDE);
  }
}

template <class T>
struct IndexOf {
  typedef std::conditional_t<sizeof(T) == 4, int32_t, int64_t> type __attribute__((vector_size(EQUI_SIMD_BYTES)));
};

template <class T, int ODD, int... I>
EQUI_INLINE typename IndexOf<T>::type every_other(std::integer_sequence<int, I...>) {
  using Index = typename IndexOf<T>::type;
  return Index{(2 * I + ODD)...};
}

// (a0+a1, a2+a3, ..., b0+b1, b2+b3, ...)
template <class T>
EQUI_INLINE Simd<T> add_neighbors(Simd<T> a, Simd<T> b) {
  constexpr auto lanes = std::make_integer_sequence<int, LANES<T>>{};
  return __builtin_shuffle(a, b, every_other<T, 0>(lanes)) + __builtin_shuffle(a, b, every_other<T, 1>(lanes));
}

// to[index[k]] += the sum over the lanes of v[k]. The order of the sums is a fixed tree.
template <class T, int N>
EQUI_INLINE void add_sums_of_lanes(const Simd<T> (&v)[N], const int (&index)[N], T *to) {
  constexpr int L = LANES<T>;
  for (int first = 0; first < N; first += L) {
    Simd<T> s[L];
    for (int k = 0; k < L; k++) s[k] = first + k < N ? v[first + k < N ? first + k : 0] : Simd<T>{};
    for (int n = L / 2; n > 0; n /= 2)
      for (int k = 0; k < n; k++) s[k] = add_neighbors<T>(s[2 * k], s[2 * k + 1]);
    T sum[L];
    __builtin_memcpy(sum, &s[0], sizeof sum);
    for (int k = 0; k < L && first + k < N; k++) to[index[first + k]] += sum[k];
  }
}

}    // namespace EQUI_ISA
}    // namespace equi

#endif

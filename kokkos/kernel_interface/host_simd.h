// SPDX-License-Identifier: MIT
// SIMD registers, and the operations on them that host kernels use. The including file defines EQUI_ISA (a namespace
// name) and EQUI_SIMD_BYTES (the width of a register).
#ifndef EQUI_HOST_SIMD_H
#define EQUI_HOST_SIMD_H

#include "kokkos/kernel_interface/path_group_kernel.h"

#include <cstdint>
#include <type_traits>
#include <utility>

#define EQUI_INLINE __attribute__((always_inline)) inline
// Used before a short loop whose length the compiler knows. Without it, g++ unrolls them only from -O2 on.
#define EQUI_UNROLL_SIMD _Pragma("GCC unroll 64")

namespace equi {
namespace EQUI_ISA {

template <class T>
struct SimdOf {
  typedef T type __attribute__((vector_size(EQUI_SIMD_BYTES)));    // for g++ and clang++, may alias its elements
};
template <class T>
using Simd = typename SimdOf<T>::type;
template <class T>
constexpr int LANES = EQUI_SIMD_BYTES / sizeof(Real<T>);
// Numbers of a line of the caches, which is at least a register.
template <class T>
constexpr int LINE = 64 / sizeof(Real<T>);
static_assert(EQUI_SIMD_BYTES <= 64);

// Duals in two registers. Factors may be plain, and the same for all lanes.
template <class T>
struct DualSimd {
  using V = Simd<T>;
  V value, tangent;

  EQUI_INLINE friend DualSimd operator-(DualSimd a) { return {-a.value, -a.tangent}; }
  EQUI_INLINE friend DualSimd operator+(DualSimd a, DualSimd b) { return {a.value + b.value, a.tangent + b.tangent}; }
  EQUI_INLINE friend DualSimd operator+(DualSimd a, V b) { return {a.value + b, a.tangent}; }
  EQUI_INLINE friend DualSimd operator+(DualSimd a, Dual<T> b) { return {a.value + b.value, a.tangent + b.tangent}; }
  EQUI_INLINE friend DualSimd operator-(DualSimd a, DualSimd b) { return {a.value - b.value, a.tangent - b.tangent}; }
  EQUI_INLINE friend DualSimd operator*(DualSimd a, DualSimd b) {
    return {a.value * b.value, a.tangent * b.value + a.value * b.tangent};
  }
  EQUI_INLINE friend DualSimd operator*(Dual<T> a, DualSimd b) {
    return {a.value * b.value, a.tangent * b.value + a.value * b.tangent};
  }
  EQUI_INLINE friend DualSimd operator*(DualSimd a, Dual<T> b) { return b * a; }
  EQUI_INLINE friend DualSimd operator*(V a, DualSimd b) { return {a * b.value, a * b.tangent}; }
  EQUI_INLINE friend DualSimd operator*(DualSimd a, V b) { return b * a; }
  EQUI_INLINE friend DualSimd operator*(T a, DualSimd b) { return {a * b.value, a * b.tangent}; }
  EQUI_INLINE DualSimd &operator+=(DualSimd b) { return *this = *this + b; }
  EQUI_INLINE DualSimd &operator-=(DualSimd b) { return *this = *this - b; }
};
template <class T>
struct SimdOf<Dual<T>> {
  typedef DualSimd<T> type;
};

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
template <class T>
EQUI_INLINE auto load(DualPointer<T> p) -> DualSimd<std::remove_const_t<T>> {
  return {load(p.value), load(p.value + p.distance)};
}
template <class T>
EQUI_INLINE void store(DualPointer<T> p, DualSimd<T> v) {
  store(p.value, v.value);
  store(p.value + p.distance, v.tangent);
}
template <class T>
EQUI_INLINE void add_to(DualPointer<T> p, DualSimd<T> v) {
  add_to(p.value, v.value);
  add_to(p.value + p.distance, v.tangent);
}

// The tangents along direction k, of several directions whose planes follow that of the values.
template <class T>
EQUI_INLINE T *tangents(DualPointer<T> p, int k) {
  return p.value + (1 + k) * p.distance;
}

// The values of adjacent duals.
template <class T>
struct Values {
  const Dual<T> *p;
  EQUI_INLINE T operator[](int k) const { return p[k].value; }
};
template <class T>
EQUI_INLINE Values<T> values(const Dual<T> *p) {
  return {p};
}

// Keeps a value in a register. Without it g++ loads it again for each use, and on the machines that we measured
// loads are scarcer than multiply-adds.
template <class V>
EQUI_INLINE V in_register(V v) {
#if defined(__x86_64__)
  asm("" : "+v"(v));
#elif defined(__aarch64__)
  asm("" : "+w"(v));
#endif
  return v;
}
template <class T>
EQUI_INLINE DualSimd<T> in_register(DualSimd<T> v) {
  return {in_register(v.value), in_register(v.tangent)};
}

// The coefficients of a split bin (SPLIT_ROWS) for the channels of SPLIT_CHANNELS that begin at number `lane`. `row`
// points to the first one there.
struct SplitRow {
  const double *row;
  int lane;
  EQUI_INLINE friend SplitRow operator+(SplitRow a, int64_t n) { return {a.row + n, a.lane}; }
};
// For a table with ROWS rows per bin: `row` points to the numbers for channel c, which is counted over all channel
// blocks.
template <int ROWS, class R>
EQUI_INLINE auto bin_at(const R *row, int c) {
  if constexpr (IS_SPLIT<R, ROWS>)
    return SplitRow{row, LANES<R> < SPLIT_CHANNELS ? c % SPLIT_CHANNELS : 0};
  else
    return row;
}

// As many float32 numbers as a register has float64 numbers.
typedef float HalfSimd __attribute__((vector_size(EQUI_SIMD_BYTES / 2)));
// g++ makes four instructions for a conversion that is one.
EQUI_INLINE Simd<double> as_float64(HalfSimd v) {
#if defined(__x86_64__) && !defined(__clang__) && EQUI_SIMD_BYTES == 64
  constexpr int CURRENT_ROUNDING = 4;
  return __builtin_ia32_cvtps2pd512_mask(v, Simd<double>{}, -1, CURRENT_ROUNDING);
#elif defined(__x86_64__) && !defined(__clang__) && EQUI_SIMD_BYTES == 32
  return __builtin_ia32_cvtps2pd256(v);
#else
  return __builtin_convertvector(v, Simd<double>);
#endif
}
// Coefficient FLOAT64_COEFFICIENTS + k of a split bin.
EQUI_INLINE HalfSimd upper_coefficient(SplitRow t, int stride, int k) {
  const double *row = t.row + (FLOAT64_COEFFICIENTS + k / 2) * static_cast<int64_t>(stride);
  // A distance of one channel is two float32 in `row`, and one here.
  return *reinterpret_cast<const HalfSimd *>(reinterpret_cast<const float *>(row) - t.lane + k % 2 * SPLIT_CHANNELS);
}
// Coefficient k of a bin. stride: numbers in a row.
template <class R>
EQUI_INLINE Simd<R> coefficient(const R *row, int stride, int k) {
  return load(row + k * static_cast<int64_t>(stride));
}
EQUI_INLINE Simd<double> coefficient(SplitRow t, int stride, int k) {
  if (k < FLOAT64_COEFFICIENTS) return load(t.row + k * static_cast<int64_t>(stride));
  return as_float64(upper_coefficient(t, stride, k - FLOAT64_COEFFICIENTS));
}

// The polynomial of a split bin at f and its first ORDER derivatives, each divided by the factorial of its order.
// stride: numbers in a row.
template <int ORDER>
EQUI_INLINE void split_polynomial(SplitRow t, int stride, Simd<double> f, Simd<double> (&p)[ORDER + 1]) {
  const HalfSimd g = __builtin_convertvector(f, HalfSimd);
  HalfSimd upper[ORDER + 1] = {};
  upper[0] = upper_coefficient(t, stride, SEPTIC_ROWS - FLOAT64_COEFFICIENTS - 1);
  EQUI_UNROLL_SIMD
  for (int k = SEPTIC_ROWS - FLOAT64_COEFFICIENTS - 2; k >= 0; k--) {
    EQUI_UNROLL_SIMD
    for (int n = ORDER; n > 0; n--) upper[n] = upper[n] * g + upper[n - 1];
    upper[0] = upper[0] * g + upper_coefficient(t, stride, k);
  }
  EQUI_UNROLL_SIMD
  for (int n = 0; n <= ORDER; n++) p[n] = as_float64(upper[n]);
  EQUI_UNROLL_SIMD
  for (int k = FLOAT64_COEFFICIENTS - 1; k >= 0; k--) {
    EQUI_UNROLL_SIMD
    for (int n = ORDER; n > 0; n--) p[n] = p[n] * f + p[n - 1];
    p[0] = p[0] * f + coefficient(t.row, stride, k);
  }
}

// The polynomial with ROWS coefficients row[k * STRIDE] at f.
template <int ROWS, int STRIDE, class T>
EQUI_INLINE Simd<T> polynomial(const T *row, Simd<T> f) {
  Simd<T> w = load(row + (ROWS - 1) * STRIDE);
  EQUI_UNROLL_SIMD
  for (int k = ROWS - 2; k >= 0; k--) w = w * f + load(row + k * STRIDE);
  return w;
}

// The same and its derivative with respect to f.
template <int ROWS, int STRIDE, class T>
EQUI_INLINE void polynomial(const T *row, Simd<T> f, Simd<T> &w, Simd<T> &dw) {
  dw = load(row + (ROWS - 1) * STRIDE);
  w = dw * f + load(row + (ROWS - 2) * STRIDE);
  EQUI_UNROLL_SIMD
  for (int k = ROWS - 3; k >= 0; k--) {
    dw = dw * f + w;
    w = w * f + load(row + k * STRIDE);
  }
}

// For split bins.
template <int ROWS, int STRIDE>
EQUI_INLINE Simd<double> polynomial(SplitRow row, Simd<double> f) {
  Simd<double> p[1];
  split_polynomial<0>(row, STRIDE, f, p);
  return p[0];
}
EQUI_INLINE void split_polynomial(SplitRow row, int stride, Simd<double> f, Simd<double> &w, Simd<double> &dw) {
  Simd<double> p[2];
  split_polynomial<1>(row, stride, f, p);
  w = p[0];
  dw = p[1];
}
template <int ROWS, int STRIDE, class F>
EQUI_INLINE void polynomial(SplitRow row, F f, F &w, F &dw) {
  split_polynomial(row, STRIDE, f, w, dw);
}

// For duals: the chain rule needs the next derivative only at the value of f.
template <int ROWS, int STRIDE, class T>
EQUI_INLINE DualSimd<T> polynomial(const T *row, DualSimd<T> f) {
  Simd<T> w, dw;
  polynomial<ROWS, STRIDE>(row, f.value, w, dw);
  return {w, dw * f.tangent};
}
template <int ROWS, int STRIDE, class T>
EQUI_INLINE void polynomial(const T *row, DualSimd<T> f, DualSimd<T> &w, DualSimd<T> &dw) {
  Simd<T> p0 = load(row + (ROWS - 1) * STRIDE), p1 = {}, p2 = {};
  EQUI_UNROLL_SIMD
  for (int k = ROWS - 2; k >= 0; k--) {
    p2 = p2 * f.value + p1;
    p1 = p1 * f.value + p0;
    p0 = p0 * f.value + load(row + k * STRIDE);
  }
  w = {p0, p1 * f.tangent};
  dw = {p1, T(2) * p2 * f.tangent};
}
template <int ROWS, int STRIDE>
EQUI_INLINE DualSimd<double> polynomial(SplitRow row, DualSimd<double> f) {
  Simd<double> p[2];
  split_polynomial<1>(row, STRIDE, f.value, p);
  return {p[0], p[1] * f.tangent};
}
EQUI_INLINE void split_polynomial(SplitRow row, int stride, DualSimd<double> f, DualSimd<double> &w,
                                  DualSimd<double> &dw) {
  Simd<double> p[3];
  split_polynomial<2>(row, stride, f.value, p);
  w = {p[0], p[1] * f.tangent};
  dw = {p[1], 2.0 * p[2] * f.tangent};
}

// The rows of edge e in a table, of the channel block with channel c, which is not negative: division of unsigned
// numbers takes fewer instructions.
template <int ROW, class T>
EQUI_INLINE const Real<T> *block_rows(const PathGroupCall<T> &u, int e, int c) {
  return u.table + unsigned(c) / CHANNEL_PAD * u.channel_block + static_cast<int64_t>(u.table_row[e]) * ROW;
}
// Where the radial rows of edge e for channel c begin, in a table or in weights of edges.
template <int ROWS, int ROW, class T>
EQUI_INLINE auto radial_row(const PathGroupCall<T> &u, int e, int c) {
  if constexpr (ROWS == 1)
    return u.weights + (u.table_row[e] * u.weights_row + c);
  else
    return bin_at<ROWS>(block_rows<ROW>(u, e, c) + unsigned(c) % CHANNEL_PAD, c);
}

// Prefetches the rows of a later edge from a table. The registers of a channel block share its rows: each fetches an
// equal part. This was measured with AVX2 alone, where tables exceed the second-level cache (512 kB on Zen 3).
template <int ROWS, int ROW, class T>
EQUI_INLINE void prefetch_rows(const PathGroupCall<T> &u, int e, int c) {
  if constexpr (ROWS > 1 && EQUI_SIMD_BYTES < 64) {
    constexpr int PART = ROWS * ROW / (CHANNEL_PAD / LANES<T>);
    const Real<T> *part = block_rows<ROW>(u, e, c) + unsigned(c) % CHANNEL_PAD / LANES<T> * PART;
    EQUI_UNROLL_SIMD
    for (int k = 0; k < PART; k += LINE<T>) __builtin_prefetch(part + k);
  }
}

// The weight of path q from such rows. F: a register of T, or of its values.
template <int ROWS, int ROW, class T, class Row, class F>
EQUI_INLINE F radial_weight(const PathGroupCall<T> &u, Row row, int q, F f) {
  if constexpr (ROWS == 1)
    return load(row + u.column[q]);
  else
    return polynomial<ROWS, ROW>(row + q * CHANNEL_PAD, f);
}
// The same times the harmonic of order 0.
template <int ROWS, int ROW, class T, class Row, class F>
EQUI_INLINE F scalar_weight(const PathGroupCall<T> &u, Row row, int q, F f) {
  const F w = radial_weight<ROWS, ROW>(u, row, q, f);
  if constexpr (ROWS == 1)
    return w * f;
  else
    return w;
}
// The weight and its derivative with respect to f, which weights of edges do not have.
template <int ROWS, int ROW, class T, class Row, class F>
EQUI_INLINE void radial_weight(const PathGroupCall<T> &u, Row row, int q, F f, F &w, F &dw) {
  if constexpr (ROWS == 1)
    w = load(row + u.column[q]);
  else
    polynomial<ROWS, ROW>(row + q * CHANNEL_PAD, f, w, dw);
}
// Stores the derivative with respect to the weight of edge e and path q, for the channels that begin at c.
template <class T>
EQUI_INLINE void store_weight_adj(const PathGroupCall<T> &u, int e, int q, int c, Simd<T> v) {
  if (u.weights_adj) store(u.weights_adj + (u.table_row[e] * u.weights_row + u.column[q] + c), v);
}

// Every second lane of a and b, starting at lane ODD.
template <class T, int ODD, int... I>
EQUI_INLINE Simd<T> every_other(Simd<T> a, Simd<T> b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (2 * I + ODD)...);
}

// (a0+a1, a2+a3, ..., b0+b1, b2+b3, ...)
template <class T>
EQUI_INLINE Simd<T> add_neighbors(Simd<T> a, Simd<T> b) {
  constexpr auto lanes = std::make_integer_sequence<int, LANES<T>>{};
  return every_other<T, 0>(a, b, lanes) + every_other<T, 1>(a, b, lanes);
}

// Lane k: the sum over the lanes of v[FIRST + k], 0 beyond the last. The order of summation is a fixed tree.
template <class T, int FIRST, int N>
EQUI_INLINE Simd<T> sums_of_lanes(const Simd<T> (&v)[N]) {
  constexpr int L = LANES<T>;
  Simd<T> s[L];
  EQUI_UNROLL_SIMD
  for (int k = 0; k < L; k++) s[k] = FIRST + k < N ? v[FIRST + k < N ? FIRST + k : 0] : Simd<T>{};
  EQUI_UNROLL_SIMD
  for (int n = L / 2; n > 0; n /= 2) EQUI_UNROLL_SIMD
  for (int k = 0; k < n; k++) s[k] = add_neighbors<T>(s[2 * k], s[2 * k + 1]);
  return s[0];
}

// to[k] += lane FIRST + k of v, for COUNT numbers, in as few parts as possible.
template <class T, int COUNT>
struct PartOf {
  typedef T type __attribute__((vector_size(COUNT * sizeof(T)), aligned(sizeof(T)), may_alias));
};
template <int FIRST, class V, int... I>
EQUI_INLINE auto lanes_from(V v, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(v, v, (FIRST + I)...);
}
template <class T, int FIRST, int COUNT>
EQUI_INLINE void add_lanes(T *to, Simd<T> v) {
  constexpr int PART = COUNT >= 16 ? 16 : COUNT >= 8 ? 8 : COUNT >= 4 ? 4 : COUNT >= 2 ? 2 : COUNT;
  if constexpr (PART > 1)
    *reinterpret_cast<typename PartOf<T, PART>::type *>(to) +=
        lanes_from<FIRST>(v, std::make_integer_sequence<int, PART>{});
  else if constexpr (PART == 1)
    *to += v[FIRST];
  if constexpr (PART < COUNT) add_lanes<T, FIRST + PART, COUNT - PART>(to + PART, v);
}

// Whether the numbers are 0, 1, 2, ...
template <int... INDEX>
constexpr bool are_adjacent() {
  const int index[] = {INDEX...};
  for (int k = 0; k < static_cast<int>(sizeof...(INDEX)); k++)
    if (index[k] != k) return false;
  return true;
}

// Calls add(k, lane k) for all sums.
template <class T, int FIRST = 0, int N, class Add>
EQUI_INLINE void for_sums_of_lanes(const Simd<T> (&v)[N], const Add &add) {
  const Simd<T> sums = sums_of_lanes<T, FIRST>(v);
  T of_block[LANES<T>];
  __builtin_memcpy(of_block, &sums, sizeof of_block);
  EQUI_UNROLL_SIMD
  for (int k = 0; k < LANES<T>; k++)
    if (FIRST + k < N) add(FIRST + k, of_block[k]);
  if constexpr (FIRST + LANES<T> < N) for_sums_of_lanes<T, FIRST + LANES<T>>(v, add);
}
template <class T, int FIRST = 0, int N>
EQUI_INLINE void add_adjacent_sums(const Simd<T> (&v)[N], T *to) {
  constexpr int COUNT = N - FIRST < LANES<T> ? N - FIRST : LANES<T>;
  add_lanes<T, 0, COUNT>(to + FIRST, sums_of_lanes<T, FIRST>(v));
  if constexpr (FIRST + COUNT < N) add_adjacent_sums<T, FIRST + COUNT>(v, to);
}

// to[INDEX[k]] += the sum over the lanes of v[k].
template <class T, int... INDEX>
EQUI_INLINE void add_sums_of_lanes(const Simd<T> (&v)[sizeof...(INDEX)], T *to) {
  constexpr int N = sizeof...(INDEX), index[] = {INDEX...};
  if constexpr (IS_DUAL<T>) {
    Simd<Real<T>> value[N], tangent[N];
    EQUI_UNROLL_SIMD
    for (int k = 0; k < N; k++) value[k] = v[k].value, tangent[k] = v[k].tangent;
    for_sums_of_lanes<Real<T>>(value, [&](int k, Real<T> sum) { to[index[k]].value += sum; });
    for_sums_of_lanes<Real<T>>(tangent, [&](int k, Real<T> sum) { to[index[k]].tangent += sum; });
  } else if constexpr (are_adjacent<INDEX...>()) {
    add_adjacent_sums<T>(v, to);
  } else {
    for_sums_of_lanes<T>(v, [&](int k, T sum) { to[index[k]] += sum; });
  }
}
// The same for the tangents of `to`.
template <class T, int... INDEX>
EQUI_INLINE void add_sums_of_tangents(const Simd<T> (&v)[sizeof...(INDEX)], Dual<T> *to) {
  constexpr int index[] = {INDEX...};
  for_sums_of_lanes<T>(v, [&](int k, T sum) { to[index[k]].tangent += sum; });
}

}    // namespace EQUI_ISA
}    // namespace equi

#endif

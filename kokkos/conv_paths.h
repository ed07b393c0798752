// The inner loops of the convolution: one path, one chunk of channels, all edges of one atom.
//
// Templates over V, the pack of channels that one lane handles (a SIMD register on the host, one number on a GPU), the
// orders l of the path, and ROWS, the number of table rows that a radial weight is interpolated from. Everything is
// unrolled by index sequences and not by loops: g++ 12 keeps an array that a loop indexes in memory, which costs a
// factor of 2 to 3.
//
// Notation: x sender feature, w radial weight, y harmonics, g cotangent of the receiver's output; M[m1,m3] = sum_m2 C y
// is made once per edge, D[m1,m2] = sum_m3 C g once per receiver.
#ifndef EQUI_CONV_PATHS_H
#define EQUI_CONV_PATHS_H

#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define EQUI_INLINE __host__ __device__ __forceinline__
#define EQUI_INLINE_LAMBDA
#else
#define EQUI_INLINE        __attribute__((always_inline)) inline
#define EQUI_INLINE_LAMBDA __attribute__((always_inline))
#endif

namespace equi {
namespace paths {

// Edges per block of the M record: the entries of 16 edges lie side by side, so that they are computed by SIMD over
// edges.
constexpr int EDGE_BLOCK = 16;

// Two packs side by side: one lane handles twice the channels and spends half the address arithmetic on each.
template <class V>
struct Pair {
  V a, b;
  EQUI_INLINE void operator+=(Pair o) {
    a += o.a;
    b += o.b;
  }
  friend EQUI_INLINE Pair operator*(Pair x, Pair y) { return {x.a * y.a, x.b * y.b}; }
  template <class T>
  friend EQUI_INLINE std::enable_if_t<std::is_arithmetic_v<T>, Pair> operator*(T c, Pair x) {
    return {c * x.a, c * x.b};
  }
};

template <class F, int... I>
EQUI_INLINE void unroll_steps(const F &f, std::integer_sequence<int, I...>) {
  (f(std::integral_constant<int, I>{}), ...);
}

// f(integral_constant<0>) ... f(integral_constant<N-1>)
template <int N, class F>
EQUI_INLINE void unroll(const F &f) {
  unroll_steps(f, std::make_integer_sequence<int, N>{});
}

template <class V, class T>
EQUI_INLINE V load(const T *p) {
  return *reinterpret_cast<const V *>(p);
}
template <class V, class T>
EQUI_INLINE void add_to(T *p, V v) {
  *reinterpret_cast<V *>(p) += v;
}

// sum_r c[r] table[r * columns]
template <int ROWS, class V, class T>
EQUI_INLINE V interpolate(const T *table, int64_t columns, const T *c) {
  V w = c[0] * load<V>(table);
  unroll<ROWS - 1>([&](auto r) EQUI_INLINE_LAMBDA {
    constexpr int R = decltype(r)::value + 1;
    w += c[R] * load<V>(table + R * columns);
  });
  return w;
}

// What the edges of one atom offer to a path, already offset to the path's columns and the chunk's channels.
template <class T>
struct EdgeList {
  int count;
  const int64_t *x_offset;        // of the other atom's row, in numbers
  const int64_t *table_offset;    // of the edge's first table row, in numbers
  int64_t columns;                // numbers per table row
  const T *value;                 // [count][ROWS] interpolation coefficients of w
  const T *derivative;            // [count][ROWS] of dw/dr
};

// out[m3] += sum_e w_e sum_m1 M_e[m1,m3] x_e[m1]; DIAGONAL: M = 1 (l2 = 0, the constant is in w).
// m: the M record of the path, blocks of EDGE_BLOCK edges, each [(2 l1+1)(2 l3+1)][EDGE_BLOCK].
// Each block is summed on its own and then added: with a hundred neighbours this keeps float32 sums three times more
// accurate.
template <class V, class T, int L1, int L3, bool DIAGONAL, int ROWS>
EQUI_INLINE void gather_path(const EdgeList<T> &edges, const T *table, const T *x, int x_stride, const T *m, T *out,
                             int out_stride) {
  constexpr int D1 = 2 * L1 + 1, D3 = 2 * L3 + 1;
  for (int begin = 0; begin < edges.count; begin += EDGE_BLOCK, m += D1 * D3 * EDGE_BLOCK) {
    const int end = begin + EDGE_BLOCK < edges.count ? begin + EDGE_BLOCK : edges.count;
    V acc[D3];
    unroll<D3>([&](auto c) EQUI_INLINE_LAMBDA { acc[decltype(c)::value] = V{}; });
    for (int e = begin; e < end; e++) {
      const T *xe = x + edges.x_offset[e];
      const V w = interpolate<ROWS, V>(table + edges.table_offset[e], edges.columns, edges.value + e * ROWS);
      const T *me = m + (e - begin);
      if constexpr (DIAGONAL) {
        unroll<D3>([&](auto c) EQUI_INLINE_LAMBDA {
          constexpr int C = decltype(c)::value;
          acc[C] += w * load<V>(xe + C * x_stride);
        });
      } else if constexpr (L3 < L1) {    // fewer products when the weight comes last
        V s[D3];
        unroll<D3>([&](auto c) EQUI_INLINE_LAMBDA { s[decltype(c)::value] = V{}; });
        unroll<D1>([&](auto a) EQUI_INLINE_LAMBDA {
          constexpr int A = decltype(a)::value;
          const V xa = load<V>(xe + A * x_stride);
          unroll<D3>([&](auto c) EQUI_INLINE_LAMBDA {
            constexpr int C = decltype(c)::value;
            s[C] += me[(A * D3 + C) * EDGE_BLOCK] * xa;
          });
        });
        unroll<D3>([&](auto c) EQUI_INLINE_LAMBDA { acc[decltype(c)::value] += w * s[decltype(c)::value]; });
      } else {
        unroll<D1>([&](auto a) EQUI_INLINE_LAMBDA {
          constexpr int A = decltype(a)::value;
          const V t = w * load<V>(xe + A * x_stride);
          unroll<D3>([&](auto c) EQUI_INLINE_LAMBDA {
            constexpr int C = decltype(c)::value;
            acc[C] += me[(A * D3 + C) * EDGE_BLOCK] * t;
          });
        });
      }
    }
    unroll<D3>([&](auto c) EQUI_INLINE_LAMBDA {
      constexpr int C = decltype(c)::value;
      add_to<V>(out + C * out_stride, acc[C]);
    });
  }
}

// Per edge, with S[m1] = sum_m2 y[m2] D[m1,m2]:
//   y_adj[m2] += w sum_m1 x[m1] D[m1,m2] (l2 > 0),  y_adj[-first] += dw/dr sum_m1 S[m1] x[m1] (slot 0 of the edge),
//   x_adj[m1] += w S[m1] (SCATTER).
// y [count][num_y] and y_adj [count][num_y] packs per edge; Y_FIRST = l2^2 is the path's first harmonic.
template <class V, class T, int L1, int L2, int ROWS, bool SCATTER>
EQUI_INLINE void backward_path(const EdgeList<T> &edges, const T *table, const T *x, int x_stride, const V *d,
                               const T *y, int num_y, V *y_adj, T *x_adj, const int64_t *x_adj_offset) {
  constexpr int D1 = 2 * L1 + 1, D2 = 2 * L2 + 1, Y_FIRST = L2 * L2;
  for (int e = 0; e < edges.count; e++) {
    const T *xe = x + edges.x_offset[e];
    const V w = interpolate<ROWS, V>(table + edges.table_offset[e], edges.columns, edges.value + e * ROWS);
    const V dw = interpolate<ROWS, V>(table + edges.table_offset[e], edges.columns, edges.derivative + e * ROWS);
    const T *ye = y + static_cast<int64_t>(e) * num_y + Y_FIRST;
    V *ya = y_adj + static_cast<int64_t>(e) * num_y;
    V q = V{};
    V dy[D2];
    unroll<D2>([&](auto b) EQUI_INLINE_LAMBDA { dy[decltype(b)::value] = V{}; });
    unroll<D1>([&](auto a) EQUI_INLINE_LAMBDA {
      constexpr int A = decltype(a)::value;
      const V xa = load<V>(xe + A * x_stride);
      V s = V{};
      if constexpr (L2 == 0) {
        s = d[A];
      } else {
        unroll<D2>([&](auto b) EQUI_INLINE_LAMBDA {
          constexpr int B = decltype(b)::value;
          const V dab = d[A * D2 + B];
          s += ye[B] * dab;
          dy[B] += xa * dab;
        });
      }
      q += s * xa;
      if constexpr (SCATTER) {
        add_to<V>(x_adj + x_adj_offset[e] + A * x_stride, w * s);
      }
    });
    ya[0] += dw * q;
    if constexpr (L2 > 0)
      unroll<D2>([&](auto b) EQUI_INLINE_LAMBDA {
        constexpr int B = decltype(b)::value;
        ya[Y_FIRST + B] += w * dy[B];
      });
  }
}

}    // namespace paths
}    // namespace equi

#endif

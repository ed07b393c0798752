// The inner loops of the convolution on a device: one path, one channel per lane, all edges of one atom. The
// mathematics and the notation are those of conv_paths.h; the shape differs, because here a coupling contracted with
// the harmonics is read by all lanes together, in loads of 16 bytes, and what is summed over edges or channels stays in
// registers.
#ifndef EQUI_DEVICE_PATHS_H
#define EQUI_DEVICE_PATHS_H

#include "device_exec.h"

namespace equi {
namespace device_paths {

// Numbers that one load brings.
template <class T>
constexpr int PACK = 16 / sizeof(T);
template <class T>
constexpr int packed(int n) {
  return (n + PACK<T> - 1) / PACK<T> * PACK<T>;
}

template <class T, int N>
struct alignas(N * sizeof(T) % 16 == 0 ? 16 : 8) Packed {
  T v[N];
};
template <int N, class T>
KOKKOS_FORCEINLINE_FUNCTION Packed<T, N> load_packed(const T *p) {
  return *reinterpret_cast<const Packed<T, N> *>(p);
}

constexpr int LMAX_ANY = 12;    // orders that no unrolled body serves have loops up to this one

// Edges of one atom, positions [begin, end) in the order at hand; arrays marked [c] belong to the chunk and start at
// position `first`.
template <class T>
struct EdgeRun {
  int64_t begin, end, first;
  const int *other_row;     // [position] row of the other atom
  const int *table_row;     // [c] first table row of the edge's bin
  const T *coefficients;    // [c][2 ROWS] of w, then of dw/dr
  const T *m;               // [c][m_size] couplings contracted with harmonics
  int m_size;
  int64_t columns;    // numbers per table row, of the path at hand
};

template <int ROWS, class T>
KOKKOS_FORCEINLINE_FUNCTION T radial_weight(const EdgeRun<T> &run, int64_t c, const T *table) {
  const Packed<T, ROWS> value = load_packed<ROWS>(run.coefficients + c * 2 * ROWS);
  const T *row = table + run.table_row[c] * run.columns;
  T w = 0;
  EQUI_UNROLL for (int r = 0; r < ROWS; r++) w += value.v[r] * row[r * run.columns];
  return w;
}

// out[b] = sum_e w_e sum_a M_e[a,b] x_e[a] for the orders (L_IN, L_OUT) of the other atom's and of this atom's factor.
// DIAGONAL: M = 1 (l2 = 0). The M record of a path is [2 l1+1][2 l3+1]: SWAPPED where the other atom is the receiver,
// that is l3 = L_IN. table, x are at the lane's channel, m_offset is the path's place in the record.
template <int L_IN, int L_OUT, bool DIAGONAL, bool SWAPPED, int ROWS, class T>
KOKKOS_FORCEINLINE_FUNCTION void gather(const EdgeRun<T> &run, const T *table, const T *x, int64_t x_width,
                                        int x_stride, int m_offset, T *out, int out_stride, bool add) {
  constexpr int A = 2 * L_IN + 1, B = 2 * L_OUT + 1, ENTRIES = A * B, RECORD = packed<T>(ENTRIES);
  T acc[B];
  EQUI_UNROLL for (int b = 0; b < B; b++) acc[b] = 0;
  for (int64_t p = run.begin; p < run.end; p++) {
    const int64_t c = p - run.first;
    const T *xe = x + run.other_row[p] * x_width;
    const T w = radial_weight<ROWS>(run, c, table);
    if constexpr (DIAGONAL) {
      EQUI_UNROLL for (int a = 0; a < A; a++) acc[a] += w * xe[a * x_stride];
    } else {
      T t[A], s[B];
      // The weight goes where it costs fewer products.
      EQUI_UNROLL for (int a = 0; a < A; a++) t[a] = B < A ? xe[a * x_stride] : w * xe[a * x_stride];
      EQUI_UNROLL for (int b = 0; b < B; b++) s[b] = B < A ? T(0) : acc[b];
      const T *m = run.m + c * run.m_size + m_offset;
      EQUI_UNROLL for (int q = 0; q < RECORD; q += PACK<T>) {
        const auto me = load_packed<PACK<T>>(m + q);
        EQUI_UNROLL for (int k = 0; k < PACK<T>; k++) {
          const int entry = q + k;
          if (entry < ENTRIES) {
            const int a = SWAPPED ? entry % A : entry / B, b = SWAPPED ? entry / A : entry % B;
            s[b] += me.v[k] * t[a];
          }
        }
      }
      EQUI_UNROLL for (int b = 0; b < B; b++) acc[b] = B < A ? acc[b] + w * s[b] : s[b];
    }
  }
  EQUI_UNROLL for (int b = 0; b < B; b++) out[b * out_stride] = add ? out[b * out_stride] + acc[b] : acc[b];
}

// The same for any orders.
template <bool SWAPPED, int ROWS, class T>
KOKKOS_FUNCTION void gather_any(int l_in, int l_out, bool diagonal, const EdgeRun<T> &run, const T *table, const T *x,
                                int64_t x_width, int x_stride, int m_offset, T *out, int out_stride, bool add) {
  const int A = 2 * l_in + 1, B = 2 * l_out + 1;
  T acc[2 * LMAX_ANY + 1];
  for (int b = 0; b < B; b++) acc[b] = 0;
  for (int64_t p = run.begin; p < run.end; p++) {
    const int64_t c = p - run.first;
    const T *xe = x + run.other_row[p] * x_width;
    const T w = radial_weight<ROWS>(run, c, table);
    const T *m = run.m + c * run.m_size + m_offset;
    for (int a = 0; a < A; a++) {
      const T t = w * xe[a * x_stride];
      if (diagonal)
        acc[a] += t;
      else
        for (int b = 0; b < B; b++) acc[b] += m[SWAPPED ? b * A + a : a * B + b] * t;
    }
  }
  for (int b = 0; b < B; b++) out[b * out_stride] = add ? out[b * out_stride] + acc[b] : acc[b];
}

// The terms of D[m1,m2] = sum_m3 C g[m3] for one path: those of entry k are begin[k]..begin[k+1].
template <class T>
struct CouplingTerms {
  const int *begin;
  const int *m;    // m3
  const T *value;
};

// Derivatives by the edge, summed over the channels of all lanes. With h[m2] = sum_m1 x[m1] D[m1,m2]:
//   to[0] (+)= sum_u dw/dr sum_m2 y[m2] h[m2],  to[1 + m2] (+)= sum_u w h[m2] (L2 > 0); `width` numbers per position.
// g: the cotangent at the lane's channel. A lane that is not active takes part with zeros.
template <int L1, int L2, int ROWS, int LANES, class T>
KOKKOS_FORCEINLINE_FUNCTION void edge_adjoint(const EdgeRun<T> &run, const T *table, const T *x, int64_t x_width,
                                              int x_stride, const T *g, int g_stride, const CouplingTerms<T> &terms,
                                              const T *y, int num_y, T *to, int lane, bool active, bool add) {
  constexpr int A = 2 * L1 + 1, B = 2 * L2 + 1, SUMS = L2 == 0 ? 1 : 1 + B, Y_FIRST = L2 * L2;
  T d[A * B];
  EQUI_UNROLL for (int k = 0; k < A * B; k++) {
    T sum = 0;
    if constexpr (L2 == 0)
      sum = g[k * g_stride];
    else
      for (int t = terms.begin[k]; t < terms.begin[k + 1]; t++) sum += terms.value[t] * g[terms.m[t] * g_stride];
    d[k] = active ? sum : T(0);
  }
  for (int64_t p = run.begin; p < run.end; p++) {
    const int64_t c = p - run.first;
    const T *xe = x + run.other_row[p] * x_width;
    const Packed<T, ROWS> value = load_packed<ROWS>(run.coefficients + c * 2 * ROWS),
                          derivative = load_packed<ROWS>(run.coefficients + c * 2 * ROWS + ROWS);
    const T *row = table + run.table_row[c] * run.columns;
    T w = 0, dw = 0;
    EQUI_UNROLL for (int r = 0; r < ROWS; r++) {
      const T f = row[r * run.columns];
      w += value.v[r] * f;
      dw += derivative.v[r] * f;
    }
    T h[B];
    EQUI_UNROLL for (int b = 0; b < B; b++) h[b] = 0;
    EQUI_UNROLL for (int a = 0; a < A; a++) {
      const T xa = xe[a * x_stride];
      EQUI_UNROLL for (int b = 0; b < B; b++) h[b] += xa * d[a * B + b];
    }
    T sums[SUMS];
    if constexpr (L2 == 0) {
      sums[0] = dw * h[0];
    } else {
      T q = 0;
      EQUI_UNROLL for (int b = 0; b < B; b++) {
        q += y[p * num_y + Y_FIRST + b] * h[b];
        sums[1 + b] = w * h[b];
      }
      sums[0] = dw * q;
    }
    store_lane_sums<LANES>(sums, lane, to + c * SUMS, add);
  }
}

// The same for any orders, one sum at a time; entry_of[t] = m1 (2 l2+1) + m2 of term t.
template <int ROWS, int LANES, class T>
KOKKOS_FUNCTION void edge_adjoint_any(int l1, int l2, const EdgeRun<T> &run, const T *table, const T *x,
                                      int64_t x_width, int x_stride, const T *g, int g_stride,
                                      const CouplingTerms<T> &terms, const T *y, int num_y, T *to, int lane,
                                      bool active, bool add) {
  const int A = 2 * l1 + 1, B = 2 * l2 + 1, sums = l2 == 0 ? 1 : 1 + B;
  for (int64_t p = run.begin; p < run.end; p++) {
    const int64_t c = p - run.first;
    const T *xe = x + run.other_row[p] * x_width;
    const T *row = table + run.table_row[c] * run.columns, *value = run.coefficients + c * 2 * ROWS;
    T w = 0, dw = 0;
    for (int r = 0; r < ROWS; r++) {
      w += value[r] * row[r * run.columns];
      dw += value[ROWS + r] * row[r * run.columns];
    }
    if (!active) w = dw = 0;
    T q = 0;
    for (int b = 0; b < B; b++) {
      T h = 0;
      for (int a = 0; a < A; a++) {
        if (l2 == 0) {
          h += xe[a * x_stride] * g[a * g_stride];
          continue;
        }
        const int k = a * B + b;
        T d = 0;
        for (int t = terms.begin[k]; t < terms.begin[k + 1]; t++) d += terms.value[t] * g[terms.m[t] * g_stride];
        h += xe[a * x_stride] * d;
      }
      if (l2 == 0) {
        q = h;
      } else {
        q += y[p * num_y + l2 * l2 + b] * h;
        T sum[1] = {w * h};
        store_lane_sums<LANES>(sum, lane, to + c * sums + 1 + b, add);
      }
    }
    T sum[1] = {dw * q};
    store_lane_sums<LANES>(sum, lane, to + c * sums, add);
  }
}

}    // namespace device_paths
}    // namespace equi

#endif

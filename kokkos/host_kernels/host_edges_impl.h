// SPDX-License-Identifier: MIT
// The geometry of edges for one instruction set, included by host_kernels_impl.h.
#ifndef EQUI_HOST_EDGES_IMPL_H
#define EQUI_HOST_EDGES_IMPL_H

#include "kokkos/host_kernels/edge_kernels.h"
#include "kokkos/kernel_interface/host_simd.h"

#include <cmath>
#include <type_traits>

namespace equi {
namespace EQUI_ISA {

constexpr int EDGE_LANES = LANES<double>;
static_assert(EDGE_LANES <= MAX_EDGE_LANES);

EQUI_INLINE Simd<double> inverse_or_zero(Simd<double> v) {
  return v > 0.0 ? 1.0 / v : Simd<double>{};
}

static void edge_harmonics(const HarmonicsNorms &norms, int lmax, const double *vector, double *length, double *unit,
                           double *y) {
  using V = Simd<double>;
  const V d[3] = {load(vector), load(vector + EDGE_LANES), load(vector + 2 * EDGE_LANES)};
  alignas(64) double square[EDGE_LANES];
  store(square, d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
  for (int e = 0; e < EDGE_LANES; e++) length[e] = std::sqrt(square[e]);
  const V inverse = inverse_or_zero(load(length));
  V u[3];
  for (int k = 0; k < 3; k++) store(unit + k * EDGE_LANES, u[k] = d[k] * inverse);
  evaluate_harmonics<double>(norms, lmax, u, reinterpret_cast<V *>(y));
}

static void edge_gradient(const HarmonicsNorms &norms, int lmax, const double *length, const double *unit,
                          const double *y_adj, double *gradient) {
  using V = Simd<double>;
  const V u[3] = {load(unit), load(unit + EDGE_LANES), load(unit + 2 * EDGE_LANES)};
  V g[3] = {};
  harmonics_gradient<double>(norms, lmax, u, reinterpret_cast<const V *>(y_adj), g);
  gradient_by_vector(u, inverse_or_zero(load(length)), g, load(y_adj), reinterpret_cast<V *>(gradient));
}

static void add_float32(int64_t n, const float *from, double *to) {
  for (int64_t k = 0; k < n; k++) to[k] += static_cast<double>(from[k]);
}

// a[index + k] of each lane.
EQUI_INLINE Simd<double> gather_lanes(const double *a, const int64_t (&index)[EDGE_LANES], int k = 0) {
  Simd<double> v = {};
  EQUI_UNROLL_SIMD
  for (int lane = 0; lane < EDGE_LANES; lane++) v[lane] = a[index[lane] + k];
  return v;
}

// For up to EDGE_LANES edges, starting at number e.
template <class R>
EQUI_INLINE void find_bins_at(const BinCall<R> &p, int64_t e, int filled) {
  using V = Simd<double>;
  typedef int Integers __attribute__((vector_size(EDGE_LANES * sizeof(int))));
  typedef float Floats __attribute__((vector_size(EDGE_LANES * sizeof(float))));
  const TablePieces &t = p.pieces;
  V r = {};
  if (filled == EDGE_LANES)
    __builtin_memcpy(&r, p.distance + e, sizeof r);
  else
    for (int lane = 0; lane < filled; lane++) r[lane] = p.distance[e + lane];
  V begin, bins_per_length, first_row, last_bin;
  if (p.table) {
    int64_t index[EDGE_LANES] = {};
    for (int lane = 0; lane < filled; lane++) index[lane] = int64_t(t.num_pieces) * p.table[e + lane];
    auto number = r < r;    // number of the piece, negative
    for (int k = 1; k < t.num_pieces; k++) number += r >= gather_lanes(t.begin, index, k);
    EQUI_UNROLL_SIMD
    for (int lane = 0; lane < EDGE_LANES; lane++) index[lane] -= number[lane];
    begin = gather_lanes(t.begin, index);
    bins_per_length = gather_lanes(t.bins_per_length, index);
    first_row = gather_lanes(t.first_row, index);
    last_bin = gather_lanes(t.last_bin, index);
  } else {
    begin = t.begin[0] - V{};
    bins_per_length = t.bins_per_length[0] - V{};
    first_row = t.first_row[0] - V{};
    last_bin = t.last_bin[0] - V{};
    for (int k = 1; k < t.num_pieces; k++) {
      const auto is_beyond = r >= t.begin[k] - V{};
      begin = is_beyond ? t.begin[k] - V{} : begin;
      bins_per_length = is_beyond ? t.bins_per_length[k] - V{} : bins_per_length;
      first_row = is_beyond ? t.first_row[k] - V{} : first_row;
      last_bin = is_beyond ? t.last_bin[k] - V{} : last_bin;
    }
  }
  // Like RadialTable::bin_of: NaN has a bin, too.
  const V x = (r - begin) * bins_per_length, positive = x > 0.0 ? x : V{};
  const V bin = __builtin_convertvector(__builtin_convertvector(x >= last_bin ? last_bin : positive, Integers), V);
  const V fraction = x - bin - 0.5;
  const Integers row = __builtin_convertvector(first_row + double(t.rows_per_bin) * bin, Integers);
  if (filled == EDGE_LANES) {
    __builtin_memcpy(p.row + e, &row, sizeof row);
    if constexpr (std::is_same_v<R, float>) {
      const Floats f = __builtin_convertvector(fraction, Floats), b = __builtin_convertvector(bins_per_length, Floats);
      __builtin_memcpy(p.fraction + e, &f, sizeof f);
      __builtin_memcpy(p.bins_per_length + e, &b, sizeof b);
    } else {
      __builtin_memcpy(p.fraction + e, &fraction, sizeof fraction);
      __builtin_memcpy(p.bins_per_length + e, &bins_per_length, sizeof bins_per_length);
    }
    return;
  }
  for (int lane = 0; lane < filled; lane++) {
    p.row[e + lane] = row[lane];
    p.fraction[e + lane] = static_cast<R>(fraction[lane]);
    p.bins_per_length[e + lane] = static_cast<R>(bins_per_length[lane]);
  }
}
template <class R>
static void find_bins(const BinCall<R> &p) {
  int64_t e = 0;
  for (; e + EDGE_LANES <= p.count; e += EDGE_LANES) find_bins_at(p, e, EDGE_LANES);
  if (e < p.count) find_bins_at(p, e, static_cast<int>(p.count - e));
}

}    // namespace EQUI_ISA
}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The generic kernel of a path group of uvu paths for one instruction set, included by host_kernels_impl.h. It walks
// the tables of the path group's schedule.
#ifndef EQUI_HOST_GENERIC_PATH_GROUP_IMPL_H
#define EQUI_HOST_GENERIC_PATH_GROUP_IMPL_H

#include "kokkos/host_kernels/host_uvw_impl.h"

namespace equi {
namespace EQUI_ISA {

template <class T>
static void couple_harmonics_generic(const ConvPathGroup<T> &path_group, Pointer<const T> y, Pointer<T> coupled) {
  for (int k = 0; k < path_group.num_coupled * EDGE_BLOCK; k++) put(coupled, k, T(0));
  for (int t = 0; t < path_group.num_coupled_terms; t++) {
    const KernelTerm<Real<T>> &term = path_group.coupled_terms[t];
    for (int e = 0; e < EDGE_BLOCK; e += LANES<T>)
      add_to(coupled + term.to * EDGE_BLOCK + e, term.factor * load(y + term.from * EDGE_BLOCK + e));
  }
}

template <class T>
struct GenericPathGroup {
  const ConvPathGroup<T> &path_group;
  const ConvPath<T> *paths;
  int rows;    // per bin

  using V = Simd<T>;

  const Real<T> *bin(const PathGroupCall<T> &u, int e, int c, int q) const {
    return u.table + c / CHANNEL_PAD * u.channel_block + c % CHANNEL_PAD +
           static_cast<int64_t>(u.table_row[e]) * path_group.row + q * CHANNEL_PAD;
  }

  V weight(const PathGroupCall<T> &u, int e, int c, int q, V &derivative) const {
    const T f = u.fraction[e];
    if (rows > 1) return polynomial<T>(bin(u, e, c, q), c, rows, path_group.row, f, derivative);
    const V w = load(u.weights + (u.table_row[e] * u.weights_row + u.column[q] + c));
    derivative = V{};
    if (paths[q].l2 > 0) return w;
    derivative = w;
    return f * w;
  }

  // dot: the derivative with respect to the path's weight times harmonic, if l2 = 0, else with respect to the
  // weight.
  void set_weight_adj(const PathGroupCall<T> &u, int e, int c, int q, V dot) const {
    if (rows == 1) store_weight_adj<T>(u, e, q, c, paths[q].l2 > 0 ? dot : V(u.fraction[e] * dot));
  }

  // Sum over the edges of a block of w M x, for x at other + x_row * width; if TRANSPOSED, of w M^T g.
  template <bool TRANSPOSED>
  void sweep(const PathGroupCall<T> &u, int q, int c, int begin, Pointer<const T> other, int64_t width,
             int other_stride, int num_other, V *sum) const {
    const ConvPath<T> &path = paths[q];
    const int end = begin + EDGE_BLOCK < u.count ? begin + EDGE_BLOCK : u.count;
    Pointer<const T> m = u.coupled + begin * path_group.num_coupled;
    V t[MAX_COMPONENTS];
    for (int e = begin; e < end; e++, ++m) {
      V dw;
      const V w = weight(u, e, c, q, dw);
      const Pointer<const T> oe = other + u.x_row[e] * width + c;
      for (int k = 0; k < num_other; k++) t[k] = w * load(oe + k * other_stride);
      for (int k = 0; k < path.num_m; k++) {
        const KernelEntry<Real<T>> &n = path.m[k];
        const V product = t[TRANSPOSED ? n.b : n.a];
        sum[TRANSPOSED ? n.a : n.b] += n.index < 0 ? product : (n.sign * m[n.index * EDGE_BLOCK]) * product;
      }
    }
  }

  void forward(const PathGroupCall<T> &u) const {
    for (int q = 0; q < path_group.num_paths; q++)
      for (int c = 0; c < u.channels; c += LANES<T>) {
        const int d3 = 2 * paths[q].l3 + 1;
        const Pointer<T> out = u.out[q] + c;
        for (int k = 0; k < d3; k++) store(out + k * u.out_stride[q], V{});
        for (int begin = 0; begin < u.count; begin += EDGE_BLOCK) {
          V sum[MAX_COMPONENTS] = {};
          sweep<false>(u, q, c, begin, u.x, u.x_width, u.x_stride, 2 * path_group.l1 + 1, sum);
          for (int k = 0; k < d3; k++) add_to(out + k * u.out_stride[q], sum[k]);
        }
      }
  }

  void gather(const PathGroupCall<T> &u) const {
    const int d1 = 2 * path_group.l1 + 1;
    for (int q = 0; q < path_group.num_paths; q++)
      for (int c = 0; c < u.channels; c += LANES<T>)
        for (int begin = 0; begin < u.count; begin += EDGE_BLOCK) {
          V sum[MAX_COMPONENTS] = {};
          sweep<true>(u, q, c, begin, u.out[q], u.out_width[q], u.out_stride[q], 2 * paths[q].l3 + 1, sum);
          for (int k = 0; k < d1; k++) add_to(u.x_adj + k * u.x_stride + c, sum[k]);
          if (u.weights_adj) gather_weights_adj(u, q, c, begin);
        }
  }

  // g M^T x for the edges of a block; x is the atom's own.
  void gather_weights_adj(const PathGroupCall<T> &u, int q, int c, int begin) const {
    const ConvPath<T> &path = paths[q];
    const int end = begin + EDGE_BLOCK < u.count ? begin + EDGE_BLOCK : u.count;
    Pointer<const T> m = u.coupled + begin * path_group.num_coupled;
    for (int e = begin; e < end; e++, ++m) {
      const Pointer<T> g = u.out[q] + u.x_row[e] * u.out_width[q] + c;
      V dot = V{};
      for (int k = 0; k < path.num_m; k++) {
        const KernelEntry<Real<T>> &n = path.m[k];
        const V product = load(u.x + n.a * u.x_stride + c) * load(g + n.b * u.out_stride[q]);
        dot += n.index < 0 ? product : (n.sign * m[n.index * EDGE_BLOCK]) * product;
      }
      set_weight_adj(u, e, c, q, dot);
    }
  }

  void backward(const PathGroupCall<T> &u) const {
    const int d1 = 2 * path_group.l1 + 1;
    for (int q = 0; q < path_group.num_paths; q++) {
      const ConvPath<T> &path = paths[q];
      const int y0 = path.l2 * path.l2;
      for (int c = 0; c < u.channels; c += LANES<T>) {
        const Pointer<T> d = u.d;
        for (int k = 0; k < path.num_d; k++) store(d + k * LANES<T>, V{});
        for (int k = 0; k < path.num_d_terms; k++) {
          const KernelTerm<Real<T>> &n = path.d_terms[k];
          add_to(d + n.to * LANES<T>, n.factor * load(u.out[q] + n.from * u.out_stride[q] + c));
        }
        for (int e = 0; e < u.count; e++) {
          const T *y = u.y + e * u.num_y + y0;
          V dw;
          const V w = weight(u, e, c, q, dw);
          V y_adj[MAX_COMPONENTS + 1] = {};    // dE/df, then derivatives with respect to the harmonics of l2
          V x[MAX_COMPONENTS], s[MAX_COMPONENTS] = {};
          for (int k = 0; k < d1; k++) x[k] = load(u.x + u.x_row[e] * u.x_width + k * u.x_stride + c);
          for (int k = 0; k < path.num_d_entries; k++) {
            const KernelEntry<Real<T>> &n = path.d_entries[k];
            const V dv = n.sign * load(d + n.index * LANES<T>);
            if (path.l2 == 0) {
              s[n.a] += dv;
            } else {
              s[n.a] += y[n.b] * dv;
              y_adj[1 + n.b] += w * x[n.a] * dv;
            }
          }
          V dot = V{};
          for (int k = 0; k < d1; k++) dot += s[k] * x[k];
          y_adj[0] = dw * dot;
          set_weight_adj(u, e, c, q, dot);
          T *to = u.y_adj + static_cast<int64_t>(e) * u.num_y;
          to[0] += sum_of_lanes<T>(y_adj[0]);
          if (path.l2 > 0)
            for (int k = 0; k < 2 * path.l2 + 1; k++) to[y0 + k] += sum_of_lanes<T>(y_adj[1 + k]);
          if (u.x_adj)
            for (int k = 0; k < d1; k++) add_to(u.x_adj + u.x_adj_row[e] * u.x_width + k * u.x_stride + c, w * s[k]);
        }
      }
    }
  }
};

}    // namespace EQUI_ISA
}    // namespace equi

#endif

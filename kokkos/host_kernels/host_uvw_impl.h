// SPDX-License-Identifier: MIT
// The generic kernel of a uvw path (kernel_schedule.h) for the instruction set of host_kernels_impl.h. It does what
// UvwKernel does, but walks tables.
#ifndef EQUI_HOST_UVW_IMPL_H
#define EQUI_HOST_UVW_IMPL_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/kernel_interface/host_simd.h"

namespace equi {
namespace EQUI_ISA {

constexpr int MAX_COMPONENTS = 25;    // components of an irrep, for orders up to 12

template <class T>
EQUI_INLINE T sum_of_lanes(Simd<T> v) {
  if constexpr (IS_DUAL<T>) {
    return {sum_of_lanes<Real<T>>(v.value), sum_of_lanes<Real<T>>(v.tangent)};
  } else {
    T sum = 0;
    for (int k = 0; k < LANES<T>; k++) sum += v[k];
    return sum;
  }
}

// The polynomial of a bin with `rows` rows at f, and its derivative with respect to f. row: numbers for channel c in
// the first row.
template <class T>
EQUI_INLINE Simd<T> polynomial(const Real<T> *row, int c, int rows, int stride, T f, Simd<T> &derivative) {
  Simd<T> w = Simd<T>{};
  derivative = w;
  if constexpr (IS_SPLIT<T, SPLIT_ROWS>)
    if (rows == SPLIT_ROWS) {
      split_polynomial(bin_at<SPLIT_ROWS>(row, c), stride, w + f, w, derivative);
      return w;
    }
  for (int k = rows - 1; k >= 0; k--) {
    derivative = derivative * f + w;
    w = w * f + load(row + k * stride);
  }
  return w;
}

template <class T>
struct GenericUvw {
  const ConvPathGroup<T> &path_group;
  const ConvPath<T> &path;
  int rows;    // per bin

  using V = Simd<T>;

  int d1() const { return 2 * path_group.l1 + 1; }
  int d3() const { return 2 * path.l3 + 1; }
  static int64_t num_edges(const UvwCall<T> &u) { return u.edge_begin[u.num_atoms] - u.edge_begin[0]; }

  // Calls f(atom, edge, its coupled harmonics) for all edges.
  template <class F>
  void for_edges(const UvwCall<T> &u, const F &f) const {
    Pointer<const T> block = u.coupled;
    int64_t e = 0;
    for (int a = 0; a < u.num_atoms; a++) {
      const int count = static_cast<int>(u.edge_begin[a + 1] - u.edge_begin[a]);
      for (int k = 0; k < count; k++, e++)
        f(a, e, block + k / EDGE_BLOCK * EDGE_BLOCK * path_group.num_coupled + k % EDGE_BLOCK);
      block += (count + EDGE_BLOCK - 1) / EDGE_BLOCK * EDGE_BLOCK * path_group.num_coupled;
    }
  }
  // Calls f(channel w, atom, edge, W[c .., w], its derivative), channel by channel and atom by atom.
  template <class F>
  void for_weights(const UvwCall<T> &u, int c, const F &f) const {
    const int block = path_group.row / CHANNEL_PAD;
    for (int w = 0; w < u.outputs; w++) {
      const Real<T> *table = u.table + (c / CHANNEL_PAD * (u.outputs / block) + w / block) * u.channel_block +
                             c % CHANNEL_PAD + w % block * CHANNEL_PAD;
      int64_t e = 0;
      for (int a = 0; a < u.num_atoms; a++)
        for (const int64_t end = u.edge_begin[a + 1] - u.edge_begin[0]; e < end; e++) {
          V dw;
          const V value = polynomial<T>(table + static_cast<int64_t>(u.table_row[e]) * path_group.row, c, rows,
                                        path_group.row, u.fraction[e], dw);
          f(w, a, e, value, dw);
        }
    }
  }

  Pointer<T> component(const UvwCall<T> &u, int64_t e, int m3) const { return u.scratch + (e * d3() + m3) * LANES<T>; }

  void make_z(const UvwCall<T> &u, int c) const {
    for_edges(u, [&](int, int64_t e, Pointer<const T> m) {
      const Pointer<const T> x = u.x + u.x_row[e] * u.x_width + c;
      for (int k = 0; k < d3(); k++) store(component(u, e, k), V{});
      for (int k = 0; k < path.num_m; k++) {
        const KernelEntry<Real<T>> &n = path.m[k];
        const V v = load(x + n.a * u.x_stride);
        add_to(component(u, e, n.b), n.index < 0 ? v : (n.sign * m[n.index * EDGE_BLOCK]) * v);
      }
    });
  }

  void forward(const UvwCall<T> &u) const {
    for (int c = 0; c < u.channels; c += LANES<T>) {
      make_z(u, c);
      V sum[MAX_COMPONENTS] = {};
      for_weights(u, c, [&](int w, int a, int64_t e, V value, V) {
        for (int k = 0; k < d3(); k++) sum[k] += value * load(component(u, e, k));
        if (e + 1 < u.edge_begin[a + 1] - u.edge_begin[0]) return;
        for (int k = 0; k < d3(); k++) {
          const int64_t to = a * u.out_width + k * u.out_stride + w;
          put(u.out, to, u.out[to] + sum_of_lanes<T>(sum[k]));
          sum[k] = V{};
        }
      });
    }
  }

  // The scratch holds z, then h, then r.
  void backward(const UvwCall<T> &u) const {
    const int64_t edges = num_edges(u), size = edges * d3() * LANES<T>;
    const Pointer<T> r = u.scratch + 2 * size;
    for (int c = 0; c < u.channels; c += LANES<T>) {
      make_z(u, c);
      for (int64_t k = size; k < 2 * size + edges * LANES<T>; k += LANES<T>) store(u.scratch + k, V{});
      for_weights(u, c, [&](int w, int a, int64_t e, V value, V dw) {
        V dot = V{};
        for (int k = 0; k < d3(); k++) {
          const T g = u.out[a * u.out_width + k * u.out_stride + w];
          add_to(component(u, e, k) + size, value * g);
          dot += g * load(component(u, e, k));
        }
        add_to(r + e * LANES<T>, dw * dot);
      });
      for (int64_t e = 0; e < edges; e++) {
        const T *y = u.y + e * u.num_y + path.l2 * path.l2;
        const Pointer<const T> x = u.x + u.x_row[e] * u.x_width + c;
        T *y_adj = u.y_adj + e * u.num_y;
        V x_adj[MAX_COMPONENTS] = {}, sums[MAX_COMPONENTS] = {}, d = {};
        // Terms and entries are in the order of D.
        const KernelTerm<Real<T>> *term = path.d_terms, *const last_term = term + path.num_d_terms;
        for (int k = 0; k < path.num_d_entries; k++) {
          const KernelEntry<Real<T>> &n = path.d_entries[k];
          if (term < last_term && term->to == n.index) d = V{};
          for (; term < last_term && term->to == n.index; term++)
            d += term->factor * load(component(u, e, term->from) + size);
          const V v = n.sign * d;
          x_adj[n.a] += path.l2 == 0 ? v : V(y[n.b] * v);
          sums[n.b] += load(x + n.a * u.x_stride) * v;
        }
        y_adj[0] += sum_of_lanes<T>(load(r + e * LANES<T>));
        if (path.l2 > 0)
          for (int k = 0; k < 2 * path.l2 + 1; k++) y_adj[path.l2 * path.l2 + k] += sum_of_lanes<T>(sums[k]);
        if (u.x_adj)
          for (int k = 0; k < d1(); k++) add_to(u.x_adj + u.x_adj_row[e] * u.x_width + k * u.x_stride + c, x_adj[k]);
      }
    }
  }

  // Computes h instead of z.
  void gather(const UvwCall<T> &u) const {
    for (int c = 0; c < u.channels; c += LANES<T>) {
      for (int64_t k = 0; k < num_edges(u) * d3(); k++) store(u.scratch + k * LANES<T>, V{});
      for_weights(u, c, [&](int w, int, int64_t e, V value, V) {
        const Pointer<T> g = u.out + u.x_row[e] * u.out_width + w;
        for (int k = 0; k < d3(); k++) add_to(component(u, e, k), value * g[k * u.out_stride]);
      });
      for_edges(u, [&](int a, int64_t e, Pointer<const T> m) {
        for (int k = 0; k < path.num_m; k++) {
          const KernelEntry<Real<T>> &n = path.m[k];
          const V v = load(component(u, e, n.b));
          add_to(u.x_adj + a * u.x_width + n.a * u.x_stride + c,
                 n.index < 0 ? v : (n.sign * m[n.index * EDGE_BLOCK]) * v);
        }
      });
    }
  }
};

}    // namespace EQUI_ISA
}    // namespace equi

#endif

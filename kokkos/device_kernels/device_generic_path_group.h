// SPDX-License-Identifier: MIT
// The device kernel of a path group without a generated one: a body (device_path_group_impl.h) that walks the
// entries of the group's schedule as a table. It works for any order up to LMAX_ANY and any set of paths, and is
// several times slower. GenericUvwBody does the same for a uvw path.
#ifndef EQUI_DEVICE_GENERIC_PATH_GROUP_H
#define EQUI_DEVICE_GENERIC_PATH_GROUP_H

#include "kokkos/device_kernels/device_path_group_impl.h"

namespace equi {

constexpr int LMAX_ANY = 12;

template <class T>
struct GenericBody {
  static constexpr bool IS_UVW = false;
  static constexpr int LANE_CHANNELS = 1;
  static constexpr int NUMBERS[][4] = {{-1, -1, -1, -1}};    // unknown
  struct Path {
    int l2, l3;
    int column;    // the path's first column in a table row
    int first_entry, num_entries, first_coupling, num_couplings;
    int first_sum;    // numbers per edge and channel block that earlier paths leave
    KOKKOS_FORCEINLINE_FUNCTION int num_sums() const { return l2 == 0 ? 1 : 2 + 2 * l2; }
  };
  // M[m1,m3] = sign * coupled[number]; number -1 means 1. The struct has no gaps, because nothing would initialize
  // them.
  struct Entry {
    int m1, m3, coupled, unused;
    Real<T> sign;
  };
  struct Coupling {
    int m1, m2, m3, unused;
    Real<T> value;
  };

  int l1, row, num_paths;    // row: numbers in a table row per channel block
  const Path *paths;         // in device memory, like the following
  const Entry *entries;
  const Coupling *couplings;

  // One group for each path.
  int num_forward_runs() const { return num_paths; }
  int num_backward_runs() const { return num_paths; }
  KOKKOS_FUNCTION int num_sums(int q) const { return paths[q].num_sums(); }
  KOKKOS_FUNCTION int first_sum(int q) const { return paths[q].first_sum; }

  // sum[b] += sum over the edges of w M x or, if TRANSPOSED, of w M^T g; for path q.
  template <int ROWS, bool TRANSPOSED>
  KOKKOS_FUNCTION void sweep(const DevicePathGroupCall<T> &u, const DeviceAtom<1> &a, int q, T *sum) const {
    const Path p = paths[q];
    const auto first = first_weights<ROWS>(u, a);
    const int stride = TRANSPOSED ? u.path[q].stride : u.x_stride;
    for (int e = a.begin; e < a.end; e++) {
      const auto edge = u.edges[e];
      const T f = edge.fraction;
      T w = weight<ROWS>(u, weights_of<ROWS>(u, first, row, edge), q, p.column, row, f);
      if (ROWS == 1 && p.l2 == 0) w *= f;
      const T *m = u.coupled + static_cast<int64_t>(e) * u.coupled_width;
      const auto x = TRANSPOSED ? u.cotangent(q, edge.other_row, a.channel) : u.input(edge.other_row, a.channel);
      for (int k = p.first_entry; k < p.first_entry + p.num_entries; k++) {
        const Entry n = entries[k];
        const T product = w * x[(TRANSPOSED ? n.m3 : n.m1) * stride];
        sum[TRANSPOSED ? n.m1 : n.m3] += n.coupled < 0 ? product : n.sign * m[n.coupled] * product;
      }
    }
  }

  template <int ROWS>
  KOKKOS_FUNCTION void forward(int q, const DevicePathGroupCall<T> &u, const DeviceAtom<1> &a) const {
    T sum[2 * LMAX_ANY + 1] = {};
    sweep<ROWS, false>(u, a, q, sum);
    if (!add_up(a, sum)) return;
    const auto out = u.output(q, a.atom, a.channel);
    for (int k = 0; k < 2 * paths[q].l3 + 1; k++) put(out, k * u.path[q].stride, sum[k]);
  }

  // The derivatives with respect to the weights of path q, from the senders' side: the sum of x M^T g at each edge.
  KOKKOS_FUNCTION void gather_weights(const DevicePathGroupCall<T> &u, const DeviceAtom<1> &a, int q) const {
    const Path p = paths[q];
    const auto x = u.input(a.atom, a.channel);
    for (int e = a.begin; e < a.end; e++) {
      const auto edge = u.edges[e];
      const T *m = u.coupled + static_cast<int64_t>(e) * u.coupled_width;
      const auto g = u.cotangent(q, edge.other_row, a.channel);
      T sum = 0;
      for (int k = p.first_entry; k < p.first_entry + p.num_entries; k++) {
        const Entry n = entries[k];
        const T product = x[n.m1 * u.x_stride] * g[n.m3 * u.path[q].stride];
        sum += n.coupled < 0 ? product : n.sign * m[n.coupled] * product;
      }
      store_weight_adj(u, a, edge, q, p.l2 == 0 ? edge.fraction * sum : sum);
    }
  }

  template <int ROWS>
  KOKKOS_FUNCTION void gather(const DevicePathGroupCall<T> &u, const DeviceAtom<1> &a) const {
    T sum[2 * LMAX_ANY + 1] = {};
    for (int q = 0; q < num_paths; q++) {
      sweep<ROWS, true>(u, a, q, sum);
      if constexpr (ROWS == 1)
        if (u.weights_adj) gather_weights(u, a, q);
    }
    if (!add_up(a, sum)) return;
    const auto x_adj = u.input_adjoint(a.atom, a.channel);
    for (int k = 0; k < 2 * l1 + 1; k++) put(x_adj, k * u.x_stride, x_adj[k * u.x_stride] + sum[k]);
  }

  // Like the generated code, with D multiplied out.
  template <int ROWS, int LANES>
  KOKKOS_FUNCTION void backward(int q, const DevicePathGroupCall<T> &u, const DeviceAtom<1> &a, T *to, bool add) const {
    const Path p = paths[q];
    const auto g = u.cotangent(q, a.atom, a.channel);
    const auto first = first_weights<ROWS>(u, a);
    const int num = p.num_sums();
    for (int e = a.begin; e < a.end; e++) {
      const auto edge = u.edges[e];
      const auto x = u.input(edge.other_row, a.channel);
      const T *y = u.y + static_cast<int64_t>(e) * u.y_row + p.l2 * p.l2;
      const T f = edge.fraction;
      T w, dw, h[2 * LMAX_ANY + 1] = {};
      weight<ROWS>(u, weights_of<ROWS>(u, first, row, edge), q, p.column, row, f, w, dw);
      if (ROWS == 1 && p.l2 == 0) dw = w;
      for (int k = p.first_coupling; a.active && k < p.first_coupling + p.num_couplings; k++) {
        const Coupling n = couplings[k];
        h[n.m2] += n.value * x[n.m1 * u.x_stride] * g[n.m3 * u.path[q].stride];
      }
      T dot = 0;
      for (int k = 0; k < 2 * p.l2 + 1; k++) dot += p.l2 == 0 ? h[0] : y[k] * h[k];
      if constexpr (ROWS == 1) store_weight_adj(u, a, edge, q, p.l2 == 0 ? f * dot : dot);
      store_sums<LANES>(num, dw * dot, w, h, a.lane, to + static_cast<int64_t>(e) * num, add);
    }
  }

  // Stores r and factor * h[0 .. num - 1], one after another.
  template <int LANES>
  KOKKOS_FUNCTION static void store_sums(int num, T r, T factor, const T *h, int lane, T *to, bool add) {
    for (int k = 0; k < num; k++) {
      const T s[1] = {k == 0 ? r : factor * h[k - 1]};
      store_lane_sums<LANES>(s, lane, to + k, add);
    }
  }
};

template <class T>
struct GenericUvwBody {
  static constexpr bool IS_UVW = true;
  static constexpr int LANE_CHANNELS = 1;
  static constexpr int NUMBERS[][4] = {{-1, -1, -1, -1}};
  static constexpr int OUTPUTS = UVW_BLOCK, MAX_COMPONENTS = 2 * LMAX_ANY + 1;
  GenericBody<T> path_group;    // body for a single path

  int num_backward_runs() const { return 1; }
  KOKKOS_FUNCTION int num_sums(int) const { return path_group.num_sums(0); }
  KOKKOS_FUNCTION int first_sum(int) const { return 0; }

  template <int ROWS>
  KOKKOS_FUNCTION TableRow<Real<T>, ROWS> row_of(const DevicePathGroupCall<T> &u, const DeviceEdgeRecord<T> &edge,
                                                 int c, int w) const {
    return uvw_table<ROWS>(u, c, w, path_group.row, edge);
  }

  // Calls f(m1, m3, M[m1,m3]) at edge e.
  template <class F>
  KOKKOS_FUNCTION void for_entries(const DevicePathGroupCall<T> &u, int e, const F &f) const {
    const T *m = u.coupled + static_cast<int64_t>(e) * u.coupled_width;
    for (int k = 0; k < path_group.paths[0].num_entries; k++) {
      const auto n = path_group.entries[path_group.paths[0].first_entry + k];
      f(n.m1, n.m3, n.coupled < 0 ? T(1) : n.sign * m[n.coupled]);
    }
  }

  // h[m3] = sum_w W[u,w] g[w,m3] at an edge, and dh the same with W'; `row` has the cotangents.
  template <int ROWS>
  KOKKOS_FUNCTION void add_outputs(const DevicePathGroupCall<T> &u, const DeviceEdgeRecord<T> &edge, int c, int row,
                                   T *h, T *dh) const {
    const auto g = u.cotangent(0, row, 0);
    for (int w = 0; w < u.outputs; w++) {
      T value, derivative;
      polynomial<ROWS>(row_of<ROWS>(u, edge, c, w), 0, path_group.row, edge.fraction, value, derivative);
      for (int k = 0; k < 2 * path_group.paths[0].l3 + 1; k++) {
        h[k] += value * g[k * u.path[0].stride + w];
        dh[k] += derivative * g[k * u.path[0].stride + w];
      }
    }
  }

  template <int ROWS, int LANES>
  KOKKOS_FUNCTION void forward(int w, const DevicePathGroupCall<T> &u, const DeviceAtom<1> &a) const {
    T sum[MAX_COMPONENTS][OUTPUTS] = {};
    const int d3 = 2 * path_group.paths[0].l3 + 1, channels = w < u.outputs ? u.channels : 0;
    for (int c = a.lane; c < channels; c += LANES)
      for (int e = a.begin; e < a.end; e++) {
        const auto edge = u.edges[e];
        const auto x = u.input(edge.other_row, c);
        T z[MAX_COMPONENTS] = {};
        for_entries(u, e, [&](int m1, int m3, T m) { z[m3] += m * x[m1 * u.x_stride]; });
        for (int n = 0; n < OUTPUTS; n++) {
          const T value = polynomial<ROWS>(row_of<ROWS>(u, edge, c, w + n), 0, path_group.row, edge.fraction);
          for (int k = 0; k < d3; k++) sum[k][n] += value * z[k];
        }
      }
    const auto out = u.output(0, a.atom, w);
    for (int k = 0; k < d3; k++) store_lane_sums<LANES>(sum[k], a.lane, out + k * u.path[0].stride, u.add);
  }

  template <int ROWS>
  KOKKOS_FUNCTION void gather(const DevicePathGroupCall<T> &u, const DeviceAtom<1> &a) const {
    T sum[MAX_COMPONENTS] = {};
    for (int e = a.begin; e < a.end; e++) {
      T h[MAX_COMPONENTS] = {}, dh[MAX_COMPONENTS] = {};
      const auto edge = u.edges[e];
      add_outputs<ROWS>(u, edge, a.channel, edge.other_row, h, dh);
      for_entries(u, e, [&](int m1, int m3, T m) { sum[m1] += m * h[m3]; });
    }
    if (!add_up(a, sum)) return;
    const auto x_adj = u.input_adjoint(a.atom, a.channel);
    for (int k = 0; k < 2 * path_group.l1 + 1; k++) put(x_adj, k * u.x_stride, x_adj[k * u.x_stride] + sum[k]);
  }

  template <int ROWS, int LANES>
  KOKKOS_FUNCTION void backward(int, const DevicePathGroupCall<T> &u, const DeviceAtom<1> &a, T *to, bool add) const {
    const auto p = path_group.paths[0];
    const int num = p.num_sums();
    for (int e = a.begin; e < a.end; e++) {
      const auto edge = u.edges[e];
      const auto x = u.input(edge.other_row, a.channel);
      const T *y = u.y + static_cast<int64_t>(e) * u.y_row + p.l2 * p.l2;
      T h[MAX_COMPONENTS] = {}, dh[MAX_COMPONENTS] = {}, by_y[MAX_COMPONENTS] = {}, r = 0;
      if (a.active) add_outputs<ROWS>(u, edge, a.channel, a.atom, h, dh);
      for (int k = p.first_coupling; k < p.first_coupling + p.num_couplings; k++) {
        const auto n = path_group.couplings[k];
        const T v = n.value * x[n.m1 * u.x_stride];
        by_y[n.m2] += v * h[n.m3];
        r += (p.l2 == 0 ? T(1) : y[n.m2]) * v * dh[n.m3];
      }
      path_group.template store_sums<LANES>(num, r, T(1), by_y, a.lane, to + static_cast<int64_t>(e) * num, add);
    }
  }
};

}    // namespace equi

#endif

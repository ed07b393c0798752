// The device kernel of a unit that has no generated one: a body (device_unit_impl.h) that walks the entries of the
// unit's schedule as a table. Any order up to LMAX_ANY and any set of paths, several times slower.
#ifndef EQUI_DEVICE_GENERIC_UNIT_H
#define EQUI_DEVICE_GENERIC_UNIT_H

#include "device_unit_impl.h"

namespace equi {

constexpr int LMAX_ANY = 12;

template <class T>
struct GenericBody {
  struct Path {
    int l2, l3;
    int column;    // the path's first in a table row
    int first_entry, num_entries, first_coupling, num_couplings;
    int first_sum;    // numbers per edge and chunk of channels that the paths before leave
    KOKKOS_FORCEINLINE_FUNCTION int num_sums() const { return l2 == 0 ? 1 : 2 + 2 * l2; }
  };
  // M[m1,m3] = sign * form; form -1: 1.
  struct Entry {
    int m1, m3, form;
    T sign;
  };
  struct Coupling {
    int m1, m2, m3;
    T value;
  };

  int l1, row, num_paths;    // row: numbers of a table row per chunk
  const Path *paths;         // in device memory, as the following
  const Entry *entries;
  const Coupling *couplings;

  // A group for each path.
  int num_forward_groups() const { return num_paths; }
  int num_backward_groups() const { return num_paths; }
  KOKKOS_FUNCTION int num_sums(int q) const { return paths[q].num_sums(); }
  KOKKOS_FUNCTION int first_sum(int q) const { return paths[q].first_sum; }

  KOKKOS_FUNCTION const T *table(const DeviceUnitCall<T> &u, const DeviceAtom &a, const Path &p) const {
    return u.table + a.channel / CHANNEL_PAD * u.slab + a.channel % CHANNEL_PAD + p.column;
  }

  // sum[b] += sum over the edges of w M x, for x at other + row * width; TRANSPOSED: w M^T g.
  template <int ROWS, bool TRANSPOSED>
  KOKKOS_FUNCTION void sweep(const DeviceUnitCall<T> &u, const DeviceAtom &a, const Path &p, const T *other,
                             int64_t width, int stride, T *sum) const {
    const T *first_row = table(u, a, p);
    for (int e = a.begin; e < a.end; e++) {
      const T w = polynomial<ROWS>(first_row + static_cast<int64_t>(u.table_row[e]) * row, row, u.fraction[e]);
      const T *m = u.forms + static_cast<int64_t>(e) * u.forms_width, *x = other + u.other_row[e] * width;
      for (int k = p.first_entry; k < p.first_entry + p.num_entries; k++) {
        const Entry n = entries[k];
        const T product = w * x[(TRANSPOSED ? n.m3 : n.m1) * stride];
        sum[TRANSPOSED ? n.m1 : n.m3] += n.form < 0 ? product : n.sign * m[n.form] * product;
      }
    }
  }

  template <int ROWS>
  KOKKOS_FUNCTION void forward(int q, const DeviceUnitCall<T> &u, const DeviceAtom &a) const {
    const Path p = paths[q];
    T sum[2 * LMAX_ANY + 1] = {};
    sweep<ROWS, false>(u, a, p, u.x + a.channel, u.x_width, u.x_stride, sum);
    const auto to = u.path[q];
    T *out = u.out + to.begin + static_cast<int64_t>(a.atom) * to.width + a.channel;
    for (int k = 0; k < 2 * p.l3 + 1; k++) out[k * to.stride] = sum[k];
  }

  template <int ROWS>
  KOKKOS_FUNCTION void gather(const DeviceUnitCall<T> &u, const DeviceAtom &a) const {
    T sum[2 * LMAX_ANY + 1] = {};
    for (int q = 0; q < num_paths; q++)
      sweep<ROWS, true>(u, a, paths[q], u.out_adj + u.path[q].begin + a.channel, u.path[q].width, u.path[q].stride,
                        sum);
    T *x_adj = u.x_adj + static_cast<int64_t>(a.atom) * u.x_width + a.channel;
    for (int k = 0; k < 2 * l1 + 1; k++) x_adj[k * u.x_stride] += sum[k];
  }

  // As the generated text, with D multiplied out.
  template <int ROWS, int LANES>
  KOKKOS_FUNCTION void backward(int q, const DeviceUnitCall<T> &u, const DeviceAtom &a, int lane, bool active, T *to,
                                bool add) const {
    const Path p = paths[q];
    const auto from = u.path[q];
    const T *g = u.out_adj + from.begin + static_cast<int64_t>(a.atom) * from.width + a.channel;
    const T *first_row = table(u, a, p);
    const int num = p.num_sums();
    for (int e = a.begin; e < a.end; e++) {
      const T *x = u.x + static_cast<int64_t>(u.other_row[e]) * u.x_width + a.channel;
      const T *y = u.y + static_cast<int64_t>(e) * u.num_y + p.l2 * p.l2;
      T w, dw, h[2 * LMAX_ANY + 1] = {};
      polynomial<ROWS>(first_row + static_cast<int64_t>(u.table_row[e]) * row, row, u.fraction[e], w, dw);
      for (int k = p.first_coupling; active && k < p.first_coupling + p.num_couplings; k++) {
        const Coupling n = couplings[k];
        h[n.m2] += n.value * x[n.m1 * u.x_stride] * g[n.m3 * from.stride];
      }
      T s[1] = {0};
      for (int k = 0; k < 2 * p.l2 + 1; k++) s[0] += p.l2 == 0 ? h[0] : y[k] * h[k];
      s[0] *= dw;
      store_lane_sums<LANES>(s, lane, to + static_cast<int64_t>(e) * num, add);
      for (int k = 0; k + 1 < num; k++) {
        s[0] = w * h[k];
        store_lane_sums<LANES>(s, lane, to + static_cast<int64_t>(e) * num + 1 + k, add);
      }
    }
  }
};

}    // namespace equi

#endif

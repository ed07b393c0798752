// SPDX-License-Identifier: MIT
// The kernels of SO(2) convolutions for one instruction set, included by host_kernels_impl.h: the work that is done
// edge by edge.
#ifndef EQUI_HOST_SO2_IMPL_H
#define EQUI_HOST_SO2_IMPL_H

#include "kokkos/host_kernels/host_gate_impl.h"
#include "kokkos/host_kernels/so2_kernels.h"
#include "kokkos/kernel_interface/host_simd.h"

namespace equi {
namespace EQUI_ISA {

// ---- rotations
// Order L of an edge, in both directions.
template <class T, int L>
struct So2Order {
  static constexpr int DIM = 2 * L + 1;
  const So2RotationCall<T> &c;
  const int64_t e;
  const int most = c.shape.largest_m(L);
  const T *const d = c.rotations + e * rotations_size(c.shape.lmax) + (L > 0 ? rotations_size(L - 1) : 0);

  EQUI_INLINE Pointer<T> atom_row(int n, int k) const {
    const int64_t stride = PLANES<T> * c.channels;
    return make_pointer<T>(c.x[L] + (int64_t(c.row[e]) * DIM + n) * stride + k, c.channels);
  }
  EQUI_INLINE void rotate() const {
    for (int k = 0; k < c.channels; k += LANES<T>) {
      Simd<T> x[DIM];
      EQUI_UNROLL_SIMD
      for (int n = 0; n < DIM; n++) x[n] = load(atom_row(n, k));
      for (int m = -most; m <= most; m++) {
        const T *const row = d + (L + m) * DIM;
        Simd<T> sum = row[0] * x[0];
        EQUI_UNROLL_SIMD
        for (int n = 1; n < DIM; n++) sum += row[n] * x[n];
        store(so2_component<T>(c.shape, c.count, c.u, e, L, m) + (c.first + k), sum);
      }
    }
  }
  EQUI_INLINE void rotate_back() const {
    const T factor = c.factor ? c.factor[e] : T(1);
    for (int k = 0; k < c.channels; k += LANES<T>) {
      Simd<T> sum[DIM] = {};
      for (int m = -most; m <= most; m++) {
        const T *const row = d + (L + m) * DIM;
        const Simd<T> u = load(so2_component<T>(c.shape, c.count, c.u, e, L, m) + (c.first + k));
        EQUI_UNROLL_SIMD
        for (int n = 0; n < DIM; n++) sum[n] += row[n] * u;
      }
      EQUI_UNROLL_SIMD
      for (int n = 0; n < DIM; n++) add_to(atom_row(n, k), factor * sum[n]);
    }
  }
};

// Calls f(order) for the orders of edge e.
template <class T, int L = 0, class F>
static EQUI_INLINE void for_so2_orders(const So2RotationCall<T> &c, int64_t e, const F &f) {
  if (L > c.shape.lmax) return;
  f(So2Order<T, L>{c, e});
  if constexpr (L < SO2_LMAX) for_so2_orders<T, L + 1>(c, e, f);
}

template <class T>
static void so2_rotate(const So2RotationCall<T> &c) {
  for (int64_t e = 0; e < c.count; e++) for_so2_orders(c, e, [](const auto &order) { order.rotate(); });
}

template <class T>
static void so2_rotate_back(const So2RotationCall<T> &c) {
  for (int64_t e = 0; e < c.count; e++) for_so2_orders(c, e, [](const auto &order) { order.rotate_back(); });
}

// ---- products with numbers of an edge
// Calls f(u, v, factors, size, has_minus) for each |m| of all edges; has_minus: whether components of -m follow,
// which have the same size.
template <class T, class F>
static EQUI_INLINE void for_so2_factors(const So2FactorCall<T> &c, const F &f) {
  const So2Shape &s = c.shape;
  int64_t row = 0;
  for (int m = 0; m <= s.mmax; m++) row += s.orders(m) * s.channels;
  for (int64_t e = 0; e < c.count; e++) {
    Pointer<T> factors = make_pointer<T>(c.factors + e * row, c.count * row);
    for (int m = 0; m <= s.mmax; m++) {
      const int64_t size = s.orders(m) * s.channels;
      f(so2_component<T>(s, c.count, c.u, e, m, m), so2_component<T>(s, c.count, c.v, e, m, m), factors, size, m > 0);
      factors += size;
    }
  }
}

template <class T>
static void so2_factors(const So2FactorCall<T> &c) {
  for_so2_factors(c, [](auto u, auto v, auto factors, int64_t size, bool has_minus) {
    for (int64_t k = 0; k < size; k += LANES<T>) {
      const Simd<T> factor = load(factors + k);
      store(v + k, factor * load(u + k));
      if (has_minus) store(v + (size + k), factor * load(u + (size + k)));
    }
  });
}

template <class T>
static void so2_factors_backward(const So2FactorCall<T> &c) {
  for_so2_factors(c, [](auto u, auto v, auto factors, int64_t size, bool has_minus) {
    for (int64_t k = 0; k < size; k += LANES<T>) {
      const Simd<T> factor = load(factors + k), v_adj = load(v + k);
      Simd<T> sum = v_adj * load(u + k);
      store(v + k, factor * v_adj);
      if (has_minus) {
        const Simd<T> minus_adj = load(v + (size + k));
        sum += minus_adj * load(u + (size + k));
        store(v + (size + k), factor * minus_adj);
      }
      store(factors + k, sum);
    }
  });
}

template <class T>
static EQUI_INLINE T so2_sum_of_lanes(const Simd<T> &v) {
  T sum[1] = {T(0)};
  add_sums_of_lanes<T, 0>({v}, sum);
  return sum[0];
}

template <class T>
static void so2_cutoff_backward(const So2CutoffCall<T> &c) {
  const So2Shape &s = c.shape;
  for (int64_t e = 0; e < c.count; e++) {
    Simd<T> sum{};
    for (int m = 0; m <= s.mmax; m++) {
      const auto messages = so2_component<T>(s, c.count, c.messages, e, m, m);
      const auto of_sum = so2_component<T>(s, c.count, c.of_sum, e, m, m);
      const auto to = so2_component<T>(s, c.count, c.messages_adj, e, m, m);
      for (int64_t k = 0; k < s.width(m); k += LANES<T>) {
        const Simd<T> w = load(of_sum + k);
        sum += w * load(messages + k);
        store(to + k, c.cutoff[e] * w);
      }
    }
    c.cutoff_adj[e] = so2_sum_of_lanes<T>(sum);
  }
}

template <class T>
static void so2_torque(const So2TorqueCall<T> &c) {
  const So2Shape &as = c.a_shape, &bs = c.b_shape;
  for (int64_t e = 0; e < c.count; e++) {
    Simd<T> torque[3] = {};
    for (int n = 0; n < c.num_generators; n++) {
      const So2Generator<Real<T>> &entry = c.generators[n];
      const auto a = so2_component<T>(as, c.count, c.a, e, entry.l, entry.m);
      const auto b = so2_component<T>(bs, c.count, c.b, e, entry.l, entry.n);
      Simd<T> sum = load(a) * load(b);
      for (int k = LANES<T>; k < as.channels; k += LANES<T>) sum += load(a + k) * load(b + k);
      torque[entry.k] += entry.value * sum;
    }
    const T factor = c.factor ? c.factor[e] : T(1);
    for (int k = 0; k < 3; k++) c.torque[3 * e + k] += factor * so2_sum_of_lanes<T>(torque[k]);
  }
}

// ---- gates
// Calls f(m, channel) for the components of an order, for the channels of a block.
template <class F>
static EQUI_INLINE void for_so2_components(const So2Shape &shape, int l, int lanes, const F &f) {
  for (int m = -shape.largest_m(l); m <= shape.largest_m(l); m++)
    for (int j = 0; j < GATE_BLOCK; j += lanes) f(m, j);
}

// Calls f(e, l, first channel, gate of the order, its activation, the derivative of the activation) for all blocks
// of channels.
template <class T, class F>
static EQUI_INLINE void for_so2_gates(const So2GateCall<T> &c, const F &f) {
  const So2Shape &shape = c.z_shape;
  for (int64_t e = 0; e < c.count; e++)
    for (int l = 0; l <= shape.lmax; l++)
      for (int k = 0; k < shape.channels; k += GATE_BLOCK) {
        const int64_t at = l == 0 ? shape.at(PLANES<T> * c.count, e, 0, 0) : shape.gate_at(e, l - 1);
        const Pointer<T> input = make_pointer<T>(c.z + at + k, c.count * shape.width(0));
        GateBlock<T> value{}, derivative{};
        const int count = c.mul - k < GATE_BLOCK ? c.mul - k : GATE_BLOCK;
        activate_block<T>(l == 0 ? c.scalars : c.gates, Real<T>(1), input, count, value.pointer(),
                          derivative.pointer());
        f(e, l, k, input, value.pointer(), derivative.pointer());
      }
}

template <class T>
static void so2_gate(const So2GateCall<T> &c) {
  for_so2_gates(c, [&](int64_t e, int l, int k, Pointer<T>, Pointer<T> value, Pointer<T>) {
    for_so2_components(c.z_shape, l, LANES<T>, [&](int m, int j) {
      const Simd<T> a = load(value + j);
      const Pointer<T> h = so2_component<T>(c.h_shape, c.count, c.h, e, l, m) + (k + j);
      store(h, l == 0 ? a : a * load(so2_component<T>(c.z_shape, c.count, c.z, e, l, m) + (k + j)));
    });
  });
}

template <class T>
static void so2_gate_backward(const So2GateCall<T> &c) {
  for_so2_gates(c, [&](int64_t e, int l, int k, Pointer<T> input, Pointer<T> value, Pointer<T> derivative) {
    Simd<T> sum[GATE_BLOCK / LANES<T>] = {};
    for_so2_components(c.z_shape, l, LANES<T>, [&](int m, int j) {
      const Pointer<T> z = so2_component<T>(c.z_shape, c.count, c.z, e, l, m) + (k + j);
      const Simd<T> h = load(so2_component<T>(c.h_shape, c.count, c.h, e, l, m) + (k + j));
      sum[j / LANES<T>] += l == 0 ? h : h * load(z);
      store(z, h * load(value + j));
    });
    for (int j = 0; j < GATE_BLOCK; j += LANES<T>) store(input + j, load(derivative + j) * sum[j / LANES<T>]);
  });
}

// ---- activations at points
constexpr int SO2_POINT_BLOCK = 4;

// The components of an edge for a block of channels, side by side.
template <class T>
struct So2Components {
  GateBlock<T> blocks[SO2_COMPONENTS];
  EQUI_INLINE Pointer<T> operator[](int c) { return blocks[c].pointer(); }
};

template <class T>
static EQUI_INLINE void set_to_zero(Pointer<T> block) {
  for (int j = 0; j < GATE_BLOCK; j += LANES<T>) store(block + j, Simd<T>{});
}

// Values at the points p .. p + n - 1, n <= SO2_POINT_BLOCK: sums over components of `matrix` times x.
template <class T>
static EQUI_INLINE void so2_at_points(const Real<T> *matrix, int components, int p, int n, So2Components<T> &x,
                                      GateBlock<T> (&values)[SO2_POINT_BLOCK]) {
  for (int j = 0; j < GATE_BLOCK; j += LANES<T>) {
    Simd<T> sum[SO2_POINT_BLOCK] = {};
    for (int c = 0; c < components; c++) {
      const Simd<T> of_x = load(x[c] + j);
      EQUI_UNROLL_SIMD
      for (int q = 0; q < SO2_POINT_BLOCK; q++)
        sum[q] += matrix[static_cast<int64_t>(q < n ? p + q : p) * components + c] * of_x;
    }
    for (int q = 0; q < SO2_POINT_BLOCK; q++) store(values[q].pointer() + j, sum[q]);
  }
}

// x += the transposed matrix times the values.
template <class T>
static EQUI_INLINE void so2_from_points(const Real<T> *matrix, int components, int p, int n,
                                        GateBlock<T> (&values)[SO2_POINT_BLOCK], So2Components<T> &x) {
  for (int j = 0; j < GATE_BLOCK; j += LANES<T>) {
    Simd<T> value[SO2_POINT_BLOCK] = {};
    for (int q = 0; q < n; q++) value[q] = load(values[q].pointer() + j);
    for (int c = 0; c < components; c++) {
      Simd<T> sum = load(x[c] + j);
      EQUI_UNROLL_SIMD
      for (int q = 0; q < SO2_POINT_BLOCK; q++)
        sum += matrix[static_cast<int64_t>(q < n ? p + q : p) * components + c] * value[q];
      store(x[c] + j, sum);
    }
  }
}

// Calls f(e, first channel, number of channels) for all blocks of channels.
template <class T, class F>
static EQUI_INLINE void for_so2_blocks(const So2PointsCall<T> &c, const F &f) {
  for (int64_t e = 0; e < c.count; e++)
    for (int k = 0; k < c.h_shape.channels; k += GATE_BLOCK) f(e, k, c.mul - k < GATE_BLOCK ? c.mul - k : GATE_BLOCK);
}

template <class T>
static EQUI_INLINE void so2_load_components(const So2Shape &shape, int64_t count, const Real<T> *u, int64_t e, int k,
                                            So2Components<T> &to) {
  for_so2_columns(shape, [&](int c, int l, int m) {
    const Pointer<const T> from = so2_component<T>(shape, count, u, e, l, m) + k;
    for (int j = 0; j < GATE_BLOCK; j += LANES<T>) store(to[c] + j, load(from + j));
  });
}

template <class T>
static void so2_points(const So2PointsCall<T> &c) {
  So2Components<T> x, y;
  // Channels of padding are not activated, and stay 0.
  GateBlock<T> values[SO2_POINT_BLOCK], activated[SO2_POINT_BLOCK] = {}, derivative;
  for_so2_blocks(c, [&](int64_t e, int k, int count) {
    so2_load_components<T>(c.z_shape, c.count, c.z, e, k, x);
    for (int i = 0; i < c.components; i++) set_to_zero<T>(y[i]);
    for (int p = 0; p < c.points; p += SO2_POINT_BLOCK) {
      const int n = c.points - p < SO2_POINT_BLOCK ? c.points - p : SO2_POINT_BLOCK;
      so2_at_points<T>(c.to, c.components, p, n, x, values);
      for (int q = 0; q < n; q++)
        activate_block<T>(c.at_points, Real<T>(1), values[q].pointer(), count, activated[q].pointer(),
                          derivative.pointer());
      so2_from_points<T>(c.from, c.components, p, n, activated, y);
    }
    if (c.has_scalars)
      activate_block<T>(c.scalars, Real<T>(1),
                        make_pointer<const T>(c.z + c.z_shape.gate_at(e, 0) + k, c.count * c.z_shape.width(0)), count,
                        y[0], derivative.pointer());
    for_so2_columns(c.h_shape, [&](int i, int l, int m) {
      const Pointer<T> h = so2_component<T>(c.h_shape, c.count, c.h, e, l, m) + k;
      for (int j = 0; j < GATE_BLOCK; j += LANES<T>) store(h + j, load(y[i] + j));
    });
  });
}

template <class T>
static void so2_points_backward(const So2PointsCall<T> &c) {
  So2Components<T> x, x_adj, y_adj;
  GateBlock<T> values[SO2_POINT_BLOCK], of_values[SO2_POINT_BLOCK], activated, derivative = {};
  for_so2_blocks(c, [&](int64_t e, int k, int count) {
    so2_load_components<T>(c.z_shape, c.count, c.z, e, k, x);
    so2_load_components<T>(c.h_shape, c.count, c.h, e, k, y_adj);
    for (int i = 0; i < c.components; i++) set_to_zero<T>(x_adj[i]);
    if (c.has_scalars) {
      const int64_t at = c.z_shape.gate_at(e, 0) + k, plane = c.count * c.z_shape.width(0);
      activate_block<T>(c.scalars, Real<T>(1), make_pointer<const T>(c.z + at, plane), count, activated.pointer(),
                        derivative.pointer());
      const Pointer<T> z_adj = make_pointer<T>(c.z_adj + at, plane);
      for (int j = 0; j < count; j++) put(z_adj, j, z_adj[j] + derivative.pointer()[j] * y_adj[0][j]);
      set_to_zero<T>(y_adj[0]);
    }
    for (int p = 0; p < c.points; p += SO2_POINT_BLOCK) {
      const int n = c.points - p < SO2_POINT_BLOCK ? c.points - p : SO2_POINT_BLOCK;
      so2_at_points<T>(c.to, c.components, p, n, x, values);
      so2_at_points<T>(c.from, c.components, p, n, y_adj, of_values);
      for (int q = 0; q < n; q++) {
        activate_block<T>(c.at_points, Real<T>(1), values[q].pointer(), count, activated.pointer(),
                          derivative.pointer());
        const Pointer<T> value_adj = of_values[q].pointer();
        for (int j = 0; j < GATE_BLOCK; j += LANES<T>)
          store(value_adj + j, load(derivative.pointer() + j) * load(value_adj + j));
      }
      so2_from_points<T>(c.to, c.components, p, n, of_values, x_adj);
    }
    for_so2_columns(c.z_shape, [&](int i, int l, int m) {
      const Pointer<T> z_adj = so2_component<T>(c.z_shape, c.count, c.z_adj, e, l, m) + k;
      for (int j = 0; j < count; j++) put(z_adj, j, z_adj[j] + x_adj[i][j]);
    });
  });
}

}    // namespace EQUI_ISA
}    // namespace equi

#endif

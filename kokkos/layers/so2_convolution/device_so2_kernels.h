// SPDX-License-Identifier: MIT
// The kernels of SO(2) convolutions on a device. A kernel that sums over channels has 32 lanes per edge; all others
// have a thread per channel. What is cheap is computed again rather than stored: rotated features stay in registers.
#ifndef EQUI_DEVICE_SO2_KERNELS_H
#define EQUI_DEVICE_SO2_KERNELS_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/geometry/rotations.h"
#include "kokkos/layers/edge_network/device_edge_network.h"
#include "kokkos/layers/so2_convolution/so2_edge_steps.h"
#include "kokkos/runtime/launch_on_lanes.h"
#include "src/functions/activation.h"
#include "src/functions/basis_functions.h"

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace equi {

// ---- geometry
// For each edge of a chunk: its rows of the input and of the output, its rotations, the cutoff function and its
// derivative.
template <class T>
struct So2EdgeKernel {
  using D = DoubleOf<T>;
  EdgeRowsKernel rows;
  const D *distance, *unit;
  const BasisFunctions *bases;
  bool per_pair;
  RotationRecursion recursion;
  int *out_row;
  D *exact;    // rotations in float64, which may be `rotations`
  T *rotations, *cutoff, *cutoff_slope;
  KOKKOS_FUNCTION void operator()(int64_t c) const {
    const DeviceBatchEdges &batch = rows.batch;
    const int64_t position = batch.first + c, e = batch.edge_at(position);
    const int size = rotations_size(recursion.lmax);
    rows(c);
    out_row[c] = rows.of_senders ? batch.other_row[position] : batch.atom_at(position);
    D n[3], frame[9];
    for (int k = 0; k < 3; k++) n[k] = unit[3 * e + k];
    edge_frame(n, frame);
    recursion.evaluate(frame, exact + c * size);
    if (static_cast<const void *>(exact) != rotations)
      for (int k = 0; k < size; k++) rotations[c * size + k] = static_cast<T>(exact[c * size + k]);
    const double along = static_cast<double>(tangent_of(distance[e]));
    const Jet f = bases[per_pair ? rows.pair[e] : 0].cutoff_function(static_cast<double>(value_of(distance[e])), -1);
    cutoff[c] = make_number<T>(static_cast<Real<T>>(f.d[0]), static_cast<Real<T>>(f.d[1] * along));
    cutoff_slope[c] = make_number<T>(static_cast<Real<T>>(f.d[1]), static_cast<Real<T>>(f.d[2] * along));
  }
};

// Adds the derivatives with respect to edges: those of the cutoff function, and of the direction.
template <class T>
struct So2EdgeAdjoint {
  using D = DoubleOf<T>;
  DeviceBatchEdges batch;
  int lmax, num_y;
  bool depends_on_frame;
  const T *rotations, *cutoff_slope, *cutoff_adj;
  D *edge_adj;
  KOKKOS_FUNCTION void add(int64_t c, const T torque[3]) const {
    D *const adjoint = edge_adj + batch.edge_at(batch.first + c) * num_y;
    adjoint[0] += static_cast<D>(cutoff_adj[c] * cutoff_slope[c]);
    if (lmax == 0) return;
    const Real<T> inverse_norm = static_cast<Real<T>>(0.57735026918962576451);    // Y_1 = sqrt(3) n
    T gradient[3];
    so2_direction_gradient(rotations + c * rotations_size(lmax) + 1, torque, depends_on_frame, gradient);
    for (int k = 0; k < 3; k++) adjoint[1 + k] += static_cast<D>(inverse_norm * gradient[k]);
  }
};

// ---- rotations
// Calls f(order) for the orders 0 .. lmax, with the order as a std::integral_constant.
template <int L = 0, class F>
KOKKOS_FORCEINLINE_FUNCTION void for_so2_orders(int lmax, const F &f) {
  f(std::integral_constant<int, L>());
  if constexpr (L < SO2_LMAX)
    if (L < lmax) for_so2_orders<L + 1>(lmax, f);
}

// Features of atoms or rows of edges, and the rotations of edges.
template <class T>
struct So2Frames {
  int lmax, channels;
  const T *rotations;    // [edges][rotations_size(lmax)]
  // Order l: [row][l + m][planes][channels].
  Real<T> *x[SO2_LMAX + 1];

  template <int L>
  KOKKOS_FORCEINLINE_FUNCTION Pointer<T> component(int64_t row, int n, int k) const {
    return make_pointer<T>(x[L] + (row * (2 * L + 1) + n) * PLANES<T> * channels + k, channels);
  }
  // Row m of the rotation of order L.
  template <int L>
  KOKKOS_FORCEINLINE_FUNCTION const T *rotation(int64_t e, int m) const {
    return rotations + e * rotations_size(lmax) + (L > 0 ? rotations_size(L - 1) : 0) + (L + m) * (2 * L + 1);
  }
};

// Order L of a channel, in registers.
template <class T, int L>
struct So2Order {
  static constexpr int DIM = 2 * L + 1;
  T x[DIM];

  KOKKOS_FORCEINLINE_FUNCTION void load(const So2Frames<T> &frames, int64_t row, int k) {
    EQUI_UNROLL for (int n = 0; n < DIM; n++) x[n] = frames.template component<L>(row, n, k)[0];
  }
  KOKKOS_FORCEINLINE_FUNCTION void store(const So2Frames<T> &frames, int64_t row, int k) const {
    EQUI_UNROLL for (int n = 0; n < DIM; n++) put(frames.template component<L>(row, n, k), 0, x[n]);
  }
  KOKKOS_FORCEINLINE_FUNCTION void clear() { EQUI_UNROLL for (int n = 0; n < DIM; n++) x[n] = T(0); }
  // A component in the frame of an edge.
  KOKKOS_FORCEINLINE_FUNCTION T rotated(const T *rotation) const {
    T sum = rotation[0] * x[0];
    EQUI_UNROLL for (int n = 1; n < DIM; n++) sum += rotation[n] * x[n];
    return sum;
  }
  KOKKOS_FORCEINLINE_FUNCTION void add_back(const T *rotation, const T &u) {
    EQUI_UNROLL for (int n = 0; n < DIM; n++) x[n] += rotation[n] * u;
  }
};

// Radial factors [edge][|m|][l][channels] of the components of a shape, with which +m and -m are multiplied.
template <class T>
struct So2Factors {
  So2Shape shape;
  Pointer<T> first;    // null: no factors

  KOKKOS_FORCEINLINE_FUNCTION bool exist() const { return static_cast<bool>(first); }
  EQUI_FUNCTION int row() const { return before(shape.mmax + 1); }
  EQUI_FUNCTION int before(int m) const { return (m * (shape.lmax + 1) - m * (m - 1) / 2) * shape.channels; }
  KOKKOS_FORCEINLINE_FUNCTION Pointer<T> at(int64_t e, int l, int m) const {
    return first + (e * row() + before(m) + (l - m) * shape.channels);
  }
};

// u = factors D x for the channels of both atoms of an edge. One thread per channel of an edge, the sender's first.
template <class T>
struct So2InputKernel {
  So2Frames<T> in;
  const int *row[2];    // [count]: of senders, of receivers
  So2Factors<T> factors;
  So2Shape shape;    // of u
  int64_t count;
  Real<T> *u;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const int64_t e = index / shape.channels;
    const int j = static_cast<int>(index % shape.channels), side = j >= in.channels, k = j - side * in.channels;
    for_so2_orders(in.lmax, [&](auto order) {
      constexpr int L = order.value;
      So2Order<T, L> x;
      x.load(in, row[side][e], k);
      for (int m = 0; m <= shape.largest_m(L); m++) {
        const T factor = factors.exist() ? T(factors.at(e, L, m)[j]) : T(1);
        for (int sign = 1; sign >= (m == 0 ? 1 : -1); sign -= 2)
          put(so2_component<T>(shape, count, u, e, L, sign * m), j,
              factor * x.rotated(in.template rotation<L>(e, sign * m)));
      }
    });
  }
};

// Adds D^T (factors, factor (u + bias)) to rows of atoms, summed over the edges of each of the batch's atoms, one
// edge after another. Row a is that of atom a. One thread per channel of an order of an atom.
template <class T>
struct So2RotateBackKernel {
  So2Frames<T> out;
  DeviceBatchEdges batch;    // its positions are the edges of u
  So2Shape shape;            // of u
  int64_t count;
  int first;    // channel of u that is channel 0 of the rows
  const Real<T> *u;
  const T *factor;    // [count], or null
  So2Factors<T> factors;
  const Real<T> *bias;    // [l][channels] of m = 0, or null
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const int64_t threads = static_cast<int64_t>(batch.num_atoms) * out.channels, of_order = index % threads;
    const int l = static_cast<int>(index / threads), k = static_cast<int>(of_order % out.channels);
    for_so2_orders(out.lmax, [&](auto order) {
      if (order.value == l) add<order.value>(of_order / out.channels, k);
    });
  }
  template <int L>
  KOKKOS_FUNCTION void add(int64_t a, int k) const {
    const int64_t begin = batch.begin[a] - batch.first, end = batch.begin[a + 1] - batch.first,
                  last = end < batch.count ? end : batch.count;
    int64_t e = begin > 0 ? begin : 0;
    if (e >= last) return;
    const T bias_of_channel = bias ? T(bias[L * shape.channels + first + k]) : T(0);
    So2Order<T, L> sum;
    sum.load(out, a, k);
    for (; e < last; e++)
      for (int m = -shape.largest_m(L); m <= shape.largest_m(L); m++) {
        T value = so2_component<T>(shape, count, u, e, L, m)[first + k];
        if (m == 0) value += bias_of_channel;
        if (factor) value = factor[e] * value;
        if (factors.exist()) value = T(factors.at(e, L, m < 0 ? -m : m)[first + k]) * value;
        sum.add_back(out.template rotation<L>(e, m), value);
      }
    sum.store(out, a, k);
  }
};

// The entries of generators (So2Generator) between +m, -m and +(m - 1), -(m - 1) of an order, m > 0. They are
// antisymmetric, and all others are 0.
template <class R>
struct So2Turn {
  R x[2][2], z[2][2];    // [whether -m][whether -(m - 1)]
  R y;                   // from -m to +m
};
// Number of turns before those of order l; that of m is number m - 1 of them.
EQUI_FUNCTION constexpr int so2_turns_before(int l) {
  return l * (l - 1) / 2;
}

// The sum of a J_k b over components of an order for rotations about x, y and z, for one |m| after another.
template <class T>
struct So2TorqueSum {
  T torque[3] = {T(0), T(0), T(0)};
  T a_before[2], b_before[2];

  // a, b: components of +m and -m; those of m = 0 have 0 as the second number.
  KOKKOS_FORCEINLINE_FUNCTION void add(int m, const So2Turn<Real<T>> *turns, const T (&a)[2], const T (&b)[2]) {
    if (m > 0) {
      const So2Turn<Real<T>> &turn = turns[m - 1];
      torque[1] += turn.y * (a[0] * b[1] - a[1] * b[0]);
      EQUI_UNROLL for (int s = 0; s < 2; s++) EQUI_UNROLL for (int t = 0; t < 2; t++) {
        const T moment = a[s] * b_before[t] - a_before[t] * b[s];
        torque[0] += turn.x[s][t] * moment;
        torque[2] += turn.z[s][t] * moment;
      }
    }
    EQUI_UNROLL for (int s = 0; s < 2; s++) {
      a_before[s] = a[s];
      b_before[s] = b[s];
    }
  }
};

// A lane of an edge, among others.
struct So2Lane {
  int first;
  static constexpr int step = DeviceTraits<>::LANES;
  template <class T>
  KOKKOS_FUNCTION T sum(T number) const {
    return SumOfLanes<step>()(number);
  }
};

// Rotates the adjoints of outputs into the frames: those of messages are these times the cutoff function. Computes the
// adjoint of the cutoff function, and the torque on messages.
template <class T>
struct So2MessagesAdjoint {
  So2Frames<T> out;    // adjoints of outputs
  const int *row;
  So2Shape shape;    // of messages
  int64_t count;
  const Real<T> *messages;
  const Real<T> *bias;    // of messages, as in So2RotateBackKernel
  const T *cutoff;
  const So2Turn<Real<T>> *turns;    // null: no torque
  Real<T> *messages_adj;
  T *cutoff_adj, *torque;    // [count], [count][3]
  KOKKOS_FUNCTION void operator()(int64_t e, int lane) const {
    constexpr int LANES = DeviceTraits<>::LANES;
    const T factor = cutoff[e];
    T of_cutoff = T(0);
    So2TorqueSum<T> sum;
    for (int k = lane; k < shape.channels; k += LANES)
      for_so2_orders(out.lmax, [&](auto order) {
        constexpr int L = order.value;
        const int most = shape.largest_m(L);
        So2Order<T, L> x;
        x.load(out, row[e], k);
        for (int m = 0; m <= (most < L ? most + 1 : L); m++) {
          T a[2] = {T(0), T(0)}, b[2] = {T(0), T(0)};
          EQUI_UNROLL for (int s = 0; s < 2; s++) {
            if (s > m) continue;    // m = 0 has one component
            const int component = s == 0 ? m : -m;
            b[s] = x.rotated(out.template rotation<L>(e, component));
            if (m > most) continue;
            a[s] = so2_component<T>(shape, count, messages, e, L, component)[k];
            if (m == 0 && bias) a[s] += T(bias[L * shape.channels + k]);
            of_cutoff += a[s] * b[s];
            put(so2_component<T>(shape, count, messages_adj, e, L, component), k, factor * b[s]);
          }
          if (turns) sum.add(m, turns + so2_turns_before(L), a, b);
        }
      });
    of_cutoff = SumOfLanes<LANES>()(of_cutoff);
    for (T &t : sum.torque) t = SumOfLanes<LANES>()(t);
    if (lane > 0) return;
    cutoff_adj[e] = of_cutoff;
    for (int k = 0; k < 3; k++) torque[3 * e + k] = factor * sum.torque[k];
  }
};

// From the adjoints of the first linear's inputs, of receivers' edges: replaces radial factors by their adjoints, adds
// the derivatives with respect to edges, writes rows of senders' adjoints, and replaces the adjoints of receivers'
// inputs by those of their rotated features.
template <class T>
struct So2InputAdjoint {
  So2Frames<T> in;
  const int *row[2];    // as in So2InputKernel
  So2Factors<T> factors;
  So2Shape shape;    // of u
  int64_t count;
  Real<T> *u;
  bool has_receivers;      // whether adjoints of receivers are requested
  So2Frames<T> senders;    // row e is that of edge e; x[0] is null if they are not requested
  const So2Turn<Real<T>> *turns;
  const T *torque;    // on messages
  So2EdgeAdjoint<T> edge;
  KOKKOS_FUNCTION void operator()(int64_t e, int lane) const {
    constexpr int LANES = DeviceTraits<>::LANES;
    So2TorqueSum<T> sum;
    for (int j = lane; j < shape.channels; j += LANES) {
      const int side = j >= in.channels, k = j - side * in.channels;
      for_so2_orders(in.lmax, [&](auto order) {
        constexpr int L = order.value;
        const int most = shape.largest_m(L);
        So2Order<T, L> x, x_adj;
        x.load(in, row[side][e], k);
        x_adj.clear();
        for (int m = 0; m <= (most < L ? most + 1 : L); m++) {
          T a[2] = {T(0), T(0)}, b[2] = {T(0), T(0)};
          T of_factor = T(0);
          const bool has_factor = m <= most && factors.exist();
          const T factor = has_factor ? T(factors.at(e, L, m)[j]) : T(1);
          EQUI_UNROLL for (int s = 0; s < 2; s++) {
            if (s > m) continue;    // m = 0 has one component
            const int component = s == 0 ? m : -m;
            const T *const rotation = in.template rotation<L>(e, component);
            b[s] = x.rotated(rotation);
            if (m > most) continue;
            const Pointer<T> of_input = so2_component<T>(shape, count, u, e, L, component) + j;
            of_factor += of_input[0] * b[s];
            a[s] = factor * of_input[0];
            if (side == 0)
              x_adj.add_back(rotation, a[s]);
            else if (has_receivers && factors.exist())
              put(of_input, 0, a[s]);
          }
          if (has_factor) put(factors.at(e, L, m), j, of_factor);
          sum.add(m, turns + so2_turns_before(L), a, b);
        }
        if (side == 0 && senders.x[0]) x_adj.store(senders, e, k);
      });
    }
    for (int k = 0; k < 3; k++) sum.torque[k] = torque[3 * e + k] + SumOfLanes<LANES>()(sum.torque[k]);
    if (lane == 0) edge.add(e, sum.torque);
  }
};

// ---- products with numbers of an edge
// v = factors u for all components of a shape. u and v may be the same array. One thread per factor.
template <class T>
struct So2FactorsKernel {
  So2Factors<T> factors;
  int64_t count;
  const Real<T> *u;
  Real<T> *v;

  // Calls f(edge, l, m, channel, factor).
  template <class F>
  KOKKOS_FORCEINLINE_FUNCTION void with_place(int64_t index, const F &f) const {
    const So2Shape &shape = factors.shape;
    const int64_t e = index / factors.row();
    int m = 0, place = static_cast<int>(index % factors.row());
    while (place >= factors.before(m + 1)) m++;
    place -= factors.before(m);
    const int l = m + place / shape.channels, k = place % shape.channels;
    f(e, l, m, k, factors.at(e, l, m) + k);
  }
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    with_place(index, [&](int64_t e, int l, int m, int k, const Pointer<T> &factor) {
      for (int sign = 1; sign >= (m == 0 ? 1 : -1); sign -= 2)
        put(so2_component<T>(factors.shape, count, v, e, l, sign * m), k,
            T(factor[0]) * so2_component<T>(factors.shape, count, u, e, l, sign * m)[k]);
    });
  }
};

// Replaces the adjoint v by that of u, and factors by their adjoints.
template <class T>
struct So2FactorsAdjointKernel {
  So2FactorsKernel<T> call;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    call.with_place(index, [&](int64_t e, int l, int m, int k, const Pointer<T> &factor) {
      const T value = factor[0];
      T sum = T(0);
      for (int sign = 1; sign >= (m == 0 ? 1 : -1); sign -= 2) {
        const Pointer<T> v = so2_component<T>(call.factors.shape, call.count, call.v, e, l, sign * m) + k;
        sum += v[0] * so2_component<T>(call.factors.shape, call.count, call.u, e, l, sign * m)[k];
        put(v, 0, value * v[0]);
      }
      put(factor, 0, sum);
    });
  }
};

template <class T>
struct So2BiasKernel {
  int64_t width;
  const Real<T> *bias;
  Pointer<T> z;
  KOKKOS_FUNCTION void operator()(int64_t index) const { put(z, index, z[index] + T(bias[index % width])); }
};

// ---- gates
// z without its bias, which is that of m = 0.
template <class T>
struct So2BiasedGate {
  So2GateCall<T> c;
  const Real<T> *bias;    // [gates and orders of m = 0][channels], or null

  // The place of a gate of order l, or of the scalars.
  KOKKOS_FORCEINLINE_FUNCTION Pointer<T> input(int64_t e, int l, int k) const {
    const int64_t at = l == 0 ? c.z_shape.at(PLANES<T> * c.count, e, 0, 0) : c.z_shape.gate_at(e, l - 1);
    return make_pointer<T>(c.z + at + k, c.count * c.z_shape.width(0));
  }
  KOKKOS_FORCEINLINE_FUNCTION T biased_input(int64_t e, int l, int k) const {
    const int order = l == 0 ? c.z_shape.gates : l - 1;
    return bias ? input(e, l, k)[0] + T(bias[order * c.z_shape.channels + k]) : T(input(e, l, k)[0]);
  }
  KOKKOS_FORCEINLINE_FUNCTION T biased(int64_t e, int l, int m, int k) const {
    const T z = so2_component<T>(c.z_shape, c.count, c.z, e, l, m)[k];
    return m == 0 && bias ? z + T(bias[(c.z_shape.gates + l) * c.z_shape.channels + k]) : z;
  }
};

// One thread per channel of an edge.
template <class T>
struct So2GateKernel {
  So2BiasedGate<T> gate;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const So2GateCall<T> &c = gate.c;
    const int64_t e = index / c.z_shape.channels;
    const int k = static_cast<int>(index % c.z_shape.channels);
    for (int l = 0; l <= c.z_shape.lmax; l++) {
      const T a = k < c.mul ? activate(l == 0 ? c.scalars : c.gates, gate.biased_input(e, l, k)).value : T(0);
      for (int m = -c.z_shape.largest_m(l); m <= c.z_shape.largest_m(l); m++)
        put(so2_component<T>(c.h_shape, c.count, c.h, e, l, m), k, l == 0 ? a : a * gate.biased(e, l, m, k));
    }
  }
};

template <class T>
struct So2GateAdjointKernel {
  So2BiasedGate<T> gate;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const So2GateCall<T> &c = gate.c;
    const int64_t e = index / c.z_shape.channels;
    const int k = static_cast<int>(index % c.z_shape.channels);
    for (int l = 0; l <= c.z_shape.lmax; l++) {
      ValueAndDerivative<T> a{T(0), T(0)};
      if (k < c.mul) a = activate(l == 0 ? c.scalars : c.gates, gate.biased_input(e, l, k));
      T sum = T(0);
      for (int m = -c.z_shape.largest_m(l); m <= c.z_shape.largest_m(l); m++) {
        const T h = so2_component<T>(c.h_shape, c.count, c.h, e, l, m)[k];
        sum += l == 0 ? h : h * gate.biased(e, l, m, k);
        if (l > 0) put(so2_component<T>(c.z_shape, c.count, c.z, e, l, m), k, h * a.value);
      }
      put(gate.input(e, l, k), 0, a.derivative * sum);
    }
  }
};

// ---- products, activations at points and attention
// Channel k of an edge's components, in the order of for_so2_columns().
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void so2_load_column(const So2Shape &shape, int64_t count, const Real<T> *u, int64_t e,
                                                 int k, T *to) {
  for_so2_columns(shape, [&](int i, int l, int m) { to[i] = so2_component<T>(shape, count, u, e, l, m)[k]; });
}

// One thread per channel of an edge.
template <class T>
struct So2BilinearKernel {
  So2BilinearCall<T> c;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    so2_bilinear<T, 1>(c, index / c.h_shape.channels, static_cast<int>(index % c.h_shape.channels), 1);
  }
};

template <class T>
struct So2BilinearAdjointKernel {
  So2BilinearCall<T> c;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    so2_bilinear_backward<T, 1>(c, index / c.h_shape.channels, static_cast<int>(index % c.h_shape.channels), 1);
  }
};

// One thread per channel of an edge, for all points.
template <class T>
struct So2PointsKernel {
  So2PointsCall<T> c;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const int64_t e = index / c.h_shape.channels;
    const int k = static_cast<int>(index % c.h_shape.channels);
    T x[SO2_COMPONENTS], y[SO2_COMPONENTS];
    so2_load_column<T>(c.z_shape, c.count, c.z, e, k, x);
    for (int i = 0; i < c.components; i++) y[i] = T(0);
    const Real<T> *to = c.to, *from = c.from;
    for (int p = 0; k < c.mul && p < c.points; p++, to += c.components, from += c.components) {
      T value = T(0);
      for (int i = 0; i < c.components; i++) value += to[i] * x[i];
      const T a = activate(c.at_points, value).value;
      for (int i = 0; i < c.components; i++) y[i] += from[i] * a;
    }
    if (c.has_scalars && k < c.mul) {
      const int64_t at = c.z_shape.gate_at(e, 0), plane = c.count * c.z_shape.width(0);
      y[0] = activate(c.scalars, make_pointer<const T>(c.z + at, plane)[k]).value;
    }
    for_so2_columns(c.h_shape,
                    [&](int i, int l, int m) { put(so2_component<T>(c.h_shape, c.count, c.h, e, l, m), k, y[i]); });
  }
};

template <class T>
struct So2PointsAdjointKernel {
  So2PointsCall<T> c;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const int64_t e = index / c.h_shape.channels;
    const int k = static_cast<int>(index % c.h_shape.channels);
    if (k >= c.mul) return;
    T x[SO2_COMPONENTS], x_adj[SO2_COMPONENTS], y_adj[SO2_COMPONENTS];
    so2_load_column<T>(c.z_shape, c.count, c.z, e, k, x);
    so2_load_column<T>(c.h_shape, c.count, c.h, e, k, y_adj);
    for (int i = 0; i < c.components; i++) x_adj[i] = T(0);
    if (c.has_scalars) {
      const int64_t at = c.z_shape.gate_at(e, 0), plane = c.count * c.z_shape.width(0);
      const T slope = activate(c.scalars, make_pointer<const T>(c.z + at, plane)[k]).derivative;
      const Pointer<T> z_adj = make_pointer<T>(c.z_adj + at, plane);
      put(z_adj, k, z_adj[k] + slope * y_adj[0]);
      y_adj[0] = T(0);
    }
    const Real<T> *to = c.to, *from = c.from;
    for (int p = 0; p < c.points; p++, to += c.components, from += c.components) {
      T value = T(0), adjoint = T(0);
      for (int i = 0; i < c.components; i++) {
        value += to[i] * x[i];
        adjoint += from[i] * y_adj[i];
      }
      adjoint = activate(c.at_points, value).derivative * adjoint;
      for (int i = 0; i < c.components; i++) x_adj[i] += to[i] * adjoint;
    }
    for_so2_columns(c.z_shape, [&](int i, int l, int m) {
      const Pointer<T> z_adj = so2_component<T>(c.z_shape, c.count, c.z_adj, e, l, m);
      put(z_adj, k, z_adj[k] + x_adj[i]);
    });
  }
};

// Computes the scores: one thread per head of an edge.
template <class T>
struct So2ScoreKernel {
  So2AttentionCall<T> c;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    put(c.scores, index, so2_score(c, index / c.heads, static_cast<int>(index % c.heads), So2OneThread{}).t);
  }
};

// Includes the exponentials of a chunk in the sums of the batch's atoms. Leaves the factor by which messages of
// earlier chunks must be multiplied. One thread per head of an atom.
template <class T>
struct So2SoftmaxKernel {
  So2AttentionCall<T> c;
  DeviceBatchEdges batch;    // its positions are the edges of the call
  bool is_first;             // first chunk of the batch
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const int64_t a = index / c.heads;
    const int head = static_cast<int>(index % c.heads);
    const int64_t begin = batch.begin[a] - batch.first, end = batch.begin[a + 1] - batch.first,
                  first = begin > 0 ? begin : 0, last = end < batch.count ? end : batch.count;
    Real<T> &largest = c.softmax.largest[index];
    if (is_first) largest = -static_cast<Real<T>>(INFINITY);
    const Real<T> before = largest;
    for (int64_t e = first; e < last; e++) {
      const Real<T> exponent = so2_exponent(c, e, head);
      if (exponent > largest) largest = exponent;
    }
    const Real<T> factor = largest > before ? std::exp(before - largest) : Real<T>(1);
    T sum = is_first ? T(0) : factor * c.softmax.sum[index];
    for (int64_t e = first; e < last; e++) sum += c.cutoff[e] * so2_exponential(c, e, head);
    c.softmax.sum[index] = sum;
    c.softmax.dot[index] = T(factor);
  }
};

// Multiplies sums of messages by the factors that So2SoftmaxKernel has left, or divides them by the sums of
// exponentials. One thread per channel of each component of an atom.
template <class T>
struct So2ScaleSumsKernel {
  So2Sums<T> sums;
  So2Softmax<T> softmax;
  bool divides;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const int k = static_cast<int>(index % sums.channels);
    const int64_t of_row = index / sums.channels, row = of_row / sums.components(),
                  at = row * sums.heads + sums.head_of(k);
    const Pointer<T> x = sums.at(row, static_cast<int>(of_row % sums.components())) + k;
    if (!divides) {
      const Real<T> factor = value_of(softmax.dot[at]);
      if (factor != Real<T>(1)) put(x, 0, factor * T(x[0]));
    } else if (const T sum = softmax.sum[at]; value_of(sum) != Real<T>(0)) {
      put(x, 0, T(x[0]) / sum);
    }
  }
};

// Computes So2Softmax::dot, for a head of an atom by its lanes.
template <class T>
struct So2Dot {
  So2Sums<T> values, adjoints;
  T *dot;
  KOKKOS_FUNCTION void operator()(int64_t index, int lane) const {
    constexpr int LANES = DeviceTraits<>::LANES;
    const int head = static_cast<int>(index % values.heads);
    const T sum = SumOfLanes<LANES>()(so2_dot(values, adjoints, index / values.heads, head, lane, LANES));
    if (lane == 0) dot[index] = sum;
  }
};

// One thread per head of an edge. is_divided: whether to divide by the sums.
template <class T>
struct So2AttentionKernel {
  So2AttentionCall<T> c;
  bool is_divided;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const int64_t e = index / c.heads;
    const int head = static_cast<int>(index % c.heads);
    const T exponential = is_divided ? so2_normalized_exponential(c, e, head) : so2_exponential(c, e, head);
    so2_attention(c, e, head, c.cutoff[e] * exponential);
  }
};

template <class T>
struct So2AttentionAdjoint {
  So2AttentionCall<T> c;
  KOKKOS_FUNCTION void operator()(int64_t e, int lane) const { so2_attention_backward(c, e, So2Lane{lane}); }
};

}    // namespace equi

#endif

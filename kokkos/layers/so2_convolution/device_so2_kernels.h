// SPDX-License-Identifier: MIT
// The kernels of SO(2) convolutions on a device, with the calls of the host kernels (so2_kernels.h). A kernel that
// sums over channels has a team of lanes per edge; all others have a thread per channel. Only
// device_so2_convolution.cpp includes this header.
#ifndef EQUI_DEVICE_SO2_KERNELS_H
#define EQUI_DEVICE_SO2_KERNELS_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/geometry/rotations.h"
#include "kokkos/layers/so2_convolution/so2_edge_steps.h"
#include "kokkos/runtime/device_exec.h"
#include "src/functions/activation.h"
#include "src/functions/basis_functions.h"

#include <cmath>
#include <cstdint>

namespace equi {

// ---- geometry
// For each edge of a chunk: its row of the output, its rotations, the cutoff function and its derivative.
template <class T>
struct So2EdgeKernel {
  using D = DoubleOf<T>;
  DeviceBatchEdges batch;
  bool of_senders;
  const D *distance, *unit;
  const int *pair;
  const BasisFunctions *bases;
  bool per_pair;
  RotationRecursion recursion;
  int *out_row;
  D *exact;    // rotations in float64, which may be `rotations`
  T *rotations, *cutoff, *cutoff_slope;
  KOKKOS_FUNCTION void operator()(int64_t c) const {
    const int64_t position = batch.first + c, e = batch.edge_at(position);
    const int size = rotations_size(recursion.lmax);
    out_row[c] = of_senders ? batch.other_row[position] : batch.atom_at(position);
    D n[3], frame[9];
    for (int k = 0; k < 3; k++) n[k] = unit[3 * e + k];
    edge_frame(n, frame);
    recursion.evaluate(frame, exact + c * size);
    if (static_cast<const void *>(exact) != rotations)
      for (int k = 0; k < size; k++) rotations[c * size + k] = static_cast<T>(exact[c * size + k]);
    const double along = static_cast<double>(tangent_of(distance[e]));
    const Jet f = bases[per_pair ? pair[e] : 0].cutoff_function(static_cast<double>(value_of(distance[e])), -1);
    cutoff[c] = make_number<T>(static_cast<Real<T>>(f.d[0]), static_cast<Real<T>>(f.d[1] * along));
    cutoff_slope[c] = make_number<T>(static_cast<Real<T>>(f.d[1]), static_cast<Real<T>>(f.d[2] * along));
  }
};

// The derivatives with respect to edges: those of the cutoff function, and of the direction.
template <class T>
struct So2EdgeAdjointKernel {
  using D = DoubleOf<T>;
  DeviceBatchEdges batch;
  int lmax, num_y;
  bool depends_on_frame;
  const T *rotations, *cutoff_slope, *cutoff_adj, *torque;
  D *edge_adj;
  KOKKOS_FUNCTION void operator()(int64_t c) const {
    D *const adjoint = edge_adj + batch.edge_at(batch.first + c) * num_y;
    adjoint[0] += static_cast<D>(cutoff_adj[c] * cutoff_slope[c]);
    if (lmax == 0) return;
    const Real<T> inverse_norm = static_cast<Real<T>>(0.57735026918962576451);    // Y_1 = sqrt(3) n
    T gradient[3];
    so2_direction_gradient(rotations + c * rotations_size(lmax) + 1, torque + 3 * c, depends_on_frame, gradient);
    for (int k = 0; k < 3; k++) adjoint[1 + k] += static_cast<D>(inverse_norm * gradient[k]);
  }
};

// ---- rotations
// Order L of an atom's features, rotated for edge e.
template <class T, int L>
KOKKOS_FORCEINLINE_FUNCTION Pointer<T> so2_of_atom(const So2RotationCall<T> &c, int64_t row, int n, int k) {
  const int64_t stride = PLANES<T> * c.channels;
  return make_pointer<T>(c.x[L] + (row * (2 * L + 1) + n) * stride + k, c.channels);
}
template <class T, int L>
KOKKOS_FORCEINLINE_FUNCTION const T *so2_rotation_of(const So2RotationCall<T> &c, int64_t e) {
  return c.rotations + e * rotations_size(c.shape.lmax) + (L > 0 ? rotations_size(L - 1) : 0);
}

template <class T, int L>
struct So2RotateKernel {
  static constexpr int DIM = 2 * L + 1;
  So2RotationCall<T> c;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const int64_t e = index / c.channels;
    const int k = static_cast<int>(index % c.channels), most = c.shape.largest_m(L);
    const T *const d = so2_rotation_of<T, L>(c, e);
    T x[DIM];
    EQUI_UNROLL for (int n = 0; n < DIM; n++) x[n] = so2_of_atom<T, L>(c, c.row[e], n, k)[0];
    for (int m = -most; m <= most; m++) {
      const T *const row = d + (L + m) * DIM;
      T sum = row[0] * x[0];
      EQUI_UNROLL for (int n = 1; n < DIM; n++) sum += row[n] * x[n];
      put(so2_component<T>(c.shape, c.count, c.u, e, L, m), c.first + k, sum);
    }
  }
};

// The adjoint, summed over the edges of each of the batch's atoms, one edge after another. Row a of x is that of
// atom a.
template <class T, int L>
struct So2RotateBackKernel {
  static constexpr int DIM = 2 * L + 1;
  So2RotationCall<T> c;
  DeviceBatchEdges batch;    // its positions are the edges of the call
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const int64_t a = index / c.channels;
    const int k = static_cast<int>(index % c.channels), most = c.shape.largest_m(L);
    const int64_t begin = batch.begin[a] - batch.first, end = batch.begin[a + 1] - batch.first,
                  last = end < batch.count ? end : batch.count;
    int64_t e = begin > 0 ? begin : 0;
    if (e >= last) return;
    T sum[DIM];
    EQUI_UNROLL for (int n = 0; n < DIM; n++) sum[n] = so2_of_atom<T, L>(c, a, n, k)[0];
    for (; e < last; e++) {
      const T *const d = so2_rotation_of<T, L>(c, e);
      const T factor = c.factor ? c.factor[e] : T(1);
      for (int m = -most; m <= most; m++) {
        const T *const row = d + (L + m) * DIM;
        const T u = factor * so2_component<T>(c.shape, c.count, c.u, e, L, m)[c.first + k];
        EQUI_UNROLL for (int n = 0; n < DIM; n++) sum[n] += row[n] * u;
      }
    }
    EQUI_UNROLL for (int n = 0; n < DIM; n++) put(so2_of_atom<T, L>(c, a, n, k), 0, sum[n]);
  }
};

// The same for each edge separately, in row e of x, which is overwritten.
template <class T, int L>
struct So2SenderAdjointKernel {
  static constexpr int DIM = 2 * L + 1;
  So2RotationCall<T> c;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const int64_t e = index / c.channels;
    const int k = static_cast<int>(index % c.channels), most = c.shape.largest_m(L);
    const T *const d = so2_rotation_of<T, L>(c, e);
    T sum[DIM];
    EQUI_UNROLL for (int n = 0; n < DIM; n++) sum[n] = T(0);
    for (int m = -most; m <= most; m++) {
      const T *const row = d + (L + m) * DIM;
      const T u = so2_component<T>(c.shape, c.count, c.u, e, L, m)[c.first + k];
      EQUI_UNROLL for (int n = 0; n < DIM; n++) sum[n] += row[n] * u;
    }
    EQUI_UNROLL for (int n = 0; n < DIM; n++) put(so2_of_atom<T, L>(c, e, n, k), 0, sum[n]);
  }
};

// ---- products with numbers of an edge
// v = factors u for the components of one |m|, `size` numbers of each sign. u and v may be the same array.
template <class T>
struct So2FactorsKernel {
  int64_t size, row;    // row: of factors
  bool has_minus;
  Pointer<const T> u;
  Pointer<T> v, factors;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const int64_t e = index / size, k = index % size, at = (has_minus ? 2 : 1) * e * size + k;
    const T factor = factors[e * row + k];
    put(v, at, factor * u[at]);
    if (has_minus) put(v, at + size, factor * u[at + size]);
  }
};

// Replaces the adjoint v by that of u, and factors by their adjoints.
template <class T>
struct So2FactorsAdjointKernel {
  So2FactorsKernel<T> call;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const int64_t e = index / call.size, k = index % call.size, at = (call.has_minus ? 2 : 1) * e * call.size + k;
    const T factor = call.factors[e * call.row + k], plus = call.v[at];
    T sum = plus * call.u[at];
    put(call.v, at, factor * plus);
    if (call.has_minus) {
      const T minus = call.v[at + call.size];
      sum += minus * call.u[at + call.size];
      put(call.v, at + call.size, factor * minus);
    }
    put(call.factors, e * call.row + k, sum);
  }
};

template <class T>
struct So2BiasKernel {
  int64_t width;
  const Real<T> *bias;
  Pointer<T> z;
  KOKKOS_FUNCTION void operator()(int64_t index) const { put(z, index, z[index] + T(bias[index % width])); }
};

// A lane's part of the torque, defined at So2TorqueCall.
template <class T, int LANES>
KOKKOS_FORCEINLINE_FUNCTION void add_so2_torque(const So2TorqueCall<T> &c, int64_t e, int lane, T (&torque)[3]) {
  for (int n = 0; n < c.num_generators; n++) {
    const So2Generator<Real<T>> &entry = c.generators[n];
    const Pointer<const T> a = so2_component<T>(c.a_shape, c.count, c.a, e, entry.l, entry.m),
                           b = so2_component<T>(c.b_shape, c.count, c.b, e, entry.l, entry.n);
    T sum = T(0);
    for (int k = lane; k < c.a_shape.channels; k += LANES) sum += a[k] * b[k];
    for (int k = 0; k < 3; k++) torque[k] += (entry.k == k ? entry.value : Real<T>(0)) * sum;
  }
}

// The adjoints of the cutoff function and of the messages, and the torque on messages; overwrites c.torque.
template <class T>
struct So2MessagesAdjointKernel {
  using Member = Kokkos::TeamPolicy<DeviceExec>::member_type;
  static constexpr int LANES = DeviceTraits<>::LANES;
  So2TorqueCall<T> c;    // messages and the adjoint of the sum; the factor is the cutoff function
  T *cutoff_adj;
  Real<T> *messages_adj;
  KOKKOS_FUNCTION void operator()(const Member &team) const {
    const int64_t e = team.league_rank();
    const int lane = team.team_rank();
    const So2Shape &s = c.a_shape;
    T sums[4] = {T(0), T(0), T(0), T(0)};
    for (int m = 0; m <= s.mmax; m++) {
      const Pointer<const T> messages = so2_component<T>(s, c.count, c.a, e, m, m),
                             of_sum = so2_component<T>(c.b_shape, c.count, c.b, e, m, m);
      const Pointer<T> to = so2_component<T>(s, c.count, messages_adj, e, m, m);
      for (int64_t k = lane; k < s.width(m); k += LANES) {
        const T w = of_sum[k];
        sums[0] += w * messages[k];
        put(to, k, c.factor[e] * w);
      }
    }
    T torque[3] = {T(0), T(0), T(0)};
    add_so2_torque<T, LANES>(c, e, lane, torque);
    for (int k = 0; k < 3; k++) sums[1 + k] = c.factor[e] * torque[k];
    for (int k = 0; k < 4; k++) sums[k] = SumOfLanes<LANES>()(sums[k]);
    if (lane > 0) return;
    cutoff_adj[e] = sums[0];
    for (int k = 0; k < 3; k++) c.torque[3 * e + k] = sums[1 + k];
  }
};

// c.torque [count][3] += the torque on rotated features.
template <class T>
struct So2TorqueKernel {
  using Member = Kokkos::TeamPolicy<DeviceExec>::member_type;
  static constexpr int LANES = DeviceTraits<>::LANES;
  So2TorqueCall<T> c;
  KOKKOS_FUNCTION void operator()(const Member &team) const {
    const int64_t e = team.league_rank();
    T torque[3] = {T(0), T(0), T(0)};
    add_so2_torque<T, LANES>(c, e, team.team_rank(), torque);
    for (int k = 0; k < 3; k++) {
      const T sum = SumOfLanes<LANES>()(torque[k]);
      if (team.team_rank() == 0) c.torque[3 * e + k] += sum;
    }
  }
};

// ---- gates
// Calls f(l, index of the gate of order l, whether the channel is padding) for one channel of an edge.
template <class T, class F>
KOKKOS_FORCEINLINE_FUNCTION void for_so2_gates(const So2GateCall<T> &c, int64_t index, const F &f) {
  const int64_t e = index / c.z_shape.channels;
  const int k = static_cast<int>(index % c.z_shape.channels);
  for (int l = 0; l <= c.z_shape.lmax; l++) {
    const int64_t at = l == 0 ? c.z_shape.at(PLANES<T> * c.count, e, 0, 0) : c.z_shape.gate_at(e, l - 1);
    f(e, l, k, make_pointer<T>(c.z + at + k, c.count * c.z_shape.width(0)));
  }
}

template <class T>
struct So2GateKernel {
  So2GateCall<T> c;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    for_so2_gates(c, index, [&](int64_t e, int l, int k, Pointer<T> input) {
      const T a = k < c.mul ? activate(l == 0 ? c.scalars : c.gates, input[0]).value : T(0);
      for (int m = -c.z_shape.largest_m(l); m <= c.z_shape.largest_m(l); m++)
        put(so2_component<T>(c.h_shape, c.count, c.h, e, l, m), k,
            l == 0 ? a : a * so2_component<T>(c.z_shape, c.count, c.z, e, l, m)[k]);
    });
  }
};

template <class T>
struct So2GateAdjointKernel {
  So2GateCall<T> c;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    for_so2_gates(c, index, [&](int64_t e, int l, int k, Pointer<T> input) {
      ValueAndDerivative<T> a{T(0), T(0)};
      if (k < c.mul) a = activate(l == 0 ? c.scalars : c.gates, input[0]);
      T sum = T(0);
      for (int m = -c.z_shape.largest_m(l); m <= c.z_shape.largest_m(l); m++) {
        const Pointer<T> z = so2_component<T>(c.z_shape, c.count, c.z, e, l, m) + k;
        const T h = so2_component<T>(c.h_shape, c.count, c.h, e, l, m)[k];
        sum += l == 0 ? h : h * z[0];
        if (l > 0) put(z, 0, h * a.value);
      }
      put(input, 0, a.derivative * sum);
    });
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
    put(c.scores, index, so2_score(c, index / c.heads, static_cast<int>(index % c.heads)).t);
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

// Computes So2Softmax::dot: one team of lanes per head of an atom.
template <class T>
struct So2DotKernel {
  using Member = Kokkos::TeamPolicy<DeviceExec>::member_type;
  static constexpr int LANES = DeviceTraits<>::LANES;
  So2Sums<T> values, adjoints;
  T *dot;
  KOKKOS_FUNCTION void operator()(const Member &team) const {
    const int index = team.league_rank(), lane = team.team_rank();
    const T sum =
        SumOfLanes<LANES>()(so2_dot(values, adjoints, index / values.heads, index % values.heads, lane, LANES));
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

// One thread per edge, because its heads add to the same adjoint of the cutoff function.
template <class T>
struct So2AttentionAdjointKernel {
  So2AttentionCall<T> c;
  KOKKOS_FUNCTION void operator()(int64_t e) const { so2_attention_backward(c, e); }
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The calls of the kernels of SO(2) convolutions: what they do with the components of edges, one edge after another,
// and the products between. Plain data, for all instruction sets of hosts (host_kernels.h) and for devices. T:
// float, double or a Dual of them. For duals, the tangents of `count` edges follow their values, as if there were
// twice as many edges. Numbers that an edge has only once are in arrays of T.
#ifndef EQUI_SO2_KERNELS_H
#define EQUI_SO2_KERNELS_H

#include "src/functions/network.h"
#include "src/numbers/dual.h"
#include "src/numbers/host_device.h"

#include <cstdint>

namespace equi {

constexpr int SO2_LMAX = 8;

// The memory layout of the components of `count` edges in their frames. For each m = 0 .. mmax it has an array
// [count][+m, -m][l = m .. lmax][channels], one array after another. Those of m = 0 have no -m, and begin with
// `gates` additional orders. Channels are padded. For duals, count includes values and tangents.
struct So2Shape {
  int lmax, mmax, channels, gates;

  EQUI_FUNCTION int orders(int m) const { return lmax + 1 - m; }
  // Numbers of an edge: for this |m|, and before it.
  EQUI_FUNCTION int64_t width(int m) const { return int64_t(m == 0 ? gates + orders(0) : 2 * orders(m)) * channels; }
  EQUI_FUNCTION int64_t before(int m) const {
    return m == 0 ? 0 : int64_t(gates + lmax + 1 + (m - 1) * (2 * (lmax + 1) - m)) * channels;
  }
  EQUI_FUNCTION int64_t size() const { return before(mmax + 1); }
  // Where the channels of a component begin; m: of either sign.
  EQUI_FUNCTION int64_t at(int64_t count, int64_t e, int l, int m) const {
    const int a = m < 0 ? -m : m;
    const int order = m == 0 ? gates + l : l - a + (m < 0 ? orders(a) : 0);
    return count * before(a) + e * width(a) + int64_t(order) * channels;
  }
  // The same for a gate.
  EQUI_FUNCTION int64_t gate_at(int64_t e, int gate) const { return e * width(0) + int64_t(gate) * channels; }
  // The largest |m| of an order.
  EQUI_FUNCTION int largest_m(int l) const { return l < mmax ? l : mmax; }
};

// Component m of order l of edge e, in an array of `count` edges.
template <class T>
EQUI_FUNCTION Pointer<T> so2_component(const So2Shape &shape, int64_t count, Real<T> *u, int64_t e, int l, int m) {
  return make_pointer<T>(u + shape.at(PLANES<T> * count, e, l, m), count * shape.width(m < 0 ? -m : m));
}
template <class T>
EQUI_FUNCTION Pointer<const T> so2_component(const So2Shape &shape, int64_t count, const Real<T> *u, int64_t e, int l,
                                             int m) {
  return make_pointer<const T>(u + shape.at(PLANES<T> * count, e, l, m), count * shape.width(m < 0 ? -m : m));
}

constexpr int SO2_COMPONENTS = (SO2_LMAX + 1) * (SO2_LMAX + 1);

// Calls f(number, l, m) for the components of a shape, l by l and for each from -m to m: the columns of
// So2PointsCall.
template <class F>
EQUI_FUNCTION void for_so2_columns(const So2Shape &shape, const F &f) {
  int c = 0;
  for (int l = 0; l <= shape.lmax; l++)
    for (int m = -shape.largest_m(l); m <= shape.largest_m(l); m++) f(c++, l, m);
}

// Numbers in the rotations of all orders up to l.
EQUI_FUNCTION int rotations_size(int l) {
  return (l + 1) * (2 * l + 1) * (2 * l + 3) / 3;
}

// Components of atoms and those of their edges: u = D x or, for the adjoint, x += factor D^T u. Only the rows of D
// up to mmax are used.
template <class T>
struct So2RotationCall {
  So2Shape shape;        // shape of u
  int64_t count;         // edges
  const T *rotations;    // [count][rotations_size(lmax)], each D_l row by row
  Real<T> *u;
  int first, channels;    // channels of u, which are channels 0 .. channels - 1 of x
  // Order l: [row[e]][l + m][planes][channels].
  Real<T> *x[SO2_LMAX + 1];
  const int *row;     // [count]
  const T *factor;    // [count], for the adjoint; null means 1
};

// v = factors u, with one factor [count][|m|][l][channels] for +m and -m. Backward: replaces the adjoint v by that
// of u, and factors by their adjoints.
template <class T>
struct So2FactorCall {
  So2Shape shape;
  int64_t count;
  const Real<T> *u;    // with orders m up to shape.mmax or more
  Real<T> *v, *factors;
};

// The part of a linear for one |m|: v = u W for m = 0, else v_m = u_m W - u_-m W' and v_-m = u_m W' + u_-m W. These
// need three products; the third is that of u_m + u_-m with W + W'. R: float or double. B: R, or BFloat16 for
// matrices in parts (split_matrix.h).
template <class R, class B = R>
struct So2ProductCall {
  int64_t rows;
  int in, out;    // numbers in a row of u and v, for one sign
  bool has_minus;
  const B *weights[3];    // matrices W, W', W + W', packed (product_kernels.h); their columns fill all registers
  const R *u;
  R *v;
  R *sums;          // scratch [rows][in] if has_minus
  const R *bias;    // null, or [out] for m = 0: added to v
};

// Entry J_k[m, n] of order l: d D_l / dt = J_k D_l for turns about axis k = x, y, z.
template <class R>
struct So2Generator {
  int k, l, m, n;
  R value;
};

// torque [count][3] += factor (sum of a J_k b) for rotations about x, y and z. The components of b have |m| up to
// that of a plus one, if these exist.
template <class T>
struct So2TorqueCall {
  So2Shape a_shape, b_shape;    // they differ only in mmax
  int64_t count;
  const Real<T> *a, *b;
  const T *factor;    // [count]; null means 1
  T *torque;
  const So2Generator<Real<T>> *generators;
  int num_generators;
};

// The backward pass of the product of messages with the cutoff function: computes the adjoint of the cutoff function
// and that of the messages.
template <class T>
struct So2CutoffCall {
  So2Shape shape;    // `of_sum` may have more m
  int64_t count;
  const T *cutoff;                     // [count]
  const Real<T> *messages, *of_sum;    // of_sum: the adjoint of the product
  T *cutoff_adj;                       // [count]
  Real<T> *messages_adj;
};

// Computes h from z, whose shape has gates. Backward: reads the adjoint h, and replaces z by its adjoint.
template <class T>
struct So2GateCall {
  So2Shape z_shape, h_shape;
  int mul;    // channels without padding; h is 0 in the padding
  int64_t count;
  Activation scalars, gates;
  Real<T> *z, *h;
};

// Computes h from z by an activation at points (So2PointActivation). Components of z and h, l by l and for each from
// -m to m, are the columns of both matrices. z's shape has gates, of which the first are the scalars. Backward:
// reads the adjoint h and z, and adds the adjoint of z to z_adj.
template <class T>
struct So2PointsCall {
  So2Shape z_shape, h_shape;
  int mul;    // channels without padding; h is 0 in the padding
  int64_t count;
  int points, components;
  Activation at_points, scalars;
  bool has_scalars;
  const Real<T> *to, *from;    // [points][components]
  const Real<T> *z;
  Real<T> *h, *z_adj;
};

}    // namespace equi

#endif

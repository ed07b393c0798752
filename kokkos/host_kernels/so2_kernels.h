// SPDX-License-Identifier: MIT
// The calls of the host's kernels of SO(2) convolutions: what they do with the components of edges, one edge after
// another, between the dense products. Plain data, for all instruction sets (host_kernels.h). R: float or double.
#ifndef EQUI_SO2_KERNELS_H
#define EQUI_SO2_KERNELS_H

#include "src/functions/network.h"
#include "src/numbers/host_device.h"

#include <cstdint>

namespace equi {

constexpr int SO2_LMAX = 8;

// How the components of `count` edges in their frames lie in memory: for each m = 0 .. mmax an array [count][+m,
// -m][l = m .. lmax][channels], one array after another. Those of m = 0 have no -m, and begin with `gates` further
// orders. Channels are padded.
struct So2Shape {
  int lmax, mmax, channels, gates;

  EQUI_FUNCTION int orders(int m) const { return lmax + 1 - m; }
  // Numbers of an edge: of |m|, and before it.
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

// Numbers of the rotations of all orders up to l.
EQUI_FUNCTION int rotations_size(int l) {
  return (l + 1) * (2 * l + 1) * (2 * l + 3) / 3;
}

// Components of atoms and those of their edges: u = D x, or by the adjoint x += factor D^T u. Of D the rows up to mmax
// are taken.
template <class R>
struct So2RotationCall {
  So2Shape shape;        // of u
  int64_t count;         // edges
  const R *rotations;    // [count][rotations_size(lmax)], each D_l row by row
  R *u;
  int first, channels;    // of u, that are channels 0 .. channels - 1 of x
  // Component m of order l of atom row[e]: x[l] + row[e] * (2l+1) * x_channels + (l + m) * x_channels.
  R *x[SO2_LMAX + 1];
  int x_channels;
  const int *row;     // [count]
  const R *factor;    // [count] of the adjoint; or null: 1
};

// v = factors u, with one factor [count][|m|][l][channels] for +m and -m. Backward: v, the adjoint, is replaced by that
// of u, and factors by theirs.
template <class R>
struct So2FactorCall {
  So2Shape shape;
  int64_t count;
  const R *u;    // with orders m up to shape.mmax or more
  R *v, *factors;
};

// torque [count][3] += factor (sum of a J_k b) for rotations about x, y and z; the components of b have |m| up to that
// of a and one more, where there are any.
template <class R>
struct So2TorqueCall {
  So2Shape a_shape, b_shape;    // which differ by mmax alone
  int64_t count;
  const R *a, *b;
  const R *factor;    // [count], or null: 1
  R *torque;
  // d D_l / dt = J_k D_l: the entries J[m, n] of all orders.
  struct Entry {
    int k, l, m, n;
    R value;
  };
  const Entry *entries;
  int num_entries;
};

// h from z, whose shape has gates. Backward: h, the adjoint, is read, and z is replaced by its own.
template <class R>
struct So2GateCall {
  So2Shape z_shape, h_shape;
  int mul;    // channels without padding, in which h is 0
  int64_t count;
  Activation scalars, gates;
  R *z, *h;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The gate on the host: calls of the gate kernels for the terms of a layer.
#include "kokkos/layers/gate/host_gate.h"

#include "src/numbers/number_types.h"

#include <algorithm>
#include <stdexcept>

namespace equi {

template <class T>
GateCall<T> HostGate<T>::call(const GateConstants::Term &t, int64_t count, FeatureRows<R> z, FeatureRows<R> x,
                              int direction) const {
  const FeatureGroup &gi = constants_.in.group(t.in), &go = constants_.out.group(t.out);
  const int plane = 1 + direction;
  GateCall<T> c{};
  c.activation = t.activation;
  c.scale = static_cast<R>(t.scale);
  c.mul = t.mul;
  c.dim = gi.irrep.dim();
  c.rows = count;
  c.z = make_pointer<T>(z.group(gi) + t.in_channel, plane * gi.channels);
  c.z_width = gi.width();
  c.z_stride = gi.stride();
  if (t.gate >= 0) {
    const FeatureGroup &gate = constants_.in.group(t.gate);
    c.gate = make_pointer<T>(z.group(gate) + t.gate_channel, plane * gate.channels);
    c.gate_width = gate.width();
  }
  c.x = make_pointer<T>(x.group(go) + t.out_channel, plane * go.channels);
  c.x_width = go.width();
  c.x_stride = go.stride();
  c.padding = padded(t.mul) - t.mul;
  return c;
}

template <class T>
void HostGate<T>::forward(const HostKernels<T> &kernels, int64_t count, FeatureRows<const R> z, FeatureRows<R> x,
                          int direction) const {
  // This call only reads them.
  const FeatureRows<R> rows{const_cast<R *>(z.data), z.rows, z.first};
  for (const GateConstants::Term &t : constants_.terms) kernels.gate_forward(call(t, count, rows, x, direction));
}

template <class T>
void HostGate<T>::backward(const HostKernels<T> &kernels, int64_t count, FeatureRows<R> z, FeatureRows<const R> x_adj,
                           int direction) const {
  const FeatureRows<R> rows{const_cast<R *>(x_adj.data), x_adj.rows, x_adj.first};
  for (const GateConstants::Term &t : constants_.terms) kernels.gate_backward(call(t, count, z, rows, direction));
  for (const GateConstants::Unread &u : constants_.unread) {
    const FeatureGroup &g = constants_.in.group(u.group);
    R *rows = z.group(g);
    for (int64_t r = 0; r < count * g.irrep.dim() * g.planes; r++)
      std::fill(rows + r * g.channels + u.first, rows + r * g.channels + u.end, R(0));
  }
}

EQUI_INSTANTIATE_NUMBERS(HostGate)

}    // namespace equi

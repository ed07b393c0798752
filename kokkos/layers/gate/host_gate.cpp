// SPDX-License-Identifier: MIT
#include "kokkos/layers/gate/host_gate.h"

#include "src/numbers/number_types.h"

#include <algorithm>
#include <stdexcept>

namespace equi {

template <class T>
HostGate<T>::HostGate(const Gate &gate, const FeatureLayout &in, const FeatureLayout &out) : in_(in), out_(out) {
  std::vector<std::vector<bool>> read(in.num_groups());
  for (int g = 0; g < in.num_groups(); g++) read[g].resize(in.group(g).channels, false);
  for (const GateTerm &t : gate.terms) {
    const FeatureBlock &bin = in.block(t.in), &bout = out.block(t.out);
    Term term{bin.group, bout.group, -1,           bin.channel + t.offset, bout.channel,
              0,         bout.mul,   t.activation, static_cast<R>(t.scale)};
    if (t.gate_in >= 0) {
      term.gate = in.block(t.gate_in).group;
      term.gate_channel = in.block(t.gate_in).channel + t.gate_offset;
    }
    // The backward pass replaces z by its adjoint in place, so each channel may have one reader.
    auto mark = [&](int group, int channel) {
      if (read[group][channel]) throw std::invalid_argument("a gate reads a channel of its input twice");
      read[group][channel] = true;
    };
    for (int u = 0; u < term.mul; u++) {
      mark(term.in, term.in_channel + u);
      if (term.gate >= 0) mark(term.gate, term.gate_channel + u);
    }
    terms_.push_back(term);
  }
  for (int g = 0; g < in.num_groups(); g++)
    for (int u = 0; u < in.group(g).channels; u++) {
      if (read[g][u]) continue;
      if (unread_.empty() || unread_.back().group != g || unread_.back().end != u) unread_.push_back({g, u, u});
      unread_.back().end = u + 1;
    }
}

template <class T>
GateCall<T> HostGate<T>::call(const Term &t, int64_t count, FeatureRows<R> z, FeatureRows<R> x, int direction) const {
  const FeatureGroup &gi = in_.group(t.in), &go = out_.group(t.out);
  const int plane = 1 + direction;
  GateCall<T> c{};
  c.activation = t.activation;
  c.scale = t.scale;
  c.mul = t.mul;
  c.dim = gi.irrep.dim();
  c.rows = count;
  c.z = make_pointer<T>(z.group(gi) + t.in_channel, plane * gi.channels);
  c.z_width = gi.width();
  c.z_stride = gi.stride();
  if (t.gate >= 0) {
    const FeatureGroup &gate = in_.group(t.gate);
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
  // Only read.
  const FeatureRows<R> rows{const_cast<R *>(z.data), z.rows, z.first};
  for (const Term &t : terms_) kernels.gate_forward(call(t, count, rows, x, direction));
}

template <class T>
void HostGate<T>::backward(const HostKernels<T> &kernels, int64_t count, FeatureRows<R> z, FeatureRows<const R> x_adj,
                           int direction) const {
  const FeatureRows<R> rows{const_cast<R *>(x_adj.data), x_adj.rows, x_adj.first};
  for (const Term &t : terms_) kernels.gate_backward(call(t, count, z, rows, direction));
  for (const Unread &u : unread_) {
    const FeatureGroup &g = in_.group(u.group);
    R *rows = z.group(g);
    for (int64_t r = 0; r < count * g.irrep.dim() * g.planes; r++)
      std::fill(rows + r * g.channels + u.first, rows + r * g.channels + u.end, R(0));
  }
}

EQUI_INSTANTIATE_NUMBERS(HostGate)

}    // namespace equi

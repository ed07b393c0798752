// SPDX-License-Identifier: MIT
#include "kokkos/layers/gate/device_gate.h"

#include "kokkos/kernel_interface/place_in_rows.h"
#include "kokkos/layers/device_rows.h"
#include "src/functions/activation.h"
#include "src/numbers/number_types.h"

#include <algorithm>
#include <vector>

namespace equi {

namespace {

// One term of a gate: x = c a(z) for scalars, x[m] = z[m] c a(gate) for gated blocks.
template <class T, class Z, class X>
struct GateTerm {
  Activation activation;
  Real<T> scale;
  bool is_gated;
  int channels;    // that a row has in a launch
  int mul, dim, in_width, in_stride, gate_width, out_width, out_stride;
  Pointer<Z> z, gate;
  Pointer<X> x;
};

// Channels of padding are written too: what reads x may multiply them with zero weights, which must not meet NaN.
template <class T>
struct GateForward : GateTerm<T, const T, T> {
  KOKKOS_FUNCTION void operator()(int64_t r, int u) const {
    const int64_t in = r * this->in_width + u, out = r * this->out_width + u;
    const bool is_padding = u >= this->mul;
    if (!this->is_gated)
      return put(this->x, out, is_padding ? T(0) : this->scale * activate(this->activation, this->z[in]).value);
    const T g =
        is_padding ? T(0) : this->scale * activate(this->activation, this->gate[r * this->gate_width + u]).value;
    for (int m = 0; m < this->dim; m++)
      put(this->x, out + m * this->out_stride, is_padding ? T(0) : this->z[in + m * this->in_stride] * g);
  }
};

// z and gate are replaced by their adjoints, x is that of the output.
template <class T>
struct GateBackward : GateTerm<T, T, const T> {
  KOKKOS_FUNCTION void operator()(int64_t r, int u) const {
    const int64_t in = r * this->in_width + u, out = r * this->out_width + u, g = r * this->gate_width + u;
    if (!this->is_gated)
      return put(this->z, in, this->x[out] * this->scale * activate(this->activation, this->z[in]).derivative);
    const auto a = activate(this->activation, this->gate[g]);
    T sum = 0;
    for (int m = 0; m < this->dim; m++) {
      const int64_t zm = in + m * this->in_stride;
      const T xm = this->x[out + m * this->out_stride];
      sum += this->z[zm] * xm;
      put(this->z, zm, xm * this->scale * a.value);
    }
    put(this->gate, g, this->scale * a.derivative * sum);
  }
};

// A few terms in one launch: each is little work.
template <class Term>
struct GateKernel {
  static constexpr int MAX_TERMS = 4;
  Term term[MAX_TERMS];
  int channels;    // of all terms
  KOKKOS_FUNCTION void operator()(int64_t k) const {
    const PlaceInRows place = place_in_rows(k, channels);
    int u = place.column;
    // Unrolled: a place in `term` that the compiler does not know costs copies of it.
    EQUI_UNROLL for (int n = 0; n < MAX_TERMS; n++) {
      if (u >= 0 && u < term[n].channels) term[n](place.row, u);
      u -= term[n].channels;
    }
  }
};

template <class Term>
void launch_terms(const DeviceExec &exec, const char *label, int64_t count, const std::vector<Term> &terms) {
  constexpr size_t MOST = GateKernel<Term>::MAX_TERMS;
  for (size_t first = 0; first < terms.size(); first += MOST) {
    GateKernel<Term> kernel{};    // terms that are not there have no channels
    for (size_t n = first; n < std::min(first + MOST, terms.size()); n++) {
      kernel.term[n - first] = terms[n];
      kernel.channels += terms[n].channels;
    }
    Kokkos::parallel_for(label, DeviceRange(exec, 0, count * kernel.channels), kernel);
  }
}

}    // namespace

// Terms of a gate as a Term, of this number of channels each.
template <class Term, class T, class Z, class X, class R1, class R2, class Channels>
std::vector<Term> terms_of(const GateOp<T> &op, FeatureRows<R1> z, FeatureRows<R2> x, int direction,
                           const Channels &channels) {
  std::vector<Term> terms;
  for (const auto &t : op.terms()) {
    const FeatureGroup &gi = op.in().group(t.in), &go = op.out().group(t.out);
    const FeatureGroup &gg = t.gate < 0 ? gi : op.in().group(t.gate);
    terms.push_back(
        {{t.activation, t.scale, t.gate >= 0, channels(t.mul), t.mul, gi.irrep.dim(), gi.width(), gi.stride(),
          gg.width(), go.width(), go.stride(), channel_of<Z>(z, gi, t.in_channel, direction),
          channel_of<Z>(z, gg, t.gate_channel, direction), channel_of<X>(x, go, t.out_channel, direction)}});
  }
  return terms;
}

template <class T>
void DeviceGate<T>::forward(const DeviceExec &exec, int64_t count, FeatureRows<const R> z, FeatureRows<R> x,
                            int direction) const {
  launch_terms(exec, "equi:gate", count, terms_of<GateForward<T>, T, const T, T>(op_, z, x, direction, padded));
}

template <class T>
void DeviceGate<T>::backward(const DeviceExec &exec, int64_t count, FeatureRows<R> z, FeatureRows<const R> x_adj,
                             int direction) const {
  launch_terms(exec, "equi:gate_adjoint", count,
               terms_of<GateBackward<T>, T, T, const T>(op_, z, x_adj, direction, [](int mul) { return mul; }));
  for (const auto &u : op_.unread()) {
    const FeatureGroup &g = op_.in().group(u.group);
    R *rows = z.group(g) + u.first;
    const int channels = g.channels, width = u.end - u.first;
    Kokkos::parallel_for(
        "equi:gate_unread", DeviceRange(exec, 0, count * g.irrep.dim() * g.planes * width), KOKKOS_LAMBDA(int64_t k) {
          const PlaceInRows place = place_in_rows(k, width);
          rows[place.row * channels + place.column] = R(0);
        });
  }
}

EQUI_INSTANTIATE_NUMBERS(DeviceGate)

}    // namespace equi

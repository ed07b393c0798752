// SPDX-License-Identifier: MIT
// The gate on a device: its terms, and launches that do several of them.
#include "kokkos/layers/gate/device_gate.h"

#include "kokkos/kernel_interface/place_in_rows.h"
#include "kokkos/layer_interface/device_rows.h"
#include "src/functions/activation.h"
#include "src/numbers/number_types.h"

#include <algorithm>
#include <vector>

namespace equi {

namespace {

// Rows per thread. The thread handles one channel of them and loads their numbers together: with only one load in
// flight it would wait for memory most of the time. More than 16 bytes per row would need too many registers.
template <class T>
constexpr int GATE_ROWS = static_cast<int>(16 / sizeof(T));

// One term of a gate: x = c a(z) for scalars, x[m] = z[m] c a(gate) for gated blocks.
template <class T, class Z, class X>
struct GateTerm {
  static constexpr int ROWS = GATE_ROWS<T>;
  Activation activation;
  Real<T> scale;
  bool is_gated;
  int channels;    // channels of a row in a launch
  int mul, dim, in_width, in_stride, gate_width, out_width, out_stride;
  Pointer<Z> z, gate;    // gate: for scalars, z itself
  Pointer<X> x;
};

// Calls f(n, row n after the first of a thread). A row after the last one repeats the last row, with the same
// numbers.
template <int ROWS, class F>
KOKKOS_FORCEINLINE_FUNCTION void for_rows(int rows, const F &f) {
  EQUI_UNROLL for (int n = 0; n < ROWS; n++) f(n, n < rows ? n : rows - 1);
}

// Copies rows of a thread: to = from.
template <class T, class P>
KOKKOS_FORCEINLINE_FUNCTION void load_rows(int rows, P from, int width, T (&to)[GATE_ROWS<T>]) {
  for_rows<GATE_ROWS<T>>(rows, [&](int n, int row) { to[n] = from[row * width]; });
}

// Writes channels of padding, too: readers of x may multiply them by zero weights, and NaN times zero is not zero.
template <class T>
struct GateForward : GateTerm<T, const T, T> {
  using GateTerm<T, const T, T>::ROWS;
  KOKKOS_FUNCTION void operator()(int64_t r, int rows, int u) const {
    auto to = this->x + (r * this->out_width + u);
    if (u >= this->mul) {
      for (int m = 0; m < this->dim; m++, to += this->out_stride)
        for_rows<ROWS>(rows, [&](int, int row) { put(to, row * this->out_width, T(0)); });
      return;
    }
    const auto gates = this->gate + (r * this->gate_width + u);
    T g[ROWS];
    load_rows(rows, gates, this->gate_width, g);
    for_rows<ROWS>(rows, [&](int n, int) { g[n] = this->scale * activate(this->activation, g[n]).value; });
    if (!this->is_gated) return for_rows<ROWS>(rows, [&](int n, int row) { put(to, row * this->out_width, g[n]); });
    auto from = this->z + (r * this->in_width + u);
    T z[ROWS], next[ROWS];
    load_rows(rows, from, this->in_width, next);
    for (int m = 0; m < this->dim; m++, to += this->out_stride) {
      EQUI_UNROLL for (int n = 0; n < ROWS; n++) z[n] = next[n];
      // Loads the next component before this one is written; a compiler cannot know that they differ.
      from += this->in_stride;
      if (m + 1 < this->dim) load_rows(rows, from, this->in_width, next);
      for_rows<ROWS>(rows, [&](int n, int row) { put(to, row * this->out_width, z[n] * g[n]); });
    }
  }
};

// Replaces z and gate by their adjoints; x is the adjoint of the output.
template <class T>
struct GateBackward : GateTerm<T, T, const T> {
  using GateTerm<T, T, const T>::ROWS;
  KOKKOS_FUNCTION void operator()(int64_t r, int rows, int u) const {
    const auto gates = this->gate + (r * this->gate_width + u);
    auto from = this->x + (r * this->out_width + u);
    T g[ROWS], x[ROWS], next_x[ROWS], z[ROWS], next_z[ROWS], sum[ROWS];
    ValueAndDerivative<T> a[ROWS];
    load_rows(rows, gates, this->gate_width, g);
    load_rows(rows, from, this->out_width, next_x);
    auto to = this->z + (r * this->in_width + u);
    if (this->is_gated) load_rows(rows, to, this->in_width, next_z);
    for_rows<ROWS>(rows, [&](int n, int) { a[n] = activate(this->activation, g[n]); });
    if (!this->is_gated)
      return for_rows<ROWS>(
          rows, [&](int n, int row) { put(gates, row * this->gate_width, next_x[n] * this->scale * a[n].derivative); });
    for_rows<ROWS>(rows, [&](int n, int) { sum[n] = T(0); });
    for (int m = 0; m < this->dim; m++, to += this->in_stride) {
      EQUI_UNROLL for (int n = 0; n < ROWS; n++) {
        x[n] = next_x[n];
        z[n] = next_z[n];
      }
      from += this->out_stride;
      if (m + 1 < this->dim) {
        load_rows(rows, from, this->out_width, next_x);
        load_rows(rows, to + this->in_stride, this->in_width, next_z);
      }
      for_rows<ROWS>(rows, [&](int n, int row) {
        sum[n] += z[n] * x[n];
        put(to, row * this->in_width, x[n] * this->scale * a[n].value);
      });
    }
    for_rows<ROWS>(rows,
                   [&](int n, int row) { put(gates, row * this->gate_width, this->scale * a[n].derivative * sum[n]); });
  }
};

// Several terms in one launch, because each has little work.
template <class Term>
struct GateKernel {
  static constexpr int MAX_TERMS = 4;
  Term term[MAX_TERMS];
  int channels;    // channels of all terms
  int64_t count;
  KOKKOS_FUNCTION void operator()(int64_t k) const {
    const PlaceInRows place = place_in_rows(k, channels);
    const int64_t first = place.row * Term::ROWS, left = count - first;
    const int rows = left < Term::ROWS ? static_cast<int>(left) : Term::ROWS;
    // The compiler does not know n, but arguments of a kernel are in constant memory, so nothing is copied (no stack
    // with CUDA 13). An unrolled loop over the terms makes the code four times as long.
    int u = place.column, n = 0;
    while (u >= term[n].channels) u -= term[n++].channels;
    term[n](first, rows, u);
  }
};

template <class Term>
void launch_terms(const DeviceExec &exec, const char *label, int64_t count, const std::vector<Term> &terms) {
  constexpr size_t MOST = GateKernel<Term>::MAX_TERMS;
  for (size_t first = 0; first < terms.size(); first += MOST) {
    GateKernel<Term> kernel{};    // missing terms have no channels
    kernel.count = count;
    for (size_t n = first; n < std::min(first + MOST, terms.size()); n++) {
      kernel.term[n - first] = terms[n];
      kernel.channels += terms[n].channels;
    }
    Kokkos::parallel_for(label, DeviceRange(exec, 0, (count + Term::ROWS - 1) / Term::ROWS * kernel.channels), kernel);
  }
}

}    // namespace

// Converts terms of a gate to Terms with this number of channels each.
template <class Term, class T, class Z, class X, class R1, class R2, class Channels>
std::vector<Term> terms_of(const GateConstants &gate, FeatureRows<R1> z, FeatureRows<R2> x, int direction,
                           const Channels &channels) {
  std::vector<Term> terms;
  for (const auto &t : gate.terms) {
    const FeatureGroup &gi = gate.in.group(t.in), &go = gate.out.group(t.out);
    const FeatureGroup &gg = t.gate < 0 ? gi : gate.in.group(t.gate);
    terms.push_back(
        {{t.activation, static_cast<Real<T>>(t.scale), t.gate >= 0, channels(t.mul), t.mul, gi.irrep.dim(), gi.width(),
          gi.stride(), gg.width(), go.width(), go.stride(), channel_of<Z>(z, gi, t.in_channel, direction),
          channel_of<Z>(z, gg, t.gate < 0 ? t.in_channel : t.gate_channel, direction),
          channel_of<X>(x, go, t.out_channel, direction)}});
  }
  return terms;
}

template <class T>
void DeviceGate<T>::forward(const DeviceExec &exec, int64_t count, FeatureRows<const R> z, FeatureRows<R> x,
                            int direction) const {
  launch_terms(exec, "equi:gate", count, terms_of<GateForward<T>, T, const T, T>(constants_, z, x, direction, padded));
}

template <class T>
void DeviceGate<T>::backward(const DeviceExec &exec, int64_t count, FeatureRows<R> z, FeatureRows<const R> x_adj,
                             int direction) const {
  launch_terms(exec, "equi:gate_adjoint", count,
               terms_of<GateBackward<T>, T, T, const T>(constants_, z, x_adj, direction, [](int mul) { return mul; }));
  for (const auto &u : constants_.unread) {
    const FeatureGroup &g = constants_.in.group(u.group);
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

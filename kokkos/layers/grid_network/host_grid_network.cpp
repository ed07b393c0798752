// SPDX-License-Identifier: MIT
// The grid network on the host: components, points and the dense products between them.
#include "kokkos/layers/grid_network/host_grid_network.h"

#include "src/numbers/number_types.h"

#include <algorithm>

namespace equi {

namespace {

// Number of points that are evaluated together: enough rows for the dense products, and few enough for a core's
// cache.
constexpr int POINTS_AT_A_TIME = 256;

template <class R>
AlignedVector<R> numbers_of(const Matrix &m) {
  return {m.data.begin(), m.data.end()};
}

}    // namespace

template <class T>
HostGridNetwork<T>::HostGridNetwork(InstructionSet set, const GridNetworkConstants &constants)
    : in_(constants.in),
      out_(constants.out),
      num_points_(constants.num_points),
      scratch_(constants, PLANES<T>, POINTS_AT_A_TIME, 0),
      packed_size_(int64_t(std::max({constants.in.count, constants.out.count, constants.num_points})) *
                   constants.widest()),
      activation_(constants.activation),
      scale_(static_cast<R>(constants.scale)),
      to_(numbers_of<R>(constants.to)),
      from_(numbers_of<R>(constants.from)),
      to_transposed_(numbers_of<R>(transpose(constants.to))),
      from_transposed_(numbers_of<R>(transpose(constants.from))),
      first_(constants.first, set),
      first_transposed_(transpose(constants.first), set),
      last_(constants.last, set),
      last_transposed_(transpose(constants.last), set),
      last_bias_(constants.last_bias.begin(), constants.last_bias.end()) {
  for (const Matrix &m : constants.between) {
    between_.emplace_back(m, set);
    between_transposed_.emplace_back(transpose(m), set);
  }
  for (int k = 0; k < constants.num_hidden(); k++) {
    width_.push_back(constants.width(k));
    bias_.emplace_back(constants.bias[k].begin(), constants.bias[k].end());
  }
}

template <class T>
void HostGridNetwork<T>::read(const PackedMatrix<R> &w, const FeatureComponents &components, FeatureRows<const R> x,
                              int first, int direction, const Work &work) const {
  for (int plane = 0; plane < PLANES<T>; plane++)
    for (int b = 0; b < components.layout.num_blocks(); b++) {
      const FeatureGroup &group = components.group(b);
      const R *const from = x.group(group) + int64_t(first) * group.width() +
                            (plane > 0 ? plane + direction : 0) * group.channels + components.layout.block(b).channel;
      w.multiply(int64_t(work.n) * components.dim(b), from,
                 work.components + int64_t(work.n) * (plane * components.count + components.first[b]) * w.out(), false,
                 group.stride(), w.out());
    }
}

template <class T>
void HostGridNetwork<T>::write(const PackedMatrix<R> &w, const FeatureComponents &components, FeatureRows<R> y,
                               int first, int direction, const Work &work) const {
  for (int plane = 0; plane < PLANES<T>; plane++)
    for (int b = 0; b < components.layout.num_blocks(); b++) {
      const FeatureGroup &group = components.group(b);
      R *const to = y.group(group) + int64_t(first) * group.width() +
                    (plane > 0 ? plane + direction : 0) * group.channels + components.layout.block(b).channel;
      w.multiply(int64_t(work.n) * components.dim(b),
                 work.components + int64_t(work.n) * (plane * components.count + components.first[b]) * w.in(), to,
                 false, w.in(), group.stride());
    }
}

// ---- components and points
namespace {

// Calls f(row) for the rows of a matrix with `width` columns, in the form that the kernels of products read
// (product_kernels.h).
template <class R, class F>
void pack_rows(int rows, int width, int panel, const F &row, R *to) {
  for (int begin = 0; begin < width; begin += panel) {
    const int n = std::min(panel, width - begin);
    for (int k = 0; k < rows; k++, to += n) std::copy_n(row(k) + begin, n, to);
  }
}

}    // namespace

template <class T>
void HostGridNetwork<T>::to_points(const HostKernels<T> &kernels, const AlignedVector<R> &matrix,
                                   const FeatureComponents &components, int width, const Work &work, R *values) const {
  for (int plane = 0; plane < PLANES<T>; plane++)
    for (int a = 0; a < work.n; a++) {
      int b = 0;
      const auto row = [&](int c) {
        b = c == 0 ? 0 : b + (b + 1 < components.layout.num_blocks() && c == components.first[b + 1]);
        const int64_t before = int64_t(work.n) * (plane * components.count + components.first[b]) +
                               a * components.dim(b) + c - components.first[b];
        return work.components + before * width;
      };
      pack_rows(components.count, width, kernels.product_panel, row, work.rest);
      kernels.product({num_points_, components.count, width, work.rest, matrix.data(),
                       values + (int64_t(plane) * work.n + a) * num_points_ * width, components.count, width, false});
    }
}

template <class T>
void HostGridNetwork<T>::to_components(const HostKernels<T> &kernels, const AlignedVector<R> &matrix,
                                       const FeatureComponents &components, int width, const Work &work,
                                       const R *values) const {
  for (int plane = 0; plane < PLANES<T>; plane++)
    for (int a = 0; a < work.n; a++) {
      const R *const of_atom = values + (int64_t(plane) * work.n + a) * num_points_ * width;
      pack_rows(
          num_points_, width, kernels.product_panel, [&](int q) { return of_atom + int64_t(q) * width; }, work.rest);
      for (int b = 0; b < components.layout.num_blocks(); b++) {
        const int64_t before =
            int64_t(work.n) * (plane * components.count + components.first[b]) + a * components.dim(b);
        kernels.product({components.dim(b), num_points_, width, work.rest,
                         matrix.data() + int64_t(components.first[b]) * num_points_, work.components + before * width,
                         num_points_, width, false});
      }
    }
}

// ---- forward and backward
template <class T>
GateCall<T> HostGridNetwork<T>::activation(int k, const Work &work, R *h) const {
  const int64_t rows = int64_t(work.n) * num_points_;
  GateCall<T> call{};
  call.activation = activation_;
  call.scale = scale_;
  call.mul = width_[k];
  call.dim = 1;
  call.rows = rows;
  call.z = make_pointer<T>(scratch_.hidden(work, k), rows * width_[k]);
  call.x = make_pointer<T>(h, rows * width_[k]);
  call.z_width = call.x_width = width_[k];
  return call;
}

template <class T>
void HostGridNetwork<T>::evaluate(const HostKernels<T> &kernels, FeatureRows<const R> x, int first, int direction,
                                  const Work &work) const {
  const int64_t rows = int64_t(work.n) * num_points_;
  read(first_, in_, x, first, direction, work);
  to_points(kernels, to_, in_, width_[0], work, scratch_.hidden(work, 0));
  for (int k = 0; k < static_cast<int>(width_.size()); k++) {
    if (k > 0) {
      kernels.gate_forward(activation(k - 1, work, work.values));
      between_[k - 1].multiply(PLANES<T> * rows, work.values, scratch_.hidden(work, k));
    }
    R *const z = scratch_.hidden(work, k);
    for (int64_t r = 0; !bias_[k].empty() && r < rows; r++)    // tangents have no bias
      for (int j = 0; j < width_[k]; j++) z[r * width_[k] + j] += bias_[k][j];
  }
}

template <class T>
void HostGridNetwork<T>::forward(const HostKernels<T> &kernels, int count, FeatureRows<const R> x, FeatureRows<R> y,
                                 R *scratch, int direction) const {
  const int last = static_cast<int>(width_.size()) - 1;
  for (int first = 0, n = scratch_.atoms_at_a_time(count); first < count; first += n) {
    const Work w = scratch_.cut(scratch, std::min(n, count - first));
    evaluate(kernels, x, first, direction, w);
    kernels.gate_forward(activation(last, w, w.values));
    to_components(kernels, from_transposed_, out_, width_[last], w, w.values);
    write(last_, out_, y, first, direction, w);
    for (int b = 0; !last_bias_.empty() && b < out_.layout.num_blocks(); b++) {
      const FeatureGroup &group = out_.group(b);
      for (int a = 0; a < w.n; a++)
        for (int m = 0; m < out_.dim(b); m++) {
          R *const to =
              y.group(group) + int64_t(first + a) * group.width() + m * group.stride() + out_.layout.block(b).channel;
          const R *const bias = last_bias_.data() + int64_t(out_.first[b] + m) * last_.out();
          for (int u = 0; u < last_.out(); u++) to[u] += bias[u];
        }
    }
  }
}

template <class T>
void HostGridNetwork<T>::backward(const HostKernels<T> &kernels, int count, FeatureRows<R> x,
                                  FeatureRows<const R> y_adj, R *scratch, int direction) const {
  const int last = static_cast<int>(width_.size()) - 1;
  for (int first = 0, n = scratch_.atoms_at_a_time(count); first < count; first += n) {
    const Work w = scratch_.cut(scratch, std::min(n, count - first));
    evaluate(kernels, x, first, direction, w);
    read(last_transposed_, out_, y_adj, first, direction, w);
    to_points(kernels, from_, out_, width_[last], w, w.adjoint);
    for (int k = last; k >= 0; k--) {
      kernels.gate_backward(activation(k, w, w.adjoint));    // replaces z by its adjoint
      if (k > 0)
        between_transposed_[k - 1].multiply(PLANES<T> * int64_t(w.n) * num_points_, scratch_.hidden(w, k), w.adjoint);
    }
    to_components(kernels, to_transposed_, in_, width_[0], w, scratch_.hidden(w, 0));
    write(first_transposed_, in_, x, first, direction, w);
  }
}

EQUI_INSTANTIATE_NUMBERS(HostGridNetwork)

}    // namespace equi

// SPDX-License-Identifier: MIT
// The grid network on a device: rows, points, matrix products and activations.
#include "kokkos/layers/grid_network/device_grid_network.h"

#include "kokkos/device_kernels/device_dense.h"
#include "kokkos/layer_interface/device_activation.h"
#include "kokkos/layer_interface/device_rows.h"
#include "src/numbers/number_types.h"

#include <algorithm>

namespace equi {

namespace {

// Number of points that are evaluated together: enough to fill a device, with some hundred MB of scratch.
constexpr int POINTS_AT_A_TIME = DeviceTraits<>::ON_HOST ? 4096 : 131072;

// A block of a feature, and the same numbers as components of atoms.
template <class T, class X>
struct BlockCall {
  int channels, dim, components, first, x_width, x_stride;
  Pointer<X> x;
  Pointer<T> of_components;    // [atom][components][channels]
  const Real<T> *bias;         // [dim][channels], added to what is written to the feature; or null
};

template <class T>
struct ReadKernel : BlockCall<T, const T> {
  KOKKOS_FUNCTION void operator()(int64_t k) const {
    const int64_t a = k / (this->dim * this->channels);
    const int m = static_cast<int>(k / this->channels % this->dim), u = static_cast<int>(k % this->channels);
    put(this->of_components, (a * this->components + this->first + m) * this->channels + u,
        this->x[a * this->x_width + m * this->x_stride + u]);
  }
};

template <class T>
struct WriteKernel : BlockCall<T, T> {
  KOKKOS_FUNCTION void operator()(int64_t k) const {
    const int64_t a = k / (this->dim * this->channels);
    const int m = static_cast<int>(k / this->channels % this->dim), u = static_cast<int>(k % this->channels);
    const T v = this->of_components[(a * this->components + this->first + m) * this->channels + u];
    const T bias = T(this->bias ? this->bias[m * this->channels + u] : Real<T>(0));
    put(this->x, a * this->x_width + m * this->x_stride + u, v + bias);
  }
};

// to[a,i] = sum_k m[i,k] from[a,k] for all channels.
template <class T>
struct TransformKernel {
  int rows, sums, width;
  int64_t row_stride, sum_stride;    // in m
  const Real<T> *m;
  Pointer<const T> from;
  Pointer<T> to;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int64_t a = n / (rows * int64_t(width));
    const int i = static_cast<int>(n / width % rows), u = static_cast<int>(n % width);
    T sum = T(0);
    for (int k = 0; k < sums; k++) sum += m[i * row_stride + k * sum_stride] * from[(a * sums + k) * width + u];
    put(to, n, sum);
  }
};

}    // namespace

template <class T>
DeviceGridNetwork<T>::DeviceGridNetwork(const DeviceExec &exec, const GridNetworkConstants &constants)
    : in_(constants.in),
      out_(constants.out),
      num_points_(constants.num_points),
      scratch_(constants, PLANES<T>, POINTS_AT_A_TIME,
               std::max(int64_t(constants.in.count) * constants.first.rows,
                        int64_t(constants.out.count) * constants.last.cols)),
      activation_(constants.activation),
      scale_(static_cast<R>(constants.scale)) {
  std::vector<R> data;
  const auto add = [&](const std::vector<double> &numbers) {
    const int64_t begin = numbers.empty() ? -1 : static_cast<int64_t>(data.size());
    data.insert(data.end(), numbers.begin(), numbers.end());
    return begin;
  };
  const auto place = [&](const Matrix &m) { return Place{m.rows, m.cols, add(m.data)}; };
  to_ = place(constants.to);
  from_ = place(constants.from);
  first_ = place(constants.first);
  last_ = place(constants.last);
  for (const Matrix &m : constants.between) between_.push_back(place(m));
  for (int k = 0; k < constants.num_hidden(); k++) {
    width_.push_back(constants.width(k));
    bias_.push_back(add(constants.bias[k]));
  }
  last_bias_ = add(constants.last_bias);
  assign(exec, data_, data);
}

// ---- steps
template <class T>
void DeviceGridNetwork<T>::multiply(const DeviceExec &exec, const Place &m, bool transpose, int64_t rows, const R *a,
                                    R *c) const {
  device_gemm(exec, transpose, PLANES<T> * rows, transpose ? m.in : m.out, transpose ? m.out : m.in, a,
              data_.data() + m.begin, false, c);
}

template <class T>
void DeviceGridNetwork<T>::read(const DeviceExec &exec, const FeatureComponents &components, FeatureRows<const R> x,
                                int first, int direction, int width, const Work &work) const {
  for (int b = 0; b < components.layout.num_blocks(); b++) {
    const FeatureGroup &group = components.group(b);
    const ReadKernel<T> kernel{
        {width, components.dim(b), components.count, components.first[b], group.width(), group.stride(),
         channel_of<const T>(x, group, components.layout.block(b).channel, direction) + int64_t(first) * group.width(),
         make_pointer<T>(work.features, int64_t(work.n) * components.count * width), nullptr}};
    Kokkos::parallel_for("equi:grid_read", DeviceRange(exec, 0, int64_t(work.n) * components.dim(b) * width), kernel);
  }
}

template <class T>
void DeviceGridNetwork<T>::write(const DeviceExec &exec, const FeatureComponents &components, FeatureRows<R> y,
                                 int first, int direction, int width, int64_t bias, const Work &work) const {
  for (int b = 0; b < components.layout.num_blocks(); b++) {
    const FeatureGroup &group = components.group(b);
    const R *const of_block = bias < 0 ? nullptr : data_.data() + bias + int64_t(components.first[b]) * width;
    const WriteKernel<T> kernel{
        {width, components.dim(b), components.count, components.first[b], group.width(), group.stride(),
         channel_of<T>(y, group, components.layout.block(b).channel, direction) + int64_t(first) * group.width(),
         make_pointer<T>(work.features, int64_t(work.n) * components.count * width), of_block}};
    Kokkos::parallel_for("equi:grid_write", DeviceRange(exec, 0, int64_t(work.n) * components.dim(b) * width), kernel);
  }
}

template <class T>
void DeviceGridNetwork<T>::transform(const DeviceExec &exec, const Place &m, bool transpose, int width, int n,
                                     const R *from, R *to) const {
  const int rows = transpose ? m.out : m.in, sums = transpose ? m.in : m.out;
  const TransformKernel<T> kernel{rows,
                                  sums,
                                  width,
                                  transpose ? 1 : m.out,
                                  transpose ? m.out : 1,
                                  data_.data() + m.begin,
                                  make_pointer<const T>(from, int64_t(n) * sums * width),
                                  make_pointer<T>(to, int64_t(n) * rows * width)};
  Kokkos::parallel_for("equi:grid_points", DeviceRange(exec, 0, int64_t(n) * rows * width), kernel);
}

template <class T>
void DeviceGridNetwork<T>::activate_layer(const DeviceExec &exec, int k, const Work &work) const {
  const int64_t size = int64_t(work.n) * num_points_ * width_[k];
  Kokkos::parallel_for(
      "equi:grid_activation", DeviceRange(exec, 0, size),
      ActivationKernel<T>{activation_, scale_, width_[k], bias_[k] < 0 ? nullptr : data_.data() + bias_[k],
                          make_pointer<T>(scratch_.hidden(work, k), size), make_pointer<T>(work.values, size)});
}

// Evaluates the hidden layers, up to the values of the last one.
template <class T>
void DeviceGridNetwork<T>::evaluate(const DeviceExec &exec, FeatureRows<const R> x, int first, int direction,
                                    const Work &work) const {
  read(exec, in_, x, first, direction, first_.in, work);
  multiply(exec, first_, false, int64_t(work.n) * in_.count, work.features, work.components);
  transform(exec, to_, false, width_[0], work.n, work.components, scratch_.hidden(work, 0));
  for (int k = 0; k < static_cast<int>(width_.size()); k++) {
    if (k > 0)
      multiply(exec, between_[k - 1], false, int64_t(work.n) * num_points_, work.values, scratch_.hidden(work, k));
    activate_layer(exec, k, work);
  }
}

// ---- forward and backward
template <class T>
void DeviceGridNetwork<T>::forward(const DeviceExec &exec, int count, FeatureRows<const R> x, FeatureRows<R> y,
                                   R *scratch, int direction) const {
  const int at_a_time = scratch_.atoms_at_a_time(count);
  for (int first = 0; first < count; first += at_a_time) {
    const Work w = scratch_.cut(scratch, std::min(at_a_time, count - first));
    evaluate(exec, x, first, direction, w);
    transform(exec, from_, true, width_.back(), w.n, w.values, w.components);
    multiply(exec, last_, false, int64_t(w.n) * out_.count, w.components, w.features);
    write(exec, out_, y, first, direction, last_.out, last_bias_, w);
  }
}

template <class T>
void DeviceGridNetwork<T>::backward(const DeviceExec &exec, int count, FeatureRows<R> x, FeatureRows<const R> y_adj,
                                    R *scratch, int direction) const {
  const int at_a_time = scratch_.atoms_at_a_time(count);
  for (int first = 0; first < count; first += at_a_time) {
    const Work w = scratch_.cut(scratch, std::min(at_a_time, count - first));
    evaluate(exec, x, first, direction, w);
    read(exec, out_, y_adj, first, direction, last_.out, w);
    multiply(exec, last_, true, int64_t(w.n) * out_.count, w.features, w.components);
    transform(exec, from_, false, width_.back(), w.n, w.components, w.adjoint);
    for (int k = static_cast<int>(width_.size()) - 1; k >= 0; k--) {
      const int64_t size = int64_t(w.n) * num_points_ * width_[k];
      Kokkos::parallel_for("equi:grid_activation_adjoint", DeviceRange(exec, 0, size),
                           ActivationAdjointKernel<T>{activation_, scale_, make_pointer<T>(scratch_.hidden(w, k), size),
                                                      make_pointer<T>(w.adjoint, size)});
      if (k > 0) multiply(exec, between_[k - 1], true, int64_t(w.n) * num_points_, scratch_.hidden(w, k), w.adjoint);
    }
    transform(exec, to_, true, width_[0], w.n, scratch_.hidden(w, 0), w.components);
    multiply(exec, first_, true, int64_t(w.n) * in_.count, w.components, w.features);
    write(exec, in_, x, first, direction, first_.in, -1, w);
  }
}

EQUI_INSTANTIATE_NUMBERS(DeviceGridNetwork)

}    // namespace equi

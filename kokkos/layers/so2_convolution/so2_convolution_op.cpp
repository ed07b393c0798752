// SPDX-License-Identifier: MIT
#include "kokkos/layers/so2_convolution/so2_convolution_op.h"

#include "kokkos/geometry/rotations.h"
#include "kokkos/runtime/dense.h"

#include <algorithm>
#include <utility>

namespace equi {

template <class R>
So2ConvolutionOp<R>::So2ConvolutionOp(const So2Convolution &layer, const FeatureLayout &in, const FeatureLayout &out)
    : in_(in),
      out_(out),
      channels_in_(in.group(0).channels),
      first_{layer.lmax, layer.mmax, 2 * channels_in_, 0},
      generators_(Rotations::generators<R>(layer.lmax, layer.mmax)) {
  const int mul = in.block(0).mul;
  for (int m = 0; m <= layer.mmax; m++)
    for (int l = m; l <= layer.lmax; l++, factors_row_ += first_.channels)
      for (int side = 0; side < 2; side++)
        for (int u = 0; u < mul; u++) columns_.push_back(factors_row_ + side * channels_in_ + u);
  for (const So2Linear &linear : layer.linears) linears_.push_back(make_linear(linear, layer.mmax));
  forward_places_ = make_places(false);
  backward_places_ = make_places(true);
}

template <class R>
typename So2ConvolutionOp<R>::Linear So2ConvolutionOp<R>::make_linear(const So2Linear &linear, int mmax) const {
  const bool is_first = linears_.empty();
  const So2Shape in = is_first ? first_ : linears_.back().gated();
  const So2Shape out{in.lmax, mmax, padded(linear.channels_out), linear.num_gates(in.lmax)};
  Linear made{in,
              out,
              linear.channels_out,
              {},
              {},
              AlignedVector<R>(linear.bias.empty() ? 0 : out.width(0), R(0)),
              linear.has_gate,
              linear.scalar_activation,
              linear.gate_activation};
  // The places of a matrix's rows and columns; the first linear has the channels of two atoms.
  const int atoms = is_first ? 2 : 1, mul_in = linear.channels_in / atoms;
  const auto row_of = [&](int k) {
    const int u = k % linear.channels_in;
    return k / linear.channels_in * in.channels + u / mul_in * channels_in_ + u % mul_in;
  };
  const auto column_of = [&](int k) { return k / linear.channels_out * out.channels + k % linear.channels_out; };
  for (int m = 0; m <= mmax; m++) {
    const int64_t rows = in.width(m), cols = out.width(m);
    AlignedVector<R> weight(rows * cols, R(0)), transposed(rows * cols, R(0));
    const auto set = [&](int64_t row, int64_t column, double w) {
      weight[row * cols + column] = transposed[column * rows + row] = static_cast<R>(w);
    };
    const Matrix &same = linear.weights[m][0], &other = linear.weights[m][1];
    for (int i = 0; i < same.rows; i++)
      for (int j = 0; j < same.cols; j++) {
        const int64_t row = row_of(i), column = column_of(j);
        set(row, column, same(i, j));
        if (m == 0) continue;
        set(rows / 2 + row, cols / 2 + column, same(i, j));
        set(rows / 2 + row, column, -other(i, j));
        set(row, cols / 2 + column, other(i, j));
      }
    made.weight.push_back(std::move(weight));
    made.transposed.push_back(std::move(transposed));
  }
  for (size_t k = 0; k < linear.bias.size(); k++)
    made.bias[column_of(static_cast<int>(k))] = static_cast<R>(linear.bias[k]);
  return made;
}

template <class R>
So2Shape So2ConvolutionOp<R>::widened(So2Shape shape) const {
  shape.mmax = std::min(shape.mmax + 1, shape.lmax);
  return shape;
}

// ---- scratch
// ------------------------------------------------------------------------------------------------------------------

template <class R>
typename So2ConvolutionOp<R>::Places So2ConvolutionOp<R>::make_places(bool backward) const {
  Places p{};
  const auto take = [&](const So2Shape &shape) {
    const int64_t before = p.size;
    p.size += shape.size();
    return before;
  };
  p.rotated_shape = backward ? widened(first_) : first_;
  p.rotated = take(p.rotated_shape);
  int64_t now = take(first_);
  for (const Linear &linear : linears_) {
    p.before.push_back(now);
    now = take(linear.out);
    p.after.push_back(now);
    if (linear.has_gate) now = take(linear.gated());
  }
  p.messages = now;
  if (!backward) return p;
  p.of_sum = take(widened(linears_.back().gated()));
  p.of_messages = take(linears_.back().gated());
  return p;
}

// ---- forward
// ------------------------------------------------------------------------------------------------------------------

template <class R>
So2RotationCall<R> So2ConvolutionOp<R>::rotation(const So2Edges<R> &edges, So2Shape shape, R *u, int first,
                                                 const FeatureLayout &layout, FeatureRows<R> rows, const int *row,
                                                 const R *factor) const {
  So2RotationCall<R> call{};
  call.shape = shape;
  call.count = edges.count;
  call.rotations = edges.rotations;
  call.u = u;
  call.first = first;
  call.channels = call.x_channels = layout.group(0).channels;
  for (int l = 0; l <= shape.lmax; l++) call.x[l] = rows.group(layout.group(l));
  call.row = row;
  call.factor = factor;
  return call;
}

template <class R>
void So2ConvolutionOp<R>::make_messages(const HostKernels<R> &kernels, const So2Edges<R> &edges, const Places &places,
                                        R *scratch) const {
  const int64_t count = edges.count;
  const auto at = [&](int64_t before) { return scratch + count * before; };
  R *const rotated = at(places.rotated);
  const FeatureRows<R> x{const_cast<R *>(edges.x.data), edges.x.rows, 0};    // only read
  kernels.so2_rotate(rotation(edges, places.rotated_shape, rotated, 0, in_, x, edges.sender, nullptr));
  kernels.so2_rotate(rotation(edges, places.rotated_shape, rotated, channels_in_, in_, x, edges.receiver, nullptr));
  kernels.so2_factors({first_, count, rotated, at(places.before[0]), const_cast<R *>(edges.factors)});
  for (size_t k = 0; k < linears_.size(); k++) {
    const Linear &linear = linears_[k];
    const So2Shape &in = linear.in, &out = linear.out;
    R *const z = at(places.after[k]);
    for (int m = 0; m <= in.mmax; m++)
      gemm(false, count, static_cast<int>(out.width(m)), static_cast<int>(in.width(m)),
           at(places.before[k] + in.before(m)), linear.weight[m].data(), R(0), z + count * out.before(m));
    if (!linear.bias.empty())
      for (int64_t e = 0; e < count; e++)
        for (int64_t j = 0; j < out.width(0); j++) z[e * out.width(0) + j] += linear.bias[j];
    if (linear.has_gate)
      kernels.so2_gate({out, linear.gated(), linear.mul, count, linear.scalars, linear.gates, z,
                        at(k + 1 < linears_.size() ? places.before[k + 1] : places.messages)});
  }
}

template <class R>
void So2ConvolutionOp<R>::forward(const HostKernels<R> &kernels, const So2Edges<R> &edges, FeatureRows<R> y,
                                  const int *out_row, R *scratch) const {
  make_messages(kernels, edges, forward_places_, scratch);
  kernels.so2_rotate_back(rotation(edges, linears_.back().gated(), scratch + edges.count * forward_places_.messages, 0,
                                   out_, y, out_row, edges.cutoff));
}

// ---- backward
// -----------------------------------------------------------------------------------------------------------------

template <class R>
void So2ConvolutionOp<R>::backward(const HostKernels<R> &kernels, const So2Edges<R> &edges, FeatureRows<const R> y_adj,
                                   const int *out_row, R *scratch, const So2Adjoints<R> &adjoints) const {
  const int64_t count = edges.count;
  const Places &places = backward_places_;
  const auto at = [&](int64_t before) { return scratch + count * before; };
  make_messages(kernels, edges, places, scratch);

  // The adjoint of y in the frame; times the cutoff function it is that of the messages.
  const So2Shape last = linears_.back().gated(), wide = widened(last);
  R *const messages = at(places.messages), *const of_sum = at(places.of_sum);
  R *adjoint = at(places.of_messages);
  const FeatureRows<R> of_y{const_cast<R *>(y_adj.data), y_adj.rows, y_adj.first};    // only read
  kernels.so2_rotate(rotation(edges, wide, of_sum, 0, out_, of_y, out_row, nullptr));
  std::fill_n(adjoints.torque, 3 * count, R(0));
  const auto add_torque = [&](const So2Shape &a_shape, const So2Shape &b_shape, const R *a, const R *b,
                              const R *factor) {
    kernels.so2_torque({a_shape, b_shape, count, a, b, factor, adjoints.torque, generators_.data(),
                        static_cast<int>(generators_.size())});
  };
  add_torque(last, wide, messages, of_sum, edges.cutoff);
  for (int64_t e = 0; e < count; e++) {
    R sum = 0;
    for (int m = 0; m <= last.mmax; m++) {
      const int64_t first = count * last.before(m) + e * last.width(m);
      for (int64_t j = first; j < first + last.width(m); j++) {
        sum += messages[j] * of_sum[j];
        adjoint[j] = edges.cutoff[e] * of_sum[j];
      }
    }
    adjoints.cutoff[e] = sum;
  }

  for (size_t k = linears_.size(); k-- > 0;) {
    const Linear &linear = linears_[k];
    const So2Shape &in = linear.in, &out = linear.out;
    R *of_z = adjoint;
    if (linear.has_gate) {
      of_z = at(places.after[k]);
      kernels.so2_gate_backward({out, linear.gated(), linear.mul, count, linear.scalars, linear.gates, of_z, adjoint});
    }
    adjoint = at(places.before[k]);    // what the linear has read is needed no more
    for (int m = 0; m <= in.mmax; m++)
      gemm(false, count, static_cast<int>(in.width(m)), static_cast<int>(out.width(m)), of_z + count * out.before(m),
           linear.transposed[m].data(), R(0), adjoint + count * in.before(m));
  }

  R *const rotated = at(places.rotated);
  if (adjoints.factors != edges.factors) std::copy_n(edges.factors, count * factors_row_, adjoints.factors);
  kernels.so2_factors_backward({first_, count, rotated, adjoint, adjoints.factors});
  add_torque(first_, places.rotated_shape, adjoint, rotated, nullptr);
  if (adjoints.sender_adj.data)
    kernels.so2_rotate_back(rotation(edges, first_, adjoint, 0, in_, adjoints.sender_adj, adjoints.sender, nullptr));
  if (adjoints.receiver_adj.data)
    kernels.so2_rotate_back(
        rotation(edges, first_, adjoint, channels_in_, in_, adjoints.receiver_adj, adjoints.receiver, nullptr));
}

template <class R>
std::size_t So2ConvolutionOp<R>::bytes() const {
  std::size_t numbers = 0;
  for (const Linear &linear : linears_) {
    for (const AlignedVector<R> &w : linear.weight) numbers += 2 * w.size();
    numbers += linear.bias.size();
  }
  return numbers * sizeof(R);
}

template class So2ConvolutionOp<float>;
template class So2ConvolutionOp<double>;

}    // namespace equi

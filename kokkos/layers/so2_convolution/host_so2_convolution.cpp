// SPDX-License-Identifier: MIT
// Messages of SO(2) convolutions on the host: matrices, scratch and the sequence of kernels in each pass.
#include "kokkos/layers/so2_convolution/host_so2_convolution.h"

#include "kokkos/geometry/rotations.h"
#include "src/numbers/number_types.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace equi {

namespace {

// Number of channels of a product that are evaluated together.
constexpr int CHANNEL_BLOCK = 32;

// Calls f(edge, first channel, number of channels) for all channels of the shape, including padding.
template <class F>
void for_blocks(int64_t count, const So2Shape &shape, const F &f) {
  for (int64_t e = 0; e < count; e++)
    for (int k = 0; k < shape.channels; k += CHANNEL_BLOCK) f(e, k, std::min(CHANNEL_BLOCK, shape.channels - k));
}

// A call for these matrices, of which products with m = 0 have one. B: the type of their numbers.
template <class R, class B>
So2ProductCall<R, B> product_call(const std::vector<PackedMatrix<R>> &matrices,
                                  const B *(PackedMatrix<R>::*numbers)() const, int64_t rows, const R *u, R *v, R *sums,
                                  const R *bias) {
  So2ProductCall<R, B> call{rows, matrices[0].in(), matrices[0].out(), matrices.size() > 1, {}, u, v, sums, bias};
  for (size_t k = 0; k < matrices.size(); k++) call.weights[k] = (matrices[k].*numbers)();
  return call;
}

}    // namespace

template <class T>
HostSo2Convolution<T>::HostSo2Convolution(InstructionSet set, const So2Convolution &layer, const FeatureLayout &in,
                                          const FeatureLayout &out)
    : set_(set),
      kernels_(host_kernels<T>(set)),
      in_(in),
      out_(out),
      heads_(layer.attention.heads),
      scores_(layer.attention.channels),
      score_weight_(layer.attention.weight.begin(), layer.attention.weight.end()),
      score_bias_(layer.attention.bias.begin(), layer.attention.bias.end()),
      score_vector_(layer.attention.vector.begin(), layer.attention.vector.end()),
      score_epsilon_(static_cast<R>(layer.attention.epsilon)),
      generators_(Rotations::generators<R>(layer.lmax, layer.mmax)) {
  So2Linears padded(layer, in);
  channels_in_ = padded.channels_in;
  factors_row_ = padded.factors_row;
  columns_ = std::move(padded.columns);
  first_ = padded.first;
  radial_linear_ = layer.radial_linear;
  head_size_ = padded.head_size;
  score_places_ = std::move(padded.score_places);
  for (const So2PaddedLinear &linear : padded.linears) linears_.push_back(make_linear(linear));
  values_size_ = 0;
  for (const Linear &linear : linears_) {
    after_.push_back(values_size_);
    values_size_ += linear.out.size();
  }
  const bool has_step = linears_.back().has_step() || heads_ > 0;
  messages_ = has_step ? values_size_ : after_.back();
  if (has_step) values_size_ += linears_.back().gated().size();
  score_values_ = values_size_;
  values_size_ += equi::padded(heads_);
  forward_places_ = make_places(false);
  backward_places_ = make_places(true);
}

template <class T>
typename HostSo2Convolution<T>::Product HostSo2Convolution<T>::make_product(const Matrix &same,
                                                                            const Matrix *other) const {
  Product product;
  product.emplace_back(same, set_);
  if (!other) return product;
  Matrix sum = same;
  for (size_t k = 0; k < sum.data.size(); k++) sum.data[k] += other->data[k];
  product.emplace_back(*other, set_);
  product.emplace_back(sum, set_);
  return product;
}

template <class T>
typename HostSo2Convolution<T>::Linear HostSo2Convolution<T>::make_linear(const So2PaddedLinear &linear) const {
  Linear made{linear.in,
              linear.out,
              linear.mul,
              {},
              {},
              AlignedVector<R>(linear.bias.begin(), linear.bias.end()),
              linear.has_gate,
              linear.scalars,
              linear.gates,
              {},
              {},
              {},
              linear.at_points.at_points,
              linear.at_points.has_scalars};
  const Matrix &to = linear.at_points.to_points, &from = linear.at_points.from_points;
  made.to_points.assign(to.data.begin(), to.data.end());
  made.from_points.assign(from.data.begin(), from.data.end());
  for (const So2ProductTerm<double> &t : linear.product)
    made.product.push_back({{t.l[0], t.l[1], t.l[2]}, {t.m[0], t.m[1], t.m[2]}, static_cast<R>(t.value)});
  for (size_t m = 0; m < linear.weights.size(); m++) {
    const auto &[same, other] = linear.weights[m];
    const Matrix other_back = transpose(other, -1.0);
    made.products.push_back(make_product(same, m == 0 ? nullptr : &other));
    made.transposed.push_back(make_product(transpose(same), m == 0 ? nullptr : &other_back));
  }
  return made;
}

// ---- scratch
template <class T>
typename HostSo2Convolution<T>::Places HostSo2Convolution<T>::make_places(bool backward) const {
  Places p{};
  const auto take = [&](int64_t size) {
    const int64_t before = p.size;
    p.size += size;
    return before;
  };
  p.rotated_shape = backward ? widened(first_) : first_;
  p.rotated = take(p.rotated_shape.size());
  int64_t widest = 0;
  for (const Linear &linear : linears_) {
    // Only a backward pass needs the first input again without its factors.
    p.before.push_back(!backward && p.before.empty() ? p.rotated : take(linear.in.size()));
    for (int m = 1; m <= linear.in.mmax; m++) widest = std::max({widest, linear.in.width(m), linear.out.width(m)});
  }
  p.sums = take(widest / 2);
  if (!backward) return p;
  p.of_sum = take(widened(linears_.back().gated()).size());
  p.of_messages = take(linears_.back().gated().size());
  for (const Linear &linear : linears_)
    p.of_made.push_back(linear.product.empty() && !linear.has_points() ? -1 : take(linear.out.size()));
  return p;
}

// ---- forward
template <class T>
So2RotationCall<T> HostSo2Convolution<T>::rotation(const So2Edges<T> &edges, So2Shape shape, R *u, int first,
                                                   const FeatureLayout &layout, FeatureRows<R> rows, const int *row,
                                                   const T *factor) const {
  So2RotationCall<T> call{};
  call.shape = shape;
  call.count = edges.count;
  call.rotations = edges.rotations;
  call.u = u;
  call.first = first;
  call.channels = layout.group(0).channels;
  for (int l = 0; l <= shape.lmax; l++) call.x[l] = rows.group(layout.group(l));
  call.row = row;
  call.factor = factor;
  return call;
}

template <class T>
void HostSo2Convolution<T>::make_rotated(const So2Edges<T> &edges, const Places &places, R *scratch) const {
  R *const rotated = place(scratch, edges.count, places.rotated);
  const FeatureRows<R> x{const_cast<R *>(edges.x.data), edges.x.rows, 0};    // this call only reads them
  kernels_.so2_rotate(rotation(edges, places.rotated_shape, rotated, 0, in_, x, edges.sender, nullptr));
  kernels_.so2_rotate(rotation(edges, places.rotated_shape, rotated, channels_in_, in_, x, edges.receiver, nullptr));
}

template <class T>
void HostSo2Convolution<T>::multiply(const std::vector<Product> &products, const So2Shape &in, const So2Shape &out,
                                     int64_t count, const R *u, R *v, R *sums, const AlignedVector<R> *bias) const {
  const int64_t rows = PLANES<T> * count;
  for (size_t m = 0; m < products.size(); m++) {
    const Product &p = products[m];
    const bool has_bias = m == 0 && bias && !bias->empty();
    // Tangents have no bias.
    for (int64_t first = 0, n = has_bias ? count : rows; first < rows; first += n) {
      const R *const from = u + rows * in.before(static_cast<int>(m)) + first * p[0].in();
      R *const to = v + rows * out.before(static_cast<int>(m)) + first * p[0].out();
      const R *const of_first = has_bias && first == 0 ? bias->data() : nullptr;
      if constexpr (std::is_same_v<R, float>)
        if (p[0].is_split()) {
          kernels_.split->so2_product(product_call(p, &PackedMatrix<R>::parts, n, from, to, sums, of_first));
          continue;
        }
      kernels_.so2_product(product_call(p, &PackedMatrix<R>::numbers, n, from, to, sums, of_first));
    }
  }
}

template <class T>
So2GateCall<T> HostSo2Convolution<T>::gate(const Linear &linear, int64_t count, R *z, R *h) const {
  return {linear.out, linear.gated(), linear.mul, count, linear.scalars, linear.gates, z, h};
}

template <class T>
So2BilinearCall<T> HostSo2Convolution<T>::product(const Linear &linear, int64_t count, const R *z, R *h,
                                                  R *z_adj) const {
  return {linear.out,
          linear.gated(),
          count,
          linear.scalars,
          linear.gates,
          linear.product.data(),
          static_cast<int>(linear.product.size()),
          z,
          h,
          z_adj};
}

template <class T>
So2PointsCall<T> HostSo2Convolution<T>::at_points(const Linear &linear, int64_t count, const R *z, R *h,
                                                  R *z_adj) const {
  const int components = static_cast<int>(linear.gated().size() / linear.gated().channels),
            points = static_cast<int>(linear.to_points.size()) / components;
  return {linear.out,
          linear.gated(),
          linear.mul,
          count,
          points,
          components,
          linear.at_points,
          linear.scalars,
          linear.has_scalars,
          linear.to_points.data(),
          linear.from_points.data(),
          z,
          h,
          z_adj};
}

template <class T>
So2AttentionCall<T> HostSo2Convolution<T>::attention(const So2Edges<T> &edges, const int *row, So2Softmax<T> softmax,
                                                     R *values, R *messages, R *z_adj, T *cutoff_adj) const {
  const auto value = [&](int64_t before) { return place(values, edges.count, before); };
  return {linears_.front().out,
          linears_.back().gated(),
          edges.count,
          heads_,
          scores_,
          head_size_,
          score_places_.data(),
          score_weight_.data(),
          score_bias_.data(),
          score_vector_.data(),
          score_epsilon_,
          edges.cutoff,
          value(after_.front()),
          value(after_.back()),
          make_pointer<T>(value(score_values_), edges.count * heads_),
          row,
          softmax,
          messages,
          z_adj,
          cutoff_adj};
}

template <class T>
void HostSo2Convolution<T>::make_values(const So2Edges<T> &edges, const Places &places, R *scratch, R *values) const {
  const int64_t count = edges.count;
  const auto before = [&](size_t k) { return place(scratch, count, places.before[k]); };
  const R *const rotated = place(scratch, count, places.rotated);
  if (radial_linear_ > 0 && before(0) != rotated) std::copy_n(rotated, PLANES<T> * count * first_.size(), before(0));
  for (size_t k = 0; k < linears_.size(); k++) {
    const Linear &linear = linears_[k];
    // No steps come before the factors; there the output of a linear is the next one's input.
    if (k == radial_linear_)
      kernels_.so2_factors(factors(count, k == 0 ? rotated : place(values, count, after_[k - 1]), before(k),
                                   const_cast<R *>(edges.factors)));
    R *const z = place(values, count, after_[k]);
    multiply(linear.products, linear.in, linear.out, count, before(k), z, place(scratch, count, places.sums),
             &linear.bias);
    R *const next = k + 1 < linears_.size() ? before(k + 1) : place(values, count, messages_);
    if (linear.has_gate)
      kernels_.so2_gate(gate(linear, count, z, next));
    else if (!linear.product.empty())
      for_blocks(count, linear.gated(), [&, call = product(linear, count, z, next, nullptr)](int64_t e, int k, int n) {
        so2_bilinear<T, CHANNEL_BLOCK>(call, e, k, n);
      });
    else if (linear.has_points())
      kernels_.so2_points(at_points(linear, count, z, next, nullptr));
    else if (k + 1 < linears_.size() && k + 1 != radial_linear_)
      std::copy_n(z, PLANES<T> * count * linear.out.size(), before(k + 1));
  }
}

template <class T>
So2Sums<T> HostSo2Convolution<T>::sums(FeatureRows<const R> rows) const {
  So2Sums<T> sums{};
  sums.lmax = linears_.back().out.lmax;
  sums.channels = out_.group(0).channels;
  sums.heads = heads_;
  sums.head_size = head_size_;
  // dot products only read them
  for (int l = 0; l <= sums.lmax; l++) sums.x[l] = const_cast<R *>(rows.group(out_.group(l)));
  return sums;
}

template <class T>
void HostSo2Convolution<T>::begin(int64_t count, So2Softmax<T> softmax) const {
  std::fill_n(softmax.largest, count * heads_, -std::numeric_limits<R>::infinity());
  std::fill_n(softmax.sum, count * heads_, T(0));
}

template <class T>
void HostSo2Convolution<T>::add_to_softmax(const So2AttentionCall<T> &call, FeatureRows<R> y) const {
  const So2Sums<T> made = sums(y);
  for (int64_t e = 0; e < call.count; e++)
    for (int head = 0; head < heads_; head++) {
      put(call.scores, e * heads_ + head, so2_score(call, e, head, So2OneThread{}).t);
      const int64_t at = call.at(e, head);
      R &largest = call.softmax.largest[at];
      T &sum = call.softmax.sum[at];
      const R exponent = so2_exponent(call, e, head);
      if (!(exponent > largest)) continue;
      const R factor = std::exp(largest - exponent);
      largest = exponent;
      if (value_of(sum) == R(0)) continue;    // no edge of an earlier list
      sum *= factor;
      so2_scale(made, call.row[e], head, T(factor));
    }
}

template <class T>
void HostSo2Convolution<T>::forward(const So2Edges<T> &edges, FeatureRows<R> y, const int *out_row,
                                    So2Softmax<T> softmax, R *scratch, R *values) const {
  make_rotated(edges, forward_places_, scratch);
  make_values(edges, forward_places_, scratch, values);
  R *const messages = place(values, edges.count, messages_);
  if (heads_ > 0) {
    const So2AttentionCall<T> call = attention(edges, out_row, softmax, values, messages, nullptr, nullptr);
    add_to_softmax(call, y);
    for (int64_t e = 0; e < edges.count; e++)
      for (int head = 0; head < heads_; head++) {
        const T weight = edges.cutoff[e] * so2_exponential(call, e, head);
        softmax.sum[call.at(e, head)] += weight;
        so2_attention(call, e, head, weight);
      }
  }
  kernels_.so2_rotate_back(rotation(edges, linears_.back().gated(), messages, 0, out_, y, out_row, edges.cutoff));
}

template <class T>
void HostSo2Convolution<T>::finish(int64_t count, FeatureRows<R> y, So2Softmax<T> softmax) const {
  const So2Sums<T> made = sums(y);
  for (int64_t row = 0; row < count; row++)
    for (int head = 0; head < heads_; head++) {
      const T sum = softmax.sum[row * heads_ + head];
      if (value_of(sum) == R(0)) continue;    // nothing has been added
      so2_scale(made, row, head, T(1) / sum);
    }
}

// ---- backward
template <class T>
void HostSo2Convolution<T>::begin_backward(int64_t count, FeatureRows<const R> y, FeatureRows<const R> y_adj,
                                           So2Softmax<T> softmax) const {
  const So2Sums<T> made = sums(y), adjoint = sums(y_adj);
  for (int64_t row = 0; row < count; row++)
    for (int head = 0; head < heads_; head++)
      softmax.dot[row * heads_ + head] = so2_dot(made, adjoint, row, head, 0, 1);
}

template <class T>
void HostSo2Convolution<T>::backward(const So2Edges<T> &edges, FeatureRows<const R> y_adj, const int *out_row,
                                     So2Softmax<T> softmax, R *scratch, R *values, bool has_values,
                                     const So2Adjoints<T> &adjoints) const {
  const int64_t count = edges.count;
  const Places &places = backward_places_;
  make_rotated(edges, places, scratch);
  if (!has_values) make_values(edges, places, scratch, values);

  // The adjoint of y in the frame; times the cutoff function it is that of the messages.
  const So2Shape last = linears_.back().gated(), wide = widened(last);
  R *const messages = place(values, count, messages_), *const of_sum = place(scratch, count, places.of_sum);
  R *adjoint = place(scratch, count, places.of_messages);
  if (heads_ > 0) {
    // forward() does not divide its messages by the sums.
    const So2AttentionCall<T> call = attention(edges, out_row, softmax, values, messages, nullptr, nullptr);
    for (int64_t e = 0; e < count; e++)
      for (int head = 0; head < heads_; head++) {
        if (!has_values) put(call.scores, e * heads_ + head, so2_score(call, e, head, So2OneThread{}).t);
        so2_attention(call, e, head, edges.cutoff[e] * so2_normalized_exponential(call, e, head));
      }
  }
  const FeatureRows<R> of_y{const_cast<R *>(y_adj.data), y_adj.rows, y_adj.first};    // this call only reads them
  kernels_.so2_rotate(rotation(edges, wide, of_sum, 0, out_, of_y, out_row, nullptr));
  std::fill_n(adjoints.torque, 3 * count, T(0));
  const auto add_torque = [&](const So2Shape &a_shape, const So2Shape &b_shape, const R *a, const R *b,
                              const T *factor) {
    kernels_.so2_torque({a_shape, b_shape, count, a, b, factor, adjoints.torque, generators_.data(),
                         static_cast<int>(generators_.size())});
  };
  add_torque(last, wide, messages, of_sum, edges.cutoff);
  kernels_.so2_cutoff_backward({last, count, edges.cutoff, messages, of_sum, adjoints.cutoff, adjoint});

  for (size_t k = 0; k < linears_.size(); k++)
    if (places.of_made[k] >= 0)
      std::fill_n(place(scratch, count, places.of_made[k]), PLANES<T> * count * linears_[k].out.size(), R(0));
  if (heads_ > 0) {
    R *const of_scores = place(scratch, count, places.of_made.front());
    const So2AttentionCall<T> call = attention(edges, out_row, softmax, values, adjoint, of_scores, adjoints.cutoff);
    for (int64_t e = 0; e < count; e++) so2_attention_backward(call, e, So2OneThread{});
  }

  R *const rotated = place(scratch, count, places.rotated);
  if (adjoints.factors != edges.factors) std::copy_n(edges.factors, PLANES<T> * count * factors_row_, adjoints.factors);
  for (size_t k = linears_.size(); k-- > 0;) {
    const Linear &linear = linears_[k];
    R *of_z = adjoint;
    if (linear.has_gate) {
      of_z = place(values, count, after_[k]);
      kernels_.so2_gate_backward(gate(linear, count, of_z, adjoint));
    } else if (!linear.product.empty()) {
      of_z = place(scratch, count, places.of_made[k]);
      for_blocks(count, linear.gated(),
                 [call = product(linear, count, place(values, count, after_[k]), adjoint, of_z)](
                     int64_t e, int k, int n) { so2_bilinear_backward<T, CHANNEL_BLOCK>(call, e, k, n); });
    } else if (linear.has_points()) {
      of_z = place(scratch, count, places.of_made[k]);
      kernels_.so2_points_backward(at_points(linear, count, place(values, count, after_[k]), adjoint, of_z));
    }
    adjoint = place(scratch, count, places.before[k]);    // the input of the linear is no longer needed
    multiply(linear.transposed, linear.out, linear.in, count, of_z, adjoint, place(scratch, count, places.sums),
             nullptr);
    if (k == radial_linear_)
      kernels_.so2_factors_backward(
          factors(count, k == 0 ? rotated : place(values, count, after_[k - 1]), adjoint, adjoints.factors));
  }
  add_torque(first_, places.rotated_shape, adjoint, rotated, nullptr);
  if (adjoints.sender_adj.data)
    kernels_.so2_rotate_back(rotation(edges, first_, adjoint, 0, in_, adjoints.sender_adj, adjoints.sender, nullptr));
  if (adjoints.receiver_adj.data)
    kernels_.so2_rotate_back(
        rotation(edges, first_, adjoint, channels_in_, in_, adjoints.receiver_adj, adjoints.receiver, nullptr));
}

EQUI_INSTANTIATE_NUMBERS(HostSo2Convolution)

}    // namespace equi

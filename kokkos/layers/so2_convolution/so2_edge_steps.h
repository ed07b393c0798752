// SPDX-License-Identifier: MIT
// What SO(2) convolutions compute for an edge between their linears, besides gates: products of two functions on the
// sphere, and weights of messages. Hosts and devices share this code. T: float, double or a Dual of them; arrays
// have the layout of those in so2_kernels.h.
#ifndef EQUI_SO2_EDGE_STEPS_H
#define EQUI_SO2_EDGE_STEPS_H

#include "kokkos/host_kernels/so2_kernels.h"
#include "src/functions/activation.h"
#include "src/layers/so2_convolution.h"

#include <cmath>
#include <cstdint>

namespace equi {

// The gradient with respect to an edge's direction n, of which only the part perpendicular to n matters, from the
// torque on its frame. The rows of the frame are x, n and z. A change dn turns the frame by (-dn_z, 0, dn_x) in its
// own components. If numbers depend on turns about the edge, those matter, too. The vector x is the part,
// perpendicular to n, of the coordinate axis along which n is smallest (edge_frame()). It turns by -(n_axis /
// x_axis) dn_z.
template <class T>
EQUI_FUNCTION void so2_direction_gradient(const T frame[9], const T torque[3], bool depends_on_frame, T gradient[3]) {
  T about_x = torque[0];
  if (depends_on_frame) {
    int axis = 0;    // the largest component of x
    for (int k = 1; k < 3; k++)
      if (std::fabs(value_of(frame[k])) > std::fabs(value_of(frame[axis]))) axis = k;
    about_x += frame[3 + axis] / frame[axis] * torque[1];
  }
  for (int k = 0; k < 3; k++) gradient[k] = frame[k] * torque[2] - frame[6 + k] * about_x;
}

// Computes h from z. z has two factors, one after the other, each with h's channels, a row of scalars and one of
// gates (So2Linear). Backward: h is the adjoint, z is read, and its adjoint is added to z_adj.
template <class T>
struct So2BilinearCall {
  So2Shape z_shape, h_shape;
  int64_t count;
  Activation scalars, gates;
  const So2ProductTerm<Real<T>> *terms;
  int num_terms;
  const Real<T> *z;
  Real<T> *h, *z_adj;

  EQUI_FUNCTION Pointer<const T> factor(const So2ProductTerm<Real<T>> &t, int which, int64_t e) const {
    return so2_component<T>(z_shape, count, z, e, t.l[which], t.m[which]) + (which - 1) * h_shape.channels;
  }
  EQUI_FUNCTION Pointer<T> factor_adj(const So2ProductTerm<Real<T>> &t, int which, int64_t e) const {
    return so2_component<T>(z_shape, count, z_adj, e, t.l[which], t.m[which]) + (which - 1) * h_shape.channels;
  }
  EQUI_FUNCTION Pointer<const T> row(int gate, int64_t e) const {
    return make_pointer<const T>(z + z_shape.gate_at(e, gate), count * z_shape.width(0));
  }
  EQUI_FUNCTION Pointer<T> row_adj(int gate, int64_t e) const {
    return make_pointer<T>(z_adj + z_shape.gate_at(e, gate), count * z_shape.width(0));
  }
};

// Computes channels first .. first + n - 1 of edge e, n <= BLOCK.
template <class T, int BLOCK>
EQUI_FUNCTION void so2_bilinear(const So2BilinearCall<T> &c, int64_t e, int first, int n) {
  T gate[BLOCK];
  for (int k = 0; k < n; k++) gate[k] = activate(c.gates, c.row(1, e)[first + k]).value;
  for (int l = 0; l <= c.h_shape.lmax; l++)
    for (int m = -c.h_shape.largest_m(l); m <= c.h_shape.largest_m(l); m++) {
      const Pointer<T> h = so2_component<T>(c.h_shape, c.count, c.h, e, l, m) + first;
      for (int k = 0; k < n; k++) put(h, k, T(0));
    }
  for (int i = 0; i < c.num_terms; i++) {
    const So2ProductTerm<Real<T>> &t = c.terms[i];
    const Pointer<const T> a = c.factor(t, 1, e) + first, b = c.factor(t, 2, e) + first;
    const Pointer<T> h = so2_component<T>(c.h_shape, c.count, c.h, e, t.l[0], t.m[0]) + first;
    for (int k = 0; k < n; k++) put(h, k, h[k] + (t.value * gate[k]) * (a[k] * b[k]));
  }
  const Pointer<const T> s = c.row(0, e) + first, other = s + c.h_shape.channels;
  const Pointer<T> h = so2_component<T>(c.h_shape, c.count, c.h, e, 0, 0) + first;
  for (int k = 0; k < n; k++) put(h, k, h[k] + activate(c.scalars, s[k]).value * other[k]);
}

template <class T, int BLOCK>
EQUI_FUNCTION void so2_bilinear_backward(const So2BilinearCall<T> &c, int64_t e, int first, int n) {
  T gate[BLOCK], slope[BLOCK], sum[BLOCK];
  for (int k = 0; k < n; k++) {
    const ValueAndDerivative<T> a = activate(c.gates, c.row(1, e)[first + k]);
    gate[k] = a.value;
    slope[k] = a.derivative;
    sum[k] = T(0);
  }
  for (int i = 0; i < c.num_terms; i++) {
    const So2ProductTerm<Real<T>> &t = c.terms[i];
    const Pointer<const T> a = c.factor(t, 1, e) + first, b = c.factor(t, 2, e) + first;
    const Pointer<T> a_adj = c.factor_adj(t, 1, e) + first, b_adj = c.factor_adj(t, 2, e) + first;
    const Pointer<const T> h = so2_component<T>(c.h_shape, c.count, c.h, e, t.l[0], t.m[0]) + first;
    for (int k = 0; k < n; k++) {
      const T g = t.value * h[k], of_product = g * gate[k], x = a[k], y = b[k];
      sum[k] += g * (x * y);
      put(a_adj, k, a_adj[k] + of_product * y);
      put(b_adj, k, b_adj[k] + of_product * x);
    }
  }
  const Pointer<const T> s = c.row(0, e) + first, other = s + c.h_shape.channels;
  const Pointer<const T> h = so2_component<T>(c.h_shape, c.count, c.h, e, 0, 0) + first;
  const Pointer<T> s_adj = c.row_adj(0, e) + first, other_adj = s_adj + c.h_shape.channels;
  const Pointer<T> gate_adj = c.row_adj(1, e) + first;
  for (int k = 0; k < n; k++) {
    const ValueAndDerivative<T> a = activate(c.scalars, s[k]);
    put(s_adj, k, a.derivative * other[k] * h[k]);
    put(other_adj, k, a.value * h[k]);
    put(gate_adj, k, slope[k] * sum[k]);
  }
}

// Attention multiplies the messages of a receiver by the softmax of their scores t and by the cutoff function f. The
// factor is a = f exp(t) / (sum of f exp(t) over the receiver's edges). This struct stores the sums for receivers,
// [row][heads]. `largest` is the largest t + log f so far, which is subtracted from all exponents. Quotients, and
// therefore derivatives, do not depend on it, and no sum of exponentials is far from 1. sum: of f exp(t - largest),
// 0 without edges. dot, in a backward pass: the product of the receiver's summed messages with their adjoint. In a
// forward pass on a device: the factor by which sums of earlier edges must be multiplied.
template <class T>
struct So2Softmax {
  Real<T> *largest;
  T *sum, *dot;

  // The same for the rows starting at `first`.
  So2Softmax from(int64_t first, int heads) const {
    const int64_t n = first * heads;
    return largest ? So2Softmax{largest + n, sum + n, dot + n} : So2Softmax{};
  }
};

// Computes messages from those without weights, and the scores in z. Backward: replaces adjoints of messages by
// those of messages without weights, writes the adjoint of the scores, and adds to that of the cutoff function.
template <class T>
struct So2AttentionCall {
  So2Shape z_shape, shape;
  int64_t count;
  int heads, channels, head_size;    // head_size: channels of messages per head
  const int *places;                 // [heads][channels]: places of the scores among the numbers of m = 0 of an edge
  const Real<T> *weight, *bias, *vector;
  Real<T> epsilon;
  const T *cutoff;
  const Real<T> *z, *without;
  Pointer<T> scores;    // [count][heads] t
  const int *row;       // [count] row of the softmax
  So2Softmax<T> softmax;
  Real<T> *messages;    // or their adjoints
  Real<T> *z_adj;
  T *cutoff_adj;

  // The end of a head's channels, including padding.
  EQUI_FUNCTION int end(int head) const { return head + 1 == heads ? shape.channels : (head + 1) * head_size; }
  EQUI_FUNCTION int64_t at(int64_t e, int head) const { return int64_t(row[e]) * heads + head; }
};

// A thread that works alone; So2Lane is one of several.
struct So2OneThread {
  static constexpr int first = 0, step = 1;
  template <class T>
  EQUI_FUNCTION T sum(T number) const {
    return number;
  }
};

// The mean of a head's scores, the inverse of their deviation, and their sum t.
template <class T>
struct So2Score {
  T mean, inverse, t;
};

template <class T, class Lane>
EQUI_FUNCTION So2Score<T> so2_score(const So2AttentionCall<T> &c, int64_t e, int head, const Lane &lane) {
  using std::sqrt;
  const int64_t width = c.z_shape.width(0);
  const Pointer<const T> z = make_pointer<const T>(c.z + e * width, c.count * width);
  const int *const place = c.places + head * c.channels;
  const Real<T> one_over = Real<T>(1) / static_cast<Real<T>>(c.channels);
  T sum = T(0), square = T(0), score = T(0);
  for (int k = lane.first; k < c.channels; k += lane.step) sum += z[place[k]];
  const T mean = one_over * lane.sum(sum);
  for (int k = lane.first; k < c.channels; k += lane.step) square += (z[place[k]] - mean) * (z[place[k]] - mean);
  const T inverse = T(1) / sqrt(one_over * lane.sum(square) + T(c.epsilon));
  for (int k = lane.first; k < c.channels; k += lane.step) {
    const T y = c.weight[k] * ((z[place[k]] - mean) * inverse) + T(c.bias[k]);
    score += c.vector[head * c.channels + k] * (Real<T>(0.2) * y + Real<T>(0.8) * activate(Activation::silu, y).value);
  }
  return {mean, inverse, lane.sum(score)};
}

// Whether an edge takes part. Closer to the cutoff, float32 cannot divide by f, and messages are practically 0.
template <class T>
EQUI_FUNCTION bool so2_takes_part(const So2AttentionCall<T> &c, int64_t e) {
  return !(value_of(c.cutoff[e]) <= Real<T>(1e-37));
}

// t + log f
template <class T>
EQUI_FUNCTION Real<T> so2_exponent(const So2AttentionCall<T> &c, int64_t e, int head) {
  if (!so2_takes_part(c, e)) return -static_cast<Real<T>>(INFINITY);
  return value_of(T(c.scores[e * c.heads + head])) + std::log(value_of(c.cutoff[e]));
}

// exp(t - largest)
template <class T>
EQUI_FUNCTION T so2_exponential(const So2AttentionCall<T> &c, int64_t e, int head) {
  using std::exp;
  if (!so2_takes_part(c, e)) return T(0);
  return exp(T(c.scores[e * c.heads + head]) - T(c.softmax.largest[c.at(e, head)]));
}

// The same divided by the sum. If the sum is zero, no edge counts.
template <class T>
EQUI_FUNCTION T so2_normalized_exponential(const So2AttentionCall<T> &c, int64_t e, int head) {
  const T sum = c.softmax.sum[c.at(e, head)];
  return value_of(sum) == Real<T>(0) ? T(0) : so2_exponential(c, e, head) / sum;
}

template <class T>
EQUI_FUNCTION void so2_attention(const So2AttentionCall<T> &c, int64_t e, int head, const T &weight) {
  for (int l = 0; l <= c.shape.lmax; l++)
    for (int m = -c.shape.largest_m(l); m <= c.shape.largest_m(l); m++) {
      const Pointer<const T> from = so2_component<T>(c.shape, c.count, c.without, e, l, m);
      const Pointer<T> to = so2_component<T>(c.shape, c.count, c.messages, e, l, m);
      for (int k = head * c.head_size; k < c.end(head); k++) put(to, k, weight * from[k]);
    }
}

template <class T, class Lane>
EQUI_FUNCTION void so2_attention_backward(const So2AttentionCall<T> &c, int64_t e, const Lane &lane) {
  const int64_t width = c.z_shape.width(0);
  const Pointer<const T> z = make_pointer<const T>(c.z + e * width, c.count * width);
  const Pointer<T> z_adj = make_pointer<T>(c.z_adj + e * width, c.count * width);
  const Real<T> one_over = Real<T>(1) / static_cast<Real<T>>(c.channels);
  for (int head = 0; head < c.heads; head++) {
    const So2Score<T> score = so2_score(c, e, head, lane);
    const T exponential = so2_normalized_exponential(c, e, head), weight = c.cutoff[e] * exponential;
    T sum = T(0);
    for (int l = 0; l <= c.shape.lmax; l++)
      for (int m = -c.shape.largest_m(l); m <= c.shape.largest_m(l); m++) {
        const Pointer<const T> from = so2_component<T>(c.shape, c.count, c.without, e, l, m);
        const Pointer<T> adj = so2_component<T>(c.shape, c.count, c.messages, e, l, m);
        for (int k = head * c.head_size + lane.first; k < c.end(head); k += lane.step) {
          sum += adj[k] * from[k];
          put(adj, k, weight * adj[k]);
        }
      }
    // The derivative of a softmax with respect to t: a (its own adjoint less the mean of all).
    const T less_mean = lane.sum(sum) - c.softmax.dot[c.at(e, head)];
    if (lane.first == 0) c.cutoff_adj[e] += exponential * less_mean;
    const T score_adj = weight * less_mean;
    // The derivative with respect to the scores before their norm: that of t, less its mean and its part along the
    // scores.
    const int *const place = c.places + head * c.channels;
    const auto normed = [&](int k) { return (z[place[k]] - score.mean) * score.inverse; };
    const auto normed_adj = [&](int k) {
      const T y = c.weight[k] * normed(k) + T(c.bias[k]);
      const T slope = T(Real<T>(0.2)) + Real<T>(0.8) * activate(Activation::silu, y).derivative;
      return (c.vector[head * c.channels + k] * c.weight[k]) * (score_adj * slope);
    };
    T mean = T(0), along = T(0);
    for (int k = lane.first; k < c.channels; k += lane.step) {
      const T t = normed_adj(k);
      mean += t;
      along += t * normed(k);
    }
    mean = lane.sum(mean);
    along = lane.sum(along);
    for (int k = lane.first; k < c.channels; k += lane.step)
      put(z_adj, place[k], score.inverse * (normed_adj(k) - one_over * mean - one_over * along * normed(k)));
  }
}

// The rows of a feature to which messages with attention are added, or of its adjoint.
template <class T>
struct So2Sums {
  int lmax, channels, heads, head_size;
  Real<T> *x[SO2_LMAX + 1];    // order l: [row][l + m][planes][channels]

  EQUI_FUNCTION int components() const { return (lmax + 1) * (lmax + 1); }
  EQUI_FUNCTION Pointer<T> at(int64_t row, int component) const {
    int l = 0;
    while ((l + 1) * (l + 1) <= component) l++;
    return make_pointer<T>(x[l] + (row * (2 * l + 1) + component - l * l) * PLANES<T> * channels, channels);
  }
  EQUI_FUNCTION int head_of(int channel) const {
    const int head = channel / head_size;
    return head < heads ? head : heads - 1;    // padding
  }
  EQUI_FUNCTION int end(int head) const { return head + 1 == heads ? channels : (head + 1) * head_size; }
};

// Multiplies a row's channels of a head.
template <class T>
EQUI_FUNCTION void so2_scale(const So2Sums<T> &sums, int64_t row, int head, const T &factor) {
  for (int component = 0; component < sums.components(); component++) {
    const Pointer<T> x = sums.at(row, component);
    for (int k = head * sums.head_size; k < sums.end(head); k++) put(x, k, factor * T(x[k]));
  }
}

// Contribution of channels first, first + step, ... of a head to a row's dot.
template <class T>
EQUI_FUNCTION T so2_dot(const So2Sums<T> &values, const So2Sums<T> &adjoints, int64_t row, int head, int first,
                        int step) {
  T sum = T(0);
  for (int component = 0; component < values.components(); component++) {
    const Pointer<T> x = values.at(row, component), x_adj = adjoints.at(row, component);
    for (int k = head * values.head_size + first; k < values.end(head); k += step) sum += T(x[k]) * T(x_adj[k]);
  }
  return sum;
}

}    // namespace equi

#endif

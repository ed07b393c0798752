// SPDX-License-Identifier: MIT
// What SO(2) convolutions do with an edge between their linears beside gates: products of two functions on the sphere,
// and weights of messages. One text for hosts and devices. T: float, double or a Dual of them, of which arrays are
// those of so2_kernels.h.
#ifndef EQUI_SO2_EDGE_STEPS_H
#define EQUI_SO2_EDGE_STEPS_H

#include "kokkos/host_kernels/so2_kernels.h"
#include "src/functions/activation.h"
#include "src/layers/so2_convolution.h"

#include <cmath>
#include <cstdint>

namespace equi {

// The gradient by an edge's direction n, of which the part across n counts, from the torque on its frame, whose rows
// are x, n and z. A change dn turns the frame by (-dn_z, 0, dn_x) in its own components. Where numbers depend on turns
// about the edge, that one counts, too: x is the part across n of the axis of the coordinates that n has least of
// (edge_frame()), and turns by -(n_axis / x_axis) dn_z.
template <class T>
EQUI_FUNCTION void so2_direction_gradient(const T frame[9], const T torque[3], bool depends_on_frame, T gradient[3]) {
  T about_x = torque[0];
  if (depends_on_frame) {
    int axis = 0;    // x has most of it
    for (int k = 1; k < 3; k++)
      if (std::fabs(value_of(frame[k])) > std::fabs(value_of(frame[axis]))) axis = k;
    about_x += frame[3 + axis] / frame[axis] * torque[1];
  }
  for (int k = 0; k < 3; k++) gradient[k] = frame[k] * torque[2] - frame[6 + k] * about_x;
}

// h from z, which has two factors of h's channels one after the other, a row of scalars and one of gates (So2Linear).
// Backward: h is the adjoint, z is read, and its adjoint is added to z_adj.
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

// Channels first .. first + n - 1 of edge e, n <= BLOCK.
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

// Messages from those without weights, and the scores in z. Backward: adjoints of messages are replaced by those of
// messages without weights, that of the scores is written and that of the cutoff function added to.
template <class T>
struct So2AttentionCall {
  So2Shape z_shape, shape;
  int64_t count;
  int heads, channels, head_size;    // head_size: channels of messages
  const int *places;                 // [heads][channels]: of the scores among the numbers of m = 0 of an edge
  const Real<T> *weight, *bias, *vector;
  Real<T> epsilon;
  const T *cutoff;
  const Real<T> *z, *without;
  Real<T> *messages;    // or their adjoints
  Real<T> *z_adj;
  T *cutoff_adj;

  // The last channel of a head, and the end of its channels with padding.
  EQUI_FUNCTION int last(int head) const { return (head + 1) * head_size - 1; }
  EQUI_FUNCTION int end(int head) const { return head + 1 == heads ? shape.channels : (head + 1) * head_size; }
};

// The mean of a head's scores, one over their deviation, and the exponential of their sum.
template <class T>
struct So2Score {
  T mean, inverse, weight;
};

template <class T>
EQUI_FUNCTION So2Score<T> so2_score(const So2AttentionCall<T> &c, int64_t e, int head) {
  using std::exp, std::sqrt;
  const int64_t width = c.z_shape.width(0);
  const Pointer<const T> z = make_pointer<const T>(c.z + e * width, c.count * width);
  const int *const place = c.places + head * c.channels;
  const Real<T> one_over = Real<T>(1) / static_cast<Real<T>>(c.channels);
  T sum = T(0), square = T(0), score = T(0);
  for (int k = 0; k < c.channels; k++) sum += z[place[k]];
  const T mean = one_over * sum;
  for (int k = 0; k < c.channels; k++) square += (z[place[k]] - mean) * (z[place[k]] - mean);
  const T inverse = T(1) / sqrt(one_over * square + T(c.epsilon));
  for (int k = 0; k < c.channels; k++) {
    const T y = c.weight[k] * ((z[place[k]] - mean) * inverse) + T(c.bias[k]);
    score += c.vector[head * c.channels + k] * (Real<T>(0.2) * y + Real<T>(0.8) * activate(Activation::silu, y).value);
  }
  return {mean, inverse, exp(score)};
}

template <class T>
EQUI_FUNCTION void so2_attention(const So2AttentionCall<T> &c, int64_t e, int head) {
  const T weight = so2_score(c, e, head).weight, of_values = c.cutoff[e] * weight;
  for (int l = 0; l <= c.shape.lmax; l++)
    for (int m = -c.shape.largest_m(l); m <= c.shape.largest_m(l); m++) {
      const Pointer<const T> from = so2_component<T>(c.shape, c.count, c.without, e, l, m);
      const Pointer<T> to = so2_component<T>(c.shape, c.count, c.messages, e, l, m);
      for (int k = head * c.head_size; k < c.end(head); k++) put(to, k, of_values * from[k]);
      put(to, c.last(head), weight * from[c.last(head)]);
    }
}

template <class T>
EQUI_FUNCTION void so2_attention_backward(const So2AttentionCall<T> &c, int64_t e) {
  const int64_t width = c.z_shape.width(0);
  const Pointer<const T> z = make_pointer<const T>(c.z + e * width, c.count * width);
  const Pointer<T> z_adj = make_pointer<T>(c.z_adj + e * width, c.count * width);
  const Real<T> one_over = Real<T>(1) / static_cast<Real<T>>(c.channels);
  for (int head = 0; head < c.heads; head++) {
    const So2Score<T> score = so2_score(c, e, head);
    const T of_values = c.cutoff[e] * score.weight;
    T values = T(0), last = T(0);
    for (int l = 0; l <= c.shape.lmax; l++)
      for (int m = -c.shape.largest_m(l); m <= c.shape.largest_m(l); m++) {
        const Pointer<const T> from = so2_component<T>(c.shape, c.count, c.without, e, l, m);
        const Pointer<T> adj = so2_component<T>(c.shape, c.count, c.messages, e, l, m);
        const T of_last = adj[c.last(head)];
        last += of_last * from[c.last(head)];
        for (int k = head * c.head_size; k < c.last(head); k++) values += adj[k] * from[k];
        for (int k = head * c.head_size; k < c.end(head); k++) put(adj, k, of_values * adj[k]);
        put(adj, c.last(head), score.weight * of_last);
      }
    c.cutoff_adj[e] += score.weight * values;
    const T score_adj = of_values * values + score.weight * last;
    // Of the scores before their norm: t, less its mean and its part along the scores.
    const int *const place = c.places + head * c.channels;
    const auto normed = [&](int k) { return (z[place[k]] - score.mean) * score.inverse; };
    const auto normed_adj = [&](int k) {
      const T y = c.weight[k] * normed(k) + T(c.bias[k]);
      const T slope = T(Real<T>(0.2)) + Real<T>(0.8) * activate(Activation::silu, y).derivative;
      return (c.vector[head * c.channels + k] * c.weight[k]) * (score_adj * slope);
    };
    T mean = T(0), along = T(0);
    for (int k = 0; k < c.channels; k++) {
      const T t = normed_adj(k);
      mean += t;
      along += t * normed(k);
    }
    for (int k = 0; k < c.channels; k++)
      put(z_adj, place[k], score.inverse * (normed_adj(k) - one_over * mean - one_over * along * normed(k)));
  }
}

}    // namespace equi

#endif

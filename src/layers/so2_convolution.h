// SPDX-License-Identifier: MIT
// This layer sums messages over an atom's neighbors. They are made in a frame whose second axis is the edge. Rotations
// about the edge couple only components of the same |m|. So maps between features are small matrices for each m, the
// same for all edges (SO(2) convolution).
#ifndef EQUI_SO2_CONVOLUTION_H
#define EQUI_SO2_CONVOLUTION_H

#include "src/functions/radial_function.h"
#include "src/layers/layer.h"

#include <array>
#include <vector>

namespace equi {

// A summand of component m[0] of order l[0] of a product: value * a * b. Here a is component m[1] of order l[1] of one
// factor, and b is component m[2] of order l[2] of the other.
template <class R>
struct So2ProductTerm {
  int l[3], m[3];
  R value;
};

// The product of two functions on the sphere, from their values at points: c = sum over points of from (to a) (to b).
// Components are those of l = 0 .. lmax with |m| up to mmax, l by l. A rotation about the edge rotates factors and
// product.
struct So2Product {
  Matrix to_points, from_points;    // [points, components]; or empty
  std::vector<So2ProductTerm<double>> terms;
  Activation scalars, gates;
};

// An activation of functions on the sphere, from their values at points: y = sum over points of from a(to x), for each
// channel. Components are those of a product. An activation is no polynomial, so a rotation about the edge does not
// exactly rotate y. With scalars, these are activated and replace l = 0 of y.
struct So2PointActivation {
  Matrix to_points, from_points;    // [points, components]; or empty
  Activation at_points;
  bool has_scalars;
  Activation scalars;
};

// A map between features in the frame of an edge, with rows l = m .. lmax for each m: v_0 = u_0 W_0 + bias, v_m = u_m
// W_m - u_-m W'_m and v_-m = u_m W'_m + u_-m W_m. Indices of rows and columns run over l, then over channels.
struct So2Linear {
  int channels_in, channels_out;
  std::vector<std::array<Matrix, 2>> weights;    // for m = 0 .. mmax: W_m and W'_m, which m = 0 lacks
  std::vector<double> bias;                      // bias of v_0, or empty
  // With a gate, v_0 begins with lmax gates for each channel. Then l = 0 is activated, and orders l > 0 are multiplied
  // by the activated gate number l - 1.
  bool has_gate;
  Activation scalar_activation, gate_activation;
  // With a product, the channels are those of both factors, one after the other. v_0 begins with a row of scalars s and
  // s'. A row of gates g and further numbers follow, then rows of the scores of attention. The result is x_l = gates(g)
  // product_l, and scalars(s) s' is added to l = 0.
  So2Product product;
  // With an activation at points, v_0 begins with a row of scalars, if there are any, then rows of the scores.
  So2PointActivation at_points;
  int num_score_rows = 0;

  bool has_product() const { return !product.terms.empty(); }
  bool has_points() const { return !at_points.to_points.data.empty(); }
  // Whether a nonlinear step follows.
  bool has_step() const { return has_gate || has_product() || has_points(); }
  // Rows of numbers at the beginning of v_0: those before the scores, and all that belong to no order.
  int num_rows_before_scores() const { return has_product() ? 2 : has_points() && at_points.has_scalars ? 1 : 0; }
  int num_gates(int lmax) const { return has_gate ? lmax : num_rows_before_scores() + num_score_rows; }
  int channels_after() const { return has_product() ? channels_out / 2 : channels_out; }
};

// Weights of messages. A head has some of the channels of a message, and `channels` scores x. The channels of a head
// are multiplied by f exp(t) / (sum of f exp(t) over the receiver's edges), where f is the cutoff function. Here t =
// sum_k vector_k leaky(weight_k (x_k - mean) / sqrt(variance + epsilon) + bias_k), and leaky(y) = 0.2 y + 0.8 silu(y).
struct So2Attention {
  int heads = 0, channels = 0;                 // none: heads = 0
  std::vector<double> weight, bias, vector;    // [channels], [channels], [heads][channels]
  double epsilon = 0.0;
};

// Input and output have a block for each l = 0 .. lmax. With D the rotation into the frame of an edge, the message is
// f(r) D^T L(R(r) D [x_j, x_i]). The channels of sender and receiver are concatenated, with orders m up to mmax. R are
// the radial factors, L the linears one after another, and f the cutoff function of the radial basis. The factors may
// precede another linear than the first.
struct So2Convolution {
  static constexpr const char *TYPE = "so2_convolution";

  int input, output;
  int lmax, mmax;
  RadialFunction radial;    // columns by |m|, then l, then the channels that the linear `radial_linear` reads
  int radial_linear = 0;    // the linear whose inputs the factors multiply; no step follows a linear before it
  std::vector<So2Linear> linears;
  So2Attention attention;    // attention weights for the output of the last linear; the first one computes the scores

  static const FieldSpecs &fields();
  static So2Convolution read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, output, false, -1, attention.heads > 0}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.reads_senders = t.reads_receivers = t.depends_on_edges = true;
    t.depends_on_orientation = depends_on_frame();
    t.has_costly_edges = t.tangents_need_values = true;
    return t;
  }
  // Whether a rotation of the frame about the edge changes the message by more than rounding.
  bool depends_on_frame() const {
    for (const So2Linear &linear : linears)
      if (linear.has_points()) return true;
    return false;
  }
  void restrict_to(const KeptSpecies &kept) { kept.radial(radial); }
};

}    // namespace equi

#endif

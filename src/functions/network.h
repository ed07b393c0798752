// SPDX-License-Identifier: MIT
// Small dense networks on scalars: the radial network of a convolution and the readout.
#ifndef EQUI_NETWORK_H
#define EQUI_NETWORK_H

#include "src/numbers/dual.h"
#include "src/numbers/matrix.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace equi {

enum class Activation { identity, silu, tanh, sigmoid, relu, abs, ssp, mish, gelu };

// Throws std::invalid_argument with the name and the list of known names.
Activation parse_activation(const std::string &name);
const char *activation_name(Activation a);

// d[k] = k-th derivative at x, k = 0..order (order <= 3). relu and abs use the derivatives of their smooth branches.
void activation_derivatives(Activation a, double x, int order, double *d);

// z -> weight (z - mean) / sqrt(variance + epsilon) + bias over the components of z; no norm if weight is empty.
struct HiddenNorm {
  std::vector<double> weight, bias;
  double epsilon = 0.0;
};

// rows [count][order+1][n]: derivatives of z along one variable become those of its normalized components. order <= 3.
void normalize(const HiddenNorm &norm, int count, int order, int n, double *rows);

// h -> activation_scale * activation(norm(h W + b)) for all matrices but the last. The scales of the file are folded
// in.
struct Network {
  std::vector<Matrix> weights;                // [h_in, h_out]
  std::vector<std::vector<double>> biases;    // per matrix: empty or [h_out]
  std::vector<HiddenNorm> norms;              // empty, or per matrix
  Activation activation = Activation::identity;
  double activation_scale = 1.0;

  int num_inputs() const { return weights.front().rows; }
  int num_outputs() const { return weights.back().cols; }
  bool has_bias(std::size_t k) const { return k < biases.size() && !biases[k].empty(); }    // bias of matrix k

  // Multiplies adjacent matrices that neither an activation nor a norm separates.
  void simplify();

  // Propagates Taylor coefficients along one variable. in [order+1][num_inputs()]: value, first, ... derivative of the
  // inputs; out [order+1][num_outputs()] likewise. order <= 3.
  void derivatives(int order, const double *in, double *out) const;
  // The same for `count` points, with in and out [count][order+1][...]. This is faster than one call per point.
  void derivatives(int count, int order, const double *in, double *out) const;
  // The same for `num` inputs that begin with input `first`, in [count][order+1][num]; the other inputs are zero.
  void derivatives(int count, int order, int first, int num, const double *in, double *out) const;

  // Value of a network with one output and without norms, and its gradient with respect to the inputs (grad may be
  // null). NetworkGradient computes many at a time.
  double value_and_gradient(const double *in, double *grad) const;
};

// A network with one output and without norms, prepared for values and gradients of many rows of inputs.
class NetworkGradient {
 public:
  explicit NetworkGradient(const Network &network);

  int num_inputs() const { return network_.num_inputs(); }
  // T is double or Dual<double>. in, gradients: [count][PLANES<T>][num_inputs()], values: [count][PLANES<T>], scratch:
  // PLANES<T> * scratch_size(count) numbers. gradients may be null. The results of a row do not depend on the other
  // rows.
  template <class T>
  void evaluate(int count, const double *in, double *values, double *gradients, double *scratch) const;
  int64_t scratch_size(int count) const;
  auto members() const { return std::tie(network_.weights, network_.biases, transposed_); }    // owned_memory.h

 private:
  Network network_;
  std::vector<Matrix> transposed_;    // transposed network_.weights
};

}    // namespace equi

#endif

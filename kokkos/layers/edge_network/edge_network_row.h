// SPDX-License-Identifier: MIT
// What a network that reads atoms' features (edge_network.h) does with the numbers of one edge, on hosts and
// devices. Arrays have rows of `width` numbers, one for each edge c.
#ifndef EQUI_EDGE_NETWORK_ROW_H
#define EQUI_EDGE_NETWORK_ROW_H

#include "kokkos/kernel_interface/path_group_kernel.h"
#include "src/functions/activation.h"

#include <cmath>
#include <cstdint>

namespace equi {

// z = weight (z - mean) / sqrt(variance + epsilon) + bias, over the outputs of a hidden layer. Sums are float64
// because float32 cannot hold the squares of all its numbers.
template <class T>
struct NormalizeRow {
  using D = DoubleOf<T>;
  int width;
  const Real<T> *layer_bias;    // added to z first; or null
  const Real<T> *weight, *bias;
  double epsilon;
  Pointer<T> z, normalized, factors;    // normalized: z without weight and bias; factors: 1 / sqrt(..), by edge
  EQUI_FUNCTION void operator()(int64_t c) const {
    using std::sqrt;
    const int64_t first = c * width;
    D total = D(0.0), squares = D(0.0);
    for (int j = 0; j < width; j++) {
      if (layer_bias) put(z, first + j, z[first + j] + T(layer_bias[j]));
      total += static_cast<D>(z[first + j]);
    }
    const D mean = (1.0 / width) * total;
    for (int j = 0; j < width; j++) {
      const D d = static_cast<D>(z[first + j]) - mean;
      squares += d * d;
    }
    const D factor = D(1.0) / sqrt((1.0 / width) * squares + D(epsilon));
    put(factors, c, static_cast<T>(factor));
    for (int j = 0; j < width; j++) {
      const T component = static_cast<T>(factor * (static_cast<D>(z[first + j]) - mean));
      put(normalized, first + j, component);
      put(z, first + j, weight[j] * component + T(bias[j]));
    }
  }
};

// With n = factor (z - mean) and the adjoint a of n: z_adj = factor (a - mean(a) - n mean(a n)). Overwrites the
// adjoint of the result of the above.
template <class T>
struct NormalizeAdjointRow {
  int width;
  const Real<T> *weight;
  Pointer<T> normalized, factors, adjoint;
  EQUI_FUNCTION void operator()(int64_t c) const {
    const int64_t first = c * width;
    T mean = T(0), along = T(0);
    for (int j = 0; j < width; j++) {
      const T a = weight[j] * adjoint[first + j];
      put(adjoint, first + j, a);
      mean += a;
      along += a * normalized[first + j];
    }
    mean = mean / T(width);
    along = along / T(width);
    const T factor = factors[c];
    for (int j = 0; j < width; j++)
      put(adjoint, first + j, factor * (adjoint[first + j] - mean - normalized[first + j] * along));
  }
};

// The weights of a network with a gate (RadialGate). The network gives n values, then n keys; the last n inputs are the
// query. The gate is normalized by NormalizeRow, between product() and set(), and by NormalizeAdjointRow, between
// backward() and product_backward().
template <class T>
struct GatedWeightsRow {
  int n, width, num_inputs;    // width: of a row of weights
  Real<T> gate_scale;
  const int *column;              // [n] of the weights
  const Real<T> *column_scale;    // [n]
  Pointer<T> values_and_keys, gate;
  Pointer<T> inputs;    // of the network, at the query of the first edge
  EQUI_FUNCTION void product(int64_t c, int j) const {
    put(gate, c * n + j, gate_scale * inputs[c * num_inputs + j] * values_and_keys[(2 * c + 1) * n + j]);
  }
  EQUI_FUNCTION void set(int64_t c, int j, Pointer<T> weights) const {
    put(weights, c * width + column[j],
        column_scale[j] * values_and_keys[2 * c * n + j] * sigmoid(T(gate[c * n + j])).value);
  }
  // Replaces the values and the argument of the sigmoid by their adjoints.
  EQUI_FUNCTION void backward(int64_t c, int j, Pointer<const T> weights_adj) const {
    const T of_weight = column_scale[j] * weights_adj[c * width + column[j]], value = values_and_keys[2 * c * n + j];
    const ValueAndDerivative<T> s = sigmoid(T(gate[c * n + j]));
    put(values_and_keys, 2 * c * n + j, of_weight * s.value);
    put(gate, c * n + j, of_weight * value * s.derivative);
  }
  // Replaces the keys by their adjoints, and the adjoint of the products by that of the query.
  EQUI_FUNCTION void product_backward(int64_t c, int j) const {
    const T of_product = gate_scale * gate[c * n + j], key = values_and_keys[(2 * c + 1) * n + j];
    put(values_and_keys, (2 * c + 1) * n + j, of_product * inputs[c * num_inputs + j]);
    put(gate, c * n + j, of_product * key);
  }
  // inputs_adj: adjoints of the network's inputs, at the query of the first edge.
  EQUI_FUNCTION void add_query(int64_t c, int j, Pointer<T> inputs_adj) const {
    put(inputs_adj, c * num_inputs + j, inputs_adj[c * num_inputs + j] + gate[c * n + j]);
  }
};

// The inputs of the last product: the preceding numbers times the cutoff function, and a number for the bias.
template <class T>
struct LastInputsRow {
  int width, last_width;    // last_width: one more than width if there is a bias
  bool with_cutoff;
  Pointer<T> cutoff, h, last;    // cutoff: the function and its derivative
  EQUI_FUNCTION T factor(int64_t c) const { return with_cutoff ? T(cutoff[2 * c]) : T(1); }
  EQUI_FUNCTION void set(int64_t c, int j, T f) const {    // f: factor(c)
    put(last, c * last_width + j, j < width ? f * h[c * width + j] : f);
  }
  // Computes the adjoint of h from that of `last`; returns that of the cutoff function.
  EQUI_FUNCTION T backward(int64_t c, Pointer<T> h_adj) const {
    const T f = factor(c);
    T sum = width < last_width ? T(last[c * last_width + width]) : T(0);
    for (int j = 0; j < width; j++) {
      const T of_last = last[c * last_width + j];
      sum += h[c * width + j] * of_last;
      put(h_adj, c * width + j, f * of_last);
    }
    return sum;
  }
};

// The weights of a network that applies its activation to the outputs, too: activations times constants of their
// columns and the cutoff function.
template <class T>
struct ActivatedWeightsRow {
  int width;
  bool with_cutoff;
  const Real<T> *scale;    // [width]
  Pointer<T> cutoff, h;    // cutoff: the function and its derivative
  EQUI_FUNCTION T factor(int64_t c) const { return with_cutoff ? T(cutoff[2 * c]) : T(1); }
  EQUI_FUNCTION void set(int64_t c, int j, T f, Pointer<T> weights) const {    // f: factor(c)
    put(weights, c * width + j, f * (scale[j] * h[c * width + j]));
  }
  // Computes the adjoint of h from that of the weights; returns that of the cutoff function.
  EQUI_FUNCTION T backward(int64_t c, Pointer<const T> weights_adj, Pointer<T> h_adj) const {
    const T f = factor(c);
    T sum = T(0);
    for (int64_t n = c * width, j = 0; j < width; j++, n++) {
      const T of_column = scale[j] * weights_adj[n];
      sum += h[n] * of_column;
      put(h_adj, n, f * of_column);
    }
    return sum;
  }
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The layer norm of one row, on hosts and devices: y = weight (x - mean) / sqrt(variance + epsilon) + bias over all
// channels of a group of scalars.
#ifndef EQUI_LAYER_NORM_ROW_H
#define EQUI_LAYER_NORM_ROW_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "src/layers/layer_norm.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <vector>

namespace equi {

// The constants of the layer in the memory layout of its feature: weights, biases and 1 per channel, 0 in the padding;
// [3][channels].
inline std::vector<double> layer_norm_constants(const LayerNorm &layer, const FeatureLayout &layout) {
  const int channels = layout.group(0).channels;
  std::vector<double> constants(static_cast<size_t>(3) * channels, 0.0);
  size_t k = 0;
  for (int b = 0; b < layout.num_blocks(); b++)
    for (int u = 0; u < layout.block(b).mul; u++, k++) {
      const int c = layout.block(b).channel + u;
      constants[c] = layer.weight[k];
      constants[channels + c] = layer.bias[k];
      constants[2 * channels + c] = 1.0;
    }
  return constants;
}

// T: float, double or a Dual of them; sums are float64. LANES threads share a row: each has the channels lane, lane +
// LANES, ..., and sum(v) adds up a number over them.
template <class T, int LANES>
struct LayerNormRow {
  using D = DoubleOf<T>;
  const double *weight, *bias, *is_channel;    // [channels]
  int channels, count;                         // with and without padding
  double epsilon;

  // constants: layer_norm_constants(), where the kernel can read them.
  static LayerNormRow from(const double *constants, int channels, int count, double epsilon) {
    return {constants, constants + channels, constants + 2 * channels, channels, count, epsilon};
  }

  struct Moments {
    D mean, factor;    // 1 / sqrt(variance + epsilon)
  };
  template <class Sum>
  EQUI_FUNCTION Moments moments(Pointer<const T> x, int lane, const Sum &sum) const {
    D total = D(0.0), squares = D(0.0);
    for (int c = lane; c < channels; c += LANES) total += is_channel[c] * static_cast<D>(x[c]);
    const D mean = (1.0 / count) * sum(total);
    for (int c = lane; c < channels; c += LANES) {
      const D d = is_channel[c] * (static_cast<D>(x[c]) - mean);
      squares += d * d;
    }
    using std::sqrt;
    return {mean, D(1.0) / sqrt((1.0 / count) * sum(squares) + D(epsilon))};
  }
  template <class Sum>
  EQUI_FUNCTION void forward(Pointer<const T> x, Pointer<T> y, int lane, const Sum &sum) const {
    const Moments m = moments(x, lane, sum);
    for (int c = lane; c < channels; c += LANES)
      put(y, c, static_cast<T>(weight[c] * ((static_cast<D>(x[c]) - m.mean) * m.factor) + D(bias[c])));
  }
  // x is replaced by its adjoint.
  template <class Sum>
  EQUI_FUNCTION void backward(Pointer<T> x, Pointer<const T> y_adj, int lane, const Sum &sum) const {
    const Moments m = moments(x, lane, sum);
    D total = D(0.0), along = D(0.0);
    for (int c = lane; c < channels; c += LANES) {
      const D g = weight[c] * static_cast<D>(y_adj[c]);
      total += g;
      along += g * ((static_cast<D>(x[c]) - m.mean) * m.factor);
    }
    const D mean = (1.0 / count) * sum(total), slope = (1.0 / count) * sum(along);
    for (int c = lane; c < channels; c += LANES) {
      const D normalized = (static_cast<D>(x[c]) - m.mean) * m.factor, g = weight[c] * static_cast<D>(y_adj[c]);
      put(x, c, static_cast<T>(is_channel[c] * ((g - mean - normalized * slope) * m.factor)));
    }
  }
};

}    // namespace equi

#endif

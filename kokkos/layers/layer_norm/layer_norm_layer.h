// SPDX-License-Identifier: MIT
// The layer norm of rows: y = weight (x - mean) / sqrt(variance + epsilon) + bias over all
// channels of a group of scalars.
#ifndef EQUI_LAYER_NORM_LAYER_H
#define EQUI_LAYER_NORM_LAYER_H

#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layer_interface/row_layer.h"
#include "src/layers/layer_norm.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <tuple>
#include <vector>

namespace equi {

// The constants of the layer in the memory layout of its feature, [3][channels]: weights, biases, and 1 for each
// channel; all are 0 in the padding.
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

// T: float, double or a Dual of them; sums are float64. X, Y: T or const T. LANES threads share a row. Each handles
// the channels lane, lane + LANES, ..., and sum(v) adds up a number over the threads.
template <class T, class X, class Y, int LANES>
struct LayerNormRow {
  using D = DoubleOf<T>;
  const double *weight, *bias, *is_channel;    // [channels]
  int channels, count;                         // channels: with padding, count: without
  double epsilon;
  Pointer<X> x;
  Pointer<Y> y;
  int64_t width;    // numbers of a row

  struct Moments {
    D mean, factor;    // 1 / sqrt(variance + epsilon)
  };
  template <class Sum>
  EQUI_FUNCTION Moments moments(Pointer<X> row, int lane, const Sum &sum) const {
    D total = D(0.0), squares = D(0.0);
    for (int c = lane; c < channels; c += LANES) total += is_channel[c] * static_cast<D>(row[c]);
    const D mean = (1.0 / count) * sum(total);
    for (int c = lane; c < channels; c += LANES) {
      const D d = is_channel[c] * (static_cast<D>(row[c]) - mean);
      squares += d * d;
    }
    using std::sqrt;
    return {mean, D(1.0) / sqrt((1.0 / count) * sum(squares) + D(epsilon))};
  }
  template <class Sum>
  EQUI_FUNCTION void forward(int64_t row, int lane, const Sum &sum) const {
    const Pointer<X> from = x + row * width;
    const Pointer<Y> to = y + row * width;
    const Moments m = moments(from, lane, sum);
    for (int c = lane; c < channels; c += LANES)
      put(to, c, static_cast<T>(weight[c] * ((static_cast<D>(from[c]) - m.mean) * m.factor) + D(bias[c])));
  }
  // Replaces x by its adjoint; y holds the adjoint of the output.
  template <class Sum>
  EQUI_FUNCTION void backward(int64_t row, int lane, const Sum &sum) const {
    const Pointer<X> to = x + row * width;
    const Pointer<Y> y_adj = y + row * width;
    const Moments m = moments(to, lane, sum);
    D total = D(0.0), along = D(0.0);
    for (int c = lane; c < channels; c += LANES) {
      const D g = weight[c] * static_cast<D>(y_adj[c]);
      total += g;
      along += g * ((static_cast<D>(to[c]) - m.mean) * m.factor);
    }
    const D mean = (1.0 / count) * sum(total), slope = (1.0 / count) * sum(along);
    for (int c = lane; c < channels; c += LANES) {
      const D normalized = (static_cast<D>(to[c]) - m.mean) * m.factor, g = weight[c] * static_cast<D>(y_adj[c]);
      put(to, c, static_cast<T>(is_channel[c] * ((g - mean - normalized * slope) * m.factor)));
    }
  }
};

template <class Backend>
class LayerNormRows {
  using T = typename Backend::Number;
  using R = Real<T>;
  using Work = typename Backend::Work;

 public:
  LayerNormRows(const typename Backend::Target &target, const LayerNorm &layer, const FeatureLayout &layout)
      : group_(layout.group(0)), num_channels_(static_cast<int>(layer.weight.size())), epsilon_(layer.epsilon) {
    Backend::copy(target, layer_norm_constants(layer, layout), constants_);
  }
  void forward(const Work &work, int64_t count, FeatureRows<const R> x, FeatureRows<R> y, int direction) const {
    Backend::for_rows(work, "equi:layer_norm", count, ForwardPass<Row<const T, T>>{row<const T, T>(x, y, direction)});
  }
  void backward(const Work &work, int64_t count, FeatureRows<R> x, FeatureRows<const R> y_adj, int direction) const {
    Backend::for_rows(work, "equi:layer_norm_adjoint", count,
                      BackwardPass<Row<T, const T>>{row<T, const T>(x, y_adj, direction)});
  }
  auto members() const { return std::tie(constants_); }

 private:
  template <class X, class Y>
  using Row = LayerNormRow<T, X, Y, Backend::LANES>;
  template <class X, class Y, class R1, class R2>
  Row<X, Y> row(FeatureRows<R1> x, FeatureRows<R2> y, int direction) const {
    const int channels = group_.channels;
    const double *constants = constants_.data();
    return {constants,
            constants + channels,
            constants + 2 * channels,
            channels,
            num_channels_,
            epsilon_,
            make_pointer<X>(x.group(group_), group_.tangents(direction)),
            make_pointer<Y>(y.group(group_), group_.tangents(direction)),
            group_.width()};
  }

  FeatureGroup group_;
  int num_channels_;
  double epsilon_;
  typename Backend::template Array<double> constants_;
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const LayerNorm &layer) {
  return make_row_layer<typename Backend::Batch>(
      layer, LayerNormRows<Backend>(context.target(), layer, context.layout(layer.input)));
}

}    // namespace equi

#endif

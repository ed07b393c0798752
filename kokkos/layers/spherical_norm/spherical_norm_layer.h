// SPDX-License-Identifier: MIT
// The spherical norm of rows: y_b = scale_b x_b s + bias with s = 1 / sqrt(sum_b weight_b |x_b|^2 + epsilon), summed
// over the blocks of a group. Its scalars may be centered first.
#ifndef EQUI_SPHERICAL_NORM_LAYER_H
#define EQUI_SPHERICAL_NORM_LAYER_H

#include "kokkos/layers/feature_rows.h"
#include "kokkos/layers/row_layer.h"
#include "src/base/model_limits.h"
#include "src/layers/spherical_norm.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <vector>

namespace equi {

// The layer's numbers for a row, besides scales and biases. Blocks are in the order of their groups.
struct SphericalNormShape {
  int num_blocks, num_groups, mul, channels;    // channels: of a block, with padding
  double epsilon;
  // All numbers are initialized, because kernel arguments are copied whole.
  int group_end[MAX_NORMALIZED_BLOCKS] = {};    // number of the first block of the next group
  int block[MAX_NORMALIZED_BLOCKS] = {};        // its number in the feature
  int dim[MAX_NORMALIZED_BLOCKS] = {};
  double weight[MAX_NORMALIZED_BLOCKS] = {};
  bool center[MAX_NORMALIZED_BLOCKS] = {}, has_bias[MAX_NORMALIZED_BLOCKS] = {};

  SphericalNormShape(const SphericalNorm &layer, const Irreps &irreps)
      : num_blocks(0),
        num_groups(static_cast<int>(layer.groups.size())),
        mul(irreps[0].mul),
        channels(padded(irreps[0].mul)),
        epsilon(layer.epsilon) {
    for (int g = 0; g < num_groups; g++) {
      const NormGroup &group = layer.groups[g];
      for (size_t k = 0; k < group.blocks.size(); k++) {
        const Irrep irrep = irreps[group.blocks[k]].irrep;
        const bool is_scalar = irrep == Irrep{0, 1};
        block[num_blocks] = group.blocks[k];
        dim[num_blocks] = irrep.dim();
        weight[num_blocks] = group.weights[k];
        center[num_blocks] = group.center && is_scalar;
        has_bias[num_blocks++] = !layer.bias.empty() && is_scalar;
      }
      group_end[g] = num_blocks;
    }
  }
  // Scales by block of the shape, then the bias, with zeros in the padding: [blocks + 1][channels].
  std::vector<double> constants(const SphericalNorm &layer) const {
    std::vector<double> numbers(static_cast<size_t>(num_blocks + 1) * channels, 0.0);
    for (int u = 0; u < mul; u++) {
      for (int b = 0; b < num_blocks; b++) numbers[b * channels + u] = layer.scale(block[b], u);
      if (!layer.bias.empty()) numbers[num_blocks * channels + u] = layer.bias[u];
    }
    return numbers;
  }
};

// T: float, double or a Dual of them; sums are float64. X, Y: T or const T. LANES threads share a row. Each handles
// the channels lane, lane + LANES, ..., and sum(v) adds up a number over the threads.
template <class T, class X, class Y, int LANES>
struct SphericalNormRow {
  using D = DoubleOf<T>;
  SphericalNormShape shape;
  const double *constants;    // SphericalNormShape::constants(), in memory that the kernel can read
  // Per block of the shape.
  Pointer<X> x[MAX_NORMALIZED_BLOCKS] = {};
  Pointer<Y> y[MAX_NORMALIZED_BLOCKS] = {};
  int width[MAX_NORMALIZED_BLOCKS] = {};

  // direction: for duals, whose tangents are in plane 1 + direction.
  template <class R1, class R2>
  SphericalNormRow(const SphericalNormShape &shape, const double *constants, const FeatureLayout &layout,
                   FeatureRows<R1> x_rows, FeatureRows<R2> y_rows, int direction)
      : shape(shape), constants(constants) {
    for (int b = 0; b < shape.num_blocks; b++) {
      const FeatureBlock &block = layout.block(shape.block[b]);
      const FeatureGroup &group = layout.group(block.group);
      const int distance = (1 + direction) * group.channels;
      x[b] = make_pointer<X>(x_rows.group(group) + block.channel, distance);
      y[b] = make_pointer<Y>(y_rows.group(group) + block.channel, distance);
      width[b] = group.width();
    }
  }

  // Calls f(number of the component's channel among all of x[b] and y[b], channel) for the components of block b.
  template <class F>
  EQUI_FUNCTION void for_numbers(int b, int64_t row, int lane, int channels, const F &f) const {
    for (int m = 0; m < shape.dim[b]; m++)
      for (int u = lane; u < channels; u += LANES) f(row * width[b] + m * (width[b] / shape.dim[b]) + u, u);
  }
  // The mean that is subtracted from a block.
  template <class Sum>
  EQUI_FUNCTION D center(int b, int64_t row, int lane, const Sum &sum) const {
    if (!shape.center[b]) return D(0.0);
    D total = D(0.0);
    for_numbers(b, row, lane, shape.mul, [&](int64_t k, int) { total += static_cast<D>(x[b][k]); });
    return (1.0 / shape.mul) * sum(total);
  }
  template <class Sum>
  EQUI_FUNCTION D factor(int first, int end, int64_t row, int lane, const D *centers, const Sum &sum) const {
    D squares = D(0.0);
    for (int b = first; b < end; b++) {
      const double weight = shape.weight[b];
      const D center = centers[b];
      for_numbers(b, row, lane, shape.mul, [&](int64_t k, int) {
        const D d = static_cast<D>(x[b][k]) - center;
        squares += weight * (d * d);
      });
    }
    using std::sqrt;
    return D(1.0) / sqrt(sum(squares) + D(shape.epsilon));
  }

  template <class Sum>
  EQUI_FUNCTION void forward(int64_t row, int lane, const Sum &sum) const {
    D centers[MAX_NORMALIZED_BLOCKS];
    const double *bias = constants + shape.num_blocks * shape.channels;
    for (int g = 0, first = 0; g < shape.num_groups; first = shape.group_end[g++]) {
      const int end = shape.group_end[g];
      for (int b = first; b < end; b++) centers[b] = center(b, row, lane, sum);
      const D s = factor(first, end, row, lane, centers, sum);
      for (int b = first; b < end; b++) {
        const double *scale = constants + b * shape.channels;
        for_numbers(b, row, lane, shape.channels, [&](int64_t k, int u) {
          const D normalized = (static_cast<D>(x[b][k]) - centers[b]) * s;
          put(y[b], k, static_cast<T>(scale[u] * normalized + D(shape.has_bias[b] ? bias[u] : 0.0)));
        });
      }
    }
  }
  // Replaces x by its adjoint; y holds the adjoint of the output. With d = x - center and a = scale y_adj the
  // adjoint is
  //   s (a - mean(a)) - s^3 weight (sum of a d over the group) d,
  // where only centered blocks have the mean.
  template <class Sum>
  EQUI_FUNCTION void backward(int64_t row, int lane, const Sum &sum) const {
    D centers[MAX_NORMALIZED_BLOCKS], means[MAX_NORMALIZED_BLOCKS];
    for (int g = 0, first = 0; g < shape.num_groups; first = shape.group_end[g++]) {
      const int end = shape.group_end[g];
      for (int b = first; b < end; b++) centers[b] = center(b, row, lane, sum);
      const D s = factor(first, end, row, lane, centers, sum);
      D along = D(0.0);
      for (int b = first; b < end; b++) {
        const double *scale = constants + b * shape.channels;
        D total = D(0.0);
        for_numbers(b, row, lane, shape.mul, [&](int64_t k, int u) {
          const D a = scale[u] * static_cast<D>(y[b][k]);
          total += a;
          along += a * (static_cast<D>(x[b][k]) - centers[b]);
        });
        means[b] = shape.center[b] ? (1.0 / shape.mul) * sum(total) : D(0.0);
      }
      const D slope = sum(along) * s * s * s;
      for (int b = first; b < end; b++) {
        const double *scale = constants + b * shape.channels, weight = shape.weight[b];
        for_numbers(b, row, lane, shape.channels, [&](int64_t k, int u) {
          const D d = static_cast<D>(x[b][k]) - centers[b], a = scale[u] * static_cast<D>(y[b][k]);
          put(x[b], k, u < shape.mul ? static_cast<T>((a - means[b]) * s - weight * (slope * d)) : T(0));
        });
      }
    }
  }
};

template <class Backend>
class SphericalNormRows {
  using T = typename Backend::Number;
  using R = Real<T>;
  using Work = typename Backend::Work;

 public:
  // irreps, layout: those of the input.
  SphericalNormRows(const typename Backend::Target &target, const SphericalNorm &layer, const Irreps &irreps,
                    const FeatureLayout &layout)
      : shape_(layer, irreps), layout_(layout) {
    Backend::copy(target, shape_.constants(layer), constants_);
  }
  void forward(const Work &work, int64_t count, FeatureRows<const R> x, FeatureRows<R> y, int direction) const {
    using Row = SphericalNormRow<T, const T, T, Backend::LANES>;
    Backend::for_rows(work, "equi:spherical_norm", count,
                      ForwardPass<Row>{Row(shape_, constants_.data(), layout_, x, y, direction)});
  }
  void backward(const Work &work, int64_t count, FeatureRows<R> x, FeatureRows<const R> y_adj, int direction) const {
    using Row = SphericalNormRow<T, T, const T, Backend::LANES>;
    Backend::for_rows(work, "equi:spherical_norm_adjoint", count,
                      BackwardPass<Row>{Row(shape_, constants_.data(), layout_, x, y_adj, direction)});
  }
  std::size_t bytes() const { return constants_.bytes(); }

 private:
  SphericalNormShape shape_;
  FeatureLayout layout_;
  typename Backend::template Array<double> constants_;
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const SphericalNorm &layer) {
  return make_row_layer<typename Backend::Batch>(
      layer, SphericalNormRows<Backend>(context.target(), layer, context.model.features[layer.input],
                                        context.layout(layer.input)));
}

}    // namespace equi

#endif

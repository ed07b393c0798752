// SPDX-License-Identifier: MIT
// The spherical norm of rows: y_b[u] = scale_b[u] x_b[u] s + bias[u] with s = 1 / sqrt(sum weight_b[u] |x_b[u]|^2 +
// epsilon), summed over the channels u of the blocks b of a group. Its scalars may be centered first.
#ifndef EQUI_SPHERICAL_NORM_LAYER_H
#define EQUI_SPHERICAL_NORM_LAYER_H

#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layer_interface/row_layer.h"
#include "src/base/model_limits.h"
#include "src/layers/spherical_norm.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <tuple>
#include <vector>

namespace equi {

// The layer's numbers for a row, besides scales, weights and biases. Blocks are in the order of their groups.
struct SphericalNormShape {
  int num_blocks, num_groups;
  double epsilon;
  // All numbers are initialized, because kernel arguments are copied whole.
  int group_end[MAX_NORMALIZED_BLOCKS] = {};    // number of the first block of the next group
  int block[MAX_NORMALIZED_BLOCKS] = {};        // its number in the feature
  int dim[MAX_NORMALIZED_BLOCKS] = {};
  int mul[MAX_NORMALIZED_BLOCKS] = {}, channels[MAX_NORMALIZED_BLOCKS] = {};    // channels: with padding
  int first_constant[MAX_NORMALIZED_BLOCKS] = {};                               // in constants()
  bool center[MAX_NORMALIZED_BLOCKS] = {};

  SphericalNormShape(const SphericalNorm &layer, const Irreps &irreps)
      : num_blocks(0), num_groups(static_cast<int>(layer.groups.size())), epsilon(layer.epsilon) {
    int num_constants = 0;
    for (int g = 0; g < num_groups; g++) {
      const NormGroup &group = layer.groups[g];
      for (size_t k = 0; k < group.blocks.size(); k++) {
        const IrrepBlock &in = irreps[group.blocks[k]];
        const int b = num_blocks++;
        block[b] = group.blocks[k];
        dim[b] = in.irrep.dim();
        mul[b] = in.mul;
        channels[b] = padded(in.mul);
        first_constant[b] = num_constants;
        num_constants += ROWS * channels[b];
        center[b] = group.center && in.irrep == Irrep{0, 1};
      }
      group_end[g] = num_blocks;
    }
  }
  // For each block of the shape its scales, weights and biases: [ROWS][channels], with zeros in the padding and where a
  // block has no bias.
  static constexpr int ROWS = 3;
  std::vector<double> constants(const SphericalNorm &layer, const Irreps &irreps) const {
    std::vector<double> numbers;
    const auto append = [&](const std::vector<double> &row, int b) {
      numbers.insert(numbers.end(), row.begin(), row.end());
      numbers.resize(numbers.size() + channels[b] - row.size(), 0.0);
    };
    int b = 0;
    for (const NormGroup &group : layer.groups)
      for (size_t k = 0; k < group.blocks.size(); k++, b++) {
        append(layer.scale[block[b]], b);
        append(group.weights[k], b);
        append(irreps[block[b]].irrep == Irrep{0, 1} ? layer.bias : std::vector<double>(), b);
      }
    return numbers;
  }
  // Rows of the constants of a block.
  EQUI_FUNCTION const double *scales(const double *constants, int b) const { return constants + first_constant[b]; }
  EQUI_FUNCTION const double *weights(const double *constants, int b) const {
    return scales(constants, b) + channels[b];
  }
  EQUI_FUNCTION const double *biases(const double *constants, int b) const {
    return scales(constants, b) + 2 * channels[b];
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
    for_numbers(b, row, lane, shape.mul[b], [&](int64_t k, int) { total += static_cast<D>(x[b][k]); });
    return (1.0 / shape.mul[b]) * sum(total);
  }
  template <class Sum>
  EQUI_FUNCTION D factor(int first, int end, int64_t row, int lane, const D *centers, const Sum &sum) const {
    D squares = D(0.0);
    for (int b = first; b < end; b++) {
      const double *weight = shape.weights(constants, b);
      const D center = centers[b];
      for_numbers(b, row, lane, shape.mul[b], [&](int64_t k, int u) {
        const D d = static_cast<D>(x[b][k]) - center;
        squares += weight[u] * (d * d);
      });
    }
    using std::sqrt;
    return D(1.0) / sqrt(sum(squares) + D(shape.epsilon));
  }

  template <class Sum>
  EQUI_FUNCTION void forward(int64_t row, int lane, const Sum &sum) const {
    D centers[MAX_NORMALIZED_BLOCKS];
    for (int g = 0, first = 0; g < shape.num_groups; first = shape.group_end[g++]) {
      const int end = shape.group_end[g];
      for (int b = first; b < end; b++) centers[b] = center(b, row, lane, sum);
      const D s = factor(first, end, row, lane, centers, sum);
      for (int b = first; b < end; b++) {
        const double *scale = shape.scales(constants, b), *bias = shape.biases(constants, b);
        for_numbers(b, row, lane, shape.channels[b], [&](int64_t k, int u) {
          const D normalized = (static_cast<D>(x[b][k]) - centers[b]) * s;
          put(y[b], k, static_cast<T>(scale[u] * normalized + D(bias[u])));
        });
      }
    }
  }
  // Replaces x by its adjoint; y holds the adjoint of the output. With d = x - center and a = scale y_adj the
  // adjoint is
  //   s (a - mean(a)) - s^3 (weight d - mean(weight d)) (sum of a d over the group),
  // where only centered blocks have means.
  template <class Sum>
  EQUI_FUNCTION void backward(int64_t row, int lane, const Sum &sum) const {
    // mean(a) and mean(weight d).
    D centers[MAX_NORMALIZED_BLOCKS], means[MAX_NORMALIZED_BLOCKS], drifts[MAX_NORMALIZED_BLOCKS];
    for (int g = 0, first = 0; g < shape.num_groups; first = shape.group_end[g++]) {
      const int end = shape.group_end[g];
      for (int b = first; b < end; b++) centers[b] = center(b, row, lane, sum);
      const D s = factor(first, end, row, lane, centers, sum);
      D along = D(0.0);
      for (int b = first; b < end; b++) {
        const double *scale = shape.scales(constants, b), *weight = shape.weights(constants, b);
        D total = D(0.0), drift = D(0.0);
        for_numbers(b, row, lane, shape.mul[b], [&](int64_t k, int u) {
          const D a = scale[u] * static_cast<D>(y[b][k]);
          const D d = static_cast<D>(x[b][k]) - centers[b];
          total += a;
          along += a * d;
          drift += weight[u] * d;
        });
        means[b] = shape.center[b] ? (1.0 / shape.mul[b]) * sum(total) : D(0.0);
        drifts[b] = shape.center[b] ? (1.0 / shape.mul[b]) * sum(drift) : D(0.0);
      }
      const D slope = sum(along) * s * s * s;
      for (int b = first; b < end; b++) {
        const double *scale = shape.scales(constants, b), *weight = shape.weights(constants, b);
        for_numbers(b, row, lane, shape.channels[b], [&](int64_t k, int u) {
          const D d = static_cast<D>(x[b][k]) - centers[b], a = scale[u] * static_cast<D>(y[b][k]);
          const D x_adj = (a - means[b]) * s - slope * (weight[u] * d - drifts[b]);
          put(x[b], k, u < shape.mul[b] ? static_cast<T>(x_adj) : T(0));
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
    Backend::copy(target, shape_.constants(layer, irreps), constants_);
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
  auto members() const { return std::tie(constants_); }

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

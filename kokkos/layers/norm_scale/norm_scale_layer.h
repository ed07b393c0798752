// SPDX-License-Identifier: MIT
// The scale of channels by their norms: y[u] = x[u] / (offset + factor |x[u]|^2).
#ifndef EQUI_NORM_SCALE_LAYER_H
#define EQUI_NORM_SCALE_LAYER_H

#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layer_interface/row_layer.h"
#include "src/base/model_limits.h"
#include "src/layers/norm_scale.h"
#include "src/numbers/dual.h"

#include <cstdint>
#include <tuple>

namespace equi {

// T: float, double or a Dual of them. X, Y: T or const T. The two features have equal irreps. They have no planes of
// tangents, except one for duals.
template <class T, class X, class Y>
struct NormScaleRow {
  // Null for missing blocks.
  Pointer<X> x[MAX_NORMALIZED_BLOCKS] = {};
  Pointer<Y> y[MAX_NORMALIZED_BLOCKS] = {};
  int width[MAX_NORMALIZED_BLOCKS] = {}, dim[MAX_NORMALIZED_BLOCKS] = {};
  // 64 bits wide, because padding would follow two numbers of 32 bits. Old content of padding may look like an
  // address.
  int64_t num_blocks;
  Real<T> offset, factor;

  // direction: for duals, whose tangents are in plane 1 + direction.
  template <class R1, class R2>
  NormScaleRow(const FeatureLayout &layout, double offset, double factor, FeatureRows<R1> x_rows,
               FeatureRows<R2> y_rows, int direction)
      : num_blocks(layout.num_blocks()), offset(static_cast<Real<T>>(offset)), factor(static_cast<Real<T>>(factor)) {
    for (int b = 0; b < num_blocks; b++) {
      const FeatureGroup &group = layout.group(layout.block(b).group);
      const int channel = layout.block(b).channel, distance = (1 + direction) * group.channels;
      x[b] = make_pointer<X>(x_rows.group(group) + channel, distance);
      y[b] = make_pointer<Y>(y_rows.group(group) + channel, distance);
      width[b] = group.width();
      dim[b] = group.irrep.dim();
    }
  }

  // Calls f(pointer to channel u of x, the same of y) for all components.
  template <class F>
  EQUI_FUNCTION void for_components(int64_t row, int u, const F &f) const {
    for (int b = 0; b < num_blocks; b++)
      for (int m = 0; m < dim[b]; m++) {
        const int64_t at = row * width[b] + m * (width[b] / dim[b]) + u;
        f(x[b] + at, y[b] + at);
      }
  }

  // Computes LANES channels, starting at u.
  template <int LANES>
  EQUI_FUNCTION void forward(int64_t row, int u) const {
    T scale[LANES];
    for (int k = 0; k < LANES; k++) scale[k] = T(0);
    for_components(row, u, [&](Pointer<X> from, Pointer<Y>) {
      for (int k = 0; k < LANES; k++) scale[k] += from[k] * from[k];
    });
    for (int k = 0; k < LANES; k++) scale[k] = T(1) / (T(offset) + factor * scale[k]);
    for_components(row, u, [&](Pointer<X> from, Pointer<Y> to) {
      for (int k = 0; k < LANES; k++) put(to, k, from[k] * scale[k]);
    });
  }
  // Replaces x by its adjoint; y holds the adjoint of the output.
  template <int LANES>
  EQUI_FUNCTION void backward(int64_t row, int u) const {
    T scale[LANES], slope[LANES];
    for (int k = 0; k < LANES; k++) scale[k] = slope[k] = T(0);
    for_components(row, u, [&](Pointer<X> to, Pointer<Y> from) {
      for (int k = 0; k < LANES; k++) {
        scale[k] += to[k] * to[k];
        slope[k] += to[k] * from[k];
      }
    });
    for (int k = 0; k < LANES; k++) {
      scale[k] = T(1) / (T(offset) + factor * scale[k]);
      // Each factor of a product with scale^2 gets one scale: float32 could hold the square of few scales.
      slope[k] = Real<T>(-2) * factor * (slope[k] * scale[k]);
    }
    for_components(row, u, [&](Pointer<X> to, Pointer<Y> from) {
      for (int k = 0; k < LANES; k++) put(to, k, scale[k] * (from[k] + slope[k] * to[k]));
    });
  }
};

template <class Backend>
class NormScaleRows {
  using T = typename Backend::Number;
  using R = Real<T>;
  using Work = typename Backend::Work;

 public:
  NormScaleRows(const NormScale &layer, const FeatureLayout &layout)
      : layout_(layout), offset_(layer.offset), factor_(layer.factor) {}
  void forward(const Work &work, int64_t count, FeatureRows<const R> x, FeatureRows<R> y, int direction) const {
    using Row = NormScaleRow<T, const T, T>;
    Backend::for_channels(work, "equi:norm_scale", count, padded(layout_.block(0).mul),
                          ForwardPass<Row>{Row(layout_, offset_, factor_, x, y, direction)});
  }
  void backward(const Work &work, int64_t count, FeatureRows<R> x, FeatureRows<const R> y_adj, int direction) const {
    using Row = NormScaleRow<T, T, const T>;
    Backend::for_channels(work, "equi:norm_scale_adjoint", count, padded(layout_.block(0).mul),
                          BackwardPass<Row>{Row(layout_, offset_, factor_, x, y_adj, direction)});
  }
  auto members() const { return std::tie(); }

 private:
  FeatureLayout layout_;
  double offset_, factor_;
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const NormScale &layer) {
  return make_row_layer<typename Backend::Batch>(layer, NormScaleRows<Backend>(layer, context.layout(layer.input)));
}

}    // namespace equi

#endif

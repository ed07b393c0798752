// SPDX-License-Identifier: MIT
// The layer norm on the host.
#ifndef EQUI_HOST_LAYER_NORM_LAYER_H
#define EQUI_HOST_LAYER_NORM_LAYER_H

#include "kokkos/layers/host_batch.h"
#include "kokkos/layers/layer_norm/layer_norm_row.h"
#include "kokkos/layers/layer_op.h"

#include <vector>

namespace equi {

template <class T, class G>
class HostLayerNormLayer : public LayerOp<HostBatch<T, G>> {
  using R = Real<T>;
  using Batch = HostBatch<T, G>;

 public:
  HostLayerNormLayer(const LayerNorm &layer, const FeatureLayout &layout)
      : layer_(layer), group_(layout.group(0)), constants_(layer_norm_constants(layer, layout)) {}
  void forward(Batch &batch) override {
    for (int d = 0; d < batch.step.num_directions(); d++)
      for (int a = 0; a < batch.count; a++)
        row().forward(at<const T>(batch.rows(layer_.input), a, d), at<T>(batch.rows(layer_.output), a, d), 0, alone);
  }
  void backward(Batch &batch) override {
    batch.replace_by_adjoint(layer_.input, [&](FeatureRows<R> x, int d) {
      for (int a = 0; a < batch.count; a++)
        row().backward(at<T>(x, a, d), at<const T>(batch.rows(layer_.output, true), a, d), 0, alone);
    });
  }
  std::size_t bytes() const override { return constants_.size() * sizeof(double); }

 private:
  static DoubleOf<T> alone(DoubleOf<T> sum) { return sum; }
  LayerNormRow<T, 1> row() const {
    return LayerNormRow<T, 1>::from(constants_.data(), group_.channels, static_cast<int>(layer_.weight.size()),
                                    layer_.epsilon);
  }
  template <class N, class Rows>
  Pointer<N> at(const Rows &rows, int64_t row, int direction) const {
    return make_pointer<N>(rows.group(group_) + row * group_.width(), (1 + direction) * group_.channels);
  }

  LayerNorm layer_;
  FeatureGroup group_;
  std::vector<double> constants_;
};

}    // namespace equi

#endif

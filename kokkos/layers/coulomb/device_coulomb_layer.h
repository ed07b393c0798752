// SPDX-License-Identifier: MIT
// The Coulomb energy of charges (src/layers/coulomb.h) on a device.
#ifndef EQUI_DEVICE_COULOMB_LAYER_H
#define EQUI_DEVICE_COULOMB_LAYER_H

#include "kokkos/layers/coulomb/device_coulomb.h"
#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/layer_op.h"

namespace equi {

template <class T, class G>
class DeviceCoulombLayer : public LayerOp<DeviceBatch<T, G>> {
  using Batch = DeviceBatch<T, G>;
  using R = Real<T>;

 public:
  DeviceCoulombLayer(const DeviceContext &context, const Coulomb &layer)
      : input_(layer.input), op_(context.exec, layer, context.layout(layer.input), context.pair_scale) {}
  // Adds energies, and their derivatives by the distances, which need no cotangent.
  void forward(Batch &batch) override {
    op_.forward(batch.step.exec, batch.first, batch.count, *batch.step.far_edges, all_rows(batch),
                batch.step.energy_of(0) + batch.first);
  }
  // The adjoint is that of an exchanged input, which is added to (DeviceBatch::adds).
  void backward(Batch &batch) override {
    op_.backward(batch.step.exec, batch.first, batch.count, *batch.step.far_edges, all_rows(batch),
                 batch.rows(input_, true));
  }
  std::size_t bytes() const override { return op_.bytes(); }

 private:
  FeatureRows<const R> all_rows(const Batch &batch) const {
    return {batch.step.features.data(input_), batch.step.num_rows, 0};
  }

  int input_;
  DeviceCoulomb<T> op_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The Coulomb energy of charges (src/layers/coulomb.h) on a device.
#ifndef EQUI_DEVICE_COULOMB_LAYER_H
#define EQUI_DEVICE_COULOMB_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/coulomb/device_coulomb.h"
#include "kokkos/layers/device_batch.h"

namespace equi {

template <class T, class G>
class DeviceCoulombLayer : public BatchLayer<DeviceBatch<T, G>> {
  using Batch = DeviceBatch<T, G>;
  using R = Real<T>;

 public:
  DeviceCoulombLayer(const DeviceContext &context, const Coulomb &layer)
      : input_(layer.input), coulomb_(context.exec, layer, context.layout(layer.input), context.pair_scale) {}
  // Adds energies and their derivatives with respect to the distances, which need no cotangent.
  void forward(Batch &batch) override {
    coulomb_.forward(batch.evaluation.exec, batch.first, batch.count, *batch.evaluation.far_edges, all_rows(batch),
                     batch.evaluation.energy_of(0) + batch.first);
  }
  // The adjoint belongs to an exchanged input, so it is added (DeviceBatch::adds).
  void backward(Batch &batch) override {
    coulomb_.backward(batch.evaluation.exec, batch.first, batch.count, *batch.evaluation.far_edges, all_rows(batch),
                      batch.rows(input_, true));
  }
  std::size_t bytes() const override { return coulomb_.bytes(); }

 private:
  FeatureRows<const R> all_rows(const Batch &batch) const {
    return {batch.evaluation.features.data(input_), batch.evaluation.num_rows, 0};
  }

  int input_;
  DeviceCoulomb<T> coulomb_;
};

}    // namespace equi

#endif

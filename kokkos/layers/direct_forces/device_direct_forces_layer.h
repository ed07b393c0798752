// SPDX-License-Identifier: MIT
// Direct forces on a device.
#ifndef EQUI_DEVICE_DIRECT_FORCES_LAYER_H
#define EQUI_DEVICE_DIRECT_FORCES_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/direct_forces/device_direct_forces.h"

namespace equi {

template <class T, class G>
class DeviceDirectForcesLayer : public BatchLayer<DeviceBatch<T, G>> {
 public:
  DeviceDirectForcesLayer(const DeviceContext &context, const DirectForces &layer)
      : input_(layer.input),
        block_(context.layout(input_).block(layer.block)),
        group_(context.layout(input_).group(block_.group)),
        scale_(layer.scale) {}

  void forward(DeviceBatch<T, G> &batch) override {
    if (batch.evaluation.direct_forces)
      write_vectors<Real<T>>(batch.evaluation.exec, batch.count, batch.rows(input_), group_, block_.channel, scale_,
                             batch.evaluation.direct_forces + 3 * static_cast<int64_t>(batch.first));
  }

 private:
  int input_;
  FeatureBlock block_;
  FeatureGroup group_;
  double scale_;
};

}    // namespace equi

#endif

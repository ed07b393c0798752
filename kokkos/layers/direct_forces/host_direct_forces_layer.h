// SPDX-License-Identifier: MIT
// Direct forces on the host.
#ifndef EQUI_HOST_DIRECT_FORCES_LAYER_H
#define EQUI_HOST_DIRECT_FORCES_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/host_batch.h"

namespace equi {

template <class T, class G>
class HostDirectForcesLayer : public BatchLayer<HostBatch<T, G>> {
 public:
  HostDirectForcesLayer(const HostContext &context, const DirectForces &layer)
      : input_(layer.input),
        block_(context.layout(input_).block(layer.block)),
        group_(context.layout(input_).group(block_.group)),
        scale_(layer.scale) {}

  void forward(HostBatch<T, G> &batch) override {
    if (!batch.evaluation.direct_forces) return;
    const Real<T> *x = batch.rows(input_).group(group_) + block_.channel;
    for (int64_t a = 0; a < batch.count; a++)
      for (int k = 0; k < 3; k++)    // in the order x, y, z
        batch.evaluation.direct_forces[batch.first + a][k] =
            scale_ * static_cast<double>(x[a * group_.width() + k * group_.stride()]);
  }

 private:
  int input_;
  FeatureBlock block_;
  FeatureGroup group_;
  double scale_;
};

}    // namespace equi

#endif

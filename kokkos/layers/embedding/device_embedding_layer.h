// SPDX-License-Identifier: MIT
// The species embedding on a device.
#ifndef EQUI_DEVICE_EMBEDDING_LAYER_H
#define EQUI_DEVICE_EMBEDDING_LAYER_H

#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/layer_op.h"

#include <vector>

namespace equi {

template <class T, class G>
class DeviceEmbeddingLayer : public LayerOp<DeviceBatch<T, G>> {
  using R = Real<T>;

 public:
  DeviceEmbeddingLayer(const DeviceContext &context, const SpeciesEmbedding &layer) : output_(layer.output) {
    const FeatureGroup &group = context.layout(output_).group(0);
    std::vector<R> rows(static_cast<size_t>(layer.weight.rows) * group.width(), R(0));
    for (int s = 0; s < layer.weight.rows; s++)
      for (int u = 0; u < layer.weight.cols; u++)
        rows[static_cast<size_t>(s) * group.width() + u] = static_cast<R>(layer.weight(s, u));
    assign(context.exec, of_species_, rows);
  }
  void forward(DeviceBatch<T, G> &batch) override {
    if (batch.step.tangents_alone())
      return zero_planes(batch.step.exec, batch.count, batch.layout(output_), batch.step.planes, batch.rows(output_));
    copy_species_rows<R>(batch.step.exec, batch.count, batch.layout(output_),
                         {of_species_.data(), batch.step.num_species, 0}, batch.species, batch.rows(output_), false);
  }
  std::size_t bytes() const override { return of_species_.bytes(); }

 private:
  int output_;
  DeviceBuffer<R> of_species_;
};

}    // namespace equi

#endif

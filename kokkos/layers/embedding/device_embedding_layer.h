// SPDX-License-Identifier: MIT
// The species embedding on a device.
#ifndef EQUI_DEVICE_EMBEDDING_LAYER_H
#define EQUI_DEVICE_EMBEDDING_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/device_batch.h"

#include <vector>

namespace equi {

template <class T, class G>
class DeviceEmbeddingLayer : public BatchLayer<DeviceBatch<T, G>> {
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
    if (batch.evaluation.tangents_alone())
      return zero_planes(batch.evaluation.exec, batch.count, batch.layout(output_), batch.evaluation.planes,
                         batch.rows(output_));
    copy_species_rows<R>(batch.evaluation.exec, batch.count, batch.layout(output_),
                         {of_species_.data(), batch.evaluation.num_species, 0}, batch.species, batch.rows(output_),
                         false);
  }
  std::size_t bytes() const override { return of_species_.bytes(); }

 private:
  int output_;
  DeviceBuffer<R> of_species_;
};

}    // namespace equi

#endif

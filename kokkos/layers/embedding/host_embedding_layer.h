// SPDX-License-Identifier: MIT
// The species embedding on the host.
#ifndef EQUI_HOST_EMBEDDING_LAYER_H
#define EQUI_HOST_EMBEDDING_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/host_batch.h"

namespace equi {

template <class T, class G>
class HostEmbeddingLayer : public BatchLayer<HostBatch<T, G>> {
 public:
  HostEmbeddingLayer(const HostContext &, const SpeciesEmbedding &layer) : layer_(layer) {}
  void forward(HostBatch<T, G> &batch) override {
    const FeatureRows<Real<T>> x = batch.rows(layer_.output);
    const FeatureGroup &group = batch.layout(layer_.output).group(0);
    set_to_zero(x, group, batch.count, batch.evaluation.planes);
    if (batch.evaluation.tangents_alone()) return;
    for (int a = 0; a < batch.count; a++)
      for (int u = 0; u < layer_.weight.cols; u++)
        x.group(group)[static_cast<int64_t>(a) * group.width() + u] =
            static_cast<Real<T>>(layer_.weight(batch.species[a], u));
  }

 private:
  SpeciesEmbedding layer_;
};

}    // namespace equi

#endif

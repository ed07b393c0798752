// SPDX-License-Identifier: MIT
// Pair repulsion (pair_repulsion.h) on a device.
#ifndef EQUI_DEVICE_REPULSION_LAYER_H
#define EQUI_DEVICE_REPULSION_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/repulsion/device_repulsion.h"

namespace equi {

template <class T, class G>
class DeviceRepulsionLayer : public BatchLayer<DeviceBatch<T, G>> {
  using Batch = DeviceBatch<T, G>;

 public:
  DeviceRepulsionLayer(const DeviceContext &context, const PairRepulsion &layer) : repulsion_(context.exec, layer) {
    assign(context.exec, scale_, context.pair_scale);
  }
  // Adds energies and their derivatives with respect to the distances, which need no cotangent.
  void forward(Batch &batch) override {
    auto &edges = batch.evaluation.edges;
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      repulsion_.add(batch.evaluation.exec, batch.count, edges.begin() + batch.first, edges.distance(d), edges.pair(),
                     batch.evaluation.num_species, scale_.data(), batch.evaluation.energy_of(d) + batch.first,
                     edges.adjoint(d), edges.num_y());
  }
  std::size_t bytes() const override { return repulsion_.bytes() + scale_.bytes(); }

 private:
  DeviceRepulsion repulsion_;
  DeviceBuffer<double> scale_;    // per species of the receiver
};

}    // namespace equi

#endif

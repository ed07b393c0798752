// SPDX-License-Identifier: MIT
// The grid network on the host.
#ifndef EQUI_HOST_GRID_NETWORK_LAYER_H
#define EQUI_HOST_GRID_NETWORK_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/grid_network/host_grid_network.h"
#include "kokkos/layers/host_batch.h"

#include <string>

namespace equi {

template <class T, class G>
class HostGridNetworkLayer : public BatchLayer<HostBatch<T, G>> {
  using R = Real<T>;

 public:
  HostGridNetworkLayer(const HostContext &context, const GridNetwork &layer)
      : input_(layer.input),
        output_(layer.output),
        description_(describe_grid_network(layer)),
        network_(layer, context.layout(layer.input), context.layout(layer.output), context.set) {}
  void forward(HostBatch<T, G> &batch) override {
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      network_.forward(batch.evaluation.kernels, batch.count, batch.rows(input_), batch.rows(output_), scratch(batch),
                       d);
  }
  void backward(HostBatch<T, G> &batch) override {
    batch.replace_by_adjoint(input_, [&](FeatureRows<R> x, int direction) {
      network_.backward(batch.evaluation.kernels, batch.count, x, batch.rows(output_, true), scratch(batch), direction);
    });
  }
  std::size_t bytes() const override { return network_.bytes(); }
  std::string describe() const override { return description_; }

 private:
  R *scratch(HostBatch<T, G> &batch) const { return batch.scratch.linear.reserve(network_.scratch_size(batch.count)); }

  int input_, output_;
  std::string description_;
  HostGridNetwork<T> network_;
};

}    // namespace equi

#endif

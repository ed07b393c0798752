// SPDX-License-Identifier: MIT
// The grid network.
#ifndef EQUI_GRID_NETWORK_LAYER_H
#define EQUI_GRID_NETWORK_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layers/grid_network/device_grid_network.h"
#include "kokkos/layers/grid_network/host_grid_network.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace equi {

template <class Backend>
class GridNetworkLayer : public BatchLayer<typename Backend::Batch> {
  using T = typename Backend::Number;
  using Batch = typename Backend::Batch;
  using R = typename Batch::R;

 public:
  GridNetworkLayer(const typename Backend::Context &context, const GridNetwork &layer)
      : input_(layer.input),
        output_(layer.output),
        description_(describe_grid_network(layer)),
        network_(context.target(), GridNetworkConstants(layer, context.layout(input_), context.layout(output_))) {}
  void forward(Batch &batch) override {
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      network_.forward(batch.evaluation.work(), batch.count, batch.rows(input_), batch.rows(output_), scratch(batch),
                       d);
  }
  void backward(Batch &batch) override {
    batch.replace_by_adjoint(input_, [&](FeatureRows<R> x, int direction) {
      network_.backward(batch.evaluation.work(), batch.count, x, batch.rows(output_, true), scratch(batch), direction);
    });
  }
  int64_t scratch_size(int64_t count) const override { return network_.scratch_size(count); }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, network_); }
  std::string describe() const override { return description_; }

 private:
  R *scratch(Batch &batch) const { return batch.layer_scratch(network_.scratch_size(batch.count)); }

  int input_, output_;
  std::string description_;
  typename Backend::template Choose<HostGridNetwork<T>, DeviceGridNetwork<T>> network_;
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const GridNetwork &layer) {
  return std::make_unique<GridNetworkLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif

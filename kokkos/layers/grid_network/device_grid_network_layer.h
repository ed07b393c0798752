// SPDX-License-Identifier: MIT
// The grid network on a device.
#ifndef EQUI_DEVICE_GRID_NETWORK_LAYER_H
#define EQUI_DEVICE_GRID_NETWORK_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/grid_network/device_grid_network.h"

#include <string>

namespace equi {

template <class T, class G>
class DeviceGridNetworkLayer : public BatchLayer<DeviceBatch<T, G>> {
  using Batch = DeviceBatch<T, G>;
  using R = Real<T>;

 public:
  DeviceGridNetworkLayer(const DeviceContext &context, const GridNetwork &layer)
      : input_(layer.input),
        output_(layer.output),
        description_(describe_grid_network(layer)),
        network_(context.exec, layer, context.layout(layer.input), context.layout(layer.output)) {}
  void forward(Batch &batch) override {
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      network_.forward(batch.evaluation.exec, batch.count, batch.rows(input_), batch.rows(output_), scratch(batch), d);
  }
  void backward(Batch &batch) override {
    batch.replace_by_adjoint(input_, [&](FeatureRows<R> x, int direction) {
      network_.backward(batch.evaluation.exec, batch.count, x, batch.rows(output_, true), scratch(batch), direction);
    });
  }
  int64_t scratch_size(int64_t count) const override { return network_.scratch_size(count); }
  std::size_t bytes() const override { return network_.bytes(); }
  std::string describe() const override { return description_; }

 private:
  R *scratch(Batch &batch) const { return batch.evaluation.layer_scratch.reserve(network_.scratch_size(batch.count)); }

  int input_, output_;
  std::string description_;
  DeviceGridNetwork<T> network_;
};

}    // namespace equi

#endif

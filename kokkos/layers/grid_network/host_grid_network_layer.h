// SPDX-License-Identifier: MIT
// The grid network on the host.
#ifndef EQUI_HOST_GRID_NETWORK_LAYER_H
#define EQUI_HOST_GRID_NETWORK_LAYER_H

#include "kokkos/layers/grid_network/grid_network_op.h"
#include "kokkos/layers/host_batch.h"
#include "kokkos/layers/layer_op.h"

#include <string>

namespace equi {

template <class T, class G>
class HostGridNetworkLayer : public LayerOp<HostBatch<T, G>> {
  using R = Real<T>;

 public:
  HostGridNetworkLayer(const HostContext &context, const GridNetwork &layer)
      : input_(layer.input),
        output_(layer.output),
        description_(describe_grid_network(layer)),
        op_(layer, context.layout(layer.input), context.layout(layer.output), context.set) {}
  void forward(HostBatch<T, G> &batch) override {
    for (int d = 0; d < batch.step.num_directions(); d++)
      op_.forward(batch.step.kernels, batch.count, batch.rows(input_), batch.rows(output_), scratch(batch), d);
  }
  void backward(HostBatch<T, G> &batch) override {
    batch.replace_by_adjoint(input_, [&](FeatureRows<R> x, int direction) {
      op_.backward(batch.step.kernels, batch.count, x, batch.rows(output_, true), scratch(batch), direction);
    });
  }
  std::size_t bytes() const override { return op_.bytes(); }
  std::string describe() const override { return description_; }

 private:
  R *scratch(HostBatch<T, G> &batch) const { return batch.scratch.linear.reserve(op_.scratch_size(batch.count)); }

  int input_, output_;
  std::string description_;
  GridNetworkOp<T> op_;
};

}    // namespace equi

#endif

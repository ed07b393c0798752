// SPDX-License-Identifier: MIT
// The gate on the host.
#ifndef EQUI_HOST_GATE_LAYER_H
#define EQUI_HOST_GATE_LAYER_H

#include "kokkos/layers/gate/gate_op.h"
#include "kokkos/layers/host_batch.h"
#include "kokkos/layers/layer_op.h"

namespace equi {

template <class T, class G>
class HostGateLayer : public LayerOp<HostBatch<T, G>> {
 public:
  HostGateLayer(const Gate &layer, const FeatureLayout &in, const FeatureLayout &out)
      : input_(layer.input), output_(layer.output), op_(layer, in, out) {}
  void forward(HostBatch<T, G> &batch) override {
    for (int d = 0; d < batch.step.num_directions(); d++)
      op_.forward(batch.step.kernels, batch.count, batch.rows(input_), batch.rows(output_), d);
  }
  void backward(HostBatch<T, G> &batch) override {
    batch.replace_by_adjoint(input_, [&](FeatureRows<Real<T>> z, int direction) {
      op_.backward(batch.step.kernels, batch.count, batch.rows(output_, true), z, direction);
    });
  }

 private:
  int input_, output_;
  GateOp<T> op_;
};

}    // namespace equi

#endif

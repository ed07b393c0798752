// SPDX-License-Identifier: MIT
// The readout on a device.
#ifndef EQUI_DEVICE_READOUT_LAYER_H
#define EQUI_DEVICE_READOUT_LAYER_H

#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/layer_op.h"
#include "kokkos/layers/readout/device_readout.h"

namespace equi {

template <class T, class G>
class DeviceReadoutLayer : public LayerOp<DeviceBatch<T, G>> {
  using Batch = DeviceBatch<T, G>;

 public:
  DeviceReadoutLayer(const DeviceContext &context, const Readout &layer)
      : input_(layer.input), op_(make_op(context, layer, context.layout(layer.input))) {
    assign(context.exec, scale_, context.scale);
  }
  void forward(Batch &batch) override {
    op_.forward(batch.step.exec, batch.count, batch.rows(input_), batch.species, scale_.data(),
                batch.step.energy + batch.first, adjoint_of(batch));
  }
  void backward(Batch &batch) override {
    const FeatureRows<Real<T>> x_adj = batch.rows(input_, true);
    if (!batch.adds(input_))
      for (const FeatureGroup &group : batch.layout(input_).groups())
        device_zero(batch.step.exec, x_adj.group(group), batch.count * static_cast<int64_t>(group.width()));
    op_.backward(batch.step.exec, batch.count, adjoint_of(batch), x_adj);
  }
  void for_arrays(const ArrayVisitor &f) override { f(adjoint_, op_.num_inputs()); }
  std::size_t bytes() const override { return op_.bytes() + scale_.bytes(); }

 private:
  static DeviceReadout<T> make_op(const DeviceContext &context, const Readout &layer, const FeatureLayout &in) {
    Network network = layer.network;
    network.simplify();
    const FeatureBlock &block = in.block(layer.block);
    return DeviceReadout<T>(context.exec, network, in.group(block.group), block.channel);
  }
  T *adjoint_of(const Batch &batch) const {
    return adjoint_.data() + static_cast<int64_t>(batch.first) * op_.num_inputs();
  }

  int input_;
  DeviceReadout<T> op_;
  DeviceBuffer<double> scale_;
  DeviceBuffer<T> adjoint_;    // [receivers][inputs]
};

}    // namespace equi

#endif

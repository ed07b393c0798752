// SPDX-License-Identifier: MIT
// The readout on a device.
#ifndef EQUI_DEVICE_READOUT_LAYER_H
#define EQUI_DEVICE_READOUT_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/readout/device_readout.h"

namespace equi {

template <class T, class G>
class DeviceReadoutLayer : public BatchLayer<DeviceBatch<T, G>> {
  using Batch = DeviceBatch<T, G>;

 public:
  DeviceReadoutLayer(const DeviceContext &context, const Readout &layer)
      : input_(layer.input),
        directions_(context.plan.max_directions()),
        readout_(make_rows(context, layer, context.layout(layer.input))) {
    assign(context.exec, scale_, context.scale);
  }
  void forward(Batch &batch) override {
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      readout_.forward(batch.evaluation.exec, batch.count, batch.rows(input_), batch.species, scale_.data(),
                       batch.evaluation.energy_of(d) + batch.first, adjoint_of(batch, d), d);
  }
  void backward(Batch &batch) override {
    const FeatureRows<Real<T>> x_adj = batch.rows(input_, true);
    if (!batch.adds(input_))
      zero_planes(batch.evaluation.exec, batch.count, batch.layout(input_), batch.evaluation.planes, x_adj);
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      readout_.backward(batch.evaluation.exec, batch.count, adjoint_of(batch, d), x_adj, d,
                        batch.evaluation.tangents_alone());
  }
  void for_arrays(const ArrayVisitor &f) override {
    f(adjoint_, static_cast<int64_t>(directions_) * readout_.num_inputs());
  }
  std::size_t bytes() const override { return readout_.bytes() + scale_.bytes(); }

 private:
  static DeviceReadout<T> make_rows(const DeviceContext &context, const Readout &layer, const FeatureLayout &in) {
    Network network = layer.network;
    network.simplify();
    const FeatureBlock &block = in.block(layer.block);
    return DeviceReadout<T>(context.exec, network, in.group(block.group), block.channel);
  }
  T *adjoint_of(const Batch &batch, int direction) const {
    return adjoint_.data() +
           (static_cast<int64_t>(direction) * batch.evaluation.num_receivers + batch.first) * readout_.num_inputs();
  }

  int input_, directions_;    // directions: number of directions in an evaluation
  DeviceReadout<T> readout_;
  DeviceBuffer<double> scale_;
  DeviceBuffer<T> adjoint_;    // [directions][receivers][inputs]
};

}    // namespace equi

#endif

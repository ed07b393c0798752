// SPDX-License-Identifier: MIT
// The convolution on a device.
#ifndef EQUI_DEVICE_CONVOLUTION_LAYER_H
#define EQUI_DEVICE_CONVOLUTION_LAYER_H

#include "kokkos/layers/convolution/device_convolution.h"
#include "kokkos/layers/device_sender_op.h"

#include <string>

namespace equi {

template <class T, class G>
class DeviceConvolutionLayer : public DeviceSenderOp<T, G> {
  using R = Real<T>;
  using Batch = DeviceBatch<T, G>;

 public:
  DeviceConvolutionLayer(DeviceContext &context, const Convolution &layer)
      : input_(layer.input),
        output_(layer.output),
        number_(context.num_convolutions++),
        op_(context.exec, layer, context.layout(input_), context.layout(output_), context.model.num_species(),
            context.options) {}

  void forward(Batch &batch) override {
    const DeviceBatchEdges edges = batch.edges(batch.layer->fixed_input);
    for (int d = 0; d < batch.step.num_directions(); d++) {
      prepare(batch.step, edges, d, true, network_input(batch));
      op_.forward(batch.step.exec, edges, batch.rows(input_), batch.rows(output_), d, batch.step.scratch);
    }
  }
  void backward(Batch &batch) override {
    if (!batch.layer->fixed_input && this->is_fused(batch.step)) return;    // fused() does it
    const DeviceBatchEdges edges = batch.edges(batch.layer->fixed_input);
    const FeatureRows<R> none{nullptr, 0, 0};
    for (int d = 0; d < batch.step.num_directions(); d++) {
      prepare(batch.step, edges, d, false, network_input(batch));
      op_.backward(batch.step.exec, edges, batch.rows(input_), batch.rows(output_, true), d,
                   batch.step.edges.harmonics(d), batch.step.edges.adjoint(d),
                   batch.layer->fixed_input ? none : batch.rows(input_, true), batch.step.scratch);
    }
  }
  void gather(DeviceStep<T, G> &step, const DeviceBatchEdges &senders, int slice_first, FeatureRows<R> x_adj) override {
    const FeatureRows<R> x{step.features.data(input_), step.num_rows, x_adj.first};
    for (int d = 0; d < step.num_directions(); d++) {
      prepare(step, senders, d, true, {{x.data, x.rows, 0}, false, true, static_cast<int>(x_adj.first), slice_first});
      op_.gather_senders(step.exec, senders, x, step.features.rows({0, 0, nullptr}, output_, true), x_adj, d,
                         step.scratch);
    }
  }

  bool can_fuse() const override { return op_.can_fuse(); }
  void fused(DeviceStep<T, G> &step, const DeviceBatchEdges &receivers, FeatureRows<R> x_adj) override {
    prepare(step, receivers, 0, true, {});
    op_.fused(step.exec, receivers, FeatureRows<R>{step.features.data(input_), step.num_rows, 0},
              step.features.rows({0, 0, nullptr}, output_, true), step.num_reversible, step.edges.harmonics(),
              step.edges.adjoint(), x_adj, step.scratch);
  }

  std::size_t bytes() const override { return op_.bytes(); }
  std::size_t scratch_growth(const DeviceStep<T, G> &step, int64_t num_edges) const override {
    return op_.scratch_growth(step.scratch, num_edges);
  }
  std::string describe() const override {
    return "convolution " + std::to_string(number_) + ": " + std::to_string(op_.host().view().num_paths) + " paths, " +
           op_.host().describe();
  }

 private:
  // What a radial network reads of a batch of receivers.
  DeviceNetworkInput<R> network_input(const Batch &batch) const {
    FeatureRows<R> x = batch.rows(input_);
    x.first = 0;
    return {x, batch.layer->fixed_input, false, batch.first, 0};
  }
  void prepare(DeviceStep<T, G> &step, const DeviceBatchEdges &edges, int direction, bool with_coupled,
               const DeviceNetworkInput<R> &input) const {
    op_.prepare(step.exec, edges, step.edges.distance(direction), step.edges.pair(), step.edges.harmonics(direction),
                with_coupled, input, step.scratch);
  }

  int input_, output_, number_;    // number: of the convolution in the model, for the log
  DeviceConvolution<T> op_;
};

}    // namespace equi

#endif

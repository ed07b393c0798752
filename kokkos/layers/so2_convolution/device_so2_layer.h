// SPDX-License-Identifier: MIT
// The SO(2) convolution on a device.
#ifndef EQUI_DEVICE_SO2_LAYER_H
#define EQUI_DEVICE_SO2_LAYER_H

#include "kokkos/layers/device_sender_op.h"
#include "kokkos/layers/so2_convolution/device_so2_convolution.h"

#include <string>

namespace equi {

template <class T, class G>
class DeviceSo2Layer : public DeviceSenderOp<T, G> {
  using R = Real<T>;
  using Batch = DeviceBatch<T, G>;

 public:
  DeviceSo2Layer(DeviceContext &context, const So2Convolution &layer)
      : input_(layer.input),
        output_(layer.output),
        row_size_(context.layout(input_).row_size()),
        op_(context.exec, layer, context.layout(input_), context.layout(output_), context.model.num_species(),
            context.options) {}

  void forward(Batch &batch) override {
    const FeatureRows<R> y = batch.rows(output_);
    set_to_zero(batch, output_, y);
    op_.forward(batch.step.exec, batch.edges(batch.layer->fixed_input), geometry(batch.step), input(batch), y,
                softmax(batch.first), batch.step.scratch);
  }
  void backward(Batch &batch) override {
    const bool fixed = batch.layer->fixed_input;
    const FeatureRows<R> none{nullptr, 0, 0}, own_adj = fixed ? none : batch.rows(input_, true);
    if (!fixed && !batch.adds(input_)) set_to_zero(batch, input_, own_adj);
    const FeatureRows<R> out_adj = batch.rows(output_, true);
    if (op_.heads() > 0)
      op_.begin_backward(batch.step.exec, batch.count, batch.rows(output_), out_adj, softmax(batch.first));
    op_.backward(batch.step.exec, batch.edges(fixed), geometry(batch.step), input(batch), out_adj, softmax(batch.first),
                 {own_adj, fixed ? none : kept(batch.step), batch.step.edges.num_y(), batch.step.edges.adjoint()},
                 batch.step.scratch);
  }
  void gather(DeviceStep<T, G> &step, const DeviceSenders &of, int slice_first, FeatureRows<R> x_adj) override {
    const DeviceBatchEdges senders = step.edges.senders(of);
    if (const FeatureRows<R> of_edges = kept(step); of_edges.data)
      return op_.gather_senders(step.exec, senders, of_edges, x_adj);
    const FeatureRows<R> x{step.features.data(input_), step.num_rows, 0};
    const DeviceNetworkInput<R> input{x, false, true, static_cast<int>(x_adj.first), slice_first};
    op_.backward(step.exec, senders, geometry(step), input,
                 step.features.rows({slice_first, 0, nullptr}, output_, true), softmax(slice_first),
                 {x_adj, {nullptr, 0, 0}, 0, nullptr}, step.scratch);
  }
  void for_arrays(const ArrayVisitor &f) override {
    if (op_.heads() == 0) return;
    f(largest_, op_.heads());
    f(sum_, op_.heads());
    f(dot_, op_.heads());
  }

  int64_t kept_per_edge() const override { return row_size_; }
  std::size_t bytes() const override { return op_.bytes(); }
  std::size_t scratch_growth(const DeviceStep<T, G> &step, int64_t num_edges) const override {
    return op_.scratch_growth(step.scratch, num_edges);
  }
  std::string describe() const override { return op_.describe(); }

 private:
  static DeviceSo2Geometry<G> geometry(const DeviceStep<T, G> &step) {
    return {step.edges.distance(), step.edges.unit_vector(), step.edges.pair()};
  }
  // What backward() leaves for gather(), if there is memory for it.
  static FeatureRows<R> kept(const DeviceStep<T, G> &step) { return {step.sender_adjoints, step.edges.room(), 0}; }
  DeviceNetworkInput<R> input(const Batch &batch) const {
    FeatureRows<R> x = batch.rows(input_);
    x.first = 0;
    return {x, batch.layer->fixed_input, false, batch.first, 0};
  }
  static void set_to_zero(const Batch &batch, int feature, FeatureRows<R> rows) {
    for (const FeatureGroup &group : batch.layout(feature).groups())
      device_zero(batch.step.exec, rows.group(group), static_cast<int64_t>(batch.count) * group.width());
  }

  // Of the receivers from `first` on; without attention none.
  So2Softmax<T> softmax(int first) {
    return So2Softmax<T>{largest_.data(), sum_.data(), dot_.data()}.from(first, op_.heads());
  }

  int input_, output_, row_size_;
  DeviceSo2Convolution<T> op_;
  // So2Softmax
  DeviceBuffer<R> largest_;
  DeviceBuffer<T> sum_, dot_;
};

}    // namespace equi

#endif

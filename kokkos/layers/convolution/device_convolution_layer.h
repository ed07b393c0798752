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
        is_fixed_(context.plan.features[input_].storage == Storage::fixed),
        op_(context.exec, layer, context.layout(input_), context.layout(output_), context.model.num_species(),
            context.options) {}

  void forward(Batch &batch) override {
    if constexpr (IS_DUAL<T>)
      if (is_divided(batch.step)) return forward_tangents(batch);
    const DeviceBatchEdges edges = batch.edges(batch.layer->fixed_input);
    for (int d = 0; d < batch.step.num_directions(); d++) {
      prepare(batch.step, edges, d, true, network_input(batch));
      op_.forward(batch.step.exec, edges, batch.rows(input_), batch.rows(output_), d, batch.step.scratch);
    }
  }
  void backward(Batch &batch) override {
    const bool fixed = batch.layer->fixed_input;
    if (!fixed && this->is_fused(batch.step)) return;    // fused() does it
    const FeatureRows<R> x = batch.rows(input_), y_adj = batch.rows(output_, true);
    if constexpr (IS_DUAL<T>)
      if (is_divided(batch.step)) {
        const DeviceBatchEdges rigid = batch.edges(fixed, EdgePart::rigid);
        prepare_rigid(batch.step, rigid, false);
        for (int d = 0; d < batch.step.num_directions(); d++)
          op_.rigid()->backward(batch.step.exec, rigid, x, !fixed, y_adj, d, batch.step.edges.adjoint(d), op_.table(),
                                batch.step.scratch.rigid);
      }
    const DeviceBatchEdges edges = batch.edges(fixed, with_duals(batch.step));
    const FeatureRows<R> x_adj = fixed ? FeatureRows<R>{nullptr, 0, 0} : batch.rows(input_, true);
    for (int d = 0; d < batch.step.num_directions() && edges.count > 0; d++) {
      prepare(batch.step, edges, d, false, network_input(batch));
      op_.backward(batch.step.exec, edges, x, y_adj, d, batch.step.edges.adjoint(d), x_adj, batch.step.scratch);
    }
  }
  void gather(DeviceStep<T, G> &step, const DeviceSenders &senders, int slice_first, FeatureRows<R> x_adj) override {
    const FeatureRows<R> x{step.features.data(input_), step.num_rows, x_adj.first},
        y_adj = step.features.rows({slice_first, 0, nullptr}, output_, true);
    if constexpr (IS_DUAL<T>)
      if (is_divided(step)) {
        const DeviceBatchEdges rigid = step.edges.senders(senders, EdgePart::rigid);
        prepare_rigid(step, rigid, true);
        for (int d = 0; d < step.num_directions() && rigid.count > 0; d++)
          op_.rigid()->gather_senders(step.exec, rigid, y_adj, x_adj, d, op_.table(), step.scratch.rigid);
      }
    const DeviceBatchEdges edges = step.edges.senders(senders, with_duals(step));
    if (edges.count == 0) return;
    for (int d = 0; d < step.num_directions(); d++) {
      prepare(step, edges, d, true, {{x.data, x.rows, 0}, false, true, static_cast<int>(x_adj.first), slice_first});
      op_.gather_senders(step.exec, edges, x, y_adj, x_adj, d, step.scratch);
    }
  }
  bool divides_edges() const override { return op_.rigid(); }

  bool can_fuse() const override { return op_.can_fuse(); }
  void fused(DeviceStep<T, G> &step, const DeviceBatchEdges &receivers, FeatureRows<R> x_adj) override {
    prepare(step, receivers, 0, true, {});
    op_.fused(step.exec, receivers, FeatureRows<R>{step.features.data(input_), step.num_rows, 0},
              step.features.rows({0, 0, nullptr}, output_, true), step.num_reversible, step.edges.adjoint(), x_adj,
              step.scratch);
  }

  void add_search(int64_t num_edges, std::vector<DeviceStepSearch<T>> &searches) override {
    if (op_.has_tables()) searches.push_back({op_.search(num_edges, bins_), is_fixed_});
  }
  std::size_t bins_growth(int64_t num_edges) const override { return op_.has_tables() ? bins_.growth(num_edges) : 0; }

  std::size_t bytes() const override { return op_.bytes() + bins_.bytes(); }
  std::size_t scratch_growth(const DeviceStep<T, G> &step, int64_t num_edges) const override {
    return op_.scratch_growth(step.scratch, num_edges);
  }
  std::string describe() const override {
    return "convolution " + std::to_string(number_) + ": " + std::to_string(op_.host().view().num_paths) + " paths, " +
           op_.host().describe();
  }

 private:
  // Whether rigid edges come apart, and which edges take duals.
  bool is_divided(const DeviceStep<T, G> &step) const { return step.tangents_alone() && op_.rigid(); }
  EdgePart with_duals(const DeviceStep<T, G> &step) const {
    return is_divided(step) ? EdgePart::moving : EdgePart::all;
  }
  void prepare_rigid(DeviceStep<T, G> &step, const DeviceBatchEdges &edges, bool with_coupled) const {
    op_.rigid()->prepare(step.exec, edges, step.edges.distance(), step.edges.pair(), step.edges.harmonics(),
                         with_coupled, op_.table(), step.scratch.rigid);
  }
  // The tangents alone: of rigid edges, then those of the others are added. Of a part of the edges the value is none of
  // the sum's.
  void forward_tangents(Batch &batch) const {
    DeviceStep<T, G> &step = batch.step;
    const bool fixed = batch.layer->fixed_input;
    const FeatureLayout &layout = batch.layout(output_);
    const FeatureRows<R> x = batch.rows(input_), y = batch.rows(output_);
    const DeviceBatchEdges rigid = batch.edges(false, EdgePart::rigid), moving = batch.edges(fixed, EdgePart::moving);
    if (fixed || rigid.count == 0) {
      zero_planes(step.exec, batch.count, layout, step.planes, y);
    } else {
      prepare_rigid(step, rigid, true);
      for (int d = 0; d < step.num_directions(); d++)
        op_.rigid()->forward(step.exec, rigid, x, y, d, op_.table(), step.scratch.rigid);
    }
    if (moving.count == 0) return;
    const FeatureRows<R> part{step.in_place.reserve(static_cast<int64_t>(batch.count) * layout.row_size()), batch.count,
                              0};
    for (int d = 0; d < step.num_directions(); d++) {
      prepare(step, moving, d, true, network_input(batch));
      op_.forward(step.exec, moving, x, part, d, step.scratch);
      add_planes<R>(step.exec, batch.count, layout, plane_of(d), part, y);
    }
  }

  // What a radial network reads of a batch of receivers.
  DeviceNetworkInput<R> network_input(const Batch &batch) const {
    FeatureRows<R> x = batch.rows(input_);
    x.first = 0;
    return {x, batch.layer->fixed_input, false, batch.first, 0};
  }
  void prepare(DeviceStep<T, G> &step, const DeviceBatchEdges &edges, int direction, bool with_coupled,
               const DeviceNetworkInput<R> &input) const {
    op_.prepare(step.exec, edges, step.edges.distance(direction), step.edges.pair(), step.edges.harmonics(direction),
                with_coupled, input, step.has_bins && !edges.edge ? &bins_ : nullptr, step.scratch);
  }

  int input_, output_, number_;    // number: of the convolution in the model, for the log
  bool is_fixed_;                  // whether the input depends on the species alone
  DeviceConvolution<T> op_;
  DeviceRadialBins<T> bins_;    // of all edges of a small step
};

}    // namespace equi

#endif

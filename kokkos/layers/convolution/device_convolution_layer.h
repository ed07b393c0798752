// SPDX-License-Identifier: MIT
// The convolution on a device.
#ifndef EQUI_DEVICE_CONVOLUTION_LAYER_H
#define EQUI_DEVICE_CONVOLUTION_LAYER_H

#include "kokkos/layer_interface/device_sender_layer.h"
#include "kokkos/layers/convolution/device_convolution.h"

#include <string>

namespace equi {

template <class T>
class DeviceConvolutionLayer : public DeviceSenderLayer<T> {
  using R = Real<T>;
  using Batch = DeviceBatch<T>;

 public:
  DeviceConvolutionLayer(DeviceContext &context, const Convolution &layer)
      : input_(layer.input),
        output_(layer.output),
        number_(context.num_convolutions++),
        is_fixed_(context.plan.features[input_].storage == Storage::fixed),
        constants_(context.exec, layer, context.layout(input_), context.layout(output_), context.model.num_species(),
                   context.options) {}

  void forward(Batch &batch) override {
    if constexpr (IS_DUAL<T>)
      if (is_divided(batch.evaluation)) return forward_tangents(batch);
    DeviceEvaluationState<T> &evaluation = batch.evaluation;
    const DeviceBatchEdges edges = batch.edges(batch.step->fixed_input);
    DeviceNetworkInput<R> input = network_input(batch);
    if (evaluation.energy_moments && !batch.step->fixed_input)
      input = constants_.edge_rows(evaluation.exec, edges, evaluation.edges, input, evaluation.scratch);
    for (int d = 0; d < evaluation.num_directions(); d++) {
      input.direction = d;
      prepare(evaluation, edges, d, true, input);
      constants_.forward(evaluation.exec, edges, input.x, batch.rows(output_), d, evaluation.scratch);
    }
  }
  void backward(Batch &batch) override {
    const bool fixed = batch.step->fixed_input;
    if (!fixed && this->is_fused(batch.evaluation)) return;    // fused() does this
    const FeatureRows<R> x = batch.rows(input_), y_adj = batch.rows(output_, true);
    if constexpr (IS_DUAL<T>)
      if (is_divided(batch.evaluation)) {
        const DeviceBatchEdges rigid = batch.edges(fixed, EdgePart::rigid);
        prepare_rigid(batch.evaluation, rigid, false);
        for (int d = 0; d < batch.evaluation.num_directions(); d++)
          constants_.rigid()->backward(batch.evaluation.exec, rigid, x, !fixed, y_adj, d,
                                       batch.evaluation.edges.adjoint(d), constants_.table(),
                                       batch.evaluation.scratch.rigid);
      }
    const DeviceBatchEdges edges = batch.edges(fixed, with_duals(batch.evaluation));
    const FeatureRows<R> x_adj = fixed ? FeatureRows<R>{nullptr, 0, 0} : batch.rows(input_, true);
    for (int d = 0; d < batch.evaluation.num_directions() && edges.count > 0; d++) {
      prepare(batch.evaluation, edges, d, false, network_input(batch));
      constants_.backward(batch.evaluation.exec, edges, x, y_adj, d, batch.evaluation.edges.adjoint(d), x_adj,
                          batch.evaluation.scratch);
    }
  }
  void gather(DeviceEvaluationState<T> &evaluation, const DeviceSenders &senders, int slice_first,
              FeatureRows<R> x_adj) override {
    const FeatureRows<R> x{evaluation.features.data(input_), evaluation.num_rows, x_adj.first},
        y_adj = evaluation.features.rows({slice_first, 0, nullptr}, output_, true);
    if constexpr (IS_DUAL<T>)
      if (is_divided(evaluation)) {
        const DeviceBatchEdges rigid = evaluation.edges.senders(senders, EdgePart::rigid);
        prepare_rigid(evaluation, rigid, true);
        for (int d = 0; d < evaluation.num_directions() && rigid.count > 0; d++)
          constants_.rigid()->gather_senders(evaluation.exec, rigid, y_adj, x_adj, d, constants_.table(),
                                             evaluation.scratch.rigid);
      }
    const DeviceBatchEdges edges = evaluation.edges.senders(senders, with_duals(evaluation));
    if (edges.count == 0) return;
    for (int d = 0; d < evaluation.num_directions(); d++) {
      prepare(evaluation, edges, d, true,
              {{x.data, x.rows, 0}, false, true, static_cast<int>(x_adj.first), slice_first});
      constants_.gather_senders(evaluation.exec, edges, x, y_adj, x_adj, d, evaluation.scratch);
    }
  }
  bool divides_edges() const override { return constants_.rigid(); }

  bool can_fuse() const override { return constants_.can_fuse(); }
  void fused(DeviceEvaluationState<T> &evaluation, const DeviceBatchEdges &receivers, FeatureRows<R> x_adj) override {
    prepare(evaluation, receivers, 0, true, {});
    constants_.fused(evaluation.exec, receivers,
                     FeatureRows<R>{evaluation.features.data(input_), evaluation.num_rows, 0},
                     evaluation.features.rows({0, 0, nullptr}, output_, true), evaluation.num_reversible,
                     evaluation.edges.adjoint(), x_adj, evaluation.scratch);
  }

  void add_search(int64_t num_edges, std::vector<DeviceStepSearch<T>> &searches) override {
    if (constants_.has_tables()) searches.push_back({constants_.search(num_edges, bins_), is_fixed_});
  }
  void for_bins(int64_t num_edges, const ArrayVisitor &f) override {
    if (constants_.has_tables()) bins_.for_arrays(num_edges, f);
  }

  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, constants_, bins_); }
  void for_edge_scratch(DeviceEvaluationState<T> &evaluation, int64_t num_edges, const ArrayVisitor &f) const override {
    constants_.for_edge_scratch(evaluation.scratch, num_edges, f);
  }
  std::string describe() const override {
    return "convolution " + std::to_string(number_) + ": " + std::to_string(constants_.host().view().num_paths) +
           " paths, " + constants_.host().describe();
  }

 private:
  // Whether rigid edges are treated separately, and which edges use duals.
  bool is_divided(const DeviceEvaluationState<T> &evaluation) const {
    return evaluation.tangents_alone() && constants_.rigid();
  }
  EdgePart with_duals(const DeviceEvaluationState<T> &evaluation) const {
    return is_divided(evaluation) ? EdgePart::moving : EdgePart::all;
  }
  void prepare_rigid(DeviceEvaluationState<T> &evaluation, const DeviceBatchEdges &edges, bool with_coupled) const {
    constants_.rigid()->prepare(evaluation.exec, edges, evaluation.edges.distance(), evaluation.edges.pair(),
                                evaluation.edges.harmonics(), with_coupled, constants_.table(),
                                evaluation.scratch.rigid);
  }
  // Computes only the tangents: writes those of rigid edges, then adds those of the others. When only part of the
  // edges is summed, the value is not the value of the whole sum and is not used.
  void forward_tangents(Batch &batch) const {
    DeviceEvaluationState<T> &evaluation = batch.evaluation;
    const bool fixed = batch.step->fixed_input;
    const FeatureLayout &layout = batch.layout(output_);
    const FeatureRows<R> x = batch.rows(input_), y = batch.rows(output_);
    const DeviceBatchEdges rigid = batch.edges(false, EdgePart::rigid), moving = batch.edges(fixed, EdgePart::moving);
    if (fixed || rigid.count == 0) {
      zero_planes(evaluation.exec, batch.count, layout, evaluation.planes, y);
    } else {
      prepare_rigid(evaluation, rigid, true);
      for (int d = 0; d < evaluation.num_directions(); d++)
        constants_.rigid()->forward(evaluation.exec, rigid, x, y, d, constants_.table(), evaluation.scratch.rigid);
    }
    if (moving.count == 0) return;
    const FeatureRows<R> part{evaluation.in_place.reserve(static_cast<int64_t>(batch.count) * layout.row_size()),
                              batch.count, 0};
    for (int d = 0; d < evaluation.num_directions(); d++) {
      prepare(evaluation, moving, d, true, network_input(batch));
      constants_.forward(evaluation.exec, moving, x, part, d, evaluation.scratch);
      add_planes<R>(evaluation.exec, batch.count, layout, plane_of(d), part, y);
    }
  }

  // What a radial network reads of a batch of receivers.
  DeviceNetworkInput<R> network_input(const Batch &batch) const {
    FeatureRows<R> x = batch.rows(input_);
    x.first = 0;
    return {x, batch.step->fixed_input, false, batch.first, 0};
  }
  void prepare(DeviceEvaluationState<T> &evaluation, const DeviceBatchEdges &edges, int direction, bool with_coupled,
               const DeviceNetworkInput<R> &input) const {
    constants_.prepare(evaluation.exec, edges, evaluation.edges.distance(direction), evaluation.edges.pair(),
                       evaluation.edges.harmonics(direction), with_coupled, input,
                       evaluation.has_bins && !edges.edge ? &bins_ : nullptr, evaluation.scratch);
  }

  int input_, output_, number_;    // number: index of the convolution in the model, for the log
  bool is_fixed_;                  // whether the input depends only on the species
  DeviceConvolution<T> constants_;
  DeviceRadialBins<T> bins_;    // bins of all edges in a small evaluation
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The SO(2) convolution on a device.
#ifndef EQUI_DEVICE_SO2_LAYER_H
#define EQUI_DEVICE_SO2_LAYER_H

#include "kokkos/layer_interface/device_edge_rows.h"
#include "kokkos/layer_interface/device_sender_layer.h"
#include "kokkos/layers/so2_convolution/device_so2_convolution.h"

#include <string>

namespace equi {

template <class T>
class DeviceSo2Layer : public DeviceSenderLayer<T> {
  using R = Real<T>;
  using D = DoubleOf<T>;
  using Batch = DeviceBatch<T>;

 public:
  DeviceSo2Layer(DeviceContext &context, const So2Convolution &layer)
      : input_(layer.input),
        output_(layer.output),
        in_(context.model.features[input_], PLANES<T>),
        out_(context.model.features[output_], PLANES<T>),
        has_sums_of_directions_(context.options.energy_moments),
        convolution_(context.exec, layer, context.layout(input_), in_, out_, context.model.num_species(),
                     context.options),
        kept_before_(context.kept_per_edge) {
    context.kept_per_edge += convolution_.values_per_edge();
  }

  void forward(Batch &batch) override {
    if (batch.evaluation.energy_moments) return forward_moments(batch);
    forward(batch, 0, batch.rows(output_), kept_values(batch));
  }
  void backward(Batch &batch) override {
    const bool fixed = batch.step->fixed_input;
    const FeatureRows<R> none{nullptr, 0, 0}, own_adj = fixed ? none : batch.rows(input_, true);
    if (!fixed && !batch.adds(input_)) set_to_zero(batch, in_, own_adj);
    const FeatureRows<R> out_adj = batch.rows(output_, true);
    if (convolution_.heads() > 0)
      convolution_.begin_backward(batch.evaluation.exec, batch.count, batch.rows(output_), out_adj,
                                  softmax(batch.first));
    convolution_.backward(batch.evaluation.exec, batch.edges(fixed), geometry(batch.evaluation), input(batch), out_adj,
                          softmax(batch.first),
                          {own_adj, fixed ? none : sender_adjoints(batch.evaluation), batch.evaluation.edges.num_y(),
                           batch.evaluation.edges.adjoint()},
                          kept_values(batch), batch.evaluation.scratch);
  }
  void gather(DeviceEvaluationState<T> &evaluation, const DeviceSenders &range, int slice_first,
              FeatureRows<R> x_adj) override {
    const DeviceBatchEdges senders = evaluation.edges.senders(range);
    if (const FeatureRows<R> of_edges = sender_adjoints(evaluation); of_edges.data)
      return convolution_.gather_senders(evaluation.exec, senders, of_edges, x_adj);
    const FeatureRows<R> x{evaluation.features.data(input_), evaluation.num_rows, 0};
    const DeviceNetworkInput<R> input{x, false, true, static_cast<int>(x_adj.first), slice_first};
    convolution_.backward(evaluation.exec, senders, geometry(evaluation), input,
                          evaluation.features.rows({slice_first, 0, nullptr}, output_, true), softmax(slice_first),
                          {x_adj, {nullptr, 0, 0}, 0, nullptr}, {}, evaluation.scratch);
  }
  void for_arrays(const ArrayVisitor &f) override {
    if (convolution_.heads() == 0) return;
    f(largest_, convolution_.heads());
    f(sum_, convolution_.heads());
    f(dot_, convolution_.heads());
  }

  int64_t sender_adjoints_per_edge() const override { return in_.row_size(); }
  int64_t scratch_size(int64_t num_atoms) const override {
    return has_sums_of_directions_ ? num_atoms * out_.row_size() : 0;
  }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, convolution_); }
  void for_edge_scratch(DeviceEvaluationState<T> &evaluation, int64_t num_edges, const ArrayVisitor &f) const override {
    convolution_.for_edge_scratch(evaluation.scratch, num_edges, f);
  }
  std::string describe() const override { return convolution_.describe(); }

 private:
  // Where the values of edges are from forward to backward, as far as memory suffices.
  DeviceSo2Values<R> kept_values(const Batch &batch) const {
    if (!batch.evaluation.has_backward) return {};
    return {batch.evaluation.kept, kept_before_};
  }
  // Computes values and the tangents along a direction.
  void forward(Batch &batch, int direction, FeatureRows<R> y, DeviceSo2Values<R> kept) {
    DeviceNetworkInput<R> x = input(batch);
    x.direction = direction;
    set_to_zero(batch, out_, y);
    convolution_.forward(batch.evaluation.exec, batch.edges(batch.step->fixed_input),
                         geometry(batch.evaluation, direction), x, y, softmax(batch.first), kept,
                         batch.evaluation.scratch);
  }
  void forward_moments(Batch &batch) {
    const FeatureRows<R> sum{batch.layer_scratch(scratch_size(batch.count)), batch.count, 0};
    for (int d = 0; d < batch.evaluation.num_directions(); d++) {
      forward(batch, d, sum, {});
      store_direction<R>(batch.evaluation.exec, d, batch.count, out_, sum, batch.layout(output_), batch.rows(output_));
    }
  }
  static DeviceSo2Geometry<T> geometry(const DeviceEvaluationState<T> &evaluation, int direction = 0) {
    return {evaluation.edges.distance(direction), evaluation.edges.unit_vector(direction), evaluation.edges.pair()};
  }
  // The rows that backward() leaves for gather(), if memory suffices.
  static FeatureRows<R> sender_adjoints(const DeviceEvaluationState<T> &evaluation) {
    return {evaluation.sender_adjoints, evaluation.edges.capacity(), 0};
  }
  DeviceNetworkInput<R> input(const Batch &batch) const {
    FeatureRows<R> x = batch.rows(input_);
    x.first = 0;
    return {x, batch.step->fixed_input, false, batch.first, 0};
  }
  static void set_to_zero(const Batch &batch, const FeatureLayout &layout, FeatureRows<R> rows) {
    for (const FeatureGroup &group : layout.groups())
      device_zero(batch.evaluation.exec, rows.group(group), static_cast<int64_t>(batch.count) * group.width());
  }

  // For receivers, starting at `first`; empty without attention.
  So2Softmax<T> softmax(int first) {
    return So2Softmax<T>{largest_.data(), sum_.data(), dot_.data()}.from(first, convolution_.heads());
  }

  int input_, output_;
  FeatureLayout in_, out_;    // with the planes of T
  bool has_sums_of_directions_;
  DeviceSo2Convolution<T> convolution_;
  int64_t kept_before_;    // numbers per edge that earlier layers keep
  // So2Softmax
  DeviceBuffer<R> largest_;
  DeviceBuffer<T> sum_, dot_;
};

}    // namespace equi

#endif

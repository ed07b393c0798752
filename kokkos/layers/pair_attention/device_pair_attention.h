// SPDX-License-Identifier: MIT
// Pair attention on a device. It does what host_pair_attention.h does on a host, for the edges of a batch, some
// thousands at a time. Each sum over the edges of an atom is computed by one thread, in the order of the edges.
#ifndef EQUI_DEVICE_PAIR_ATTENTION_H
#define EQUI_DEVICE_PAIR_ATTENTION_H

#include "kokkos/layer_interface/device_sender_layer.h"
#include "kokkos/layers/edge_network/device_edge_network.h"
#include "kokkos/layers/pair_attention/attention_edges.h"

#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace equi {

template <class T>
class DevicePairAttention : public DeviceSenderLayer<T> {
  using R = Real<T>;
  using D = DoubleOf<T>;
  using Batch = DeviceBatch<T>;
  using State = DeviceEvaluationState<T>;

 public:
  DevicePairAttention(DeviceContext &context, const PairAttention &layer);

  void forward(Batch &batch) override;
  void backward(Batch &batch) override;
  void gather(State &evaluation, const DeviceSenders &range, int slice_first, FeatureRows<R> x_adj) override;
  int64_t sender_adjoints_per_edge() const override { return in_.row_size(); }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, radial_, difference_, rows_, row_begin_); }
  void for_edge_scratch(State &evaluation, int64_t num_edges, const ArrayVisitor &f) const override;
  int64_t scratch_size(int64_t num_atoms) const override { return has_edge_rows_ ? num_atoms * out_.row_size() : 0; }
  std::string describe() const override { return description_; }

 private:
  struct DifferenceNetwork {
    EdgeNetwork<T> host;
    DeviceEdgeNetwork<T> device;
    DifferenceNetwork(const DeviceExec &exec, EdgeNetwork<T> network) : host(std::move(network)), device(exec, host) {}
    auto members() const { return std::tie(device); }
  };
  // Some edges, with arrays in the scratch.
  struct Chunk {
    DeviceBatchEdges batch;
    bool of_senders;
    AttentionEdges<T> edges;
    R *weights, *difference[2], *difference_scratch[2];
  };
  // The adjoints that a pass computes; results are added to all of them. Null: not requested.
  struct Adjoints {
    FeatureRows<R> own;         // of the batch's atoms, with which it begins
    FeatureRows<R> of_edges;    // for receivers, by edge: adjoints of the senders' features, which are overwritten
  };

  // Computes values and the tangents along a direction.
  void forward(Batch &batch, int direction, FeatureRows<R> y);
  // Calls f(chunk) for the edges, with their weights and scores.
  template <class F>
  void for_chunks(State &evaluation, const DeviceBatchEdges &batch, const DeviceNetworkInput<R> &input,
                  const F &f) const;
  Chunk evaluate(State &evaluation, const DeviceBatchEdges &batch, const DeviceNetworkInput<R> &input) const;
  // y_adj begins, for receivers, with the batch's atoms, and for senders with the row from which edges count
  // receivers.
  void backward_of(State &evaluation, const Chunk &chunk, FeatureRows<R> y_adj, const Adjoints &adjoints) const;
  void add_squares_adj(State &evaluation, const Chunk &chunk) const;
  // The arrays of a chunk starting at `first`, and their total size.
  std::pair<Chunk, int64_t> work(R *first, int64_t count) const;
  DeviceNetworkInput<R> input(const Batch &batch) const {
    FeatureRows<R> x = batch.rows(input_);
    x.first = 0;
    return {x, batch.step->fixed_input, false, batch.first, 0};
  }
  // The rows that backward() leaves for gather(), if memory suffices.
  static FeatureRows<R> kept(const State &evaluation) {
    return {evaluation.sender_adjoints, evaluation.edges.capacity(), 0};
  }
  bool has_tensors() const { return !difference_.empty(); }

  // Number of edges whose weights are computed together: enough to fill a device, with some hundred MB of scratch.
  static constexpr int64_t CHUNK = DeviceTraits<>::ON_HOST ? 1024 : 8192;

  int input_, output_;
  FeatureLayout feature_, in_, out_, squares_;    // feature_: of the input; the others have the planes of T
  bool has_edge_rows_;
  AttentionShape shape_;
  EdgeNetwork<T> host_radial_;
  DeviceEdgeNetwork<T> radial_;
  std::vector<std::unique_ptr<DifferenceNetwork>> difference_;    // none, or of heads and of groups
  DeviceBuffer<int> rows_;                                        // 0 .. CHUNK - 1: rows of squares
  DeviceBuffer<int64_t> row_begin_;                               // 0 .. CHUNK
  std::string description_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Pair attention on the host. It evaluates some edges at a time, and all of their weights again in a backward pass.
#ifndef EQUI_HOST_PAIR_ATTENTION_H
#define EQUI_HOST_PAIR_ATTENTION_H

#include "kokkos/layer_interface/host_sender_layer.h"
#include "kokkos/layers/convolution/host_edge_list.h"
#include "kokkos/layers/edge_network/edge_network.h"
#include "kokkos/layers/pair_attention/attention_edges.h"

#include <string>
#include <vector>

namespace equi {

template <class T>
class HostPairAttention : public HostSenderLayer<T> {
  using Batch = HostBatch<T>;
  using EdgeList = HostEdgeList<T>;
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  HostPairAttention(HostContext &context, const PairAttention &layer);

  void forward(Batch &batch) override;
  void backward(Batch &batch) override;
  void gather(Batch &senders, FeatureRows<R> sums) override;
  int gather_size() const override;
  void for_edge_scratch(const HostEvaluationState<T> &evaluation, HostScratch<T> &scratch, int64_t num_edges,
                        const ArrayVisitor &f) const override;
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, radial_, difference_, rows_); }
  std::string describe() const override { return description_; }

 private:
  // The arrays of a list in the thread's scratch.
  struct Work {
    AttentionEdges<T> edges;
    R *difference_scratch[2], *difference[2];
    T *distance_adj;
  };

  FeatureRows<R> input_rows(const Batch &batch) const;
  // Evaluates the weights and scores. x: the rows of the input to which the list's row numbers refer.
  Work evaluate(Batch &batch, const EdgeList &list, FeatureRows<R> x, int direction) const;
  // Adds the edges' messages to rows of the output.
  void add_messages(const AttentionEdges<T> &edges, const AttentionRows<T> &y) const;
  // Replaces weights by their adjoints, and adds to the adjoints of features that are requested.
  void backward_of(const Batch &batch, const EdgeList &list, const Work &work, FeatureRows<R> y_adj,
                   FeatureRows<R> sender_adj, FeatureRows<R> receiver_adj, bool has_distance_adj) const;
  void add_harmonics_adj(const Batch &batch, const EdgeList &list, const AttentionEdges<T> &edges,
                         const AttentionRows<T> &y_adj) const;
  NetworkEdges<T> difference_edges(const EdgeList &list, const Work &work) const;
  void forward_moments(Batch &batch);

  // Sizes of a list's arrays in the scratch.
  int64_t work_size(int64_t count) const;

  int input_, output_;
  FeatureLayout in_, out_, squares_;    // with the planes of one direction
  AttentionShape shape_;
  EdgeNetwork<T> radial_;
  std::vector<EdgeNetwork<T>> difference_;    // none, or of heads and of groups
  std::vector<int> rows_;                     // 0 .. LIST_EDGES - 1: rows of squares
  std::string description_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The SO(2) convolution on the host. It evaluates some edges at a time, with their frames and radial functions. A
// backward pass evaluates all of this again. It also recomputes the values of the linears if memory does not suffice
// to keep them (HostEvaluationState::kept).
#ifndef EQUI_HOST_SO2_LAYER_H
#define EQUI_HOST_SO2_LAYER_H

#include "kokkos/geometry/rotations.h"
#include "kokkos/layer_interface/host_sender_layer.h"
#include "kokkos/layers/convolution/host_edge_list.h"
#include "kokkos/layers/edge_network/edge_network.h"
#include "kokkos/layers/so2_convolution/host_so2_convolution.h"

#include <string>
#include <vector>

namespace equi {

template <class T>
class HostSo2Layer : public HostSenderLayer<T> {
  using Batch = HostBatch<T>;
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  HostSo2Layer(HostContext &context, const So2Convolution &layer);

  void forward(Batch &batch) override;
  void backward(Batch &batch) override;
  void gather(Batch &senders, FeatureRows<R> sums) override;
  int gather_size() const override;
  void for_edge_scratch(const HostEvaluationState<T> &evaluation, HostScratch<T> &scratch, int64_t num_edges,
                        const ArrayVisitor &f) const override;

  void for_arrays(const ArrayVisitor &f) override {
    if (convolution_.heads() == 0) return;
    f(largest_, convolution_.heads());
    f(sum_, convolution_.heads());
    f(dot_, convolution_.heads());
  }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, convolution_, network_); }
  std::string describe() const override { return description_; }

 private:
  using EdgeList = HostEdgeList<T>;
  // Other numbers that the convolution needs of these edges, also in the thread's scratch.
  struct Inputs {
    So2Edges<T> edges;
    R *factors;                               // the factors of the edges
    T *cutoff_slope;                          // derivative of the cutoff function
    T *torque, *cutoff_adj, *distance_adj;    // for a backward pass
    R *work;                                  // scratch of the convolution
    R *values;                                // values of the convolution, kept or not
    bool are_kept;
  };

  // may_keep: whether the list is one of receivers. x: the rows of the input to which the list's row numbers refer.
  Inputs inputs_of(Batch &batch, const EdgeList &list, FeatureRows<const R> x, bool backward, bool may_keep) const;
  FeatureRows<const R> input_rows(const Batch &batch) const;
  void forward_moments(Batch &batch);
  // Replaces the factors by their adjoints. softmax: of the rows of out_adj.
  void backward_of(const EdgeList &list, const Inputs &inputs, FeatureRows<const R> out_adj, So2Softmax<T> softmax,
                   FeatureRows<R> sender_adj, FeatureRows<R> receiver_adj) const;
  // For receivers, starting at `first`; empty without attention.
  So2Softmax<T> softmax(int first) {
    return So2Softmax<T>{largest_.data(), sum_.data(), dot_.data()}.from(first, convolution_.heads());
  }

  int input_, output_, num_species_, lmax_;
  bool depends_on_frame_;
  std::vector<RadialBasis> bases_;    // one, or one per [receiver species, sender species]
  Rotations rotations_;
  FeatureLayout in_, out_;    // with the planes of one direction
  HostSo2Convolution<T> convolution_;
  EdgeNetwork<T> network_;
  std::string description_;
  int64_t kept_before_;    // numbers per edge that earlier layers keep
  // So2Softmax
  Buffer<R> largest_;
  Buffer<T> sum_, dot_;
};

}    // namespace equi

#endif

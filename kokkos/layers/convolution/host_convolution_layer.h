// SPDX-License-Identifier: MIT
// The convolution on the host. It chooses the kernels for a tile's edges: forward, backward and in a gather of
// senders.
#ifndef EQUI_HOST_CONVOLUTION_LAYER_H
#define EQUI_HOST_CONVOLUTION_LAYER_H

#include "kokkos/layer_interface/host_sender_layer.h"
#include "kokkos/layers/convolution/convolution_constants.h"

#include <string>

namespace equi {

template <class T>
class HostConvolutionLayer : public HostSenderLayer<T> {
  using R = Real<T>;
  using D = DoubleOf<T>;
  using Batch = HostBatch<T>;

 public:
  HostConvolutionLayer(HostContext &context, const Convolution &layer);

  void forward(Batch &batch) override;
  void backward(Batch &batch) override;
  void gather(Batch &senders, FeatureRows<R> sums) override;
  int gather_size() const override;

  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, constants_); }
  std::string describe() const override;
  void report_kernels(KernelReport &report) const override;

 private:
  // Receivers whose weights are computed together.
  struct Run {
    int first, count;
  };
  // The rows of the input that the edges of a run read: the feature's rows or, for energy moments (edge_rows.h),
  // rows of their own. The latter are not needed if the kernels accept several directions at a time.
  struct TangentRows {
    FeatureRows<R> x;
    const int *receiver, *sender;    // [edges of the run] rows of x
  };
  // What a gather needs of the edges that point at its rows.
  struct GatheredEdges {
    int64_t count;
    int64_t *begin;
    const int *receiver, *function, *receiver_species, *sender_species;
    int *sender_row;
    const D *distance;
    const T *harmonics;
  };

  template <class F>
  void for_runs(const Batch &batch, const F &f) const;
  ConvEdges<T> edges_of(Batch &batch, const Run &run, int direction = 0, const TangentRows *tangents = nullptr) const;
  template <class F>
  void for_directions(Batch &batch, const Run &run, const F &f) const;
  void set_fractions(const Batch &batch, const ConvEdges<T> &edges, int64_t first, int64_t count, int direction,
                     T *fraction) const;
  ConvEdges<T> make_edges(Batch &batch, int count, const int64_t *begin, const int *other_row, const T *harmonics,
                          const RadialRows<R> &radial) const;
  NetworkEdges<T> network_edges(Batch &batch, const Run &run, int direction = 0,
                                const TangentRows *tangents = nullptr) const;
  TangentRows tangent_rows(Batch &batch, const Run &run) const;
  RadialRows<R> network_weights(Batch &batch, const NetworkEdges<T> &inputs, int *table_row, T *fraction,
                                R *bins_per_length) const;
  void forward_tangents(Batch &batch) const;
  void forward_moments(Batch &batch) const;
  ConvEdges<T> rigid_edges(Batch &batch, const Run &run, const ConvEdges<T> &edges) const;
  ConvEdges<T> rigid_edges_of_moving_senders(Batch &batch, const ConvEdges<T> &edges) const;
  template <class F>
  void for_moving_edges(Batch &batch, const Run &run, const ConvEdges<T> &edges, const F &f) const;
  GatheredEdges gathered_edges(Batch &senders) const;
  char *kernel_scratch(Batch &batch, const ConvEdges<T> &edges) const {
    return batch.scratch.kernel.reserve(batch.evaluation.kernels.scratch_bytes(constants_.view(), edges));
  }
  bool uses_tangent_rows(const Batch &batch) const {
    return batch.evaluation.energy_moments && !batch.step->fixed_input && !constants_.has_kernels_of_directions();
  }
  bool writes_receivers(const Batch &batch) const {
    return constants_.network() && constants_.network()->reads_receiver() && !batch.step->fixed_input;
  }

  int input_, output_, number_;    // number: index of the convolution in the model, for the log
  bool is_exact_;
  ConvolutionConstants<T> constants_;
};

}    // namespace equi

#endif

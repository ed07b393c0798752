// SPDX-License-Identifier: MIT
// One SO(2) convolution of a model on a device. It does what host_so2_convolution.h and host_so2_layer.h do on a
// host, for the edges of a batch, some thousands at a time. Outputs of linears are kept for the backward pass of their
// receivers if memory suffices; other passes that need them evaluate them again. For |m| > 0 one product multiplies
// [u_m, u_-m] by [[W, W'], [-W', W]].
#ifndef EQUI_DEVICE_SO2_CONVOLUTION_H
#define EQUI_DEVICE_SO2_CONVOLUTION_H

#include "kokkos/geometry/rotations.h"
#include "kokkos/layer_interface/device_batch.h"
#include "kokkos/layers/edge_network/device_edge_network.h"
#include "kokkos/layers/so2_convolution/device_so2_kernels.h"
#include "kokkos/layers/so2_convolution/so2_linears.h"

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace equi {

// All edges of an evaluation, in device memory, with the tangents along a direction.
template <class T>
struct DeviceSo2Geometry {
  const DoubleOf<T> *distance, *unit;    // [E], [E][3]
  const int *pair;
};

// What a backward pass computes. Null: not requested.
template <class T>
struct DeviceSo2Adjoints {
  FeatureRows<Real<T>> own;    // adjoints of the batch's atoms, with which it begins; results are added
  // For receivers, by edge: the adjoints of the senders' features, and the derivatives [E][num_y], slot 0 with
  // respect to the distance. The derivatives are added.
  FeatureRows<Real<T>> senders;
  int num_y;
  DoubleOf<T> *edges;
};

// Memory for the outputs of linears, from forward to backward.
template <class R>
struct DeviceSo2Values {
  KeptOfEdges<R> kept = {};
  int64_t before = 0;    // numbers per edge of earlier layers
};

// Edges must be counted (DeviceEdges). T: float, double or a Dual of them.
template <class T>
class DeviceSo2Convolution {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  using Scratch = DeviceConvScratch<T>;
  // input: the layout of the feature that it reads. `in`, `out`: the same and the output with the planes of T.
  DeviceSo2Convolution(const DeviceExec &exec, const So2Convolution &layer, const FeatureLayout &input,
                       const FeatureLayout &in, const FeatureLayout &out, int num_species,
                       const EvaluatorOptions &options);
  // Without copies, because the network on the device refers to that of the host.
  DeviceSo2Convolution(const DeviceSo2Convolution &) = delete;
  DeviceSo2Convolution &operator=(const DeviceSo2Convolution &) = delete;

  int heads() const { return heads_; }    // heads of attention; 0: no attention

  // Adds the messages to the outputs of the batch's atoms, which are receivers; with attention these must be 0
  // before. input: where their features are. softmax: of the same atoms; not read without attention.
  void forward(const DeviceExec &exec, const DeviceBatchEdges &batch, const DeviceSo2Geometry<T> &geometry,
               const DeviceNetworkInput<R> &input, FeatureRows<R> y, So2Softmax<T> softmax, DeviceSo2Values<R> values,
               Scratch &scratch) const;
  // With attention, call this before backward() for these atoms, with y as forward() has left it.
  void begin_backward(const DeviceExec &exec, int num_atoms, FeatureRows<const R> y, FeatureRows<const R> y_adj,
                      So2Softmax<T> softmax) const;
  // y_adj and softmax begin, for receivers, with the batch's atoms, and for senders with the row from which their
  // edges count receivers.
  void backward(const DeviceExec &exec, const DeviceBatchEdges &batch, const DeviceSo2Geometry<T> &geometry,
                const DeviceNetworkInput<R> &input, FeatureRows<const R> y_adj, So2Softmax<T> softmax,
                const DeviceSo2Adjoints<T> &adjoints, DeviceSo2Values<R> values, Scratch &scratch) const;
  // x_adj += the rows that backward of receivers left for the edges of the batch's atoms, which are senders; x_adj
  // begins with these atoms.
  void gather_senders(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> of_edges,
                      FeatureRows<R> x_adj) const;

  auto members() const {
    return std::tie(network_, data_, recursion_begin_, recursion_terms_, turns_, terms_, score_places_);
  }
  // For the log.
  const std::string &describe() const { return description_; }
  // Numbers per edge that DeviceSo2Values may have. Values with tangents are not kept.
  int64_t values_per_edge() const { return IS_DUAL<T> ? 0 : values_size(1); }
  // Visits the arrays of the scratch that batches of num_edges edges need.
  void for_edge_scratch(Scratch &scratch, int64_t num_edges, const ArrayVisitor &f) const;

  // Number of edges that go through the linears together: enough to fill a device, with some hundred MB of scratch.
  static constexpr int64_t CHUNK = DeviceTraits<>::ON_HOST ? 1024 : 8192;

 private:
  static constexpr bool IS_FLOAT64 = std::is_same_v<T, DoubleOf<T>>;
  struct Linear {
    So2PaddedLinear layout;           // its matrices are on the device
    std::vector<int64_t> weights;     // offsets in data_ of the matrices of each |m|
    int64_t bias;                     // offset of the bias in data_, -1: none
    int64_t first_term, num_terms;    // terms of its product, in terms_
    int64_t points;                   // offset in data_ of the matrices of an activation at points
    int num_points;                   // 0: none
    bool has_product() const { return num_terms > 0; }
    bool has_points() const { return num_points > 0; }
    bool has_step() const { return layout.has_gate || has_product() || has_points(); }
  };
  // Arrays in the scratch.
  struct Work {
    std::vector<R *> in, out;    // arrays of each linear; without a step between, out is the next in
    R *messages;                 // input of a linear after the last, if one existed
    R *scores;                   // scores of attention
    R *of_messages;              // backward: adjoints of the messages
    std::vector<R *> of_made;    // backward: for linears with a product or at points, the adjoint of their output
    bool has_outputs;            // backward: whether the outputs of the forward pass are kept
  };
  // Some edges with the numbers that do not depend on features.
  struct Edges {
    DeviceBatchEdges batch;
    int64_t count;
    int *own_row, *other_row, *out_row;    // [count]: rows of the input, and of the output or its adjoint
    T *rotations;                          // [count][rotations_size(lmax)]
    T *cutoff, *cutoff_slope;              // [count]
    T *cutoff_adj, *torque;                // [count], [count][3]
    So2Factors<T> factors;                 // radial factors
    bool of_senders;
    FeatureRows<const R> x;    // with the planes of T
    const int *sender_row() const { return of_senders ? own_row : other_row; }
    const int *receiver_row() const { return of_senders ? other_row : own_row; }
  };

  DeviceSo2Convolution(const DeviceExec &exec, const So2Convolution &layer, So2Linears padded,
                       const FeatureLayout &input, const FeatureLayout &in, const FeatureLayout &out, int num_species,
                       const EvaluatorOptions &options);
  int64_t values_size(int64_t count) const;
  // The arrays, starting at `first`, and their total size. values: where the outputs of linears are; null: there, too.
  std::pair<Work, int64_t> work(R *first, int64_t count, bool backward, R *values) const;
  Work work(const Edges &edges, bool backward, const DeviceSo2Values<R> &values, Scratch &scratch) const;
  // Calls f(edges) for the batch's edges, some at a time.
  template <class F>
  void for_chunks(const DeviceExec &exec, const DeviceBatchEdges &batch, const DeviceSo2Geometry<T> &geometry,
                  const DeviceNetworkInput<R> &input, Scratch &scratch, const F &f) const;
  Edges make_edges(const DeviceExec &exec, const DeviceBatchEdges &chunk, const DeviceSo2Geometry<T> &geometry,
                   const DeviceNetworkInput<R> &input, Scratch &scratch) const;
  So2Frames<T> frames(const Edges &edges, const FeatureLayout &layout, FeatureRows<const R> rows) const;
  So2RotateBackKernel<T> rotation_back(const Edges &edges, const FeatureLayout &layout, FeatureRows<R> rows,
                                       So2Shape shape, const R *u) const;
  void rotate_back(const DeviceExec &exec, const char *label, const So2RotateBackKernel<T> &kernel) const;
  // Those of the first linear's input, or none.
  So2Factors<T> first_factors(const Edges &edges) const {
    return radial_linear_ == 0 ? edges.factors : So2Factors<T>{};
  }
  // Null without a bias.
  const R *bias(const Linear &linear) const;
  // Whether the step that reads the output of linear k adds its bias: a gate, or the rotation of messages.
  bool adds_bias_later(size_t k) const {
    return heads_ == 0 && (linears_[k].layout.has_gate || (k + 1 == linears_.size() && !linears_[k].has_step()));
  }
  const R *bias_of_messages() const {
    const Linear &last = linears_.back();
    return adds_bias_later(linears_.size() - 1) && !last.has_step() ? bias(last) : nullptr;
  }
  void multiply(const DeviceExec &exec, const Linear &linear, bool transpose, int64_t count, const R *from,
                R *to) const;
  So2BiasedGate<T> gate(size_t k, int64_t count, R *z, R *h) const;
  So2BilinearCall<T> product(const Linear &linear, int64_t count, const R *z, R *h, R *z_adj) const;
  So2PointsCall<T> at_points(const Linear &linear, int64_t count, const R *z, R *h, R *z_adj) const;
  So2AttentionCall<T> attention(const Edges &edges, const Work &work, So2Softmax<T> softmax, R *messages,
                                R *z_adj) const;
  // Computes the scores of the edges.
  void make_scores(const DeviceExec &exec, const So2AttentionCall<T> &call) const;
  So2Sums<T> sums(FeatureRows<const R> rows) const;
  void make_output(const DeviceExec &exec, const Edges &edges, size_t linear, const Work &work) const;
  // Computes messages from features, or from the outputs that are kept.
  void make_values(const DeviceExec &exec, const Edges &edges, const Work &work) const;
  void find_messages_adjoint(const DeviceExec &exec, const Edges &edges, FeatureRows<const R> y_adj,
                             const Work &work) const;
  // Returns the adjoint of the first linear's input. Replaces factors of later inputs by their adjoints, for
  // receivers' edges.
  R *find_input_adjoint(const DeviceExec &exec, const Edges &edges, So2Softmax<T> softmax, const Work &work) const;

  FeatureLayout input_, in_, out_;
  bool has_edge_rows_;
  int channels_in_, factors_row_;
  So2Shape first_;
  size_t radial_linear_;
  int lmax_;
  bool depends_on_frame_, has_tf32_;
  EdgeNetwork<T> host_network_;
  DeviceEdgeNetwork<T> network_;
  std::string description_;
  std::vector<Linear> linears_;
  DeviceBuffer<R> data_;
  DeviceBuffer<int> recursion_begin_;
  DeviceBuffer<RotationTerm> recursion_terms_;
  DeviceBuffer<So2Turn<R>> turns_;
  DeviceBuffer<So2ProductTerm<R>> terms_;
  // For attention, if the convolution has any.
  int heads_, scores_, head_size_;
  R score_epsilon_;
  int64_t score_data_;    // offset in data_ of weights, biases and vectors
  DeviceBuffer<int> score_places_;
};

}    // namespace equi

#endif

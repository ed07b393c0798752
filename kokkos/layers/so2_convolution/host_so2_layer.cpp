// SPDX-License-Identifier: MIT
// The SO(2) convolution on the host: lists of edges, their frames and radial factors, and the passes.
#include "kokkos/layers/so2_convolution/host_so2_layer.h"

#include "src/numbers/number_types.h"

#include <algorithm>
#include <cmath>

namespace equi {

namespace {

// Number of windows of distances in a list (radial_windows.h).
constexpr int NUM_WINDOWS = 8;
// Number of senders in a gather; it has about as many edges.
constexpr int GATHERED_SENDERS = 4;

}    // namespace

template <class T>
HostSo2Layer<T>::HostSo2Layer(HostContext &context, const So2Convolution &layer)
    : input_(layer.input),
      output_(layer.output),
      num_species_(context.model.num_species()),
      lmax_(layer.lmax),
      depends_on_frame_(layer.depends_on_frame()),
      rotations_(layer.lmax),
      in_(context.model.features[input_], PLANES<T>),
      out_(context.model.features[output_], PLANES<T>),
      convolution_(context.set, layer, in_, out_),
      network_(EdgeNetwork<T>::for_distances(layer.radial, in_, num_species_, network_columns(convolution_.columns()),
                                             convolution_.factors_row(), context.options, NUM_WINDOWS, context.set)),
      description_(describe_so2_convolution(layer, network_.describe())),
      kept_before_(context.kept_per_edge) {
  context.kept_per_edge += convolution_.values_size(1);
  const RadialBasis &basis = layer.radial.basis;
  const int pairs = basis.depends_on_pair() ? num_species_ * num_species_ : 1;
  for (int k = 0; k < pairs; k++)
    bases_.push_back(pairs == 1 ? basis : basis.for_pair(k / num_species_, k % num_species_));
}

template <class T>
int HostSo2Layer<T>::gather_size() const {
  return GATHERED_SENDERS;
}

// Scratch that inputs_of() and forward_moments() need for a list.
template <class T>
void HostSo2Layer<T>::for_edge_scratch(const HostEvaluationState<T> &evaluation, HostScratch<T> &scratch,
                                       int64_t num_edges, const ArrayVisitor &f) const {
  const int64_t count = std::min<int64_t>(num_edges, LIST_EDGES);
  // A gather cannot use the values that are kept.
  const bool has_all_values =
      evaluation.kept.num_edges >= num_edges && !evaluation.is_gathering && !evaluation.energy_moments;
  f(scratch.so2, convolution_.scratch_size(count, !evaluation.energy_moments) +
                     (has_all_values ? 0 : convolution_.values_size(count)));
  f(scratch.y_adj, count * (rotations_.size() + 7));
  f(scratch.weights, network_.weights_size(count));
  f(scratch.radial, network_.scratch_size(count));
  if (evaluation.energy_moments) f(scratch.edge_rows, EdgeList::TANGENT_ROWS * in_.row_size());
}

// ---- edges
template <class T>
FeatureRows<const Real<T>> HostSo2Layer<T>::input_rows(const Batch &batch) const {
  FeatureRows<R> x = batch.rows(input_);
  x.first = 0;
  return x;
}

template <class T>
typename HostSo2Layer<T>::Inputs HostSo2Layer<T>::inputs_of(Batch &batch, const EdgeList &list, FeatureRows<const R> x,
                                                            bool backward, bool may_keep) const {
  const int count = list.count, size = rotations_.size();
  Inputs in{};
  R *const kept =
      may_keep ? batch.evaluation.kept.of_layer(kept_before_, convolution_.values_size(1), list.first, count) : nullptr;
  const int64_t constants = convolution_.scratch_size(count, backward);
  in.are_kept = kept != nullptr;
  in.work = batch.scratch.so2.reserve(constants + (kept ? 0 : convolution_.values_size(count)));
  in.values = kept ? kept : in.work + constants;
  T *const rotations = batch.scratch.y_adj.reserve(count * (size + 7)), *const cutoff = rotations + count * size;
  in.cutoff_slope = cutoff + count;
  in.cutoff_adj = in.cutoff_slope + count;
  in.distance_adj = in.cutoff_adj + count;
  in.torque = in.distance_adj + count;
  for (int e = 0; e < count; e++) {
    D n[3], frame[9], of_edge[rotations_size(SO2_LMAX)];
    for (int k = 0; k < 3; k++) n[k] = list.unit[3 * e + k];
    Rotations::frame(n, frame);
    rotations_.evaluate(frame, of_edge);
    for (int k = 0; k < size; k++) rotations[e * size + k] = static_cast<T>(of_edge[k]);
    const int pair = bases_.size() == 1 ? 0 : list.receiver_species[e] * num_species_ + list.sender_species[e];
    const D distance = list.distance[e];
    double of_cutoff[3] = {};
    bases_[pair].cutoff_function(value_of(distance), PLANES<T>, -1, of_cutoff);
    const auto of_distance = [&](int k) {
      return static_cast<T>(make_number<D>(of_cutoff[k], of_cutoff[k + 1] * tangent_of(distance)));
    };
    cutoff[e] = of_distance(0);
    in.cutoff_slope[e] = of_distance(1);
  }
  in.factors = batch.scratch.weights.reserve(network_.weights_size(count));
  network_.forward(batch.evaluation.kernels, list.network_edges(),
                   batch.scratch.radial.reserve(network_.scratch_size(count)), in.factors);
  in.edges = {count, list.sender, list.receiver, rotations, cutoff, in.factors, x};
  return in;
}

// ---- forward, backward and gather
template <class T>
void HostSo2Layer<T>::forward(Batch &batch) {
  if (batch.evaluation.energy_moments) return forward_moments(batch);
  const FeatureRows<R> y = batch.rows(output_);
  set_to_zero(y, batch.layout(output_), batch.count, batch.evaluation.planes);
  const So2Softmax<T> softmax = this->softmax(batch.first);
  if (convolution_.heads() > 0) convolution_.begin(batch.count, softmax);
  for_receiver_lists(batch, network_, [&](const EdgeList &list) {
    const Inputs in = inputs_of(batch, list, input_rows(batch), false, true);
    convolution_.forward(in.edges, y, list.out, softmax, in.work, in.values);
  });
  if (convolution_.heads() > 0) convolution_.finish(batch.count, y, softmax);
}

template <class T>
void HostSo2Layer<T>::forward_moments(Batch &batch) {
  const FeatureRows<R> y = batch.rows(output_);
  const int64_t out_size = static_cast<int64_t>(batch.count) * out_.row_size();
  R *of_direction = batch.scratch.edge_rows.reserve(out_size + EdgeList::TANGENT_ROWS * in_.row_size());
  const FeatureRows<R> sum{of_direction, batch.count, 0}, x{of_direction + out_size, EdgeList::TANGENT_ROWS, 0};
  const So2Softmax<T> softmax = this->softmax(batch.first);
  for (int d = 0; d < batch.evaluation.num_directions(); d++) {
    std::fill_n(of_direction, out_size, R(0));
    if (convolution_.heads() > 0) convolution_.begin(batch.count, softmax);
    for_receiver_lists(batch, network_, [&](EdgeList &list) {
      list.set_tangent_rows(batch, d, batch.layout(input_), input_rows(batch), in_, x);
      const Inputs in = inputs_of(batch, list, x, false, false);
      convolution_.forward(in.edges, sum, list.out, softmax, in.work, in.values);
    });
    if (convolution_.heads() > 0) convolution_.finish(batch.count, sum, softmax);
    store_direction<R>(d, batch.count, out_, sum, batch.layout(output_), y);
  }
}

template <class T>
void HostSo2Layer<T>::backward_of(const EdgeList &list, const Inputs &in, FeatureRows<const R> out_adj,
                                  So2Softmax<T> softmax, FeatureRows<R> sender_adj, FeatureRows<R> receiver_adj) const {
  convolution_.backward(in.edges, out_adj, list.out, softmax, in.work, in.values, in.are_kept,
                        {in.factors, in.cutoff_adj, in.torque, sender_adj, receiver_adj, list.to_sender, list.out});
}

template <class T>
void HostSo2Layer<T>::backward(Batch &batch) {
  const HostEvaluationState<T> &evaluation = batch.evaluation;
  const bool fixed = batch.step->fixed_input;
  const FeatureRows<R> none{nullptr, 0, 0};
  const FeatureRows<R> partial = fixed || evaluation.is_gathering ? none : batch.partial;
  const FeatureRows<R> own_adj = fixed ? none : batch.rows(input_, true);
  if (!fixed && !batch.adds(input_)) set_to_zero(own_adj, batch.layout(input_), batch.count, batch.evaluation.planes);
  const FeatureRows<R> out_adj = batch.rows(output_, true);
  const So2Softmax<T> softmax = this->softmax(batch.first);
  if (convolution_.heads() > 0) convolution_.begin_backward(batch.count, batch.rows(output_), out_adj, softmax);
  for_receiver_lists(batch, network_, [&](const EdgeList &list) {
    const Inputs in = inputs_of(batch, list, input_rows(batch), true, true);
    backward_of(list, in, out_adj, softmax, partial, own_adj);
    for (int e = 0; e < list.count; e++) in.distance_adj[e] = in.cutoff_adj[e] * in.cutoff_slope[e];
    network_.backward(evaluation.kernels, list.network_edges(), batch.scratch.radial.data(), in.factors,
                      {in.distance_adj, 1, none, none, nullptr, nullptr});
    const R inverse_norm = static_cast<R>(1 / std::sqrt(3.0));    // Y_1 = sqrt(3) n
    for (int e = 0; e < list.count; e++) {
      D *adjoint = evaluation.edges.adjoint() + list.edge[e] * evaluation.edges.num_y();
      adjoint[0] += static_cast<D>(in.distance_adj[e]);
      if (lmax_ == 0) continue;
      T gradient[3];
      so2_direction_gradient(in.edges.rotations + e * rotations_.size() + 1, in.torque + 3 * e, depends_on_frame_,
                             gradient);
      for (int k = 0; k < 3; k++) adjoint[1 + k] += static_cast<D>(inverse_norm * gradient[k]);
    }
  });
}

template <class T>
void HostSo2Layer<T>::gather(Batch &senders, FeatureRows<R> sums) {
  const HostEvaluationState<T> &evaluation = senders.evaluation;
  set_to_zero(sums, senders.layout(input_), senders.count, evaluation.planes);
  const FeatureRows<R> out_adj = evaluation.features.rows({0, evaluation.num_receivers, nullptr}, output_, true);
  for_sender_lists(senders, network_, [&](const EdgeList &list) {
    backward_of(list, inputs_of(senders, list, input_rows(senders), true, false), out_adj, softmax(0), sums,
                {nullptr, 0, 0});
  });
}

EQUI_INSTANTIATE_NUMBERS(HostSo2Layer)

}    // namespace equi

// SPDX-License-Identifier: MIT
// Pair attention on the host: weights of edges, messages and adjoints.
#include "kokkos/layers/pair_attention/host_pair_attention.h"

#include "src/numbers/number_types.h"

#include <algorithm>
#include <numeric>

namespace equi {

namespace {

// Number of windows of distances in a list (radial_windows.h).
constexpr int NUM_WINDOWS = 8;
// Number of senders in a gather; it has about as many edges as a list.
constexpr int GATHERED_SENDERS = 4;
// Blocks of the input and the output before tensors.
constexpr int TENSORS_IN = 5, TENSORS_OUT = 1;

// Sizes of arrays, so that the next one is aligned.
int64_t aligned(int64_t size) {
  return (size + CHANNEL_PAD - 1) / CHANNEL_PAD * CHANNEL_PAD;
}

}    // namespace

template <class T>
HostPairAttention<T>::HostPairAttention(HostContext &context, const PairAttention &layer)
    : input_(layer.input),
      output_(layer.output),
      in_(context.model.features[input_], PLANES<T>),
      out_(context.model.features[output_], PLANES<T>),
      squares_(differences_layout(layer, PLANES<T>)),
      shape_(layer, in_),
      radial_(EdgeNetwork<T>::for_distances(layer.radial, in_, context.model.num_species(),
                                            attention_columns(layer, shape_), shape_.row(), context.options,
                                            NUM_WINDOWS, context.set)),
      rows_(LIST_EDGES),
      description_(describe_pair_attention(layer, radial_.describe())) {
  for (int n = 0; n < static_cast<int>(layer.difference.size()); n++)
    difference_.emplace_back(difference_function(layer, n), squares_, context.model.num_species(),
                             difference_columns(layer, shape_, n == 1),
                             n == 1 ? shape_.channels_of_groups : shape_.channels_of_heads, context.set);
  std::iota(rows_.begin(), rows_.end(), 0);
}

template <class T>
int HostPairAttention<T>::gather_size() const {
  return GATHERED_SENDERS;
}

// ---- scratch
template <class T>
int64_t HostPairAttention<T>::work_size(int64_t count) const {
  int64_t size = 2 * aligned(PLANES<T> * count * shape_.num_parts());
  if (difference_.empty()) return size;
  size += 2 * count * squares_.row_size();
  for (const EdgeNetwork<T> &network : difference_)
    size += aligned(network.scratch_size(count)) + network.weights_size(count);
  return size;
}

template <class T>
void HostPairAttention<T>::for_edge_scratch(const HostEvaluationState<T> &evaluation, HostScratch<T> &scratch,
                                            int64_t num_edges, const ArrayVisitor &f) const {
  const int64_t count = std::min<int64_t>(num_edges, LIST_EDGES);
  f(scratch.so2, work_size(count));
  f(scratch.y_adj, count * (evaluation.edges.num_y() + 1));
  f(scratch.weights, radial_.weights_size(count));
  f(scratch.radial, radial_.scratch_size(count));
  if (evaluation.energy_moments) f(scratch.edge_rows, EdgeList::TANGENT_ROWS * in_.row_size());
}

// ---- edges
template <class T>
FeatureRows<Real<T>> HostPairAttention<T>::input_rows(const Batch &batch) const {
  FeatureRows<R> x = batch.rows(input_);
  x.first = 0;
  return x;
}

template <class T>
NetworkEdges<T> HostPairAttention<T>::difference_edges(const EdgeList &list, const Work &work) const {
  NetworkEdges<T> edges = list.network_edges();
  edges.sender_row = rows_.data();
  edges.x = {work.edges.squares, list.count, 0};
  return edges;
}

template <class T>
typename HostPairAttention<T>::Work HostPairAttention<T>::evaluate(Batch &batch, const EdgeList &list, FeatureRows<R> x,
                                                                   int direction) const {
  const int64_t count = list.count;
  const int num_y = batch.evaluation.edges.num_y();
  const HostKernels<T> &kernels = batch.evaluation.kernels;
  T *const y = batch.scratch.y_adj.reserve(count * (num_y + 1));
  for (int64_t e = 0; e < count; e++)
    std::copy_n(batch.evaluation.edges.harmonics(direction) + list.edge[e] * num_y, num_y, y + e * num_y);
  R *next = batch.scratch.so2.reserve(work_size(count));
  const auto take = [&](int64_t size) {
    R *const array = next;
    next += aligned(size);
    return array;
  };
  const auto planes = [&](R *array, int64_t width) { return make_pointer<T>(array, count * width); };
  R *const weights = batch.scratch.weights.reserve(radial_.weights_size(count));
  const int parts = shape_.num_parts();
  const int64_t of_scores = PLANES<T> * count * parts;
  Work work{{shape_,
             count,
             list.sender,
             list.receiver,
             list.out,
             AttentionRows<T>(x, in_, TENSORS_IN),
             planes(weights, shape_.row()),
             {},
             nullptr,
             nullptr,
             squares_.group(0).width(),
             squares_.group(0).channels,
             y,
             num_y,
             planes(take(of_scores), parts),
             planes(take(of_scores), parts)},
            {},
            {},
            y + count * num_y};
  AttentionEdges<T> &edges = work.edges;
  radial_.forward(kernels, list.network_edges(), batch.scratch.radial.reserve(radial_.scratch_size(count)), weights);
  if (!difference_.empty()) {
    edges.squares = take(count * squares_.row_size());
    edges.squares_adj = take(count * squares_.row_size());
    for (int64_t e = 0; e < count; e++)
      for (int g = 0; g < shape_.num_groups; g++) edges.set_square(e, g);
    for (int n = 0; n < 2; n++) {
      const EdgeNetwork<T> &network = difference_[n];
      work.difference_scratch[n] = take(network.scratch_size(count));
      work.difference[n] = take(network.weights_size(count));
      network.forward(kernels, difference_edges(list, work), work.difference_scratch[n], work.difference[n]);
      const int width = n == 1 ? shape_.channels_of_groups : shape_.channels_of_heads;
      for (int64_t k = 0; k < PLANES<T> * count; k++) {
        R *const to = weights + k * shape_.row() + (n == 1 ? shape_.channels_of_heads : 0);
        const R *const from = work.difference[n] + k * width;
        for (int u = 0; u < width; u++) to[u] += from[u];
      }
    }
  }
  for (int64_t e = 0; e < count; e++)
    for (int part = 0; part < parts; part++) edges.set_score(e, part);
  return work;
}

template <class T>
void HostPairAttention<T>::add_messages(const AttentionEdges<T> &edges, const AttentionRows<T> &y) const {
  for (int64_t e = 0; e < edges.count; e++) {
    for (int h = 0; h < shape_.heads; h++) {
      const T a = edges.score(e, h);
      const Pointer<T> v = edges.values(e, h), to = y.at(edges.out[e], h * shape_.head_size);
      for (int u = 0; u < shape_.head_size; u++) add_to<T>(to, u, a * T(v[u]));
    }
    for (int g = 0; g < shape_.num_groups; g++) {
      const T b = edges.score(e, shape_.heads + g);
      const T *const harmonic = edges.harmonics(e, g);
      for (int m = 0; m <= 2 * shape_.l[g]; m++) add_to<T>(y.of_tensor(edges.out[e], g, m), 0, b * harmonic[m]);
    }
  }
}

// ---- forward, backward and gather
template <class T>
void HostPairAttention<T>::forward(Batch &batch) {
  if (batch.evaluation.energy_moments) return forward_moments(batch);
  const FeatureRows<R> y = batch.rows(output_);
  set_to_zero(y, batch.layout(output_), batch.count, batch.evaluation.planes);
  for_receiver_lists(batch, radial_, [&](const EdgeList &list) {
    add_messages(evaluate(batch, list, input_rows(batch), 0).edges, {y, out_, TENSORS_OUT});
  });
}

template <class T>
void HostPairAttention<T>::forward_moments(Batch &batch) {
  const int64_t out_size = static_cast<int64_t>(batch.count) * out_.row_size();
  R *of_direction = batch.scratch.edge_rows.reserve(out_size + EdgeList::TANGENT_ROWS * in_.row_size());
  const FeatureRows<R> sum{of_direction, batch.count, 0}, x{of_direction + out_size, EdgeList::TANGENT_ROWS, 0};
  for (int d = 0; d < batch.evaluation.num_directions(); d++) {
    std::fill_n(of_direction, out_size, R(0));
    for_receiver_lists(batch, radial_, [&](EdgeList &list) {
      list.set_tangent_rows(batch, d, batch.layout(input_), input_rows(batch), in_, x);
      add_messages(evaluate(batch, list, x, d).edges, {sum, out_, TENSORS_OUT});
    });
    store_direction<R>(d, batch.count, out_, sum, batch.layout(output_), batch.rows(output_));
  }
}

template <class T>
void HostPairAttention<T>::backward_of(const Batch &batch, const EdgeList &list, const Work &work,
                                       FeatureRows<R> y_adj_rows, FeatureRows<R> sender_adj,
                                       FeatureRows<R> receiver_adj, bool has_distance_adj) const {
  const AttentionEdges<T> &edges = work.edges;
  const AttentionRows<T> y_adj(y_adj_rows, out_, TENSORS_OUT), to_sender(sender_adj, in_, TENSORS_IN),
      to_receiver(receiver_adj, in_, TENSORS_IN);
  for (int64_t e = 0; e < edges.count; e++)
    for (int part = 0; part < shape_.num_parts(); part++) {
      edges.set_score_adj(e, part, y_adj);
      const AttentionPart<T> p = edges.part_of_edge(e, part);
      const int begin = shape_.part_begin(part);
      if (to_receiver.scalars) {
        const Pointer<T> q_adj = to_receiver.at(list.out[e], shape_.query_at(begin));
        for (int u = 0; u < p.size; u++) add_to<T>(q_adj, u, p.query_adj(u));
      }
      if (to_sender.scalars) {
        const Pointer<T> k_adj = to_sender.at(list.to_sender[e], shape_.key_at(begin));
        for (int u = 0; u < p.size; u++) add_to<T>(k_adj, u, p.key_adj(u));
        if (part < shape_.heads) {
          const Pointer<T> v_adj = to_sender.at(list.to_sender[e], shape_.value + begin),
                           g = y_adj.at(list.out[e], begin);
          for (int u = 0; u < p.size; u++) add_to<T>(v_adj, u, p.a * T(g[u]));
        }
      }
      for (int u = 0; u < p.size; u++) put(p.w, u, p.weight_adj(u));
    }
  if (difference_.empty()) return;

  const FeatureRows<R> none{nullptr, 0, 0};
  std::fill_n(edges.squares_adj, edges.count * squares_.row_size(), R(0));
  const FeatureRows<R> squares_adj{edges.squares_adj, edges.count, 0};
  const R *const weights_adj = batch.scratch.weights.data();
  for (int n = 0; n < 2; n++) {
    const int width = n == 1 ? shape_.channels_of_groups : shape_.channels_of_heads;
    for (int64_t k = 0; k < PLANES<T> * edges.count; k++)
      std::copy_n(weights_adj + k * shape_.row() + (n == 1 ? shape_.channels_of_heads : 0), width,
                  work.difference[n] + k * width);
    difference_[n].backward(
        batch.evaluation.kernels, difference_edges(list, work), work.difference_scratch[n], work.difference[n],
        {has_distance_adj ? work.distance_adj : nullptr, 1, none, squares_adj, nullptr, rows_.data()});
  }
  for (int64_t e = 0; e < edges.count; e++)
    for (int g = 0; g < shape_.num_groups; g++)
      for (int m = 0; m <= 2 * shape_.l[g]; m++) {
        const T adjoint = edges.tensor_adj(e, g, m);
        if (to_sender.scalars) add_to<T>(to_sender.of_tensor(list.to_sender[e], g, m), 0, adjoint);
        if (to_receiver.scalars) add_to<T>(to_receiver.of_tensor(list.out[e], g, m), 0, -adjoint);
      }
}

// The harmonic of degree 0 is a constant; its place has the derivative with respect to the distance.
template <class T>
void HostPairAttention<T>::add_harmonics_adj(const Batch &batch, const EdgeList &list, const AttentionEdges<T> &edges,
                                             const AttentionRows<T> &y_adj) const {
  for (int64_t e = 0; e < edges.count; e++) {
    D *const adjoint = batch.evaluation.edges.adjoint() + list.edge[e] * edges.num_y;
    for (int g = 0; g < shape_.num_groups; g++) {
      const int l = shape_.l[g];
      const T b = edges.score(e, shape_.heads + g);
      for (int m = 0; l > 0 && m <= 2 * l; m++)
        adjoint[l * l + m] += static_cast<D>(b * T(y_adj.of_tensor(list.out[e], g, m)[0]));
    }
  }
}

template <class T>
void HostPairAttention<T>::backward(Batch &batch) {
  const HostEvaluationState<T> &evaluation = batch.evaluation;
  const bool fixed = batch.step->fixed_input;
  const FeatureRows<R> none{nullptr, 0, 0};
  const FeatureRows<R> partial = fixed || evaluation.is_gathering ? none : batch.partial;
  const FeatureRows<R> own_adj = fixed ? none : batch.rows(input_, true);
  if (!fixed && !batch.adds(input_)) set_to_zero(own_adj, batch.layout(input_), batch.count, evaluation.planes);
  const FeatureRows<R> y_adj = batch.rows(output_, true);
  for_receiver_lists(batch, radial_, [&](const EdgeList &list) {
    const Work work = evaluate(batch, list, input_rows(batch), 0);
    add_harmonics_adj(batch, list, work.edges, {y_adj, out_, TENSORS_OUT});
    std::fill_n(work.distance_adj, list.count, T(0));
    backward_of(batch, list, work, y_adj, partial, own_adj, true);
    radial_.backward(evaluation.kernels, list.network_edges(), batch.scratch.radial.data(),
                     batch.scratch.weights.data(), {work.distance_adj, 1, none, none, nullptr, nullptr});
    for (int e = 0; e < list.count; e++)
      evaluation.edges.adjoint()[list.edge[e] * evaluation.edges.num_y()] += static_cast<D>(work.distance_adj[e]);
  });
}

template <class T>
void HostPairAttention<T>::gather(Batch &senders, FeatureRows<R> sums) {
  const HostEvaluationState<T> &evaluation = senders.evaluation;
  set_to_zero(sums, senders.layout(input_), senders.count, evaluation.planes);
  const FeatureRows<R> y_adj = evaluation.features.rows({0, evaluation.num_receivers, nullptr}, output_, true);
  for_sender_lists(senders, radial_, [&](const EdgeList &list) {
    backward_of(senders, list, evaluate(senders, list, input_rows(senders), 0), y_adj, sums, {nullptr, 0, 0}, false);
  });
}

EQUI_INSTANTIATE_NUMBERS(HostPairAttention)

}    // namespace equi

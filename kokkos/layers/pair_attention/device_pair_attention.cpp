// SPDX-License-Identifier: MIT
// Pair attention on a device: kernels of edges and of sums over them, scratch, and their sequence in each pass.
#include "kokkos/layers/pair_attention/device_pair_attention.h"

#include "kokkos/device_kernels/device_dense.h"
#include "kokkos/layer_interface/device_edge_rows.h"
#include "src/numbers/number_types.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace equi {

namespace {

// Blocks of the input and the output before tensors.
constexpr int TENSORS_IN = 5, TENSORS_OUT = 1;
// Rows of integers that a chunk needs per edge: those of both atoms, and of the output.
constexpr int ATTENTION_ROWS = 3;

// ---- kernels of edges
// For each edge of a chunk: its row of the output, and its harmonics. Positions that are not edges read row 0.
template <class T>
struct AttentionRowsKernel {
  DeviceBatchEdges batch;
  bool of_senders;
  const T *harmonics;
  int num_y;
  int *own_row, *other_row, *out_row;
  T *y;
  KOKKOS_FUNCTION void operator()(int64_t c) const {
    const int64_t position = batch.first + c;
    if (!batch.contains(position)) {
      own_row[c] = other_row[c] = out_row[c] = 0;
      for (int k = 0; k < num_y; k++) y[c * num_y + k] = T(0);
      return;
    }
    out_row[c] = of_senders ? batch.other_row[position] : batch.atom_at(position);
    const T *const from = harmonics + batch.edge_at(position) * harmonics_row(num_y);
    for (int k = 0; k < num_y; k++) y[c * num_y + k] = from[k];
  }
};

template <class T>
struct AttentionSquaresKernel {
  AttentionEdges<T> edges;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int groups = edges.shape.num_groups;
    edges.set_square(n / groups, static_cast<int>(n % groups));
  }
};

// Adds the outputs of the difference networks to the weights.
template <class T>
struct AttentionDifferenceKernel {
  AttentionEdges<T> edges;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int64_t e = n / edges.shape.row();
    const int column = static_cast<int>(n % edges.shape.row());
    add_to<T>(edges.row_of_weights(e), column, T(edges.difference_at(e, column)[0]));
  }
};

template <class T>
struct AttentionScoresKernel {
  AttentionEdges<T> edges;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int parts = edges.shape.num_parts();
    edges.set_score(n / parts, static_cast<int>(n % parts));
  }
};

template <class T>
struct AttentionScoresAdjointKernel {
  AttentionEdges<T> edges;
  AttentionRows<T> y_adj;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int parts = edges.shape.num_parts();
    edges.set_score_adj(n / parts, static_cast<int>(n % parts), y_adj);
  }
};

// Replaces weights, and the outputs of difference networks if there are any, by their adjoints.
template <class T>
struct AttentionWeightsAdjointKernel {
  AttentionEdges<T> edges;
  bool has_difference;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int64_t e = n / edges.shape.row();
    const int column = static_cast<int>(n % edges.shape.row()), part = edges.shape.part_of(column);
    T adjoint = T(0);
    if (part >= 0) adjoint = edges.part_of_edge(e, part).weight_adj(column - edges.shape.part_begin(part));
    put(edges.row_of_weights(e), column, adjoint);
    if (has_difference) put(edges.difference_at(e, column), 0, adjoint);
  }
};

// The harmonic of degree 0 is a constant; its place has the derivative with respect to the distance.
template <class T>
struct AttentionHarmonicsAdjointKernel {
  using D = DoubleOf<T>;
  DeviceBatchEdges batch;
  AttentionEdges<T> edges;
  AttentionRows<T> y_adj;
  D *edge_adj;
  KOKKOS_FUNCTION void operator()(int64_t e) const {
    if (!batch.contains(batch.first + e)) return;
    D *const adjoint = edge_adj + batch.edge_at(batch.first + e) * edges.num_y;
    for (int g = 0; g < edges.shape.num_groups; g++) {
      const int l = edges.shape.l[g];
      const T b = edges.score(e, edges.shape.heads + g);
      for (int m = 0; l > 0 && m <= 2 * l; m++)
        adjoint[l * l + m] += static_cast<D>(b * T(y_adj.of_tensor(edges.out[e], g, m)[0]));
    }
  }
};

// ---- terms of edges, which are summed over the edges of an atom or stored by edge
// The messages: channels of values, then components of tensors.
template <class T>
struct AttentionMessage {
  AttentionEdges<T> edges;
  AttentionRows<T> to;
  EQUI_FUNCTION int size() const { return edges.shape.channels_of_heads + edges.shape.num_components; }
  KOKKOS_FUNCTION T term(int64_t e, int k) const {
    const AttentionShape &shape = edges.shape;
    if (k < shape.channels_of_heads) {
      const int head = shape.part_of(k);
      return head < 0 ? T(0) : edges.score(e, head) * T(edges.values(e, head)[k - shape.part_begin(head)]);
    }
    const int c = k - shape.channels_of_heads, g = shape.group_of(c);
    return edges.score(e, shape.heads + g) * edges.harmonics(e, g)[c - shape.component[g]];
  }
  KOKKOS_FUNCTION Pointer<T> at(int64_t row, int k) const {
    const AttentionShape &shape = edges.shape;
    if (k < shape.channels_of_heads) return to.at(row, k);
    const int c = k - shape.channels_of_heads, g = shape.group_of(c);
    return to.of_tensor(row, g, c - shape.component[g]);
  }
};

// The adjoints of queries.
template <class T>
struct AttentionQueryAdjoint {
  AttentionEdges<T> edges;
  AttentionRows<T> to;
  EQUI_FUNCTION int size() const { return edges.shape.row(); }
  KOKKOS_FUNCTION T term(int64_t e, int k) const {
    const int part = edges.shape.part_of(k);
    return part < 0 ? T(0) : edges.part_of_edge(e, part).query_adj(k - edges.shape.part_begin(part));
  }
  KOKKOS_FUNCTION Pointer<T> at(int64_t row, int k) const { return to.at(row, edges.shape.query_at(k)); }
};

// The adjoints of keys, and of values.
template <class T>
struct AttentionKeyAdjoint {
  AttentionEdges<T> edges;
  AttentionRows<T> y_adj, to;
  EQUI_FUNCTION int size() const { return edges.shape.row() + edges.shape.channels_of_heads; }
  KOKKOS_FUNCTION T term(int64_t e, int k) const {
    const AttentionShape &shape = edges.shape;
    if (k < shape.row()) {
      const int part = shape.part_of(k);
      return part < 0 ? T(0) : edges.part_of_edge(e, part).key_adj(k - shape.part_begin(part));
    }
    const int channel = k - shape.row(), head = shape.part_of(channel);
    return head < 0 ? T(0) : edges.score(e, head) * T(y_adj.at(edges.out[e], channel)[0]);
  }
  KOKKOS_FUNCTION Pointer<T> at(int64_t row, int k) const {
    return to.at(row, k < edges.shape.row() ? edges.shape.key_at(k) : edges.shape.value + k - edges.shape.row());
  }
};

// The adjoints of tensors of senders or, with the other sign, of receivers.
template <class T>
struct AttentionTensorAdjoint {
  AttentionEdges<T> edges;
  AttentionRows<T> to;
  int of_senders;    // 1: the edges begin at senders, 0: at receivers
  EQUI_FUNCTION int size() const { return edges.shape.num_components; }
  KOKKOS_FUNCTION T term(int64_t e, int k) const {
    const int g = edges.shape.group_of(k);
    const T adjoint = edges.tensor_adj(e, g, k - edges.shape.component[g]);
    return of_senders ? adjoint : -adjoint;
  }
  KOKKOS_FUNCTION Pointer<T> at(int64_t row, int k) const {
    const int g = edges.shape.group_of(k);
    return to.of_tensor(row, g, k - edges.shape.component[g]);
  }
};

template <class T, class Terms>
struct SumOfEdgesKernel {
  DeviceBatchEdges batch;    // its positions are the edges of the terms
  Terms terms;
  int size;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int64_t a = n / size;
    const int k = static_cast<int>(n % size);
    const int64_t begin = batch.begin[a] - batch.first, end = batch.begin[a + 1] - batch.first;
    const int64_t last = end < batch.count ? end : batch.count;
    int64_t e = begin > 0 ? begin : 0;
    if (e >= last) return;
    // The sum of earlier chunks comes first, so the last bit does not depend on where chunks begin.
    const Pointer<T> to = terms.at(a, k);
    T sum = to[0];
    for (; e < last; e++) sum += terms.term(e, k);
    put(to, 0, sum);
  }
};
template <class T, class Terms>
struct TermsOfEdgesKernel {
  Terms terms;
  int size;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int k = static_cast<int>(n % size);
    put(terms.at(n / size, k), 0, T(terms.term(n / size, k)));
  }
};

template <class T, class Terms>
void add_sums(const DeviceExec &exec, const char *label, const DeviceBatchEdges &batch, const Terms &terms) {
  Kokkos::parallel_for(label, DeviceRange(exec, 0, static_cast<int64_t>(batch.num_atoms) * terms.size()),
                       SumOfEdgesKernel<T, Terms>{batch, terms, terms.size()});
}
template <class T, class Terms>
void store_terms(const DeviceExec &exec, const char *label, int64_t count, const Terms &terms) {
  Kokkos::parallel_for(label, DeviceRange(exec, 0, count * terms.size()),
                       TermsOfEdgesKernel<T, Terms>{terms, terms.size()});
}

template <class R>
void set_to_zero(const DeviceExec &exec, const FeatureLayout &layout, int64_t count, FeatureRows<R> rows) {
  for (const FeatureGroup &group : layout.groups()) device_zero(exec, rows.group(group), count * group.width());
}

}    // namespace

template <class T>
DevicePairAttention<T>::DevicePairAttention(DeviceContext &context, const PairAttention &layer)
    : input_(layer.input),
      output_(layer.output),
      feature_(context.layout(input_)),
      in_(context.model.features[input_], PLANES<T>),
      out_(context.model.features[output_], PLANES<T>),
      squares_(differences_layout(layer, PLANES<T>)),
      has_edge_rows_(context.options.energy_moments),
      shape_(layer, in_),
      host_radial_(EdgeNetwork<T>::for_distances(layer.radial, in_, context.model.num_species(),
                                                 attention_columns(layer, shape_), shape_.row(), context.options, 1,
                                                 best_instruction_set(), DENSE_MULTIPLE)),
      radial_(context.exec, host_radial_),
      description_(describe_pair_attention(layer, host_radial_.describe())) {
  for (int n = 0; n < static_cast<int>(layer.difference.size()); n++)
    difference_.push_back(std::make_unique<DifferenceNetwork>(
        context.exec, EdgeNetwork<T>(difference_function(layer, n), squares_, context.model.num_species(),
                                     difference_columns(layer, shape_, n == 1),
                                     n == 1 ? shape_.channels_of_groups : shape_.channels_of_heads)));
  std::vector<int> rows(CHUNK);
  std::iota(rows.begin(), rows.end(), 0);
  assign(context.exec, rows_, rows);
  std::vector<int64_t> begin(CHUNK + 1);
  std::iota(begin.begin(), begin.end(), 0);
  assign(context.exec, row_begin_, begin);
}

// ---- scratch
template <class T>
std::pair<typename DevicePairAttention<T>::Chunk, int64_t> DevicePairAttention<T>::work(R *first, int64_t count) const {
  int64_t size = 0;
  const auto take = [&](int64_t n) {
    R *const array = first ? first + size : nullptr;
    size += (n + CHANNEL_PAD - 1) / CHANNEL_PAD * CHANNEL_PAD;
    return array;
  };
  const auto scores = [&] {
    const int64_t plane = count * shape_.num_parts();
    return make_pointer<T>(take(PLANES<T> * plane), plane);
  };
  Chunk chunk{{}, false, {shape_}, nullptr, {}, {}};
  chunk.edges.scores = scores();
  chunk.edges.scores_adj = scores();
  if (!has_tensors()) return {chunk, size};
  chunk.edges.squares_width = squares_.group(0).width();
  chunk.edges.squares_channels = squares_.group(0).channels;
  chunk.edges.squares = take(count * squares_.row_size());
  chunk.edges.squares_adj = take(count * squares_.row_size());
  for (int n = 0; n < 2; n++) {
    const DeviceEdgeNetwork<T> &network = difference_[n]->device;
    chunk.difference_scratch[n] = take(network.scratch_size(count));
    chunk.difference[n] = take(network.weights_size(count));
    chunk.edges.difference[n] = make_pointer<T>(chunk.difference[n], network.weights_plane(count));
  }
  return {chunk, size};
}

template <class T>
void DevicePairAttention<T>::for_edge_scratch(State &evaluation, int64_t num_edges, const ArrayVisitor &f) const {
  const int64_t n = std::min(num_edges, CHUNK);
  DeviceConvScratch<T> &scratch = evaluation.scratch;
  f(scratch.so2.rows, ATTENTION_ROWS * n);
  f(scratch.so2.numbers, evaluation.edges.num_y() * n);
  f(scratch.so2.work, work(nullptr, n).second);
  if (has_edge_rows_) f(scratch.edge_rows, 2 * n * in_.row_size());
  f(scratch.network, radial_.scratch_size(n));
  f(scratch.weights, radial_.weights_size(n));
}

// ---- edges
template <class T>
typename DevicePairAttention<T>::Chunk DevicePairAttention<T>::evaluate(State &evaluation,
                                                                        const DeviceBatchEdges &batch,
                                                                        const DeviceNetworkInput<R> &input) const {
  const int d = input.direction;
  const DeviceExec &exec = evaluation.exec;
  DeviceConvScratch<T> &scratch = evaluation.scratch;
  const DeviceEdges<T> &all = evaluation.edges;
  const int64_t count = batch.count;
  Chunk chunk = work(scratch.so2.work.reserve(work(nullptr, count).second), count).first;
  chunk.batch = batch;
  chunk.of_senders = input.of_senders;
  int *const own_row = scratch.so2.rows.reserve(ATTENTION_ROWS * count), *const other_row = own_row + count,
             *const out_row = other_row + count;
  T *const y = scratch.so2.numbers.reserve(all.num_y() * count);
  radial_.find_rows(exec, batch, all.pair(), input, own_row, other_row);
  FeatureRows<const R> x = input.x;
  if (has_edge_rows_) {
    DeviceNetworkInput<R> of_edges = input;
    of_edges.of_edges = true;
    x = copy_edge_rows<R>(exec, batch, all.distance(), all.unit_vector(), other_row, own_row, feature_, x, d, in_,
                          scratch.edge_rows);
    radial_.find_rows(exec, batch, all.pair(), of_edges, own_row, other_row);
  }
  Kokkos::parallel_for(
      "equi:attention_rows", DeviceRange(exec, 0, count),
      AttentionRowsKernel<T>{batch, input.of_senders, all.harmonics(d), all.num_y(), own_row, other_row, out_row, y});
  AttentionEdges<T> &edges = chunk.edges;
  edges.count = count;
  edges.sender = input.of_senders ? own_row : other_row;
  edges.receiver = input.of_senders ? other_row : own_row;
  edges.out = out_row;
  // this call only reads them
  edges.x = AttentionRows<T>({const_cast<R *>(x.data), x.rows, x.first}, in_, TENSORS_IN);
  edges.y = y;
  edges.num_y = all.num_y();
  chunk.weights = scratch.weights.reserve(radial_.weights_size(count));
  edges.weights = make_pointer<T>(chunk.weights, radial_.weights_plane(count));
  const DeviceNetworkEdges<T> network_edges{batch, all.distance(d), all.pair(), own_row, other_row,
                                            x,     input.of_senders};
  radial_.forward(exec, network_edges, scratch.network.reserve(radial_.scratch_size(count)), chunk.weights);
  if (has_tensors()) {
    Kokkos::parallel_for("equi:attention_squares", DeviceRange(exec, 0, count * shape_.num_groups),
                         AttentionSquaresKernel<T>{edges});
    DeviceNetworkEdges<T> of_rows = network_edges;
    of_rows.own_row = of_rows.other_row = rows_.data();
    of_rows.x = {edges.squares, count, 0};
    for (int n = 0; n < 2; n++)
      difference_[n]->device.forward(exec, of_rows, chunk.difference_scratch[n], chunk.difference[n]);
    Kokkos::parallel_for("equi:attention_differences", DeviceRange(exec, 0, count * shape_.row()),
                         AttentionDifferenceKernel<T>{edges});
  }
  Kokkos::parallel_for("equi:attention_scores", DeviceRange(exec, 0, count * shape_.num_parts()),
                       AttentionScoresKernel<T>{edges});
  return chunk;
}

template <class T>
template <class F>
void DevicePairAttention<T>::for_chunks(State &evaluation, const DeviceBatchEdges &batch,
                                        const DeviceNetworkInput<R> &input, const F &f) const {
  for (int64_t first = 0; first < batch.count; first += CHUNK) {
    DeviceBatchEdges part = batch;
    part.first += first;
    part.count = std::min(CHUNK, batch.count - first);
    f(evaluate(evaluation, part, input));
  }
}

// ---- forward, backward and gather
template <class T>
void DevicePairAttention<T>::forward(Batch &batch) {
  if (!batch.evaluation.energy_moments) return forward(batch, 0, batch.rows(output_));
  const FeatureRows<R> sum{batch.layer_scratch(scratch_size(batch.count)), batch.count, 0};
  for (int d = 0; d < batch.evaluation.num_directions(); d++) {
    forward(batch, d, sum);
    store_direction<R>(batch.evaluation.exec, d, batch.count, out_, sum, batch.layout(output_), batch.rows(output_));
  }
}

template <class T>
void DevicePairAttention<T>::forward(Batch &batch, int direction, FeatureRows<R> y) {
  const DeviceExec &exec = batch.evaluation.exec;
  set_to_zero(exec, out_, batch.count, y);
  DeviceNetworkInput<R> x = input(batch);
  x.direction = direction;
  for_chunks(batch.evaluation, batch.edges(batch.step->fixed_input), x, [&](const Chunk &chunk) {
    add_sums<T>(exec, "equi:attention_messages", chunk.batch,
                AttentionMessage<T>{chunk.edges, AttentionRows<T>(y, out_, TENSORS_OUT)});
  });
}

template <class T>
void DevicePairAttention<T>::add_squares_adj(State &evaluation, const Chunk &chunk) const {
  const DeviceExec &exec = evaluation.exec;
  const int64_t count = chunk.batch.count;
  device_zero(exec, chunk.edges.squares_adj, count * squares_.row_size());
  // Each edge has a row of squares, as if it were the only edge of an atom.
  DeviceBatchEdges rows{};
  rows.num_atoms = static_cast<int>(count);
  rows.begin = row_begin_.data();
  rows.count = count;
  for (int n = 0; n < 2; n++) {
    const DeviceEdgeNetwork<T> &network = difference_[n]->device;
    network.backward(exec, count, chunk.difference_scratch[n], chunk.difference[n]);
    if (!chunk.of_senders)
      network.add_distance_adjoints(exec, chunk.batch, chunk.difference_scratch[n], evaluation.edges.adjoint(),
                                    evaluation.edges.num_y());
    network.add_atom_adjoints(exec, rows, true, chunk.difference_scratch[n], {chunk.edges.squares_adj, count, 0});
  }
}

template <class T>
void DevicePairAttention<T>::backward_of(State &evaluation, const Chunk &chunk, FeatureRows<R> y_adj_rows,
                                         const Adjoints &adjoints) const {
  const DeviceExec &exec = evaluation.exec;
  const AttentionEdges<T> &edges = chunk.edges;
  const int64_t count = chunk.batch.count;
  const AttentionRows<T> y_adj(y_adj_rows, out_, TENSORS_OUT), own(adjoints.own, in_, TENSORS_IN);
  FeatureRows<R> rows_of_edges = adjoints.of_edges;
  rows_of_edges.first = chunk.batch.first;
  const AttentionRows<T> of_edges(rows_of_edges, in_, TENSORS_IN);
  Kokkos::parallel_for("equi:attention_scores_adjoint", DeviceRange(exec, 0, count * shape_.num_parts()),
                       AttentionScoresAdjointKernel<T>{edges, y_adj});
  if (own.scalars && chunk.of_senders)
    add_sums<T>(exec, "equi:attention_keys_adjoint", chunk.batch, AttentionKeyAdjoint<T>{edges, y_adj, own});
  if (own.scalars && !chunk.of_senders)
    add_sums<T>(exec, "equi:attention_queries_adjoint", chunk.batch, AttentionQueryAdjoint<T>{edges, own});
  if (of_edges.scalars) {
    set_to_zero(exec, in_, count, rows_of_edges);    // queries are the receiver's
    store_terms<T>(exec, "equi:attention_keys_of_edges", count, AttentionKeyAdjoint<T>{edges, y_adj, of_edges});
  }
  if (chunk.of_senders && !has_tensors()) return;

  Kokkos::parallel_for("equi:attention_weights_adjoint", DeviceRange(exec, 0, count * shape_.row()),
                       AttentionWeightsAdjointKernel<T>{edges, has_tensors()});
  if (has_tensors()) {
    add_squares_adj(evaluation, chunk);
    if (own.scalars)
      add_sums<T>(exec, "equi:attention_tensors_adjoint", chunk.batch,
                  AttentionTensorAdjoint<T>{edges, own, chunk.of_senders ? 1 : 0});
    if (of_edges.scalars)
      store_terms<T>(exec, "equi:attention_tensors_of_edges", count, AttentionTensorAdjoint<T>{edges, of_edges, 1});
  }
  if (chunk.of_senders) return;

  Kokkos::parallel_for("equi:attention_harmonics_adjoint", DeviceRange(exec, 0, count),
                       AttentionHarmonicsAdjointKernel<T>{chunk.batch, edges, y_adj, evaluation.edges.adjoint()});
  radial_.backward(exec, count, evaluation.scratch.network.data(), chunk.weights);
  radial_.add_distance_adjoints(exec, chunk.batch, evaluation.scratch.network.data(), evaluation.edges.adjoint(),
                                evaluation.edges.num_y());
}

template <class T>
void DevicePairAttention<T>::backward(Batch &batch) {
  State &evaluation = batch.evaluation;
  const bool fixed = batch.step->fixed_input;
  const FeatureRows<R> none{nullptr, 0, 0}, own_adj = fixed ? none : batch.rows(input_, true);
  if (!fixed && !batch.adds(input_)) set_to_zero(evaluation.exec, in_, batch.count, own_adj);
  const FeatureRows<R> y_adj = batch.rows(output_, true);
  for_chunks(evaluation, batch.edges(fixed), input(batch), [&](const Chunk &chunk) {
    backward_of(evaluation, chunk, y_adj, {own_adj, fixed ? none : kept(evaluation)});
  });
}

template <class T>
void DevicePairAttention<T>::gather(State &evaluation, const DeviceSenders &range, int slice_first,
                                    FeatureRows<R> x_adj) {
  const DeviceBatchEdges senders = evaluation.edges.senders(range);
  if (const FeatureRows<R> of_edges = kept(evaluation); of_edges.data)
    return gather_edge_rows<R>(evaluation.exec, "equi:attention_gather", senders, in_, of_edges, x_adj);
  const FeatureRows<R> x{evaluation.features.data(input_), evaluation.num_rows, 0};
  const DeviceNetworkInput<R> input{x, false, true, static_cast<int>(x_adj.first), slice_first};
  const FeatureRows<R> y_adj = evaluation.features.rows({slice_first, 0, nullptr}, output_, true);
  for_chunks(evaluation, senders, input, [&](const Chunk &chunk) {
    backward_of(evaluation, chunk, y_adj, {x_adj, {nullptr, 0, 0}});
  });
}

EQUI_INSTANTIATE_NUMBERS(DevicePairAttention)

}    // namespace equi

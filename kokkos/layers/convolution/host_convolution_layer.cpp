// SPDX-License-Identifier: MIT
// The convolution on the host: the edges of a batch, their weights and the kernels' calls in each pass.
#include "kokkos/layers/convolution/host_convolution_layer.h"

#include "kokkos/layer_interface/edge_rows.h"
#include "src/numbers/number_types.h"

#include <algorithm>

namespace equi {

namespace {

// Number of edges whose weights a network computes at a time. The dense products have enough rows, and the scratch,
// some tens of kB per edge, stays small.
constexpr int NETWORK_EDGES = 256;
// Number of edges for which senders' rows are copied at a time. A row of five planes needs up to some tens of kB,
// and all should fit a second-level cache.
constexpr int MOMENT_EDGES = 32;
// Senders of a gather, whose sums do not depend on their number; with a network the number of edges should be
// similar to the above.
constexpr int GATHERED_SENDERS = 32, NETWORK_SENDERS = 4;

}    // namespace

template <class T>
HostConvolutionLayer<T>::HostConvolutionLayer(HostContext &context, const Convolution &layer)
    : input_(layer.input),
      output_(layer.output),
      number_(context.num_convolutions++),
      is_exact_(context.options.radial_exact),
      constants_(layer, context.layout(input_), context.layout(output_), context.model.num_species(), context.options,
                 HOST_TABLE, context.set) {
  constants_.tables().select_kernels(context.set);
}

template <class T>
std::string HostConvolutionLayer<T>::describe() const {
  return "convolution " + std::to_string(number_) + ": " + std::to_string(constants_.view().num_paths) + " paths, " +
         constants_.describe();
}

template <class T>
void HostConvolutionLayer<T>::report_kernels(KernelReport &report) const {
  if (!is_exact_) report.generic_path_groups += constants_.num_generic_path_groups();
  for (const PathGroupSchedule &path_group : constants_.tables().schedules())
    report.keys.push_back(path_group.shape.key());
}

template <class T>
int HostConvolutionLayer<T>::gather_size() const {
  return constants_.network() ? NETWORK_SENDERS : GATHERED_SENDERS;
}

// ---- edges and their weights
// Calls f(run) for the runs of a batch's receivers whose weights are computed together. The run is the batch itself,
// unless a network computes the weights or edges read rows of their own.
template <class T>
template <class F>
void HostConvolutionLayer<T>::for_runs(const Batch &batch, const F &f) const {
  if (!constants_.network() && !uses_tangent_rows(batch)) {
    f(Run{batch.first, batch.count});
    return;
  }
  const int most = uses_tangent_rows(batch) ? MOMENT_EDGES : NETWORK_EDGES;
  const int64_t *begin = batch.evaluation.edges.begin();
  const int end = batch.first + batch.count;
  for (int first = batch.first; first < end;) {
    int last = first + 1;
    while (last < end && begin[last + 1] - begin[first] <= most) last++;
    f(Run{first, last - first});
    first = last;
  }
}

// What the network reads of the edges of a run.
template <class T>
NetworkEdges<T> HostConvolutionLayer<T>::network_edges(Batch &batch, const Run &run, int direction,
                                                       const TangentRows *tangents) const {
  const Edges<T> &edges = batch.evaluation.edges;
  const int64_t *begin = edges.begin() + run.first;
  const int64_t count = begin[run.count] - begin[0];
  int *receiver = batch.scratch.receiver_row.reserve(2 * count), *species = receiver + count;
  for (int a = 0; a < run.count; a++)
    for (int64_t e = begin[a]; e < begin[a + 1]; e++) {
      receiver[e - begin[0]] = run.first + a;
      species[e - begin[0]] = batch.evaluation.row_species[run.first + a];
    }
  const int *sender_species = edges.sender_species() + begin[0];
  const bool fixed = batch.step->fixed_input;
  FeatureRows<R> x = batch.rows(input_);
  x.first = 0;
  const D *distance = edges.distance(direction) + begin[0];
  if (tangents)
    return {count, distance, species, sender_species, tangents->receiver, tangents->sender, tangents->x, direction};
  return {count,
          distance,
          species,
          sender_species,
          fixed ? species : receiver,
          fixed ? sender_species : edges.sender_row() + begin[0],
          x,
          direction};
}

// The weights that the network computes for the edges; each edge is a bin of its own.
template <class T>
RadialRows<Real<T>> HostConvolutionLayer<T>::network_weights(Batch &batch, const NetworkEdges<T> &inputs,
                                                             int *table_row, T *fraction, R *bins_per_length) const {
  const EdgeNetwork<T> &network = *constants_.network();
  R *weights = batch.scratch.weights.reserve(network.weights_size(inputs.count));
  network.forward(batch.evaluation.kernels, inputs, batch.scratch.radial.reserve(network.scratch_size(inputs.count)),
                  weights);
  for (int64_t e = 0; e < inputs.count; e++) {
    table_row[e] = static_cast<int>(e);
    fraction[e] = T(1);
    bins_per_length[e] = 0;    // the network computes the derivative with respect to the distance
  }
  return {weights, inputs.count};
}

// The edges of a run with their radial weights. All data is in the thread's scratch or in the edges of the
// evaluation.
template <class T>
ConvEdges<T> HostConvolutionLayer<T>::edges_of(Batch &batch, const Run &run, int direction,
                                               const TangentRows *tangents) const {
  const Edges<T> &edges = batch.evaluation.edges;
  HostScratch<T> &scratch = batch.scratch;
  const int64_t *begin = edges.begin() + run.first;
  const int64_t count = begin[run.count] - begin[0];
  int *table_row = scratch.table_row.reserve(count);
  T *fraction = scratch.fraction.reserve(count);
  R *bins_per_length = scratch.bins_per_length.reserve(count);
  const RadialRows<R> radial =
      constants_.network()
          ? network_weights(batch, network_edges(batch, run, direction, tangents), table_row, fraction, bins_per_length)
          : constants_.radial(edges.distance(direction) + begin[0], batch.functions(constants_.radial_set(), run.first),
                              count, 0, count, scratch.radial.reserve(count * constants_.scratch_per_edge()), table_row,
                              fraction, bins_per_length);
  ConvEdges<T> of_run =
      make_edges(batch, run.count, begin, batch.step->fixed_input ? edges.sender_species() : edges.sender_row(),
                 edges.harmonics(direction), radial);
  of_run.direction = direction;
  return of_run;
}

// Calls f(edges) for the edges of a run with all directions of the evaluation. All are in one call if the kernels
// accept several; else each has a call of its own.
template <class T>
template <class F>
void HostConvolutionLayer<T>::for_directions(Batch &batch, const Run &run, const F &f) const {
  const int num_directions = batch.evaluation.num_directions();
  if (num_directions == 1 || !constants_.has_kernels_of_directions()) {
    for (int d = 0; d < num_directions; d++) f(edges_of(batch, run, d));
    return;
  }
  ConvEdges<T> edges = edges_of(batch, run);
  const int64_t begin = edges.edge_begin[0], count = edges.edge_begin[run.count] - begin;
  T *fraction = batch.scratch.moving_fraction.reserve(num_directions * count);
  for (int d = 0; d < num_directions; d++) set_fractions(batch, edges, 0, count, d, fraction + d * count);
  edges.fraction = fraction;
  edges.fraction_distance = count;
  edges.moving_directions = num_directions;
  edges.y_distance = batch.evaluation.edges.harmonics(1) - batch.evaluation.edges.harmonics();
  if (batch.evaluation.energy_moments && !batch.step->fixed_input) {
    R *factor = batch.scratch.sender_factor.reserve(num_directions * count);
    for (int d = 0; d < num_directions; d++)
      for (int64_t e = 0; e < count; e++)
        factor[d * count + e] = sender_factor<R>(batch.evaluation.edges.distance()[begin + e],
                                                 batch.evaluation.edges.unit_vector() + 3 * (begin + e), d);
    edges.sender_factor = factor;
  }
  f(edges);
}

// The fractions, with their tangents along a direction, of `count` of these edges from number `first` on.
template <class T>
void HostConvolutionLayer<T>::set_fractions(const Batch &batch, const ConvEdges<T> &edges, int64_t first, int64_t count,
                                            int direction, T *fraction) const {
  const D *distance = batch.evaluation.edges.distance(direction) + edges.edge_begin[0] + first;
  for (int64_t e = 0; e < count; e++)
    fraction[e] = make_number<T>(value_of(edges.fraction[first + e]),
                                 static_cast<R>(tangent_of(distance[e])) * edges.bins_per_length[first + e]);
}

// Edges whose places in the rows of `radial` belong to the thread.
template <class T>
ConvEdges<T> HostConvolutionLayer<T>::make_edges(Batch &batch, int count, const int64_t *begin, const int *other_row,
                                                 const T *harmonics, const RadialRows<R> &radial) const {
  R *weights = constants_.network() ? batch.scratch.weights.data() : nullptr;
  const int64_t plane = radial.rows * constants_.view().weights_row;
  return {count,
          begin,
          other_row,
          harmonics,
          radial.table,
          radial.rows,
          batch.scratch.table_row.data(),
          batch.scratch.fraction.data(),
          batch.scratch.bins_per_length.data(),
          constants_.rows_per_bin(),
          make_pointer<const T>(weights, plane),
          make_pointer<T>(weights, plane)};
}

// ---- edges of energy moments
// The rows of the senders of a run's edges and, if a network reads them, the rows of its receivers.
template <class T>
typename HostConvolutionLayer<T>::TangentRows HostConvolutionLayer<T>::tangent_rows(Batch &batch,
                                                                                    const Run &run) const {
  const Edges<T> &edges = batch.evaluation.edges;
  const FeatureLayout &layout = batch.layout(input_);
  const FeatureRows<R> x = batch.rows(input_);
  const int64_t *begin = edges.begin() + run.first;
  const int64_t count = begin[run.count] - begin[0];
  const int64_t num_rows = count + (constants_.network() ? run.count : 0);
  FeatureRows<R> rows{batch.scratch.edge_rows.reserve(num_rows * layout.row_size()), num_rows, 0};
  int *sender = batch.scratch.moving_table_row.reserve(2 * count), *receiver = sender + count;
  for (int a = 0; a < run.count; a++) {
    if (constants_.network())
      copy_edge_row<R, D>(layout, {x.data, x.rows, 0}, run.first + a, nullptr, nullptr, ALL_DIRECTIONS, layout, rows,
                          count + a);
    for (int64_t e = begin[a]; e < begin[a + 1]; e++) {
      const int64_t k = e - begin[0];
      sender[k] = static_cast<int>(k);
      receiver[k] = static_cast<int>(count + a);
      copy_edge_row<R, D>(layout, {x.data, x.rows, 0}, edges.sender_row()[e], edges.distance() + e,
                          edges.unit_vector() + 3 * e, ALL_DIRECTIONS, layout, rows, k);
    }
  }
  return {rows, receiver, sender};
}

template <class T>
void HostConvolutionLayer<T>::forward_moments(Batch &batch) const {
  const FeatureRows<R> y = batch.rows(output_);
  for_runs(batch, [&](const Run &run) {
    const TangentRows tangents = tangent_rows(batch, run);
    const int64_t *begin = batch.evaluation.edges.begin() + run.first;
    int64_t *of_run = batch.scratch.gather_begin.reserve(run.count + 1);
    for (int a = 0; a <= run.count; a++) of_run[a] = begin[a] - begin[0];
    for (int d = 0; d < batch.evaluation.num_directions(); d++) {
      ConvEdges<T> edges = edges_of(batch, run, d, &tangents);
      edges.edge_begin = of_run;
      edges.other_row = tangents.sender;
      edges.y += begin[0] * constants_.view().num_y;
      batch.evaluation.kernels.forward(constants_.view(), edges, tangents.x.data, tangents.x.rows, y.data, y.rows,
                                       y.first + run.first - batch.first, kernel_scratch(batch, edges));
    }
  });
}

// ---- edges of tangents
// The edges of a run that do not move, which come first: for the tangents in all directions.
template <class T>
ConvEdges<T> HostConvolutionLayer<T>::rigid_edges(Batch &batch, const Run &run, const ConvEdges<T> &edges) const {
  int64_t *end = batch.scratch.gather_begin.reserve(run.count);
  for (int a = 0; a < run.count; a++) end[a] = edges.edge_begin[a] + batch.evaluation.edges.num_rigid(run.first + a);
  ConvEdges<T> rigid = edges;
  rigid.rigid_directions = batch.evaluation.num_directions();
  rigid.edge_end = end;
  return rigid;
}

// Those of them whose senders have tangents: the forward pass computes tangents from these.
template <class T>
ConvEdges<T> HostConvolutionLayer<T>::rigid_edges_of_moving_senders(Batch &batch, const ConvEdges<T> &edges) const {
  const int64_t first = edges.edge_begin[0], count = edges.edge_begin[batch.count] - first;
  const int num_y = batch.evaluation.edges.num_y();
  int64_t *begin = batch.scratch.gather_begin.reserve(batch.count + 1);
  int *row = batch.scratch.receiver_row.reserve(count), *table_row = batch.scratch.moving_table_row.reserve(count);
  T *y = batch.scratch.gather_y.reserve(count * num_y), *fraction = batch.scratch.moving_fraction.reserve(count);
  int64_t n = 0;
  begin[0] = 0;
  for (int a = 0; a < batch.count; a++) {
    const int64_t num_rigid = batch.step->fixed_input ? 0 : batch.evaluation.edges.num_rigid(batch.first + a);
    for (int64_t e = edges.edge_begin[a]; e < edges.edge_begin[a] + num_rigid; e++) {
      if (!batch.evaluation.row_moves[edges.other_row[e]]) continue;
      row[n] = edges.other_row[e];
      table_row[n] = edges.table_row[e - first];
      fraction[n] = edges.fraction[e - first];
      std::copy_n(edges.y + e * num_y, num_y, y + n * num_y);
      n++;
    }
    begin[a + 1] = n;
  }
  ConvEdges<T> moving = edges;
  moving.rigid_directions = batch.evaluation.num_directions();
  moving.edge_begin = begin;
  moving.other_row = row;
  moving.y = y;
  moving.table_row = table_row;
  moving.fraction = fraction;
  return moving;
}

// Calls f(receiver's number in the run, edges, number of edges of the run before them), in each direction, for each
// receiver with edges that move. Bins and weights are those of `edges` for any direction.
template <class T>
template <class F>
void HostConvolutionLayer<T>::for_moving_edges(Batch &batch, const Run &run, const ConvEdges<T> &edges,
                                               const F &f) const {
  for (int a = 0; a < run.count; a++) {
    const int64_t bounds[2] = {edges.edge_begin[a] + batch.evaluation.edges.num_rigid(run.first + a),
                               edges.edge_begin[a + 1]};
    const int64_t before = bounds[0] - edges.edge_begin[0], count = bounds[1] - bounds[0];
    if (count == 0) continue;
    T *fraction = batch.scratch.moving_fraction.reserve(count);
    ConvEdges<T> moving = edges;
    moving.num_atoms = 1;
    moving.edge_begin = bounds;
    moving.table_row += before;
    moving.fraction = fraction;
    moving.bins_per_length += before;
    for (int d = 0; d < batch.evaluation.num_directions(); d++) {
      set_fractions(batch, edges, before, count, d, fraction);
      moving.y = batch.evaluation.edges.harmonics(d);
      moving.direction = d;
      f(a, moving, before);
    }
  }
}

// ---- forward
// Computes only the tangents.
template <class T>
void HostConvolutionLayer<T>::forward_tangents(Batch &batch) const {
  const FeatureRows<R> x = batch.rows(input_), y = batch.rows(output_);
  const FeatureLayout &layout = batch.layout(output_);
  const HostKernels<T> &kernels = batch.evaluation.kernels;
  const Run run{batch.first, batch.count};
  const ConvEdges<T> edges = edges_of(batch, run), rigid = rigid_edges_of_moving_senders(batch, edges);
  if (rigid.edge_begin[batch.count] == 0)
    set_to_zero(y, layout, batch.count, batch.evaluation.planes);
  else
    kernels.forward(constants_.view(), rigid, x.data, x.rows, y.data, y.rows, y.first, kernel_scratch(batch, rigid));
  // When only part of the edges is summed, the value is not the value of the whole sum and is not used.
  const FeatureRows<R> part{batch.scratch.row.reserve(layout.row_size()), 1, 0};
  for_moving_edges(batch, run, edges, [&](int a, const ConvEdges<T> &moving, int64_t) {
    kernels.forward(constants_.view(), moving, x.data, x.rows, part.data, 1, 0, kernel_scratch(batch, moving));
    const FeatureRows<R> sum{y.data, y.rows, y.first + a};
    for (const FeatureGroup &group : layout.groups()) {
      const R *from = part.group(group);
      R *to = sum.group(group);
      group.for_numbers(plane_of(moving.direction), [&](int begin, int count) {
        for (int k = begin; k < begin + count; k++) to[k] += from[k];
      });
    }
  });
}

template <class T>
void HostConvolutionLayer<T>::forward(Batch &batch) {
  if (batch.evaluation.tangents_alone() && constants_.has_kernels_of_directions()) return forward_tangents(batch);
  if (uses_tangent_rows(batch)) return forward_moments(batch);
  const FeatureRows<R> x = batch.rows(input_), y = batch.rows(output_);
  for_runs(batch, [&](const Run &run) {
    for_directions(batch, run, [&](const ConvEdges<T> &edges) {
      batch.evaluation.kernels.forward(constants_.view(), edges, x.data, x.rows, y.data, y.rows,
                                       y.first + run.first - batch.first, kernel_scratch(batch, edges));
    });
  });
}

// ---- backward
template <class T>
void HostConvolutionLayer<T>::backward(Batch &batch) {
  const HostEvaluationState<T> &evaluation = batch.evaluation;
  const FeatureRows<R> x = batch.rows(input_), out_adj = batch.rows(output_, true);
  const bool scatter = !batch.step->fixed_input && !evaluation.is_gathering;
  const FeatureRows<R> partial = scatter ? batch.partial : FeatureRows<R>{nullptr, 0, 0};
  FeatureRows<R> own_adj{nullptr, 0, 0};    // adjoints of the receivers, whose features a network may also read
  if (writes_receivers(batch)) {
    own_adj = batch.rows(input_, true);
    if (!batch.adds(input_)) set_to_zero(own_adj, batch.layout(input_), batch.count, evaluation.planes);
    own_adj.first = 0;
  }
  for_runs(batch, [&](const Run &run) {
    const int64_t begin = evaluation.edges.begin()[run.first],
                  count = evaluation.edges.begin()[run.first + run.count] - begin;
    const int num_y = constants_.view().num_y;
    const int64_t size = count * num_y;
    T *y_adj = batch.scratch.y_adj.reserve(evaluation.num_directions() * size);
    const auto backward = [&](const ConvEdges<T> &part, int64_t out_row, T *part_y_adj) {
      evaluation.kernels.backward(constants_.view(), part, x.data, x.rows, out_adj.data, out_adj.rows, out_row,
                                  part_y_adj, partial.data, partial.rows, evaluation.edge_partial_row,
                                  kernel_scratch(batch, part));
    };
    const int64_t out_row = out_adj.first + run.first - batch.first;
    if (evaluation.tangents_alone() && constants_.has_kernels_of_directions()) {
      const ConvEdges<T> edges = edges_of(batch, run);
      ConvEdges<T> rigid = rigid_edges(batch, run, edges);
      rigid.y_adj_distance = size;
      backward(rigid, out_row, y_adj);
      for_moving_edges(batch, run, edges, [&](int a, const ConvEdges<T> &moving, int64_t before) {
        backward(moving, out_row + a, y_adj + moving.direction * size + before * num_y);
      });
    } else {
      for (int d = 0; d < evaluation.num_directions(); d++)
        backward(edges_of(batch, run, d), out_row, y_adj + d * size);
    }
    if (constants_.network()) {
      const NetworkEdges<T> inputs = network_edges(batch, run);
      constants_.network()->backward(
          evaluation.kernels, inputs, batch.scratch.radial.data(), batch.scratch.weights.data(),
          {y_adj, num_y, own_adj, partial, inputs.receiver_row, evaluation.edge_partial_row + begin});
    }
    for (int d = 0; d < evaluation.num_directions(); d++)
      evaluation.edges.add_to_adjoint(begin, count, y_adj + d * size, d);
  });
}

// The edges that point at the rows of a batch, in the order of these rows.
template <class T>
typename HostConvolutionLayer<T>::GatheredEdges HostConvolutionLayer<T>::gathered_edges(Batch &senders) const {
  const HostEvaluationState<T> &evaluation = senders.evaluation;
  HostScratch<T> &scratch = senders.scratch;
  const int first = senders.first, count = senders.count, num_y = constants_.view().num_y;
  const int64_t *transposed = evaluation.edges.transposed_begin();
  const int64_t most = transposed[first + count] - transposed[first];
  int64_t *begin = scratch.gather_begin.reserve(count + 1);
  int *receiver = scratch.receiver_row.reserve(most);
  // The function of each edge or, for a network, the species of its two atoms and the row of the sender.
  const int64_t stride = constants_.network() ? most : 0;
  int *function = scratch.function.reserve(most + 2 * stride);
  int *receiver_species = function, *sender_species = function + stride, *sender_row = function + 2 * stride;
  D *distance = scratch.gather_distance.reserve(most);
  T *y = scratch.gather_y.reserve(most * num_y);
  int64_t n = 0;
  begin[0] = 0;
  for (int a = 0; a < count; a++) {
    for (int64_t k = transposed[first + a]; k < transposed[first + a + 1]; k++) {
      const int64_t e = evaluation.edges.transposed_edge(k);
      if (e < 0) continue;
      receiver[n] = evaluation.edges.transposed_receiver(k);
      distance[n] = evaluation.edges.distance()[e];
      const int species_i = evaluation.row_species[receiver[n]], species_j = senders.species[a];
      if (constants_.network()) {
        receiver_species[n] = species_i;
        sender_species[n] = species_j;
        sender_row[n] = first + a;
      } else {
        function[n] = constants_.radial_set().table_index(species_i, species_j);
      }
      std::copy_n(evaluation.edges.harmonics() + e * num_y, num_y, y + n * num_y);
      n++;
    }
    begin[a + 1] = n;
  }
  return {n, begin, receiver, function, receiver_species, sender_species, sender_row, distance, y};
}

template <class T>
void HostConvolutionLayer<T>::gather(Batch &senders, FeatureRows<R> sums) {
  const HostEvaluationState<T> &evaluation = senders.evaluation;
  HostScratch<T> &scratch = senders.scratch;
  const GatheredEdges e = gathered_edges(senders);
  int *table_row = scratch.table_row.reserve(e.count);
  T *fraction = scratch.fraction.reserve(e.count);
  R *bins_per_length = scratch.bins_per_length.reserve(e.count);
  const FeatureRows<R> x{evaluation.features.data(input_), evaluation.num_rows, 0};
  const NetworkEdges<T> inputs{e.count, e.distance, e.receiver_species, e.sender_species, e.receiver, e.sender_row, x};
  const RadialRows<R> radial = constants_.network()
                                   ? network_weights(senders, inputs, table_row, fraction, bins_per_length)
                                   : constants_.radial(e.distance, e.function, e.count, 0, e.count,
                                                       scratch.radial.reserve(e.count * constants_.scratch_per_edge()),
                                                       table_row, fraction, bins_per_length);
  const ConvEdges<T> edges = make_edges(senders, senders.count, e.begin, e.receiver, e.harmonics, radial);
  // Blocks that start no path keep this.
  std::fill_n(sums.data, static_cast<size_t>(senders.count) * senders.layout(input_).row_size(), R(0));
  const FeatureRows<R> out_adj = evaluation.features.rows({0, evaluation.num_receivers, nullptr}, output_, true);
  evaluation.kernels.backward_gather(constants_.view(), edges, x.data, x.rows, senders.first, out_adj.data,
                                     out_adj.rows, sums.data, senders.count, 0, kernel_scratch(senders, edges));
  if (!constants_.network() || !constants_.network()->reads_sender()) return;
  for (int64_t k = 0; k < e.count; k++) e.sender_row[k] -= senders.first;    // in `sums`
  constants_.network()->backward(evaluation.kernels, inputs, scratch.radial.data(), scratch.weights.data(),
                                 {nullptr, 0, FeatureRows<R>{nullptr, 0, 0}, sums, nullptr, e.sender_row});
}

EQUI_INSTANTIATE_NUMBERS(HostConvolutionLayer)

}    // namespace equi

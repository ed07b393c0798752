// SPDX-License-Identifier: MIT
// Lists of edges that a layer evaluates together on the host, with the rows of features that each edge reads and
// writes. The lists of a thread use its scratch, one at a time.
#ifndef EQUI_HOST_EDGE_LIST_H
#define EQUI_HOST_EDGE_LIST_H

#include "kokkos/layer_interface/edge_rows.h"
#include "kokkos/layer_interface/host_batch.h"
#include "kokkos/layers/edge_network/edge_network.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace equi {

// Number of edges in a list: enough for the dense products, with a small scratch.
constexpr int LIST_EDGES = 96;

template <class T>
struct HostEdgeList {
  using D = DoubleOf<T>;
  using R = Real<T>;
  int count;
  int64_t first;    // first of these edges, if the list is one of receivers, where edges are added in order
  int64_t *edge;
  D *distance, *unit;                        // [count], [count][3]
  int *sender_species, *receiver_species;    // [count]
  int *sender, *receiver;                    // rows of the input
  int *out;                                  // rows of the output, and of the receivers' adjoints
  int *to_sender;                            // rows of the senders' adjoints

  explicit HostEdgeList(HostBatch<T> &batch) : count(0), first(0) {
    edge = batch.scratch.gather_begin.reserve(LIST_EDGES);
    distance = batch.scratch.gather_distance.reserve(4 * LIST_EDGES);
    unit = distance + LIST_EDGES;
    int *rows = batch.scratch.receiver_row.reserve(6 * LIST_EDGES);
    for (int **part : {&sender_species, &receiver_species, &sender, &receiver, &out, &to_sender}) {
      *part = rows;
      rows += LIST_EDGES;
    }
  }

  void add(const HostBatch<T> &batch, int64_t e, int receiver_row, int sender_row, int out_row, int to_sender_row) {
    const Edges<T> &edges = batch.evaluation.edges;
    const int k = count++;
    edge[k] = e;
    distance[k] = edges.distance()[e];
    std::copy_n(edges.unit_vector() + 3 * e, 3, unit + 3 * k);
    sender_species[k] = edges.sender_species()[e];
    receiver_species[k] = batch.evaluation.row_species[receiver_row];
    const bool fixed = batch.step->fixed_input;    // then the input has a row per species
    sender[k] = fixed ? sender_species[k] : sender_row;
    receiver[k] = fixed ? receiver_species[k] : receiver_row;
    out[k] = out_row;
    to_sender[k] = to_sender_row;
  }

  // Afterwards, edges whose radial weights come from the same product are adjacent.
  void sort_by_window(const EdgeNetwork<T> &network) {
    first = edge[0];
    int place[LIST_EDGES], window[LIST_EDGES], next = 0;
    for (int k = 0; k < count; k++)
      window[k] = network.window_of(value_of(distance[k]), receiver_species[k], sender_species[k]);
    for (int w = 0; w < network.num_windows(); w++)
      for (int k = 0; k < count; k++)
        if (window[k] == w) place[k] = next++;
    const auto sort = [&](auto *numbers, int width) {
      std::decay_t<decltype(*numbers)> before[3 * LIST_EDGES];
      std::copy_n(numbers, width * count, before);
      for (int k = 0; k < count; k++) std::copy_n(before + width * k, width, numbers + width * place[k]);
    };
    sort(edge, 1);
    sort(distance, 1);
    sort(unit, 3);
    for (int *numbers : {sender_species, receiver_species, sender, receiver, out, to_sender}) sort(numbers, 1);
  }

  // Calls f(*this) with sorted edges, then drops them.
  template <class F>
  void evaluate(const EdgeNetwork<T> &network, const F &f) {
    sort_by_window(network);
    f(*this);
    count = 0;
  }

  NetworkEdges<T> network_edges() const {
    return {count, distance, receiver_species, sender_species, receiver, sender, {nullptr, 0, 0}};
  }

  // Sets the geometry in a direction, and the rows of senders and receivers that the edges read (edge_rows.h). The
  // rows of `to` have the values of the feature and this direction's tangents.
  void set_tangent_rows(const HostBatch<T> &batch, int direction, const FeatureLayout &layout, FeatureRows<const R> x,
                        const FeatureLayout &to_layout, FeatureRows<R> to) {
    const Edges<T> &edges = batch.evaluation.edges;
    const D *const none = nullptr;
    for (int k = 0; k < count; k++) {
      const int64_t e = edge[k];
      distance[k] = edges.distance(direction)[e];
      std::copy_n(edges.unit_vector(direction) + 3 * e, 3, unit + 3 * k);
      copy_edge_row(layout, x, sender[k], distance + k, unit + 3 * k, direction, to_layout, to, k);
      copy_edge_row(layout, x, receiver[k], none, none, direction, to_layout, to, LIST_EDGES + k);
      sender[k] = k;
      receiver[k] = LIST_EDGES + k;
    }
  }
  static constexpr int TANGENT_ROWS = 2 * LIST_EDGES;
};

// Calls f(list) for all edges of a batch's receivers, some at a time. network: whose windows sort the lists.
template <class T, class F>
void for_receiver_lists(HostBatch<T> &batch, const EdgeNetwork<T> &network, const F &f) {
  const Edges<T> &edges = batch.evaluation.edges;
  const int *partial_row = batch.evaluation.edge_partial_row;
  HostEdgeList<T> list(batch);
  for (int a = 0; a < batch.count; a++) {
    const int row = batch.first + a;
    for (int64_t e = edges.begin()[row]; e < edges.begin()[row + 1]; e++) {
      list.add(batch, e, row, edges.sender_row()[e], a, partial_row ? partial_row[e] : 0);
      if (list.count == LIST_EDGES) list.evaluate(network, f);
    }
  }
  if (list.count > 0) list.evaluate(network, f);
}

// The same for the edges that point at a batch's senders. Their outputs are rows of all receivers.
template <class T, class F>
void for_sender_lists(HostBatch<T> &senders, const EdgeNetwork<T> &network, const F &f) {
  const Edges<T> &edges = senders.evaluation.edges;
  HostEdgeList<T> list(senders);
  for (int a = 0; a < senders.count; a++) {
    const int row = senders.first + a;
    for (int64_t k = edges.transposed_begin()[row]; k < edges.transposed_begin()[row + 1]; k++) {
      const int64_t e = edges.transposed_edge(k);
      if (e < 0) continue;
      const int receiver = edges.transposed_receiver(k);
      list.add(senders, e, receiver, row, receiver, a);
      if (list.count == LIST_EDGES) list.evaluate(network, f);
    }
  }
  if (list.count > 0) list.evaluate(network, f);
}

// Copies the sums of one direction, which have its tangents alone, to the rows of the output. Values come with
// direction 0.
template <class R>
void store_direction(int direction, int64_t count, const FeatureLayout &from_layout, FeatureRows<const R> from_rows,
                     const FeatureLayout &layout, FeatureRows<R> rows) {
  for (int g = 0; g < layout.num_groups(); g++) {
    const FeatureGroup &group = layout.group(g), &from_group = from_layout.group(g);
    const R *from = from_rows.group(from_group);
    R *to = rows.group(group);
    for (int64_t k = 0; k < count * group.irrep.dim(); k++) {
      if (direction == 0) std::copy_n(from, group.channels, to);
      std::copy_n(from + group.channels, group.channels, to + (1 + direction) * group.channels);
      from += from_group.stride();
      to += group.stride();
    }
  }
}

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The edges of a batch's receivers, for layers whose energies are sums over pairs. Either back end provides them.
#ifndef EQUI_RECEIVER_EDGES_H
#define EQUI_RECEIVER_EDGES_H

#include "src/numbers/dual.h"

#include <cstdint>

namespace equi {

// D: type of distances. All arrays but `begin` and `species` are of edges; with duals they belong to one direction.
template <class D>
struct ReceiverEdges {
  const int64_t *begin;    // receiver a of the batch has the edges begin[a] .. begin[a+1] - 1
  const int *species;      // of the receivers
  const int *sender_row, *sender_species;
  const D *distance;
  D *distance_adj;    // derivative of the energy with respect to the distance of edge e: distance_adj[e * stride]
  int64_t stride;
};

// AllEdges: Edges or DeviceEdges.
template <class Batch, template <class> class AllEdges, class T>
ReceiverEdges<DoubleOf<T>> receiver_edges(const Batch &batch, AllEdges<T> &edges, int direction = 0) {
  return {
      edges.begin() + batch.first, batch.species, edges.sender_row(), edges.sender_species(), edges.distance(direction),
      edges.adjoint(direction),    edges.num_y()};
}

// The energy of a pair and its derivative with respect to the distance.
template <class D>
struct PairEnergy {
  D value, slope;
};

// Adds the energies of a receiver's pairs, times a factor, and their derivatives with respect to the distances.
// f(e, r, pair) computes the pair of edge e at the distance r, and returns whether it is near enough to count.
template <class D, class F>
EQUI_FUNCTION void add_pairs(const ReceiverEdges<D> &edges, int64_t receiver, double factor, D &energy, const F &f) {
  D sum = energy;
  for (int64_t e = edges.begin[receiver]; e < edges.begin[receiver + 1]; e++) {
    PairEnergy<D> pair;
    if (!f(e, edges.distance[e], pair)) continue;
    sum += factor * pair.value;
    edges.distance_adj[e * edges.stride] += factor * pair.slope;
  }
  energy = sum;
}

}    // namespace equi

#endif

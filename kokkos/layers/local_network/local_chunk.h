// SPDX-License-Identifier: MIT
// Some receivers with their edges, and the arrays of a local program for them, on either back end.
#ifndef EQUI_LOCAL_CHUNK_H
#define EQUI_LOCAL_CHUNK_H

#include "kokkos/geometry/radial_set.h"
#include "kokkos/kernel_interface/local_rows.h"
#include "kokkos/layers/local_network/local_program.h"
#include "src/functions/basis_functions.h"
#include "src/numbers/dual.h"

#include <cstdint>

namespace equi {

template <class T>
struct LocalChunk {
  using R = Real<T>;
  using D = DoubleOf<T>;
  LocalEdges edges;
  int64_t count;    // edges
  int64_t rows;     // of arrays of edges: at least their number
  int num_species;
  const int *sender_species;    // by position
  const D *distance;            // by position
  LocalHarmonics<T> harmonics;
  D *energy;    // [receivers], added to
  // The arrays of the program, and the memory of those of edges and of receivers. LocalArray::memory chooses.
  const LocalArray *arrays = nullptr;
  R *of_edges[NUM_LOCAL_MEMORIES] = {}, *of_receivers[NUM_LOCAL_MEMORIES] = {};
  R *place = nullptr;                         // [edges][3], LocalTable::place
  int *bin = nullptr, *receiver = nullptr;    // [edges]

  EQUI_FUNCTION LocalRows<T> array(int number) const {
    const LocalArray &a = arrays[number];
    const int64_t num = a.is_of_receivers ? edges.num_receivers : rows;
    R *const memory = (a.is_of_receivers ? of_receivers : of_edges)[a.memory];
    return {memory + PLANES<T> * num * a.before, a.row, num * a.row};
  }
  EQUI_FUNCTION LocalRows<T> array(const LocalSlot &slot) const {
    LocalRows<T> whole = array(slot.array);
    whole.data += slot.first;
    return whole;
  }
  // The adjoints; they may be in place of the values.
  EQUI_FUNCTION LocalRows<T> adjoint(int number) const { return array(arrays[number].adjoint); }
  EQUI_FUNCTION LocalRows<T> adjoint(const LocalSlot &slot) const {
    LocalRows<T> whole = adjoint(slot.array);
    whole.data += slot.first;
    return whole;
  }
};

// The memory of a chunk without blocks of threads, for so many rows of edges and receivers.
template <class T>
struct LocalMemory {
  const LocalProgram &program;
  int64_t rows, receivers;
  int64_t num_numbers() const {
    return PLANES<T> * (rows * program.edge_width + receivers * program.receiver_width) + 3 * rows;
  }
  int64_t num_indices() const { return 2 * rows; }
  void give(Real<T> *numbers, int *indices, LocalChunk<T> &chunk) const {
    chunk.arrays = program.arrays.data();
    chunk.rows = rows;
    chunk.of_edges[0] = numbers;
    chunk.of_receivers[0] = numbers + PLANES<T> * rows * program.edge_width;
    chunk.place = numbers + num_numbers() - 3 * rows;
    chunk.receiver = indices;
    chunk.bin = indices + rows;
    chunk.edges.receiver = chunk.receiver;
  }
};

// ---- what is computed once per edge
// The receiver of each edge.
struct LocalReceivers {
  LocalEdges edges;
  int *receiver;
  EQUI_FUNCTION void operator()(int64_t e) const {
    int low = 0, high = edges.num_receivers;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (edges.first + e < edges.begin[middle])
        high = middle;
      else
        low = middle;
    }
    receiver[e] = edges.contains(e) ? low : 0;
  }
};

// The pair of species of an edge.
struct LocalPairs {
  LocalEdges edges;
  const int *sender_species;
  int num_species;
  EQUI_FUNCTION int operator()(int64_t e) const {
    return edges.species[edges.receiver[e]] * num_species + sender_species[edges.first + e];
  }
};

// The place of each edge in the bins of tables.
template <class T>
struct LocalPlaces {
  using R = Real<T>;
  LocalPairs pairs;
  RadialFinder find;
  const DoubleOf<T> *distance;
  int *bin;
  R *place;
  EQUI_FUNCTION void operator()(int64_t e) const {
    RadialTable::BinPosition at{0, 0, 0.0, 0.0};
    R along = R(0);
    if (pairs.edges.contains(e)) {
      const DoubleOf<T> r = distance[pairs.edges.first + e];
      at = find.bin_of(static_cast<double>(value_of(r)), pairs(e));
      along = static_cast<R>(tangent_of(r));
    }
    bin[e] = at.bin;
    place[3 * e] = static_cast<R>(at.fraction);
    place[3 * e + 1] = static_cast<R>(at.bins_per_length);
    place[3 * e + 2] = along;
  }
};

// The functions of a basis and their derivatives.
template <class T>
struct LocalBasisRow {
  using R = Real<T>;
  LocalPairs pairs;
  const BasisFunctions *bases;    // one, or one per pair
  bool per_pair;
  int width;
  const DoubleOf<T> *distance;
  LocalRows<T> values, slopes;
  EQUI_FUNCTION void operator()(int64_t e) const {
    const Pointer<T> value = values.at(e), slope = slopes.at(e);
    const bool is_edge = pairs.edges.contains(e);
    const BasisFunctions &basis = bases[is_edge && per_pair ? pairs(e) : 0];
    for (int n = is_edge ? basis.size : 0; n < width; n++) {
      put(value, n, T(0));
      put(slope, n, T(0));
    }
    if (!is_edge) return;
    const DoubleOf<T> r = distance[pairs.edges.first + e];
    const double along = static_cast<double>(tangent_of(r));
    basis.derivatives(static_cast<double>(value_of(r)), PLANES<T>, -1, [&](int n, const Jet &b) {
      put(value, n, make_number<T>(static_cast<R>(b.d[0]), static_cast<R>(b.d[1] * along)));
      put(slope, n, make_number<T>(static_cast<R>(b.d[1]), static_cast<R>(b.d[2] * along)));
    });
  }
};

}    // namespace equi

#endif

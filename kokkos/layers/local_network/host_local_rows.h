// SPDX-License-Identifier: MIT
// What a local program needs of the host: chunks of a tile's edges, dense products, and kernels with SIMD lanes.
#ifndef EQUI_HOST_LOCAL_ROWS_H
#define EQUI_HOST_LOCAL_ROWS_H

#include "kokkos/host_kernels/packed_matrix.h"
#include "kokkos/layer_interface/host_batch.h"
#include "kokkos/layers/local_network/local_chunk.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace equi {

template <class T>
class HostLocalRows {
  using R = Real<T>;
  using Batch = HostBatch<T>;

 public:
  using Work = HostKernels<T>;

  HostLocalRows(InstructionSet set, const LocalProgram &program) : program_(program) {
    for (const Matrix &m : program.matrices) {
      matrices_.emplace_back(m, set);
      transposed_.emplace_back(transpose(m), set);
    }
  }

  // Calls f(chunk) for the edges of a batch along a direction. A chunk has all edges of its receivers.
  template <class F>
  void for_chunks(Batch &batch, int direction, const F &f) {
    Edges<T> &edges = batch.evaluation.edges;
    const int64_t *const begin = edges.begin() + batch.first;
    for (int first = 0, last; first < batch.count; first = last) {
      last = first + 1;
      while (last < batch.count && last - first < MOST_RECEIVERS && begin[last + 1] - begin[first] <= CHUNK) last++;
      const int64_t count = begin[last] - begin[first];
      if (count == 0) continue;
      R *const numbers = batch.layer_scratch(LocalChunk<T>::num_numbers(program_, count, last - first));
      int *const indices = batch.scratch.receiver_row.reserve(LocalChunk<T>::num_indices(count));
      f(LocalChunk<T>{program_,
                      {last - first, begin + first, begin[first], indices, batch.species + first},
                      count,
                      count,
                      batch.evaluation.num_species,
                      edges.sender_species(),
                      edges.distance(direction),
                      {edges.harmonics(direction), edges.num_y(), edges.adjoint(direction), edges.num_y()},
                      batch.evaluation.energy_of(direction) + batch.first + first,
                      numbers,
                      indices});
    }
  }

  // to (+)= from times matrix `number`, or its transpose.
  void multiply(const Work &, const LocalChunk<T> &chunk, int number, bool is_transposed, LocalRows<T> from,
                LocalRows<T> to, bool add) const {
    (is_transposed ? transposed_ : matrices_)[number].multiply(PLANES<T> * chunk.rows, from.data, to.data, add,
                                                               from.row, to.row);
  }
  template <class Kernel>
  static void run(const Work &work, const char *, int64_t rows, const Kernel &kernel) {
    work.local(kernel, rows);
  }
  static void clear(const Work &, int64_t size, R *numbers) { std::fill_n(numbers, size, R(0)); }

  // Arrays are scratch of threads. A receiver with more edges than a chunk needs more.
  void for_batch_arrays(int64_t, int64_t, const ArrayVisitor &) {}
  int64_t edge_scratch_size(int64_t num_edges) const {
    return LocalChunk<T>::num_numbers(program_, std::min(num_edges, CHUNK), std::min(num_edges, MOST_RECEIVERS));
  }
  auto members() const { return std::tie(matrices_, transposed_); }

 private:
  // Number of edges of a chunk. The dense products have enough rows, and the scratch, some kB per edge, fits a
  // second-level cache.
  static constexpr int64_t CHUNK = 128, MOST_RECEIVERS = 16;

  const LocalProgram &program_;
  std::vector<PackedMatrix<R>> matrices_, transposed_;
};

}    // namespace equi

#endif

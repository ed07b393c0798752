// SPDX-License-Identifier: MIT
// What a local program needs of the host: chunks of a tile's edges, dense products, and kernels with SIMD lanes.
#ifndef EQUI_HOST_LOCAL_ROWS_H
#define EQUI_HOST_LOCAL_ROWS_H

#include "kokkos/host_kernels/packed_matrix.h"
#include "kokkos/layer_interface/host_batch.h"
#include "kokkos/layers/local_network/local_chunk.h"
#include "kokkos/layers/local_network/local_steps.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace equi {

template <class T>
class HostLocalRows {
  using R = Real<T>;
  using Batch = HostBatch<T>;

 public:
  HostLocalRows(InstructionSet set, const LocalProgram &program) : program_(program) {
    for (const Matrix &m : program.matrices) {
      matrices_.emplace_back(m, set);
      transposed_.emplace_back(transpose(m), set);
    }
  }

  std::string prepare(const HostContext &, const LocalConstants<R> &) const { return {}; }

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
      const LocalMemory<T> memory{program_, count, last - first};
      LocalChunk<T> chunk{{last - first, begin + first, begin[first], nullptr, batch.species + first},
                          count,
                          count,
                          batch.evaluation.num_species,
                          edges.sender_species(),
                          edges.distance(direction),
                          harmonics_of(edges, direction, begin[first]),
                          batch.evaluation.energy_of(direction) + batch.first + first};
      memory.give(batch.layer_scratch(memory.num_numbers()), batch.scratch.receiver_row.reserve(memory.num_indices()),
                  chunk);
      f(chunk);
    }
  }

  // LocalSteps's Work.
  struct Work {
    const HostLocalRows &rows;
    const HostKernels<T> &kernels;
    template <class Kernel>
    void run(const char *, int64_t count, const Kernel &kernel) const {
      kernels.local(kernel, count);
    }
    template <class F>
    void for_numbers(const char *, int64_t count, const F &f) const {
      for (int64_t n = 0; n < count; n++) f(n);
    }
    void multiply(int64_t count, int number, bool is_transposed, LocalRows<T> from, LocalRows<T> to, bool add) const {
      (is_transposed ? rows.transposed_ : rows.matrices_)[number].multiply(count, from.data, to.data, add, from.row,
                                                                           to.row);
    }
    void clear(int64_t size, R *numbers) const { std::fill_n(numbers, size, R(0)); }
  };
  Work work(const HostKernels<T> &kernels) const { return {*this, kernels}; }

  // Arrays are scratch of threads. A receiver with more edges than a chunk needs more.
  void for_batch_arrays(int64_t, int64_t, const ArrayVisitor &) {}
  int64_t edge_scratch_size(int64_t num_edges) const {
    return LocalMemory<T>{program_, std::min(num_edges, CHUNK), std::min(num_edges, MOST_RECEIVERS)}.num_numbers();
  }
  auto members() const { return std::tie(matrices_, transposed_); }

 private:
  static LocalHarmonics<T> harmonics_of(Edges<T> &edges, int direction, int64_t first) {
    const int64_t num_y = edges.num_y();
    return {edges.harmonics(direction) + first * num_y, num_y, edges.adjoint(direction) + first * num_y, num_y};
  }

  // Number of edges of a chunk. The dense products have enough rows, and the scratch, some kB per edge, fits a
  // second-level cache.
  static constexpr int64_t CHUNK = 128, MOST_RECEIVERS = 16;

  const LocalProgram &program_;
  std::vector<PackedMatrix<R>> matrices_, transposed_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// What a local program needs of a device: blocks of threads that do all of its steps; or the arrays of a batch, dense
// products, and kernels whose lanes share a row.
#ifndef EQUI_DEVICE_LOCAL_ROWS_H
#define EQUI_DEVICE_LOCAL_ROWS_H

#include "kokkos/device_kernels/device_dense.h"
#include "kokkos/layer_interface/device_batch.h"
#include "kokkos/layers/local_network/device_local_blocks.h"
#include "kokkos/layers/local_network/device_local_lanes.h"
#include "kokkos/layers/local_network/local_chunk.h"
#include "kokkos/runtime/launch_on_lanes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace equi {

// The row of an item, by its lanes.
template <class Kernel>
struct LocalRowOnLanes {
  Kernel kernel;
  KOKKOS_FUNCTION void operator()(int64_t row, int lane) const { kernel.row(DeviceLanes{lane}, row); }
};

template <class T>
class DeviceLocalRows {
  using R = Real<T>;
  using Batch = DeviceBatch<T>;

 public:
  DeviceLocalRows(const DeviceExec &exec, const LocalProgram &program) : program_(program) {
    std::vector<R> numbers;
    for (const Matrix &m : program.matrices) {
      first_.push_back(static_cast<int64_t>(numbers.size()));
      numbers.insert(numbers.end(), m.data.begin(), m.data.end());
    }
    assign(exec, matrices_, numbers);
  }

  // What it runs in blocks, if that is faster. constants: on the host, with pointers to device memory.
  std::string prepare(const DeviceContext &context, const LocalConstants<R> &constants) {
    const int l = context.model.lmax_edge;
    DeviceLocalBlocks<T> blocks(context.exec, program_, constants, (l + 1) * (l + 1), context.options.block_bytes);
    const std::string description = blocks.placement().describe();
    if (!blocks.placement().is_used) return description;
    blocks_ = std::move(blocks);
    matrices_ = {};
    return description;
  }

  // A batch is one chunk, unless blocks do its steps.
  template <class F>
  void for_chunks(Batch &batch, int direction, const F &f) {
    DeviceEdges<T> &edges = batch.evaluation.edges;
    const DeviceBatchEdges of_batch = batch.edges();
    if (of_batch.count == 0) return;
    const int64_t num_y = edges.num_y(), row = harmonics_row(edges.num_y());
    LocalChunk<T> chunk{{batch.count, of_batch.begin, of_batch.first, nullptr, batch.species},
                        of_batch.count,
                        0,
                        batch.evaluation.num_species,
                        edges.sender_species(),
                        edges.distance(direction),
                        {edges.harmonics(direction) + of_batch.first * row, row,
                         edges.adjoint(direction) + of_batch.first * num_y, num_y},
                        batch.evaluation.energy_of(direction) + batch.first};
    if (blocks_) return blocks_->run(batch.evaluation.exec, chunk, batch.evaluation.has_backward);
    for_batch_arrays(batch.count, of_batch.count, [](ArrayRef array, int64_t n) { array.reserve(n); });
    memory(batch.count, of_batch.count).give(numbers_.data(), indices_.data(), chunk);
    f(chunk);
  }

  // LocalSteps's Work: each call is a launch, or several.
  struct Work {
    const DeviceLocalRows &rows;
    const DeviceExec &exec;
    template <class Kernel>
    void run(const char *label, int64_t count, const Kernel &kernel) const {
      launch_on_lanes(exec, label, count, LocalRowOnLanes<Kernel>{kernel});
    }
    template <class F>
    void for_numbers(const char *label, int64_t count, const F &f) const {
      Kokkos::parallel_for(label, DeviceRange(exec, 0, count), f);
    }
    void multiply(int64_t count, int number, bool is_transposed, LocalRows<T> from, LocalRows<T> to, bool add) const {
      const Matrix &m = rows.program_.matrices[number];
      const DensePlanes strides{1, from.row, to.row};
      const int64_t step = DeviceTraits<>::ON_HOST ? count : BLOCK;
      for (int64_t r = 0; r < count; r += step)
        device_gemm(exec, is_transposed, step, is_transposed ? m.rows : m.cols, is_transposed ? m.cols : m.rows,
                    from.data + r * from.row, rows.matrices_.data() + rows.first_[number], add, to.data + r * to.row,
                    &strides);
    }
    void clear(int64_t size, R *numbers) const { device_zero(exec, numbers, size); }
  };
  Work work(const DeviceExec &exec) const { return {*this, exec}; }

  void for_batch_arrays(int64_t num_atoms, int64_t num_edges, const ArrayVisitor &f) {
    if (blocks_) return blocks_->for_batch_arrays(num_atoms, num_edges, f);
    const LocalMemory<T> needed = memory(num_atoms, num_edges);
    f(numbers_, needed.num_numbers());
    f(indices_, needed.num_indices());
  }
  int64_t edge_scratch_size(int64_t) const { return 0; }
  auto members() const { return std::tie(matrices_, blocks_); }

 private:
  // Products have this many rows at a time. A library chooses its kernel, and so the last bit of the results, by the
  // size of a product, which must not depend on the number of edges.
  static constexpr int64_t BLOCK = DeviceTraits<>::ON_HOST ? 256 : 2048;
  LocalMemory<T> memory(int64_t num_atoms, int64_t num_edges) const {
    return {program_, (num_edges + BLOCK - 1) / BLOCK * BLOCK, num_atoms};
  }

  const LocalProgram &program_;
  std::optional<DeviceLocalBlocks<T>> blocks_;
  std::vector<int64_t> first_;    // of each matrix
  DeviceBuffer<R> matrices_, numbers_;
  DeviceBuffer<int> indices_;
};

}    // namespace equi

#endif

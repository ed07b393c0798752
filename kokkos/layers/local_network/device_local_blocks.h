// SPDX-License-Identifier: MIT
// A local program on a device as one launch: a block of threads does all of its steps for a few receivers.
//
// Between the steps, the rows of the block's edges are in its own memory (local_placement.h). Warps share the rows of a
// step, and compute dense products by multiply-adds on parts of 4 rows and 64 columns. All threads wait for each other
// after a step. Each sum has one thread or one warp and a fixed order, so results repeat and depend neither on the
// place of an array nor on the other receivers of the block.
#ifndef EQUI_DEVICE_LOCAL_BLOCKS_H
#define EQUI_DEVICE_LOCAL_BLOCKS_H

#include "kokkos/layer_interface/feature_memory.h"
#include "kokkos/layers/local_network/local_placement.h"
#include "kokkos/layers/local_network/local_program.h"
#include "kokkos/layers/local_network/local_steps.h"
#include "kokkos/runtime/device_exec.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>

namespace equi {

// An alternative of a variant, for kernels.
template <class Variant>
struct DeviceVariant;
template <class... Types>
struct DeviceVariant<std::variant<Types...>> {
  int number;
  alignas(8) unsigned char bytes[std::max({sizeof(Types)...})];

  DeviceVariant() = default;
  explicit DeviceVariant(const std::variant<Types...> &v) : number(static_cast<int>(v.index())), bytes{} {
    std::visit([&](const auto &value) { std::memcpy(bytes, &value, sizeof(value)); }, v);
  }
  template <class F>
  KOKKOS_FUNCTION void visit(const F &f) const {
    visit_from<0, Types...>(f);
  }

 private:
  template <int NUMBER, class First, class... Rest, class F>
  KOKKOS_FUNCTION void visit_from(const F &f) const {
    static_assert(std::is_trivially_copyable_v<First>, "it is copied as bytes");
    if (number == NUMBER) return f(*reinterpret_cast<const First *>(bytes));
    if constexpr (sizeof...(Rest) > 0) visit_from<NUMBER + 1, Rest...>(f);
  }
};
using DeviceLocalStep = DeviceVariant<LocalStep>;

template <class T>
class DeviceLocalBlocks {
  using R = Real<T>;

 public:
  // constants: on the host, with pointers to device memory. block_bytes: EvaluatorOptions.
  DeviceLocalBlocks(const DeviceExec &exec, const LocalProgram &program, const LocalConstants<R> &constants, int num_y,
                    int64_t block_bytes);

  const LocalPlacement &placement() const { return placement_; }
  // chunk: a batch, without memory for arrays.
  void run(const DeviceExec &exec, const LocalChunk<T> &chunk, bool has_backward);
  void for_batch_arrays(int64_t num_atoms, int64_t num_edges, const ArrayVisitor &f);
  auto members() const { return std::tie(tables_, bases_, steps_, arrays_, tiles_, dense_, matrices_); }

  // A matrix and its transpose in an array.
  struct Dense {
    int64_t first, transposed;
    int rows, cols;
  };
  // LocalTile; its arrays are [pass][array] from the first one on.
  struct Tile {
    int64_t most_edges, first_array;
    int edge_width, receiver_width;
  };

 private:
  LocalPlacement placement_;
  int num_arrays_, num_steps_;
  LocalConstants<R> constants_;    // in device memory
  DeviceBuffer<typename LocalConstants<R>::Table> tables_;
  DeviceBuffer<typename LocalConstants<R>::Basis> bases_;
  DeviceBuffer<DeviceLocalStep> steps_;
  DeviceBuffer<LocalArray> arrays_;
  DeviceBuffer<Tile> tiles_;
  DeviceBuffer<Dense> dense_;
  DeviceBuffer<R> matrices_, numbers_;
  DeviceBuffer<int> indices_;
};

}    // namespace equi

#endif

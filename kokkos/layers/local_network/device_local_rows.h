// SPDX-License-Identifier: MIT
// What a local program needs of a device: the arrays of a batch, dense products, and kernels whose lanes share a row.
#ifndef EQUI_DEVICE_LOCAL_ROWS_H
#define EQUI_DEVICE_LOCAL_ROWS_H

#include "kokkos/device_kernels/device_dense.h"
#include "kokkos/layer_interface/device_batch.h"
#include "kokkos/layers/local_network/local_chunk.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace equi {

// The lanes of local_rows.h, one channel each.
struct DeviceLanes {
  static constexpr int step = DeviceTraits<>::LANES;
  int first;

  KOKKOS_FUNCTION bool is_first() const { return first == 0; }
  template <class R>
  KOKKOS_FUNCTION R load(const R *p) const {
    return *p;
  }
  template <class R>
  KOKKOS_FUNCTION Dual<std::remove_const_t<R>> load(DualPointer<R> p) const {
    return p[0];
  }
  template <class P, class V>
  KOKKOS_FUNCTION void store(P p, V v) const {
    put(p, 0, v);
  }
  template <class T>
  KOKKOS_FUNCTION T zero() const {
    return T(0);
  }
  template <class T>
  KOKKOS_FUNCTION T make(Real<T> value, Real<T> tangent) const {
    return make_number<T>(value, tangent);
  }
  template <class T>
  KOKKOS_FUNCTION T sum(T v) const {
    return SumOfLanes<DeviceTraits<>::LANES>()(v);
  }
  template <class T, int COUNT>
  KOKKOS_FUNCTION void add_sums(const T (&v)[COUNT], DoubleOf<T> *to) const {
    for (int k = 0; k < COUNT; k++) {
      const T total = sum<T>(v[k]);
      if (is_first()) to[k] += static_cast<DoubleOf<T>>(total);
    }
  }
  template <class T>
  KOKKOS_FUNCTION void activate(Activation activation, Real<T> scale, int width, Pointer<T> z, Pointer<T> h) const {
    for (int u = first; u < width; u += step) {
      const ValueAndDerivative<T> found = equi::activate(activation, T(z[u]));
      put(h, u, scale * found.value);
      put(z, u, scale * found.derivative);
    }
  }
};

template <class Kernel>
struct LocalRowsOnLanes {
  using Member = Kokkos::TeamPolicy<DeviceExec>::member_type;
  Kernel kernel;
  int64_t rows;
  KOKKOS_FUNCTION void operator()(const Member &team) const {
    const int64_t row = int64_t(team.league_rank()) * DeviceTraits<>::GROUPS + team.team_rank() / DeviceTraits<>::LANES;
    if (row < rows) kernel.row(DeviceLanes{team.team_rank() % DeviceTraits<>::LANES}, row);
  }
};

template <class T>
class DeviceLocalRows {
  using R = Real<T>;
  using Batch = DeviceBatch<T>;

 public:
  using Work = DeviceExec;

  DeviceLocalRows(const DeviceExec &exec, const LocalProgram &program) : program_(program) {
    std::vector<R> numbers;
    for (const Matrix &m : program.matrices) {
      first_.push_back(static_cast<int64_t>(numbers.size()));
      numbers.insert(numbers.end(), m.data.begin(), m.data.end());
    }
    assign(exec, matrices_, numbers);
  }

  // A batch is one chunk.
  template <class F>
  void for_chunks(Batch &batch, int direction, const F &f) {
    DeviceEdges<T> &edges = batch.evaluation.edges;
    const DeviceBatchEdges of_batch = batch.edges();
    if (of_batch.count == 0) return;
    for_batch_arrays(batch.count, of_batch.count, [](ArrayRef array, int64_t n) { array.reserve(n); });
    f(LocalChunk<T>{program_,
                    {batch.count, of_batch.begin, of_batch.first, indices_.data(), batch.species},
                    of_batch.count,
                    num_rows(of_batch.count),
                    batch.evaluation.num_species,
                    edges.sender_species(),
                    edges.distance(direction),
                    {edges.harmonics(direction), harmonics_row(edges.num_y()), edges.adjoint(direction), edges.num_y()},
                    batch.evaluation.energy_of(direction) + batch.first,
                    numbers_.data(),
                    indices_.data()});
  }

  void multiply(const Work &exec, const LocalChunk<T> &chunk, int number, bool is_transposed, LocalRows<T> from,
                LocalRows<T> to, bool add) const {
    const Matrix &m = program_.matrices[number];
    const DensePlanes strides{1, from.row, to.row};
    const int64_t rows = PLANES<T> * chunk.rows, step = DeviceTraits<>::ON_HOST ? rows : BLOCK;
    for (int64_t r = 0; r < rows; r += step)
      device_gemm(exec, is_transposed, step, is_transposed ? m.rows : m.cols, is_transposed ? m.cols : m.rows,
                  from.data + r * from.row, matrices_.data() + first_[number], add, to.data + r * to.row, &strides);
  }
  template <class Kernel>
  static void run(const Work &exec, const char *label, int64_t rows, const Kernel &kernel) {
    constexpr int GROUPS = DeviceTraits<>::GROUPS;
    Kokkos::parallel_for(label,
                         DeviceTeams<>(exec, static_cast<int>((rows + GROUPS - 1) / GROUPS), DeviceTraits<>::TEAM, 1),
                         LocalRowsOnLanes<Kernel>{kernel, rows});
  }
  static void clear(const Work &exec, int64_t size, R *numbers) { device_zero(exec, numbers, size); }

  void for_batch_arrays(int64_t num_atoms, int64_t num_edges, const ArrayVisitor &f) {
    f(numbers_, LocalChunk<T>::num_numbers(program_, num_rows(num_edges), num_atoms));
    f(indices_, LocalChunk<T>::num_indices(num_rows(num_edges)));
  }
  int64_t edge_scratch_size(int64_t) const { return 0; }
  auto members() const { return std::tie(matrices_); }

 private:
  // Products have this many rows at a time. A library chooses its kernel, and so the last bit of the results, by the
  // size of a product, which must not depend on the number of edges.
  static constexpr int64_t BLOCK = DeviceTraits<>::ON_HOST ? 256 : 2048;
  static int64_t num_rows(int64_t count) { return (count + BLOCK - 1) / BLOCK * BLOCK; }

  const LocalProgram &program_;
  std::vector<int64_t> first_;    // of each matrix
  DeviceBuffer<R> matrices_, numbers_;
  DeviceBuffer<int> indices_;
};

}    // namespace equi

#endif

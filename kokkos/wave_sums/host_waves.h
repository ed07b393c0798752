// SPDX-License-Identifier: MIT
// The wave vectors of an evaluation and its tables of powers, by the threads of a host. Sums over the same wave vectors
// share them.
#ifndef EQUI_HOST_WAVES_H
#define EQUI_HOST_WAVES_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/layer_interface/host_system.h"
#include "kokkos/runtime/buffer.h"
#include "kokkos/wave_sums/multipole_numbers.h"
#include "kokkos/wave_sums/system_waves.h"
#include "src/functions/wave_sum.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace equi {

// What loops over numbers run on.
struct HostWork {
  HostWork() = default;
  template <class T>
  HostWork(const HostKernels<T> &) {}
};

template <class D>
class HostWaves {
 public:
  using Number = D;
  using Work = HostWork;
  using System = HostSystem;
  template <class N>
  using Array = Buffer<N>;

  explicit HostWaves(SystemWaves vectors) : vectors_(std::move(vectors)) {}

  // Calls f(n) for 0 <= n < count. label: at most 15 characters (host_exec.h).
  template <class F>
  static void for_numbers(const Work &, const char *label, int64_t count, const F &f) {
    constexpr int64_t LEAST = 1024;    // numbers of a thread
    const int64_t threads = HostExec().concurrency();
    for_pieces(label, count, std::max(LEAST, (count + threads - 1) / threads), [&](int64_t first, int64_t end) {
      for (int64_t n = first; n < end; n++) f(n);
    });
  }

  // Before the functions below, of which the first call of an evaluation prepares wave vectors and tables.
  void prepare(const Work &, const System &system, int count);
  // How often the cell or the wave vectors have changed: whatever depends on them is then computed anew.
  int64_t num_changes() const { return num_changes_; }
  const SystemWaves &vectors() const { return vectors_; }
  const WaveCell<D> &cell() const { return sum_->cell(); }
  int64_t size() const { return vectors_.vectors().size(); }    // numbers of a plane
  FactorPlaces places() const { return {size(), 1, size()}; }
  const WaveRows *rows() const { return rows_.data(); }
  int64_t num_rows() const { return static_cast<int64_t>(rows_.size()); }
  const int8_t *present() const { return vectors_.vectors().present().data(); }
  PowersOfAtoms<D> powers() const { return {sum_->powers(0).first, 1, 2 * cell().stride(), 0, 1, cell().stride()}; }

  // WaveSum::add_tiles() and gather() for all tiles and atoms.
  void add_up(const Work &, int columns, int components, const D *multipoles, D *sums);
  void gather(const Work &, int planes, int order, const D *factors, int64_t stride, D *fields) const;
  // total[c] = sum of rows[n][width] by column
  void sum_rows(const Work &, const D *rows, int64_t n, int width, D *total);
  // Replaces numbers by their sums over all ranks, and returns these in host memory until the next call. Collective.
  const D *sum_over_ranks(const Work &, D *numbers, int64_t n, GhostExchange &exchange);

  // What a request needs, and what is added to its results: gradients [count][3] and derivatives by a strain, of all
  // atoms or [count][SYMMETRIC], whose negatives are forces and virials.
  static bool needs_forces(const System &s) { return s.request.forces || s.request.force_tangents; }
  static bool needs_virial(const System &s) { return s.request.virial; }
  static bool needs_atom_virial(const System &s) { return s.request.atom_virial; }
  static void subtract_gradient(const Work &, const System &system, int count, const D *gradient);
  static void subtract_strain(const Work &, const System &system, const D *strain);
  static void subtract_atom_strains(const Work &, const System &system, int count, const double *strains);

  std::size_t bytes() const;
  // Bytes that tables for this cell and number of atoms have at most, and those of a plane of factors. columns, order:
  // of the largest sum.
  std::size_t bytes_for(const CellMatrix &cell, int count, int columns, int order) const;
  std::size_t bytes_of_plane(const CellMatrix &cell) const { return vectors_.extent(cell).most * 2 * sizeof(D); }

 private:
  SystemWaves vectors_;
  int64_t prepared_ = 0, num_changes_ = 0;    // prepared_: HostSystem::step
  int count_ = 0;
  std::optional<WaveSum<D>> sum_;
  std::vector<WaveRows> rows_;                 // whole tiles
  std::vector<std::array<D, 3>> positions_;    // [receivers]
};

}    // namespace equi

#endif

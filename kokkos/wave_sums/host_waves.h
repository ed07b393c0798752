// SPDX-License-Identifier: MIT
// The wave vectors of an evaluation and its tables of powers, by the threads of a host. Sums over the same wave vectors
// share them.
#ifndef EQUI_HOST_WAVES_H
#define EQUI_HOST_WAVES_H

#include "kokkos/layer_interface/host_system.h"
#include "kokkos/wave_sums/multipole_numbers.h"
#include "kokkos/wave_sums/system_waves.h"
#include "src/functions/wave_sum.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace equi {

template <class D>
class HostWaves : public SystemOnHost<D> {
 public:
  using Work = HostWork;
  using System = HostSystem;

  explicit HostWaves(SystemWaves vectors) : vectors_(std::move(vectors)) {}

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

  auto members() const {
    return std::tuple_cat(SystemOnHost<D>::members(), std::tie(sum_, vectors_.vectors(), rows_, positions_));
  }
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

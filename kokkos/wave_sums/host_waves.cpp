// SPDX-License-Identifier: MIT
// Wave vectors of the present cell and their sums over atoms, by the threads of a host.
#include "kokkos/wave_sums/host_waves.h"

#include "kokkos/wave_sums/system_multipoles.h"

#include <algorithm>

namespace equi {

namespace {

constexpr int ATOMS = 32;    // of a piece of a thread's work

}    // namespace

template <class D>
void HostWaves<D>::prepare(const Work &work, const System &system, int count) {
  if (prepared_ == system.step) return;
  // A slab has the wave vectors of its box. Open systems have none, and are refused here.
  const SystemWaves::Change change =
      vectors_.use(system.neighborhood.box.cell_of_waves(), system.request.cell_direction);
  if (!sum_)
    sum_.emplace(vectors_.vectors(), &vectors_.cell_direction());
  else if (change != SystemWaves::Change::none)
    sum_->set_cell(&vectors_.cell_direction());
  if (change != SystemWaves::Change::none) num_changes_++;
  if (change == SystemWaves::Change::integers) {
    rows_.clear();
    for (const WaveVectors::Tile &tile : vectors_.vectors().tiles())
      rows_.push_back({tile.n2, tile.first_n3, tile.first_n1, tile.end_n1 - tile.first_n1, tile.at});
  }
  count_ = count;
  positions_.resize(count);
  if (count > 0) this->positions(work, system, count, positions_[0].data());
  sum_->set_count(count);
  for_pieces("equi:wave_table", count, ATOMS,
             [&](int64_t first, int64_t end) { sum_->tabulate(first, end, positions_.data()); });
  prepared_ = system.step;
}

template <class D>
void HostWaves<D>::add_up(const Work &, int columns, int components, const D *multipoles, D *sums) {
  const int64_t num_tiles = sum_->num_tiles(), threads = HostExec().concurrency();
  for_pieces("equi:wave_add", num_tiles, (num_tiles + threads) / threads,
             [&](int64_t first, int64_t end) { sum_->add_tiles(first, end, columns, components, multipoles, sums); });
}

template <class D>
void HostWaves<D>::gather(const Work &, int planes, int order, const D *factors, int64_t stride, D *fields) const {
  for_pieces("equi:wave_gather", count_, ATOMS,
             [&](int64_t first, int64_t end) { sum_->gather(first, end, planes, order, factors, stride, fields); });
}

template <class D>
std::size_t HostWaves<D>::bytes_for(const CellMatrix &cell, int count, int, int) const {
  const WaveVectors::Extent extent = vectors_.extent(cell);
  return WaveSum<D>::bytes_for(extent, count) + extent.most * sizeof(int8_t) + count * sizeof(positions_[0]);
}

template class HostWaves<double>;
template class HostWaves<Dual<double>>;
template class SystemMultipoles<HostWaves<double>>;
template class SystemMultipoles<HostWaves<Dual<double>>>;

}    // namespace equi

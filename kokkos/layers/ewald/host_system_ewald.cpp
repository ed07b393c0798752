// SPDX-License-Identifier: MIT
// The Ewald sum of an evaluation: wave vectors of the present cell, sums over ranks, forces and virials.
#include "kokkos/layers/ewald/host_system_ewald.h"

#include "kokkos/layer_interface/host_system.h"

#include <algorithm>

namespace equi {

namespace {

constexpr int ATOMS = 32;    // of a piece of a thread's work

}    // namespace

template <class D>
void HostSystemEwald<D>::evaluate(const HostSystem &system, int count, const D *charges, EwaldAtom<D> *atoms,
                                  GhostExchange &exchange) {
  if (waves_.use(system.neighborhood.cell, system.request.cell_direction) != SystemWaves::Change::none)
    is_current_ = false;
  if (!sum_)
    sum_.emplace(function_, waves_.vectors(), &waves_.cell_direction());
  else if (!is_current_)
    sum_->set_cell(&waves_.cell_direction());
  is_current_ = true;
  const int64_t size = 2 * waves_.vectors().size();
  sums_.resize(size + 2);
  positions_of_receivers(system, count, positions_);
  D charge(0.0);
  for (int i = 0; i < count; i++) charge += charges[i];
  sum_->set_count(count);
  for_pieces("equi:ewald_tables", count, ATOMS,
             [&](int64_t first, int64_t end) { sum_->tabulate(first, end, positions_.data()); });
  const int64_t num_tiles = sum_->num_tiles();
  for_pieces("equi:ewald_add", num_tiles, (num_tiles + HostExec().concurrency()) / HostExec().concurrency(),
             [&](int64_t first, int64_t end) { sum_->add_tiles(first, end, charges, sums_.data()); });
  sums_[size] = charge;
  sums_[size + 1] = D(static_cast<double>(count));
  exchange.sum(reinterpret_cast<double *>(sums_.data()), static_cast<int>(sums_.size()) * PLANES<D>);
  total_charge_ = value_of(sums_[size]);
  num_atoms_ = value_of(sums_[size + 1]);
  sum_->set_sum(sums_.data());
  for_pieces("equi:ewald", count, ATOMS, [&](int64_t first, int64_t end) { sum_->gather(first, end, charges, atoms); });
  if (system.request.forces || system.request.force_tangents) add_forces(system, count, atoms);
  if (system.request.virial || system.request.atom_virial) add_virials(system, count, charges);
}

template <class D>
void HostSystemEwald<D>::add_forces(const HostSystem &system, int count, const EwaldAtom<D> *atoms) const {
  for (int i = 0; i < count; i++)
    for (int a = 0; a < 3; a++) subtract_gradient(system, i, a, atoms[i].gradient[a]);
}

// Each rank adds its share of the virial, which belongs to the structure factors of all atoms.
template <class D>
void HostSystemEwald<D>::add_virials(const HostSystem &system, int count, const D *charges) const {
  const double share = num_atoms_ > 0.0 ? count / num_atoms_ : 0.0;
  if (system.request.virial) {
    const auto total = sum_->total(sums_.data());
    for (int c = 0; c < 6; c++) {
      system.result.virial[c] -= share * value_of(total.strain[c]);
      system.result.virial_tangent[c] -= share * tangent_of(total.strain[c]);
    }
  }
  if (!system.request.atom_virial) return;
  std::vector<double> values;
  for (int i = 0; i < count; i++) values.push_back(value_of(charges[i]));
  std::vector<std::array<double, 6>> strain(count);
  for_pieces("equi:ewald_virials", count, ATOMS,
             [&](int64_t first, int64_t end) { sum_->gather_strain(first, end, values.data(), strain.data()); });
  constexpr int COMPONENT[9] = {0, 1, 2, 3, 4, 5, 3, 4, 5};
  for (int i = 0; i < count; i++)
    for (int c = 0; c < 9; c++)
      system.request.atom_virial[system.neighborhood.receiver[i]][c] -= strain[i][COMPONENT[c]];
}

template <class D>
std::size_t HostSystemEwald<D>::bytes() const {
  return (sum_ ? sum_->bytes() + waves_.vectors().bytes() : 0) + sums_.capacity() * sizeof(D) +
         positions_.capacity() * sizeof(positions_[0]);
}

template <class D>
std::size_t HostSystemEwald<D>::additional_bytes(const CellMatrix &cell, int count) const {
  const WaveVectors::Extent extent = waves_.extent(cell);
  const std::size_t needed = EwaldSum<D>::bytes_for(extent, count) + extent.most * (2 * sizeof(D) + sizeof(int8_t)) +
                             count * sizeof(positions_[0]);
  return needed - std::min(needed, bytes());
}

template <class D>
std::string HostSystemEwald<D>::describe(std::size_t bytes_of_atoms) const {
  return waves_.describe("Ewald sum", bytes() + bytes_of_atoms) +
         SystemWaves::warning_of_charge(total_charge_, num_atoms_);
}

template class HostSystemEwald<double>;
template class HostSystemEwald<Dual<double>>;

}    // namespace equi

// SPDX-License-Identifier: MIT
// The Ewald sum of an evaluation: wave vectors of the present cell, sums over ranks, forces and virials.
#include "kokkos/layers/ewald/host_system_ewald.h"

#include "kokkos/runtime/host_exec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace equi {

namespace {

constexpr int ATOMS = 32;    // of a piece of a thread's work
// A mean charge beyond rounding, in units of charge.
constexpr double NEUTRAL = 1e-6;

// Calls f(first, end) for pieces of a range, which threads share.
template <class F>
void for_pieces(const char *label, int64_t count, int64_t size, const F &f) {
  const int64_t pieces = (count + size - 1) / size;
  Kokkos::parallel_for(label, Kokkos::RangePolicy<HostExec, Kokkos::Schedule<Kokkos::Dynamic>>(0, pieces),
                       [&](int64_t p) { f(p * size, std::min<int64_t>(count, (p + 1) * size)); });
}

WaveVectorSet set_of(const std::string &word) {
  return word == "frozen"      ? WaveVectorSet::frozen
         : word == "converged" ? WaveVectorSet::converged
                               : WaveVectorSet::sphere;
}

}    // namespace

template <class D>
HostSystemEwald<D>::HostSystemEwald(const Ewald &layer, WaveVectorSet wave_vectors)
    : function_(layer.function),
      cutoff_(layer.cutoff),
      set_(wave_vectors == WaveVectorSet::of_file ? set_of(layer.wave_vectors) : wave_vectors) {
  if (set_ == WaveVectorSet::converged) cutoff_ = std::max(cutoff_, WaveVectors::converged_cutoff(function_.sigma));
}

template <class D>
D *HostSystemEwald<D>::charges(int count) {
  charges_.resize(count);
  return charges_.data();
}

// The derivative of a sphere's energy ignores that wave vectors enter and leave it.
template <class D>
void HostSystemEwald<D>::use_cell(const CellMatrix &cell, const double (*direction)[3]) {
  CellMatrix moved{};
  for (int k = 0; direction && k < 3; k++)
    for (int a = 0; a < 3; a++) moved[k][a] = direction[k][a];
  if (sum_ && cell == cell_ && moved == cell_direction_) return;
  if (waves_ && set_ == WaveVectorSet::frozen)
    waves_->deform(cell);
  else if (!waves_ || cell != cell_)
    waves_.emplace(cell, cutoff_);
  cell_ = cell;
  cell_direction_ = moved;
  sum_.emplace(function_, *waves_, &cell_direction_);
  sums_.resize(2 * waves_->size() + 2);
}

template <class D>
void HostSystemEwald<D>::evaluate(const SystemOfStep &system, GhostExchange &exchange) {
  check_cell(system.neighborhood);
  try {
    use_cell(system.neighborhood.cell, system.request.cell_direction);
  } catch (const std::invalid_argument &fault) {
    throw EvaluationError(fault.what(), -1, -1, 0.0);
  }
  const int64_t count = static_cast<int64_t>(charges_.size());
  positions_.resize(count);
  atoms_.resize(count);
  D charge(0.0);
  for (int64_t i = 0; i < count; i++) {
    const int atom = system.neighborhood.receiver[i];
    for (int a = 0; a < 3; a++)
      positions_[i][a] = make_number<D>(system.request.positions[atom][a],
                                        system.request.direction ? system.request.direction[atom][a] : 0.0);
    charge += charges_[i];
  }
  sum_->set_count(count);
  for_pieces("equi:ewald_tables", count, ATOMS,
             [&](int64_t first, int64_t end) { sum_->tabulate(first, end, positions_.data()); });
  const int64_t num_tiles = sum_->num_tiles();
  for_pieces("equi:ewald_add", num_tiles, (num_tiles + HostExec().concurrency()) / HostExec().concurrency(),
             [&](int64_t first, int64_t end) { sum_->add_tiles(first, end, charges_.data(), sums_.data()); });
  const int64_t size = 2 * waves_->size();
  sums_[size] = charge;
  sums_[size + 1] = D(static_cast<double>(count));
  exchange.sum(reinterpret_cast<double *>(sums_.data()), static_cast<int>(sums_.size()) * PLANES<D>);
  total_charge_ = value_of(sums_[size]);
  num_atoms_ = value_of(sums_[size + 1]);
  sum_->set_sum(sums_.data());
  for_pieces("equi:ewald", count, ATOMS,
             [&](int64_t first, int64_t end) { sum_->gather(first, end, charges_.data(), atoms_.data()); });
  if (system.request.forces || system.request.force_tangents) add_forces(system);
  if (system.request.virial || system.request.atom_virial)
    add_virials(system, num_atoms_ > 0.0 ? static_cast<double>(count) / num_atoms_ : 0.0);
}

template <class D>
void HostSystemEwald<D>::add_forces(const SystemOfStep &system) const {
  for (size_t i = 0; i < atoms_.size(); i++) {
    const int atom = system.neighborhood.receiver[i];
    for (int a = 0; a < 3; a++) {
      if (system.request.forces) system.request.forces[atom][a] -= value_of(atoms_[i].gradient[a]);
      if (system.request.force_tangents) system.request.force_tangents[atom][a] -= tangent_of(atoms_[i].gradient[a]);
    }
  }
}

// Each rank adds its share of the virial, which belongs to the structure factors of all atoms.
template <class D>
void HostSystemEwald<D>::add_virials(const SystemOfStep &system, double share) const {
  if (system.request.virial) {
    const auto total = sum_->total(sums_.data());
    for (int c = 0; c < 6; c++) {
      system.result.virial[c] -= share * value_of(total.strain[c]);
      system.result.virial_tangent[c] -= share * tangent_of(total.strain[c]);
    }
  }
  if (!system.request.atom_virial) return;
  std::vector<double> charges;
  for (const D &q : charges_) charges.push_back(value_of(q));
  std::vector<std::array<double, 6>> strain(charges.size());
  for_pieces("equi:ewald_virials", static_cast<int64_t>(charges.size()), ATOMS,
             [&](int64_t first, int64_t end) { sum_->gather_strain(first, end, charges.data(), strain.data()); });
  constexpr int COMPONENT[9] = {0, 1, 2, 3, 4, 5, 3, 4, 5};
  for (size_t i = 0; i < charges.size(); i++)
    for (int c = 0; c < 9; c++)
      system.request.atom_virial[system.neighborhood.receiver[i]][c] -= strain[i][COMPONENT[c]];
}

template <class D>
std::size_t HostSystemEwald<D>::bytes() const {
  return (sum_ ? sum_->bytes() + waves_->bytes() : 0) + (charges_.capacity() + sums_.capacity()) * sizeof(D) +
         positions_.capacity() * sizeof(positions_[0]) + atoms_.capacity() * sizeof(atoms_[0]);
}

template <class D>
std::string HostSystemEwald<D>::describe() const {
  if (!sum_) return "";
  char text[400];
  const char *set = set_ == WaveVectorSet::frozen      ? ", whose integers stay when the cell changes"
                    : set_ == WaveVectorSet::converged ? ", converged"
                                                       : ", whose number jumps with a changing cell, and so does the "
                                                         "energy (keyword kspace: frozen or converged)";
  std::snprintf(text, sizeof text, "Ewald sum: %lld wave vectors within %.6g/Angstrom%s; %.3g MB per rank",
                static_cast<long long>(waves_->count()), cutoff_, set, 1e-6 * static_cast<double>(bytes()));
  std::string line = text;
  if (std::fabs(total_charge_) > NEUTRAL * num_atoms_) {
    std::snprintf(text, sizeof text,
                  "\n  WARNING: the charges of all atoms sum to %.6g; a uniform background neutralizes the cell",
                  total_charge_);
    line += text;
  }
  return line;
}

template class HostSystemEwald<double>;
template class HostSystemEwald<Dual<double>>;

}    // namespace equi

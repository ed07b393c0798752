// SPDX-License-Identifier: MIT
// Potentials of multipoles in the present cell: sums over ranks, forces and virials.
#include "kokkos/layers/potential/host_system_potential.h"

#include "kokkos/layer_interface/host_system.h"

#include <algorithm>

namespace equi {

namespace {

constexpr int ATOMS = 16;    // of a piece of a thread's work

}    // namespace

template <class D>
HostSystemPotential<D>::HostSystemPotential(const Potential &layer, WaveVectorSet wave_vectors, OpenSum open)
    : layer_(layer),
      waves_(layer.cutoff, layer.function.least_width(), layer.wave_vectors, wave_vectors),
      open_sum_(open),
      uniform_(layer) {}

template <class D>
void HostSystemPotential<D>::set_count(int count) {
  count_ = count;
  sources_.assign(static_cast<std::size_t>(count) * 4 * layer_.channels, D(0.0));
  of_sources_.resize(sources_.size());
  probes_.assign(static_cast<std::size_t>(count) * num_probes(), D(0.0));
  of_probes_.resize(probes_.size());
}

template <class D>
void HostSystemPotential<D>::add_up(typename Sum::Side side, const std::vector<D> &multipoles, std::vector<D> &factors,
                                    GhostExchange &exchange) const {
  factors.resize(sum_->num_factors());
  const int64_t num_tiles = sum_->num_tiles(), threads = HostExec().concurrency();
  for_pieces("equi:potential_add", num_tiles, (num_tiles + threads - 1) / threads,
             [&](int64_t first, int64_t end) { sum_->add_tiles(side, first, end, multipoles.data(), factors.data()); });
  exchange.sum(reinterpret_cast<double *>(factors.data()), static_cast<int>(factors.size()) * PLANES<D>);
}

template <class D>
void HostSystemPotential<D>::evaluate(const HostSystem &system, GhostExchange &exchange) {
  boundary_ = boundary_of(system.neighborhood);
  if (!layer_.open && boundary_ != Boundary::periodic)
    throw EvaluationError(
        "the file has no data for open systems and slabs: convert the model anew, or use a cell that is periodic in "
        "three directions",
        -1, -1, 0.0);
  if (is_open()) {
    if (!open_) open_.emplace(layer_, open_sum_);
    open_->evaluate(system, count_, sources_, of_probes_, exchange);
  } else {
    evaluate_waves(system, exchange);
  }
  felt_ = of_probes_;
  uniform_.evaluate(system, boundary_, count_, sources_, felt_, exchange);
}

template <class D>
void HostSystemPotential<D>::evaluate_adjoint(const HostSystem &system, GhostExchange &exchange) {
  if (is_open())
    open_->evaluate_adjoint(system, count_, sources_, probes_, of_sources_, exchange);
  else
    evaluate_adjoint_of_waves(system, exchange);
  uniform_.evaluate_adjoint(system, count_, sources_, probes_, of_sources_, exchange);
}

template <class D>
void HostSystemPotential<D>::evaluate_waves(const HostSystem &system, GhostExchange &exchange) {
  const bool has_changed =
      waves_.use(system.neighborhood.box, system.request.cell_direction) != SystemWaves::Change::none;
  if (has_changed || !sum_) sum_.emplace(layer_.function, layer_.channels, waves_.vectors(), &waves_.cell_direction());
  positions_of_receivers(system, count_, positions_);
  sum_->set_count(count_);
  for_pieces("equi:potential_tables", count_, ATOMS,
             [&](int64_t first, int64_t end) { sum_->tabulate(first, end, positions_.data()); });
  add_up(Sum::sources, sources_, source_factors_, exchange);
  for_pieces("equi:potential", count_, ATOMS, [&](int64_t first, int64_t end) {
    sum_->gather(Sum::probes, first, end, source_factors_.data(), of_probes_.data());
  });
}

template <class D>
void HostSystemPotential<D>::evaluate_adjoint_of_waves(const HostSystem &system, GhostExchange &exchange) {
  add_up(Sum::probes, probes_, probe_factors_, exchange);
  for_pieces("equi:potential_adjoint", count_, ATOMS, [&](int64_t first, int64_t end) {
    sum_->gather(Sum::sources, first, end, probe_factors_.data(), of_sources_.data());
  });
  if (system.request.forces || system.request.force_tangents) add_forces(system);
  if (system.request.virial || system.request.atom_virial) add_virials(system);
}

template <class D>
void HostSystemPotential<D>::add_forces(const HostSystem &system) const {
  std::vector<std::array<D, 3>> as_source(count_), as_probe(count_);
  for_pieces("equi:potential_forces", count_, ATOMS, [&](int64_t first, int64_t end) {
    sum_->gather_gradient(Sum::sources, first, end, sources_.data(), probe_factors_.data(), as_source.data());
    sum_->gather_gradient(Sum::probes, first, end, probes_.data(), source_factors_.data(), as_probe.data());
  });
  for (int i = 0; i < count_; i++)
    for (int a = 0; a < 3; a++) subtract_gradient(system, i, a, as_source[i][a] + as_probe[i][a]);
}

// A strain turns neither dipoles nor gradients, so k . p changes with k.
template <class D>
void HostSystemPotential<D>::add_virials(const HostSystem &system) const {
  constexpr int COMPONENT[9] = {0, 1, 2, 3, 4, 5, 3, 4, 5};
  std::vector<std::array<D, 6>> strains(count_);
  for_pieces("equi:potential_virials", count_, ATOMS, [&](int64_t first, int64_t end) {
    sum_->gather_strain(first, end, probes_.data(), source_factors_.data(), strains.data());
  });
  for (int i = 0; i < count_; i++) {
    const auto subtract = [&](const std::vector<D> &multipoles, const std::vector<D> &derivatives, int64_t numbers) {
      for (int64_t m = i * numbers; m < (i + 1) * numbers; m += 4)
        for (int c = 0; c < 6; c++) {
          const int a = 1 + first_of_strain(c), b = 1 + second_of_strain(c);
          strains[i][c] -= D(0.5) * (derivatives[m + a] * multipoles[m + b] + derivatives[m + b] * multipoles[m + a]);
        }
    };
    subtract(sources_, of_sources_, 4 * layer_.channels);
    subtract(probes_, of_probes_, num_probes());
    for (int c = 0; system.request.virial && c < 6; c++) {
      system.result.virial[c] -= value_of(strains[i][c]);
      system.result.virial_tangent[c] -= tangent_of(strains[i][c]);
    }
    for (int c = 0; system.request.atom_virial && c < 9; c++)
      system.request.atom_virial[system.neighborhood.receiver[i]][c] -= value_of(strains[i][COMPONENT[c]]);
  }
}

template <class D>
std::size_t HostSystemPotential<D>::bytes() const {
  return (sum_ ? sum_->bytes() + waves_.vectors().bytes() : 0) + (open_ ? open_->bytes() : 0) +
         (sources_.capacity() + probes_.capacity() + of_sources_.capacity() + of_probes_.capacity() + felt_.capacity() +
          source_factors_.capacity() + probe_factors_.capacity()) *
             sizeof(D) +
         positions_.capacity() * sizeof(positions_[0]);
}

template <class D>
std::size_t HostSystemPotential<D>::additional_bytes(const CellMatrix &cell, int count) const {
  const WaveVectors::Extent extent = waves_.extent(cell);
  const int num_widths = static_cast<int>(layer_.function.widths.size());
  const std::size_t needed = Sum::bytes_for(layer_.channels, num_widths, extent, count) + extent.most * sizeof(int8_t) +
                             count * (2 * (4 * layer_.channels + num_probes()) * sizeof(D) + sizeof(positions_[0]));
  return needed - std::min(needed, bytes());
}

template <class D>
std::string HostSystemPotential<D>::describe() const {
  if (is_open()) return open_ ? open_->describe() : "";
  return waves_.describe("potentials of multipoles", bytes());
}

template class HostSystemPotential<double>;
template class HostSystemPotential<Dual<double>>;

}    // namespace equi

// SPDX-License-Identifier: MIT
// Adds potentials that are linear in the position, with their forces and virials.
#include "kokkos/layers/potential/host_uniform_potential.h"

#include "kokkos/layer_interface/host_system.h"
#include "src/functions/wave_cell.h"
#include "src/functions/wave_vectors.h"
#include "src/numbers/vector3.h"

#include <cmath>

namespace equi {

template <class D>
std::vector<typename HostUniformPotential<D>::Channel> HostUniformPotential<D>::sums(const std::vector<D> &multipoles,
                                                                                     int num_widths,
                                                                                     GhostExchange &exchange) const {
  std::vector<D> numbers(static_cast<std::size_t>(5) * layer_.channels, D(0.0));
  const int64_t width = static_cast<int64_t>(4) * layer_.channels * num_widths;
  for (std::size_t i = 0; i < places_.size(); i++) {
    const Vector &r = places_[i];
    const D h = height({r[0] - center_[0], r[1] - center_[1], r[2] - center_[2]});
    for (int m = 0; m < layer_.channels * num_widths; m++) {
      const D *of_atom = multipoles.data() + static_cast<int64_t>(i) * width + 4 * m;
      D *to = numbers.data() + static_cast<std::size_t>(5) * (m / num_widths);
      to[0] += of_atom[0];
      to[1] += of_atom[0] * h;
      for (int a = 0; a < 3; a++) to[2 + a] += of_atom[1 + a];
    }
  }
  exchange.sum(reinterpret_cast<double *>(numbers.data()), static_cast<int>(numbers.size()) * PLANES<D>);
  std::vector<Channel> channels;
  for (int c = 0; c < layer_.channels; c++) {
    const D *from = numbers.data() + static_cast<std::size_t>(5) * c;
    channels.push_back({from[0], from[1], {from[2], from[3], from[4]}});
  }
  return channels;
}

template <class D>
void HostUniformPotential<D>::evaluate(const HostSystem &system, Boundary boundary, int count,
                                       const std::vector<D> &sources, std::vector<D> &of_probes,
                                       GhostExchange &exchange) {
  slab_ = 0.0;
  if (boundary == Boundary::slab) {
    const CellMatrix &cell = system.neighborhood.box;
    slab_ = layer_.function.prefactor / cell_volume(cell);
    normal_ = cross(cell[0], cell[1]);
    const double length = std::sqrt(dot(normal_, normal_));
    for (double &component : normal_) component /= length;
  }
  if (!is_slab() && !layer_.has_field()) return;
  if (system.request.cell_direction && boundary != Boundary::open)
    throw EvaluationError("derivatives by a strain are not known for a slab and for charges in a field", -1, -1, 0.0);
  positions_of_receivers(system, count, places_);
  D total[4] = {D(0.0), D(0.0), D(0.0), D(static_cast<double>(count))};
  for (int i = 0; i < count; i++)
    for (int a = 0; a < 3; a++) {
      if (system.request.image_shifts)
        places_[i][a] += D(system.request.image_shifts[system.neighborhood.receiver[i]][a]);
      total[a] += places_[i][a];
    }
  exchange.sum(reinterpret_cast<double *>(total), 4 * PLANES<D>);
  num_atoms_ = value_of(total[3]);
  for (int a = 0; a < 3; a++) center_[a] = num_atoms_ > 0.0 ? total[a] / D(num_atoms_) : D(0.0);

  of_sources_.clear();
  if (is_slab()) of_sources_ = sums(sources, 1, exchange);
  const int num_widths = static_cast<int>(layer_.function.widths.size());
  for (int i = 0; i < count; i++)
    for (int m = 0; m < layer_.channels * num_widths; m++) {
      D *felt = of_probes.data() + 4 * (static_cast<int64_t>(i) * layer_.channels * num_widths + m);
      const Vector &r = places_[i];
      if (is_slab()) {
        const D field = D(slab_) * of_sources_[m / num_widths].along(normal_);
        felt[0] += field * height({r[0] - center_[0], r[1] - center_[1], r[2] - center_[2]});
        for (int a = 0; a < 3; a++) felt[1 + a] += D(normal_[a]) * field;
      }
      for (int a = 0; layer_.has_field() && a < 3; a++) {
        const D slope(-layer_.of_field->share * layer_.field[a]);
        felt[0] += slope * (layer_.of_field->has_mean_origin ? r[a] - center_[a] : r[a]);
        felt[1 + a] += slope;
      }
    }
}

template <class D>
void HostUniformPotential<D>::evaluate_adjoint(const HostSystem &system, int count, const std::vector<D> &sources,
                                               const std::vector<D> &probes, std::vector<D> &of_sources,
                                               GhostExchange &exchange) {
  if (!is_slab() && !layer_.has_field()) return;
  const std::vector<Channel> of_probes = sums(probes, static_cast<int>(layer_.function.widths.size()), exchange);
  for (int i = 0; is_slab() && i < count; i++)
    for (int c = 0; c < layer_.channels; c++) {
      const Vector &r = places_[i];
      const D field = D(slab_) * of_probes[c].along(normal_);
      D *to = of_sources.data() + 4 * (static_cast<int64_t>(i) * layer_.channels + c);
      to[0] += field * height({r[0] - center_[0], r[1] - center_[1], r[2] - center_[2]});
      for (int a = 0; a < 3; a++) to[1 + a] += D(normal_[a]) * field;
    }
  add_forces(system, sources, probes, of_probes);
}

// The energy of channel c is, besides constants, (prefactor/V) D_c G_c of the slab and the sum of -share E . (r - o)
// g0. Moving all atoms together changes neither, if their mean is the origin.
template <class D>
void HostUniformPotential<D>::add_forces(const HostSystem &system, const std::vector<D> &sources,
                                         const std::vector<D> &probes, const std::vector<Channel> &of_probes) const {
  const int count = static_cast<int>(places_.size()), num_widths = static_cast<int>(layer_.function.widths.size());
  const double field_share = layer_.has_field() ? layer_.of_field->share : 0.0;
  const bool has_mean = layer_.has_field() && layer_.of_field->has_mean_origin;
  D slab_mean(0.0), energy(0.0);
  Vector field_mean{D(0.0), D(0.0), D(0.0)};
  const D by_atoms(num_atoms_ > 0.0 ? 1.0 / num_atoms_ : 0.0);
  for (int c = 0; c < layer_.channels; c++) {
    if (is_slab()) {
      const D of_source = of_sources_[c].along(normal_), of_probe = of_probes[c].along(normal_);
      slab_mean += by_atoms * D(slab_) * (of_source * of_probes[c].charge + of_probe * of_sources_[c].charge);
      energy += D(slab_) * of_source * of_probe;
    }
    for (int a = 0; has_mean && a < 3; a++)
      field_mean[a] -= by_atoms * D(field_share * layer_.field[a]) * of_probes[c].charge;
  }
  // The part of the slab's strain that belongs to no atom. The normal turns with the strain, and dipoles do not.
  std::array<D, 6> of_all{};
  for (int n = 0; is_slab() && n < 6; n++) {
    const int a = first_of_symmetric(n), b = second_of_symmetric(n);
    of_all[n] = D(2.0 * normal_[a] * normal_[b] - (a == b ? 1.0 : 0.0)) * energy;
    for (int c = 0; c < layer_.channels; c++) {
      const D of_source = of_sources_[c].along(normal_), of_probe = of_probes[c].along(normal_);
      const auto turned = [&](const Vector &p) { return D(0.5) * (D(normal_[a]) * p[b] + D(normal_[b]) * p[a]); };
      of_all[n] -= D(slab_) * (of_source * turned(of_probes[c].vector) + of_probe * turned(of_sources_[c].vector));
    }
    of_all[n] = by_atoms * of_all[n];
  }

  for (int i = 0; i < count; i++) {
    Vector of_field{D(0.0), D(0.0), D(0.0)}, place = places_[i];
    D of_slab = -slab_mean;
    for (int a = 0; has_mean && a < 3; a++) place[a] -= center_[a];
    for (int c = 0; c < layer_.channels; c++) {
      D probe(0.0);
      for (int w = 0; w < num_widths; w++)
        probe += probes[4 * ((static_cast<int64_t>(i) * layer_.channels + c) * num_widths + w)];
      for (int a = 0; layer_.has_field() && a < 3; a++) of_field[a] -= D(field_share * layer_.field[a]) * probe;
      if (!is_slab()) continue;
      const D source = sources[4 * (static_cast<int64_t>(i) * layer_.channels + c)];
      of_slab += D(slab_) * (of_sources_[c].along(normal_) * probe + of_probes[c].along(normal_) * source);
    }
    for (int a = 0; a < 3; a++) subtract_gradient(system, i, a, of_field[a] - field_mean[a] + D(normal_[a]) * of_slab);
    D strain[6];
    for (int n = 0; n < 6; n++) {
      const int a = first_of_symmetric(n), b = second_of_symmetric(n);
      strain[n] = of_all[n] + D(0.5) * (place[a] * of_field[b] + place[b] * of_field[a]);
    }
    subtract_strain(system, strain);
    subtract_atom_strain(system, i, strain);
  }
}

template class HostUniformPotential<double>;
template class HostUniformPotential<Dual<double>>;

}    // namespace equi

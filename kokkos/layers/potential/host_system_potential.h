// SPDX-License-Identifier: MIT
// Potentials of multipoles of the atoms of all ranks, by the threads of a host.
#ifndef EQUI_HOST_SYSTEM_POTENTIAL_H
#define EQUI_HOST_SYSTEM_POTENTIAL_H

#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/layer_interface/system_waves.h"
#include "kokkos/layers/potential/host_open_potential.h"
#include "kokkos/layers/potential/host_uniform_potential.h"
#include "src/functions/multipole_sum.h"
#include "src/layers/potential.h"
#include "src/numbers/dual.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace equi {

// D: double or Dual<double>. Multipoles of this rank's receivers are in the order of MultipoleSum.
template <class D>
class HostSystemPotential {
 public:
  HostSystemPotential(const Potential &layer, WaveVectorSet wave_vectors, OpenSum open);

  void set_count(int count);
  D *sources(int64_t receiver) { return sources_.data() + receiver * 4 * layer_.channels; }
  D *probes(int64_t receiver) { return probes_.data() + receiver * num_probes(); }
  // Computes the derivatives by the probes from the sources. Collective.
  void evaluate(const HostSystem &system, GhostExchange &exchange);
  // Computes the derivatives by the sources from the probes, and adds forces and virials. Collective.
  void evaluate_adjoint(const HostSystem &system, GhostExchange &exchange);
  const D *of_probes(int64_t receiver) const { return felt_.data() + receiver * num_probes(); }
  const D *of_sources(int64_t receiver) const { return of_sources_.data() + receiver * 4 * layer_.channels; }

  // Whether the last evaluation was that of an open system, whose sums lack each atom's own multipoles.
  bool is_open() const { return boundary_ == Boundary::open; }

  std::size_t bytes() const;
  std::size_t additional_bytes(const CellMatrix &cell, int count) const;
  std::string describe() const;    // of the last evaluation

 private:
  using Sum = MultipoleSum<D>;
  int64_t num_probes() const { return 4 * layer_.channels * static_cast<int64_t>(layer_.function.widths.size()); }
  void add_up(typename Sum::Side side, const std::vector<D> &multipoles, std::vector<D> &factors,
              GhostExchange &exchange) const;
  void evaluate_waves(const HostSystem &system, GhostExchange &exchange);
  void evaluate_adjoint_of_waves(const HostSystem &system, GhostExchange &exchange);
  void add_forces(const HostSystem &system) const;
  void add_virials(const HostSystem &system) const;

  Potential layer_;
  SystemWaves waves_;
  std::optional<Sum> sum_;    // with the cell of waves_
  OpenSum open_sum_;
  std::optional<HostOpenPotential<D>> open_;    // from the first open system on
  HostUniformPotential<D> uniform_;
  Boundary boundary_ = Boundary::periodic;

  int count_ = 0;
  // of_probes_: of wave vectors or pairs of atoms; felt_: with uniform potentials
  std::vector<D> sources_, probes_, of_sources_, of_probes_, felt_;
  std::vector<std::array<D, 3>> positions_;          // [receivers]
  std::vector<D> source_factors_, probe_factors_;    // of all ranks
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// What atoms feel of multipoles besides sums over wave vectors: in open systems, in slabs and in a field.
#ifndef EQUI_HOST_BOUNDARY_POTENTIAL_H
#define EQUI_HOST_BOUNDARY_POTENTIAL_H

#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/layers/potential/host_open_potential.h"
#include "kokkos/layers/potential/host_uniform_potential.h"
#include "src/layers/potential.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace equi {

// D: double or Dual<double>. Multipoles are numbers of this rank's receivers and their columns (channels, or channels
// and widths), `components` of each: 1 or 4. Results have 4 of each.
template <class D>
class HostBoundaryPotential {
 public:
  HostBoundaryPotential(const Potential &layer, OpenSum sum) : layer_(layer), sum_(sum), uniform_(layer) {}

  // Before the other functions. Throws EvaluationError if the layer does not know the boundary.
  void begin(const HostSystem &system);
  bool is_open() const { return boundary_ == Boundary::open; }
  // What acts on the probes. Collective.
  void evaluate(const HostSystem &system, int count, const D *sources, int components, GhostExchange &exchange);
  // What acts on the sources; adds forces and virials. Collective.
  void evaluate_adjoint(const HostSystem &system, int count, const D *probes, int components, GhostExchange &exchange);
  // Those numbers of a receiver; null: nothing.
  const D *of_probes(int64_t receiver) const {
    return has_parts() ? of_probes_.data() + receiver * 4 * num_columns() : nullptr;
  }
  const D *of_sources(int64_t receiver) const {
    return has_parts() ? of_sources_.data() + receiver * 4 * layer_.channels : nullptr;
  }

  std::size_t bytes() const;
  std::string describe() const { return is_open() && open_ ? open_->describe() : ""; }

 private:
  bool has_parts() const { return boundary_ != Boundary::periodic || layer_.has_field(); }
  int64_t num_columns() const {
    return static_cast<int64_t>(layer_.channels) * static_cast<int64_t>(layer_.function.widths.size());
  }

  Potential layer_;
  OpenSum sum_;
  Boundary boundary_ = Boundary::periodic;
  std::optional<HostOpenPotential<D>> open_;    // from the first open system on
  HostUniformPotential<D> uniform_;
  std::vector<D> sources_, probes_, of_sources_, of_probes_;
};

// Devices know periodic cells without a field.
template <class D>
class DeviceBoundaryPotential {
 public:
  DeviceBoundaryPotential(const Potential &layer, OpenSum) {
    if (layer.has_field())
      throw std::invalid_argument(
          "a field acts on charges on CPUs alone: use the keyword 'kernels host', or a LAMMPS without GPUs");
  }
  void begin(const DeviceSystem<D> &system) {
    if (system.cell == PeriodicVectors{})
      throw EvaluationError(
          "potentials of charges in open systems and slabs run on CPUs alone: use the keyword 'kernels host', or a "
          "LAMMPS without GPUs",
          -1, -1, 0.0);
  }
  bool is_open() const { return false; }
  void evaluate(const DeviceSystem<D> &, int, const D *, int, GhostExchange &) {}
  void evaluate_adjoint(const DeviceSystem<D> &, int, const D *, int, GhostExchange &) {}
  const D *of_probes(int64_t) const { return nullptr; }
  const D *of_sources(int64_t) const { return nullptr; }
  std::size_t bytes() const { return 0; }
  std::string describe() const { return ""; }
};

}    // namespace equi

#endif

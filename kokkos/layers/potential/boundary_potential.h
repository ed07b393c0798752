// SPDX-License-Identifier: MIT
// What atoms feel of multipoles besides sums over wave vectors: in open systems, in slabs and in a field.
#ifndef EQUI_BOUNDARY_POTENTIAL_H
#define EQUI_BOUNDARY_POTENTIAL_H

#include "kokkos/layer_interface/device_system.h"
#include "kokkos/layer_interface/host_system.h"
#include "kokkos/layers/potential/open_potential.h"
#include "kokkos/layers/potential/uniform_potential.h"
#include "src/base/owned_memory.h"
#include "src/layers/potential.h"
#include "src/numbers/dual.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

namespace equi {

// Multipoles with four numbers each.
template <class D>
struct SpreadMultipoles {
  int components;
  const D *from;
  D *to;
  EQUI_FUNCTION void operator()(int64_t m) const {
    for (int n = 0; n < 4; n++) to[4 * m + n] = n < components ? from[m * components + n] : D(0.0);
  }
};
// System: SystemOnHost<D> or SystemOnDevice<D>. Multipoles are numbers of this rank's receivers and their columns
// (channels, or channels and widths), `components` of each: 1 or 4. Results have 4 of each. On devices no launch is
// recorded here, and the results stay where they are as long as the number of receivers does.
template <class System>
class BoundaryPotential {
  using D = typename System::Number;
  using Work = typename System::Work;

 public:
  BoundaryPotential(const Potential &layer, OpenSum sum) : layer_(layer), uniform_(layer) {
    if (layer.open) open_.emplace(layer, sum);
  }

  // Before the other functions. Throws EvaluationError if the layer does not know the boundary.
  void begin(const typename System::System &system) {
    boundary_ = boundary_of(box_of(system));
    if (!layer_.open && boundary_ != Boundary::periodic)
      throw EvaluationError(
          "the file has no data for open systems and slabs: convert the model anew, or use a cell that is periodic in "
          "three directions",
          -1, -1, 0.0);
  }
  bool is_open() const { return boundary_ == Boundary::open; }
  // What acts on the probes. Collective.
  void evaluate(const Work &work, const typename System::System &system, int count, const D *sources, int components,
                GhostExchange &exchange) {
    if (!has_parts()) return;
    D *spread = sources_.reserve(4 * count * num_channels()), *felt = of_probes_.reserve(4 * count * num_columns());
    System::for_numbers(work, "equi:spread", count * num_channels(), SpreadMultipoles<D>{components, sources, spread});
    if (is_open())
      open_->evaluate(sums_, work, system, count, spread, felt, exchange);
    else
      System::for_numbers(work, "equi:zero", 4 * count * num_columns(), PutNumber<D>{D(0.0), felt});
    uniform_.evaluate(sums_, work, system, boundary_, count, spread, felt, exchange);
  }
  // What acts on the sources; adds forces and virials. Collective.
  void evaluate_adjoint(const Work &work, const typename System::System &system, int count, const D *probes,
                        int components, GhostExchange &exchange) {
    if (!has_parts()) return;
    D *spread = probes_.reserve(4 * count * num_columns()), *felt = of_sources_.reserve(4 * count * num_channels());
    System::for_numbers(work, "equi:spread", count * num_columns(), SpreadMultipoles<D>{components, probes, spread});
    if (is_open())
      open_->evaluate_adjoint(sums_, work, system, count, spread, felt, exchange);
    else
      System::for_numbers(work, "equi:zero", 4 * count * num_channels(), PutNumber<D>{D(0.0), felt});
    uniform_.evaluate_adjoint(sums_, work, system, count, sources_.data(), spread, felt, exchange);
  }
  // Those numbers of a receiver; null: nothing.
  const D *of_probes(int64_t receiver) const {
    return has_parts() ? of_probes_.data() + receiver * 4 * num_columns() : nullptr;
  }
  const D *of_sources(int64_t receiver) const {
    return has_parts() ? of_sources_.data() + receiver * 4 * num_channels() : nullptr;
  }

  auto members() const { return std::tie(sums_, open_, uniform_, sources_, probes_, of_sources_, of_probes_); }
  // Bytes that an evaluation in this box adds at least.
  std::size_t additional_bytes(const PeriodicBox &box, int count) const {
    const bool is_periodic = box.cell() != PeriodicBox::Vectors{},
               is_open = box.cell_of_waves() == PeriodicBox::Vectors{};
    if (is_periodic && !layer_.has_field()) return 0;
    const std::size_t needed = uniform_.least_bytes(count) + 8 * count * (num_channels() + num_columns()) * sizeof(D) +
                               (is_open && open_ ? open_->least_bytes(count) : 0);
    return needed - std::min(needed, bytes_of(*this));
  }
  std::string describe() const { return open_ ? open_->describe() : ""; }    // of an open system

 private:
  bool has_parts() const { return boundary_ != Boundary::periodic || layer_.has_field(); }
  int64_t num_channels() const { return layer_.channels; }
  int64_t num_columns() const { return num_channels() * static_cast<int64_t>(layer_.function.widths.size()); }

  Potential layer_;
  Boundary boundary_ = Boundary::periodic;
  System sums_;
  std::optional<OpenPotential<System>> open_;    // if the layer has data
  UniformPotential<System> uniform_;
  typename System::template Array<D> sources_, probes_, of_sources_, of_probes_;
};

extern template class BoundaryPotential<SystemOnHost<double>>;
extern template class BoundaryPotential<SystemOnHost<Dual<double>>>;
extern template class BoundaryPotential<SystemOnDevice<double>>;
extern template class BoundaryPotential<SystemOnDevice<Dual<double>>>;

}    // namespace equi

#endif

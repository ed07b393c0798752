// SPDX-License-Identifier: MIT
// Chooses the parts of a potential that a boundary has besides sums over wave vectors.
#include "kokkos/layers/potential/host_boundary_potential.h"

#include <algorithm>

namespace equi {

namespace {

// Writes multipoles with four numbers each.
template <class D>
void spread(int64_t num, int components, const D *from, std::vector<D> &to) {
  to.assign(4 * num, D(0.0));
  for (int64_t m = 0; m < num; m++) std::copy_n(from + m * components, components, to.data() + 4 * m);
}

}    // namespace

template <class D>
void HostBoundaryPotential<D>::begin(const HostSystem &system) {
  boundary_ = boundary_of(system.neighborhood);
  if (!layer_.open && boundary_ != Boundary::periodic)
    throw EvaluationError(
        "the file has no data for open systems and slabs: convert the model anew, or use a cell that is periodic in "
        "three directions",
        -1, -1, 0.0);
}

template <class D>
void HostBoundaryPotential<D>::evaluate(const HostSystem &system, int count, const D *sources, int components,
                                        GhostExchange &exchange) {
  if (!has_parts()) return;
  spread(static_cast<int64_t>(count) * layer_.channels, components, sources, sources_);
  of_probes_.assign(4 * count * num_columns(), D(0.0));
  if (is_open()) {
    if (!open_) open_.emplace(layer_, sum_);
    open_->evaluate(system, count, sources_, of_probes_, exchange);
  }
  uniform_.evaluate(system, boundary_, count, sources_, of_probes_, exchange);
}

template <class D>
void HostBoundaryPotential<D>::evaluate_adjoint(const HostSystem &system, int count, const D *probes, int components,
                                                GhostExchange &exchange) {
  if (!has_parts()) return;
  spread(count * num_columns(), components, probes, probes_);
  of_sources_.assign(4 * static_cast<int64_t>(count) * layer_.channels, D(0.0));
  if (is_open()) open_->evaluate_adjoint(system, count, sources_, probes_, of_sources_, exchange);
  uniform_.evaluate_adjoint(system, count, sources_, probes_, of_sources_, exchange);
}

template <class D>
std::size_t HostBoundaryPotential<D>::bytes() const {
  return (open_ ? open_->bytes() : 0) +
         (sources_.capacity() + probes_.capacity() + of_sources_.capacity() + of_probes_.capacity()) * sizeof(D);
}

template class HostBoundaryPotential<double>;
template class HostBoundaryPotential<Dual<double>>;

}    // namespace equi

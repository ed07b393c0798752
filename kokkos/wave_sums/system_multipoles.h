// SPDX-License-Identifier: MIT
// The interaction of multipoles of the atoms of all ranks (src/functions/multipole_function.h), on either back end.
#ifndef EQUI_SYSTEM_MULTIPOLES_H
#define EQUI_SYSTEM_MULTIPOLES_H

#include "kokkos/wave_sums/multipole_numbers.h"
#include "src/base/owned_memory.h"
#include "src/evaluation/ghost_exchange.h"
#include "src/functions/multipole_function.h"
#include "src/numbers/dual.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

namespace equi {

// Waves: HostWaves<D> or DeviceWaves<D>, D: double or Dual<double>. All arrays are where it runs. On devices no launch
// is recorded, because the host takes part in the sums over ranks. So wave vectors may change from step to step while
// the layers are replayed. Recorded layers use only arrays of the caller, whose addresses stay.
template <class Waves>
class SystemMultipoles {
  using D = typename Waves::Number;
  using Work = typename Waves::Work;
  using System = typename Waves::System;
  template <class N>
  using Array = typename Waves::template Array<N>;

 public:
  // waves: several sums may share them; the members of the first one include them.
  SystemMultipoles(const MultipoleFunction &function, int channels, bool has_dipoles, bool has_gradients,
                   std::shared_ptr<Waves> waves, bool is_first)
      : function_(function),
        channels_(channels),
        source_components_(has_dipoles ? 4 : 1),
        probe_components_(has_gradients ? 4 : 1),
        waves_(std::move(waves)),
        is_first_(is_first) {
    const int num = static_cast<int>(function.widths.size());
    if (num > MAX_WIDTHS) throw std::logic_error("more widths than kernels have room for");
    squares_.num = num;
    for (int w = 0; w < num; w++) squares_.of[w] = function.square(w);
  }

  // Numbers of a receiver: sources and probes [columns][components], and fields that act on them [columns][stride].
  int num_columns() const { return channels_ * squares_.num; }
  int source_components() const { return source_components_; }
  int probe_components() const { return probe_components_; }
  int64_t num_sources() const { return static_cast<int64_t>(channels_) * source_components_; }
  int64_t num_probes() const { return static_cast<int64_t>(num_columns()) * probe_components_; }
  int64_t source_stride() const { return field_numbers(source_components_ == 4 ? 2 : 1); }
  int64_t probe_stride() const { return field_numbers(probe_components_ == 4 ? 2 : 1); }

  // Computes the fields that act on the probes of `count` receivers: the value of each field, with dipoles its
  // gradient, and one more derivative if the system needs forces. Collective.
  void evaluate(const Work &work, const System &system, int count, const D *sources, D *fields,
                GhostExchange &exchange);
  // Computes the fields that act on the sources, and adds forces and virials of the interaction. sources and
  // probe_fields: those of evaluate(). Collective.
  void evaluate_adjoint(const Work &work, const System &system, int count, const D *sources, const D *probe_fields,
                        const D *probes, D *fields, GhostExchange &exchange);
  // After evaluate(), where the sources are the probes: adds forces and virials of half the interaction.
  void add_half(const Work &work, const System &system, int count, const D *sources, const D *fields);

  // The sum of all charges, and the number of all atoms, of all ranks in the last evaluate().
  double total_charge() const { return total_charge_; }
  double num_atoms() const { return num_atoms_; }

  auto members() const {
    return std::tuple_cat(std::make_tuple(is_first_ ? waves_.get() : nullptr),
                          std::tie(weights_, sums_, factors_, probe_sums_, along_cell_, gradient_, strains_,
                                   row_strains_, atom_strains_));
  }
  // Bytes that evaluations in this cell add; nothing without a cell.
  std::size_t additional_bytes(const CellMatrix &cell, int count) const {
    const std::size_t plane = waves_->bytes_of_plane(cell);
    if (plane == 0) return 0;
    const int64_t numbers =
        3 + SYMMETRIC + (std::max(source_components_, probe_components_) == 4 ? 4 * num_columns() : 0);
    std::size_t needed =
        plane / 2 * squares_.num + plane * (2 * channels_ + num_columns()) + numbers * count * sizeof(D);
    needed += needed / 8;
    if (is_first_)
      needed +=
          waves_->bytes_for(cell, count, num_columns(), std::max(source_components_, probe_components_) == 4 ? 2 : 1);
    return needed - std::min(needed, bytes_of(*this));
  }
  // bytes_of_atoms: those of the caller's arrays
  std::string describe(const char *name, std::size_t bytes_of_atoms) const {
    return waves_->vectors().describe(name, bytes_of(*this) + bytes_of_atoms);
  }

 private:
  void set_weights(const Work &work);
  // Structure factors of one side of this rank's atoms.
  void add_up(const Work &work, int count, int columns, int components, const D *multipoles, D *sums);
  const D *along_cell(const Work &work, int count, int columns, int components, const D *multipoles);
  // If the system needs them.
  void add_forces(const Work &work, const System &system, int count, const MultipoleSide<D> *sides);
  void add_virials(const Work &work, const System &system, int count, const MultipoleSide<D> *sides, double factor,
                   const D *probe_sums);

  MultipoleFunction function_;
  int channels_, source_components_, probe_components_;
  SquaredWidths squares_;
  std::shared_ptr<Waves> waves_;
  bool is_first_;
  int64_t weights_of_ = 0;    // the number of changes of the waves for which there are weights

  Array<D> weights_;       // h_w [widths][size]
  Array<D> sums_;          // structure factors of the sources of all ranks, then sums of sources, then number of atoms
  Array<D> factors_;       // planes for probes: factors of fields, or structure factors
  Array<D> probe_sums_;    // planes of channels: structure factors of probes of all ranks, or factors of fields
  Array<D> along_cell_;    // multipoles of one side (WaveSum)
  Array<D> gradient_, strains_, row_strains_;
  Array<double> atom_strains_;
  double total_charge_ = 0.0, num_atoms_ = 0.0;
};

template <class Waves>
void SystemMultipoles<Waves>::set_weights(const Work &work) {
  if (weights_of_ == waves_->num_changes()) return;
  const int64_t size = waves_->size();
  D *weights = weights_.reserve(size * squares_.num);
  for (int w = 0; w < squares_.num; w++)
    Waves::for_numbers(work, "equi:wave_weight", waves_->num_rows() * WaveVectors::LANES,
                       WeightsOfWidth<D>{waves_->cell(), waves_->rows(), waves_->present(), function_.prefactor,
                                         squares_.of[w], weights + w * size});
  weights_of_ = waves_->num_changes();
}

template <class Waves>
const typename Waves::Number *SystemMultipoles<Waves>::along_cell(const Work &work, int count, int columns,
                                                                  int components, const D *multipoles) {
  if (components == 1) return multipoles;
  const int64_t num = static_cast<int64_t>(count) * columns;
  D *along = along_cell_.reserve(4 * num);
  Waves::for_numbers(work, "equi:along_cell", num, MultipolesAlongCell<D>{waves_->cell(), multipoles, along});
  return along;
}

template <class Waves>
void SystemMultipoles<Waves>::add_up(const Work &work, int count, int columns, int components, const D *multipoles,
                                     D *sums) {
  waves_->add_up(work, columns, components, along_cell(work, count, columns, components, multipoles), sums);
}

template <class Waves>
void SystemMultipoles<Waves>::evaluate(const Work &work, const System &system, int count, const D *sources, D *fields,
                                       GhostExchange &exchange) {
  waves_->prepare(work, system, count);
  set_weights(work);
  const int64_t size = waves_->size(), num = 2 * channels_ * size, num_sources = this->num_sources();
  D *sums = sums_.reserve(num + num_sources + 1);
  add_up(work, count, channels_, source_components_, sources, sums);
  waves_->sum_rows(work, sources, count, static_cast<int>(num_sources), sums + num);
  Waves::for_numbers(work, "equi:wave_atoms", 1, PutNumber<D>{D(static_cast<double>(count)), sums + num + num_sources});
  const D *all = waves_->sum_over_ranks(work, sums, num + num_sources + 1, exchange);
  total_charge_ = 0.0;
  for (int c = 0; c < channels_; c++) total_charge_ += value_of(all[num + c * source_components_]);
  num_atoms_ = value_of(all[num + num_sources]);
  D *factors = factors_.reserve(2 * num_columns() * size);
  Waves::for_numbers(work, "equi:wave_probes", num_columns() * size,
                     FactorsForProbes<D>{waves_->places(), squares_.num, weights_.data(), sums, factors});
  const int order = (probe_components_ == 4 ? 1 : 0) + (Waves::needs_forces(system) ? 1 : 0);
  waves_->gather(work, num_columns(), order, factors, probe_stride(), fields);
}

template <class Waves>
void SystemMultipoles<Waves>::evaluate_adjoint(const Work &work, const System &system, int count, const D *sources,
                                               const D *probe_fields, const D *probes, D *fields,
                                               GhostExchange &exchange) {
  const int64_t size = waves_->size();
  const bool needs_forces = Waves::needs_forces(system);
  D *of_widths = factors_.reserve(2 * num_columns() * size), *sums = probe_sums_.reserve(2 * channels_ * size);
  add_up(work, count, num_columns(), probe_components_, probes, of_widths);
  Waves::for_numbers(work, "equi:wave_widths", channels_ * size,
                     SumOfWidths<D>{waves_->places(), squares_.num, weights_.data(), of_widths, sums});
  waves_->sum_over_ranks(work, sums, 2 * channels_ * size, exchange);
  Waves::for_numbers(work, "equi:wave_source", channels_ * size, FactorsForSources<D>{waves_->places(), sums});
  waves_->gather(work, channels_, (source_components_ == 4 ? 1 : 0) + (needs_forces ? 1 : 0), sums, source_stride(),
                 fields);
  const MultipoleSide<D> sides[2] = {{channels_, source_components_, source_stride(), sources, fields},
                                     {num_columns(), probe_components_, probe_stride(), probes, probe_fields}};
  add_forces(work, system, count, sides);
  add_virials(work, system, count, sides, 1.0, of_widths);
}

template <class Waves>
void SystemMultipoles<Waves>::add_half(const Work &work, const System &system, int count, const D *sources,
                                       const D *fields) {
  const MultipoleSide<D> sides[2] = {{channels_, source_components_, probe_stride(), sources, fields},
                                     {0, 1, 0, nullptr, nullptr}};
  add_forces(work, system, count, sides);
  // Each rank adds its share of the virial, which belongs to the structure factors of all atoms.
  const double share = num_atoms_ > 0.0 ? 0.5 * count / num_atoms_ : 0.0;
  add_virials(work, system, count, sides, share, sums_.data());
}

template <class Waves>
void SystemMultipoles<Waves>::add_forces(const Work &work, const System &system, int count,
                                         const MultipoleSide<D> *sides) {
  if (!Waves::needs_forces(system)) return;
  const int64_t num = 3 * static_cast<int64_t>(count);
  D *gradient = gradient_.reserve(num);
  Waves::for_numbers(work, "equi:wave_force", num, GradientOfMultipoles<D>{{sides[0], sides[1]}, gradient});
  Waves::subtract_gradient(work, system, count, gradient);
}

// sides: the last one that has columns is that of the probes. probe_sums: their structure factors, [columns] planes.
template <class Waves>
void SystemMultipoles<Waves>::add_virials(const Work &work, const System &system, int count,
                                          const MultipoleSide<D> *sides, double factor, const D *probe_sums) {
  const bool needs_virial = Waves::needs_virial(system), needs_atoms = Waves::needs_atom_virial(system);
  if (!needs_virial && !needs_atoms) return;
  const bool has_dipoles = source_components_ == 4 || probe_components_ == 4;
  const int64_t numbers = static_cast<int64_t>(SYMMETRIC) * count, num_rows = waves_->num_rows();
  D *strains = has_dipoles ? strains_.reserve(numbers) : nullptr;
  if (has_dipoles)
    Waves::for_numbers(work, "equi:wave_dipole", numbers, StrainOfDipoles<D>{{sides[0], sides[1]}, strains});
  if (needs_virial) {
    // Rows, then the sum over rows and the one over atoms.
    D *rows = row_strains_.reserve(SYMMETRIC * (num_rows + 2)), *sums = rows + SYMMETRIC * num_rows;
    Waves::for_numbers(work, "equi:wave_virial", num_rows,
                       StrainOfRows<D>{waves_->cell(), waves_->rows(), waves_->places(), squares_, channels_, factor,
                                       weights_.data(), sums_.data(), probe_sums, rows});
    waves_->sum_rows(work, rows, num_rows, SYMMETRIC, sums);
    Waves::subtract_strain(work, system, sums);
    if (has_dipoles) {
      waves_->sum_rows(work, strains, count, SYMMETRIC, sums + SYMMETRIC);
      Waves::subtract_strain(work, system, sums + SYMMETRIC);
    }
  }
  if (!needs_atoms) return;
  const MultipoleSide<D> &side = sides[1].columns > 0 ? sides[1] : sides[0];
  const bool is_half = sides[1].columns == 0;
  D *factors = factors_.reserve(2 * num_columns() * waves_->size());
  Waves::for_numbers(work, "equi:wave_probes", num_columns() * waves_->size(),
                     FactorsForProbes<D>{waves_->places(), squares_.num, weights_.data(), sums_.data(), factors});
  double *of_atoms = atom_strains_.reserve(numbers);
  Waves::for_numbers(
      work, "equi:wave_virials", count,
      StrainOfAtoms<D>{waves_->cell(), waves_->powers(), waves_->rows(), num_rows, waves_->places(), squares_,
                       side.columns, side.components, is_half ? 0.5 : 1.0, weights_.data(), factors,
                       along_cell(work, count, side.columns, side.components, side.multipoles), of_atoms});
  if (has_dipoles) Waves::for_numbers(work, "equi:wave_dipoles", numbers, AddNumbers<D, double>{strains, of_atoms});
  Waves::subtract_atom_strains(work, system, count, of_atoms);
}

}    // namespace equi

#endif

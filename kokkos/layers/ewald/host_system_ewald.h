// SPDX-License-Identifier: MIT
// An Ewald sum over the atoms of all ranks, by the threads of a host.
#ifndef EQUI_HOST_SYSTEM_EWALD_H
#define EQUI_HOST_SYSTEM_EWALD_H

#include "kokkos/layer_interface/balance_layer.h"
#include "src/layers/ewald.h"
#include "src/numbers/dual.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace equi {

// D: double or Dual<double>
template <class D>
class HostSystemEwald {
 public:
  HostSystemEwald(const Ewald &layer, WaveVectorSet wave_vectors);

  // The charges of this rank's receivers, which the caller writes.
  D *charges(int count);
  // Computes the energies and potentials of the receivers, and adds forces and virials. Collective.
  void evaluate(const SystemOfStep &system, GhostExchange &exchange);
  // The energy of receiver i in eV, and the derivative of the energy of all atoms with respect to its charge.
  D energy(int64_t i) const { return D(0.5) * charges_[i] * atoms_[i].potential; }
  D potential(int64_t i) const { return atoms_[i].potential; }

  std::size_t bytes() const;
  std::string describe() const;    // of the last evaluation

 private:
  void use_cell(const CellMatrix &cell, const double (*direction)[3]);
  void add_forces(const SystemOfStep &system) const;
  void add_virials(const SystemOfStep &system, double share) const;

  EwaldFunction function_;
  double cutoff_;    // 1/Angstrom
  WaveVectorSet set_;
  std::optional<WaveVectors> waves_;
  std::optional<EwaldSum<D>> sum_;
  CellMatrix cell_{}, cell_direction_{};    // those of waves_ and sum_

  std::vector<D> charges_;                              // [receivers]
  std::vector<std::array<D, 3>> positions_;             // [receivers]
  std::vector<typename EwaldSum<D>::AtPlace> atoms_;    // [receivers]
  std::vector<D> sums_;    // structure factors, then the sum of all charges and the number of all atoms
  double total_charge_ = 0.0, num_atoms_ = 0.0;    // of all ranks in the last evaluation
};

}    // namespace equi

#endif

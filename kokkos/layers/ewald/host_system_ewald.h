// SPDX-License-Identifier: MIT
// An Ewald sum over the atoms of all ranks, by the threads of a host.
#ifndef EQUI_HOST_SYSTEM_EWALD_H
#define EQUI_HOST_SYSTEM_EWALD_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/layer_interface/system_waves.h"
#include "src/functions/ewald_sum.h"
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
  HostSystemEwald(const Ewald &layer, WaveVectorSet wave_vectors)
      : function_(layer.function), waves_(layer.cutoff, layer.function.sigma, layer.wave_vectors, wave_vectors) {}

  // Computes what all charges give to this rank's receivers, [count] of both, and adds forces and virials. Collective.
  void evaluate(const HostSystem &system, int count, const D *charges, EwaldAtom<D> *atoms, GhostExchange &exchange);

  std::size_t bytes() const;
  std::size_t additional_bytes(const CellMatrix &cell, int count) const;
  std::string describe(std::size_t bytes_of_atoms) const;    // of the last evaluation

 private:
  void add_forces(const HostSystem &system, int count, const EwaldAtom<D> *atoms) const;
  void add_virials(const HostSystem &system, int count, const D *charges) const;

  EwaldFunction function_;
  SystemWaves waves_;
  std::optional<EwaldSum<D>> sum_;
  bool is_current_ = false;                    // whether it has the cell of waves_
  std::vector<std::array<D, 3>> positions_;    // [receivers]
  std::vector<D> sums_;    // structure factors, then the sum of all charges and the number of all atoms
  double total_charge_ = 0.0, num_atoms_ = 0.0;    // of all ranks in the last evaluation
};

// The same for numbers of any layer's type.
template <class T>
class HostEwald : public HostSystemEwald<DoubleOf<T>> {
  using D = DoubleOf<T>;

 public:
  using HostSystemEwald<D>::HostSystemEwald;
  void evaluate(const HostKernels<T> &, const HostSystem &system, int count, const D *charges, EwaldAtom<D> *atoms,
                GhostExchange &exchange) {
    HostSystemEwald<D>::evaluate(system, count, charges, atoms, exchange);
  }
};

}    // namespace equi

#endif

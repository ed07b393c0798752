// SPDX-License-Identifier: MIT
// An Ewald sum over the atoms of all ranks, on a device.
#ifndef EQUI_DEVICE_SYSTEM_EWALD_H
#define EQUI_DEVICE_SYSTEM_EWALD_H

#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/layer_interface/system_waves.h"
#include "kokkos/layers/ewald/device_ewald_sum.h"
#include "src/layers/ewald.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <string>
#include <vector>

namespace equi {

// D: double or Dual<double>. The launches of a sum are not recorded, because the host takes part in the sum over ranks.
// So wave vectors may change from step to step while the layers are replayed. Recorded layers use only the charges and
// atoms of the caller, whose addresses stay.
template <class D>
class DeviceSystemEwald {
 public:
  DeviceSystemEwald(const Ewald &layer, WaveVectorSet wave_vectors)
      : function_(layer.function), waves_(layer.cutoff, layer.function.sigma, layer.wave_vectors, wave_vectors) {}

  // Computes what all charges give to this rank's receivers, [count] of both, and adds forces and virials. Collective.
  void evaluate(const DeviceExec &exec, const DeviceSystem<D> &system, int count, const D *charges, EwaldAtom<D> *atoms,
                GhostExchange &exchange);

  std::size_t bytes() const;
  std::size_t additional_bytes(const CellMatrix &cell, int count) const;
  std::string describe(std::size_t bytes_of_atoms) const;    // of the last evaluation

 private:
  EwaldFunction function_;
  SystemWaves waves_;
  bool has_integers_ = false, is_current_ = false;    // whether sum_ has the integers, and the cell, of waves_
  DeviceEwaldSum<D> sum_;
  DeviceSum sum_of_charges_;
  // Structure factors, then the sum of all charges and the number of all atoms.
  DeviceBuffer<EwaldNumber<D>> sums_;
  std::vector<D> host_sums_;
  double total_charge_ = 0.0, num_atoms_ = 0.0;    // of all ranks in the last evaluation
};

// The same for numbers of any layer's type.
template <class T>
class DeviceEwald : public DeviceSystemEwald<DoubleOf<T>> {
 public:
  using DeviceSystemEwald<DoubleOf<T>>::DeviceSystemEwald;
};

}    // namespace equi

#endif

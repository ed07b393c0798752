// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// How an evaluation reaches atoms, neighbors and arrays in the views of LAMMPS's package KOKKOS. These may be in the
// memory of a device.

#ifndef EQUI_PAIR_ATOMS_KOKKOS_H
#define EQUI_PAIR_ATOMS_KOKKOS_H

#include "kokkos/lammps/lammps_exchange_kokkos.h"
#include "kokkos/lammps/lammps_kokkos_version.h"
#include "src/lammps/evaluation/pair_atoms.h"

#include <array>
#include <vector>

namespace equi {

template <class DeviceType>
class PairAtomsKokkos : public PairAtoms {
 public:
  PairAtomsKokkos(LAMMPS_NS::Pair &pair, LAMMPS_NS::LAMMPS *lmp);
  ~PairAtomsKokkos() override;
  LammpsExchangeKokkos<DeviceType> &exchange() const {
    return static_cast<LammpsExchangeKokkos<DeviceType> &>(PairAtoms::exchange());
  }

  void sync_for_step() override;
  void sync_host_atoms() override;
  void sync_host_positions() override;
  void modified_host_positions() override;
  bool sync_host_bonds() override;
  Positions positions() override;    // in host memory
  void note_positions() override;
  bool has_noted_positions() override;
  void read_neighborhood(const std::vector<int> &type_species, Neighborhood &neighborhood,
                         std::vector<int> &atom_row) override;
  void add_results(const ResultRows &rows) override;

 private:
  LAMMPS_NS::EquiKokkos::PerAtom::Energy k_eatom_;
  LAMMPS_NS::EquiKokkos::PerAtom::Virial k_vatom_;
  LAMMPS_NS::EquiKokkos::PerAtom::CentroidVirial k_cvatom_;
  std::vector<const int *> firstneigh_;            // indexed by atom
  std::vector<std::array<double, 3>> position_;    // if the view's numbers are not in the order of the evaluation
  int num_noted_ = -1;
  DeviceBuffer<double, typename DeviceType::execution_space> noted_positions_;    // [atoms][3]
};

}    // namespace equi

#endif

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Converts neighbor lists of LAMMPS's package KOKKOS to a list on a device, and moves numbers between atoms and
// rows there. Only counts are copied to the host.

#ifndef EQUI_LAMMPS_DEVICE_NEIGHBORHOOD_H
#define EQUI_LAMMPS_DEVICE_NEIGHBORHOOD_H

#include "kokkos/geometry/device_neighborhood.h"
#include "kokkos/lammps/lammps_kokkos_version.h"

#include <Kokkos_UnorderedMap.hpp>

#include <type_traits>
#include <vector>

namespace LAMMPS_NS {
class AtomKokkos;
class NeighList;
}    // namespace LAMMPS_NS

namespace equi {

using LammpsDeviceType = LAMMPS_NS::EquiKokkos::DeviceType;

class LammpsDeviceNeighborhood {
 public:
  static_assert(std::is_same_v<LammpsDeviceType::execution_space, DeviceExec>);

  // Does on the device what build_neighborhood() (lammps_neighborhood.h) does with LAMMPS's atoms and full list,
  // with the same rows and orders. Throws the same errors.
  void read_neighbor_list(LAMMPS_NS::AtomKokkos &atom, LAMMPS_NS::NeighList *list,
                          const std::vector<int> &type_species);
  const DeviceNeighborList &list() const { return list_; }
  const int *row_of_atom() const { return row_of_atom_.data(); }    // [atoms] in device memory, including ghosts
  // Copies receivers and their candidates by atom, and their numbers.
  void copy_candidates(Neighborhood &to) const;

  const double *positions(LAMMPS_NS::AtomKokkos &atom);    // [all][3] device memory
  // Arrays are [rows][3] and [atoms][3] in device memory. The first function sets rows[row of atom i] = of_atoms[i] for
  // atoms of this rank, the second one of_atoms[i] = factor * rows[row of atom i], or 0 for an atom without a row.
  void rows_of_atoms(int num_local, const double *of_atoms, double *rows);
  void atoms_of_rows(int num_atoms, const double *rows, double factor, double *of_atoms);

  // Public because nvcc requires it of functions with lambdas.
  template <class Tags, class Types, class Masks, class Positions, class Atoms, class Counts, class Neighbors>
  void build(const Tags &tag, const Types &type, const Masks &mask, const Positions &x, const Atoms &atoms,
             const Counts &num_neighbors, const Neighbors &neighbors, int num_listed, int num_local, int num_all);
  template <class Positions>
  const double *copy_positions(const Positions &x, int num_all);

 private:
  DeviceNeighborList list_;
  DeviceBuffer<int> row_of_atom_;
  DeviceBuffer<double> positions_;    // if LAMMPS stores another type or order
  // For read_neighbor_list().
  struct Scratch {
    Kokkos::UnorderedMap<LAMMPS_NS::tagint, void, Kokkos::Device<DeviceExec, DeviceExec::memory_space>> ids;
    DeviceBuffer<int> type_species, species, atom_of_id, first_copy, interior, border, interior_position,
        border_position, remote_position, count, unsorted, segment;
  } scratch_;
};

}    // namespace equi

#endif

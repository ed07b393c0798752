// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Connects the views of LAMMPS's package KOKKOS with a DeviceEvaluator: converts neighbor lists to a neighborhood,
// reads positions, and writes results by rows. Only counts are copied to the host.

#ifndef EQUI_LAMMPS_DEVICE_EVALUATION_H
#define EQUI_LAMMPS_DEVICE_EVALUATION_H

#include "kokkos/evaluation/device_evaluator.h"

#include "kokkos/lammps/lammps_kokkos_version.h"

#include <Kokkos_UnorderedMap.hpp>

#include <array>
#include <type_traits>
#include <vector>

namespace LAMMPS_NS {
class AtomKokkos;
class NeighList;
}    // namespace LAMMPS_NS

namespace equi {

using LammpsDeviceType = LAMMPS_NS::EquiKokkos::DeviceType;

class LammpsDeviceEvaluation {
 public:
  static_assert(std::is_same_v<LammpsDeviceType::execution_space, DeviceExec>);
  explicit LammpsDeviceEvaluation(DeviceEvaluator &evaluator) : evaluator_(evaluator) {}

  const DeviceEvaluator &evaluator() const { return evaluator_; }

  // Does on the device what build_neighborhood() (lammps_neighborhood.h) does with LAMMPS's atoms and full list,
  // with the same rows and orders. Throws the same errors.
  void read_neighbor_list(LAMMPS_NS::AtomKokkos &atom, LAMMPS_NS::NeighList *list,
                          const std::vector<int> &type_species);
  void use_neighborhood() { evaluator_.set_neighborhood(neighborhood_); }
  const DeviceNeighborhood &neighborhood() const { return neighborhood_; }
  const int *row_of_atom() const { return row_of_atom_.data(); }    // [atoms] in device memory, including ghosts
  std::vector<int> receivers() const;
  // Copies receivers and their candidates by atom, and their numbers.
  void copy_candidates(Neighborhood &to) const;

  EvaluationResult evaluate(LAMMPS_NS::AtomKokkos &atom, bool forces, bool virial, bool atom_virial,
                            GhostExchange &exchange);
  // Computes hv = H v, where H is the matrix of second derivatives of the energy, for this rank's atoms and `count`
  // vectors. All are [local][3] in host memory, in eV and Angstrom. The evaluator must be directional and accept
  // this many directions at a time. same_positions: as in EvaluationRequest.
  void multiply_hessian(LAMMPS_NS::AtomKokkos &atom, int count, const double (*const *v)[3], double (*const *hv)[3],
                        bool same_positions, GhostExchange &exchange);
  // Sends the results of rows of remote atoms to their owners.
  void send_ghosts_home(GhostExchange &exchange, bool with_virial);
  DeviceResults results() const { return evaluator_.results(); }
  // Copies to to[atom] for all atoms.
  void copy_forces(std::vector<std::array<double, 3>> &to) const;

  // Public because nvcc requires it of functions with lambdas.
  template <class Tags, class Types, class Masks, class Positions, class Atoms, class Counts, class Neighbors>
  void build(const Tags &tag, const Types &type, const Masks &mask, const Positions &x, const Atoms &atoms,
             const Counts &num_neighbors, const Neighbors &neighbors, int num_listed, int num_local, int num_all);
  const double *positions(LAMMPS_NS::AtomKokkos &atom);    // [all][3] device memory
  template <class Positions>
  const double *copy_positions(const Positions &x, int num_all);
  void rows_of_atoms(int num_local, const double *of_atoms, double *rows);
  void atoms_of_rows(int num_atoms, const double *rows, double factor, double *of_atoms);

 private:
  DeviceEvaluator &evaluator_;
  DeviceNeighborhood neighborhood_;
  DeviceBuffer<int> row_of_atom_;
  DeviceBuffer<double> positions_;    // if LAMMPS stores another type or order
  DeviceBuffer<double> direction_, row_values_;
  // For read_neighbor_list().
  struct Scratch {
    Kokkos::UnorderedMap<LAMMPS_NS::tagint, void, Kokkos::Device<DeviceExec, DeviceExec::memory_space>> ids;
    DeviceBuffer<int> type_species, species, atom_of_id, first_copy, interior, border, interior_position,
        border_position, remote_position, count, unsorted, segment;
  } scratch_;
};

}    // namespace equi

#endif

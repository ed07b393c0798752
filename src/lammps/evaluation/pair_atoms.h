// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// How an evaluation reaches LAMMPS's atoms, neighbors and arrays: here in host memory. Pair style equi/kk has them in
// the views of package KOKKOS.

#ifndef EQUI_PAIR_ATOMS_H
#define EQUI_PAIR_ATOMS_H

#include "src/geometry/neighbor_graph.h"
#include "src/lammps/atoms/lammps_exchange.h"
#include "src/lammps/evaluation/pair_results.h"
#include "src/lammps/faults/pair_part.h"

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace equi {

class PairAtoms : public PairPart {
 public:
  using Positions = const double (*)[3];    // [atoms]

  PairAtoms(LAMMPS_NS::Pair &pair, LAMMPS_NS::LAMMPS *lmp)
      : PairAtoms(pair, lmp, std::make_unique<LammpsExchange>(&pair, lmp->world)) {}

  int num_all() const;    // with ghosts
  LammpsExchange &exchange() const { return *exchange_; }
  LAMMPS_NS::Pair &pair() const { return pair_; }
  void read_units();                                     // stops if they are not supported
  double energy_unit() const { return energy_unit_; }    // LAMMPS's units per eV

  // Lets LAMMPS's buffers hold features of this number of bytes per row. Sizes only grow, because any evaluator of the
  // style may run at any time. Call it at each setup: under a hybrid style LAMMPS sizes its buffers for the hybrid,
  // which read the sizes of its parts before this one was known.
  void reserve_buffers(std::size_t bytes_per_row);

  // Call sync functions before anything is read from LAMMPS's arrays in host memory.
  virtual void sync_for_step() {}    // what a step reads
  virtual void sync_host_atoms() {}
  virtual void sync_host_positions() {}        // before positions are read from atom->x
  virtual void modified_host_positions() {}    // after positions were changed there
  // Returns whether Neighbor now has the present bonds in host memory.
  virtual bool sync_host_bonds();
  virtual Positions positions();    // null without atoms
  // Stores the positions of all atoms, and compares those of the same number of atoms later.
  virtual void note_positions();
  virtual bool has_noted_positions();
  // Fills the neighborhood and the rows of atoms from the pair style's list.
  virtual void read_neighborhood(const std::vector<int> &type_species, Neighborhood &neighborhood,
                                 std::vector<int> &atom_row);
  // Adds forces to LAMMPS's atoms, and per-atom quantities to the pair style's arrays if the flags request them.
  virtual void add_results(const ResultRows &rows);

 protected:
  PairAtoms(LAMMPS_NS::Pair &pair, LAMMPS_NS::LAMMPS *lmp, std::unique_ptr<LammpsExchange> exchange)
      : PairPart(lmp), pair_(pair), exchange_(std::move(exchange)) {}

 private:
  LAMMPS_NS::Pair &pair_;
  double energy_unit_ = 1.0;
  std::unique_ptr<LammpsExchange> exchange_;
  std::vector<std::array<double, 3>> noted_positions_;
};

}    // namespace equi

#endif

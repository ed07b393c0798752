// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Reads LAMMPS's atoms and full neighbor list in host memory, and adds results there.
#include "src/lammps/evaluation/pair_atoms.h"

#include "src/lammps/atoms/lammps_neighborhood.h"

#include "atom.h"
#include "error.h"
#include "force.h"
#include "neigh_list.h"
#include "pair.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <string>

using namespace LAMMPS_NS;

namespace equi {

namespace {

struct AtomNumbers {
  double *numbers;
  double &operator()(int i) const { return numbers[i]; }
};

struct AtomRows {
  double **rows;
  double &operator()(int i, int k) const { return rows[i][k]; }
};

}    // namespace

int PairAtoms::num_all() const {
  return atom->nlocal + atom->nghost;
}

void PairAtoms::read_units() {
  const std::string units = update->unit_style;
  if (units == "metal")
    energy_unit_ = 1.0;
  else if (units == "real")
    energy_unit_ = utils::get_conversion_factor(utils::ENERGY, utils::METAL2REAL);
  else
    error->all(FLERR, "Pair style equi works with units metal or real, not {}", units);
}

void PairAtoms::reserve_buffers(std::size_t bytes_per_row) {
  const int least = LammpsExchange::buffer_size(bytes_per_row);
  for (int Pair::*size : {&Pair::comm_forward, &Pair::comm_reverse, &Pair::comm_reverse_off}) {
    pair_.*size = std::max(pair_.*size, least);
    force->pair->*size = std::max(force->pair->*size, pair_.*size);
  }
}

bool PairAtoms::sync_host_bonds() {
  return !lmp->kokkos;    // with KOKKOS the lists may be in the memory of a device
}

PairAtoms::Positions PairAtoms::positions() {
  return num_all() > 0 ? reinterpret_cast<Positions>(&atom->x[0][0]) : nullptr;
}

void PairAtoms::note_positions() {
  const auto *x = reinterpret_cast<const std::array<double, 3> *>(positions());
  noted_positions_.assign(x, x + num_all());
}

bool PairAtoms::has_noted_positions() {
  const auto *x = reinterpret_cast<const std::array<double, 3> *>(positions());
  return std::equal(noted_positions_.begin(), noted_positions_.end(), x, x + num_all());
}

void PairAtoms::read_neighborhood(const std::vector<int> &type_species, Neighborhood &neighborhood,
                                  std::vector<int> &atom_row) {
  const NeighList &list = *pair_.list;
  build_neighborhood(*atom, {list.inum, list.ilist, list.numneigh, list.firstneigh, 1}, type_species, neighborhood,
                     atom_row);
}

void PairAtoms::add_results(const ResultRows &rows) {
  const auto add = [](int count, const auto &functor) {
    for (int row = 0; row < count; row++) functor(row);
  };
  add(rows.num_rows, AddForces<AtomRows>{rows, {atom->f}});
  if (pair_.eflag_atom) add(rows.num_energies, AddEnergies<AtomNumbers>{rows, {pair_.eatom}});
  if (pair_.vflag_atom) add(rows.num_rows, AddVirials<AtomRows>{rows, {pair_.vatom}});
  if (pair_.cvflag_atom) add(rows.num_rows, AddCentroidVirials<AtomRows>{rows, {pair_.cvatom}});
}

}    // namespace equi

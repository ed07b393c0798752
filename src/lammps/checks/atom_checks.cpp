// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Finds atoms that were dropped, hidden, sorted, moved or given another type behind the pair style's back.
#include "src/lammps/checks/atom_checks.h"

#include "src/lammps/atoms/lammps_neighborhood.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "neigh_list.h"
#include "update.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

using namespace LAMMPS_NS;

namespace equi {

namespace {

template <class T>
bool are_equal(const std::vector<T> &a, const T *b, int size) {
  return std::equal(a.begin(), a.end(), b, b + size);
}

}    // namespace

void AtomChecks::note_list(const NeighList &list) {
  const int nall = atom->nlocal + atom->nghost;
  list_types_.assign(atom->type, atom->type + nall);
  list_ids_.assign(atom->tag, atom->tag + nall);
  list_images_.assign(atom->image, atom->image + atom->nlocal);
  list_length_ = list.inum;
  hidden_atom_ = find_hidden_atom();
}

bool AtomChecks::has_same_types() const {
  return std::equal(list_types_.begin(), list_types_.end(), atom->type);
}

void AtomChecks::note_evaluation(PairAtoms &atoms, bool keeps) {
  evaluation_step_ = update->ntimestep;
  if (!keeps) return;
  evaluated_ids_.assign(atom->tag, atom->tag + atoms.num_all());
  atoms.note_positions();
}

void AtomChecks::check_same_atoms(PairAtoms &atoms, bool at_same_positions) const {
  bool is_other = !are_equal(evaluated_ids_, atom->tag, atoms.num_all());
  if (at_same_positions)
    is_other |= !are_equal(list_types_, atom->type, atoms.num_all()) || !atoms.has_noted_positions();
  if (any(is_other))
    error->all(FLERR, "Pair style equi: atoms have changed since forces were last computed, on step {}: run 0 first",
               evaluation_step_);
}

/* ----------------------------------------------------------------------
   Monte Carlo fixes hide atoms from the model while they ask for the energy of a trial, for which they want nothing
but the energy. If LAMMPS steps with a hidden atom, the fix has lost it: fix gcmc on several ranks puts an atom back by
its number on a rank, which another trial move may have changed.
------------------------------------------------------------------------- */

tagint AtomChecks::find_hidden_atom() const {
  for (int i = 0; i < atom->nlocal; i++)
    if (!(atom->mask[i] & GROUP_ALL) && models_.has_species(atom->type[i])) return atom->tag[i];
  return 0;
}

void AtomChecks::check_hidden_atom(bool is_trial) const {
  if (hidden_atom_ == 0 || is_trial) return;
  error->one(FLERR,
             "Pair style equi: atom ID {} has been left outside the group all, without neighbors. Fix gcmc loses "
             "atoms in this way if it deletes and moves them on several ranks: use one rank, or no moves",
             hidden_atom_);
}

/* ----------------------------------------------------------------------
   During a run LAMMPS makes a new neighbor list whenever it sorts atoms, moves them to other ranks, wraps them or
chooses ghosts. Commands between runs (write_data, write_restart) do the same and make no list, and a run with pre no
begins with the old one. The numbers in it then mean other atoms, or other images: an atom that was wrapped has another
image flag.
------------------------------------------------------------------------- */

void AtomChecks::check_listed_atoms(const NeighList &list) const {
  // A list that LAMMPS has allocated but not made has no receivers.
  if (list.inum == list_length_ && are_equal(list_ids_, atom->tag, atom->nlocal + atom->nghost) &&
      are_equal(list_images_, atom->image, atom->nlocal))
    return;
  const std::string text = fmt::format(
      "Pair style equi: on step {} the neighbor list is older than the last command that sorted, wrapped or moved "
      "atoms, as write_data and write_restart do: leave pre no out of the run command",
      update->ntimestep);
  end_all_ranks(error, world, text.c_str());
}

void AtomChecks::check_ghost_types(bool is_read) const {
  std::vector<tagint> mine;    // IDs and types of atoms whose type has changed
  const int nlocal = is_read ? atom->nlocal : 0;
  for (int i = 0; i < nlocal; i++)
    if (atom->type[i] != list_types_[i]) mine.insert(mine.end(), {atom->tag[i], atom->type[i]});
  std::vector<int> sizes(comm->nprocs), begin(comm->nprocs + 1, 0);
  const int size = static_cast<int>(mine.size());
  MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, world);
  std::partial_sum(sizes.begin(), sizes.end(), begin.begin() + 1);
  if (begin.back() == 0) return;
  std::vector<tagint> all(begin.back());
  MPI_Allgatherv(mine.data(), size, MPI_LMP_TAGINT, all.data(), sizes.data(), begin.data(), MPI_LMP_TAGINT, world);
  std::map<tagint, tagint> remote;
  for (int k = 0; k < begin.back(); k += 2)
    if (k < begin[comm->me] || k >= begin[comm->me + 1]) remote[all[k]] = all[k + 1];
  bool is_other = false;
  for (int i = atom->nlocal; i < atom->nlocal + atom->nghost; i++) {
    const auto at = remote.find(atom->tag[i]);
    is_other |= at != remote.end() && at->second != atom->type[i];
  }
  if (any(is_other))
    error->all(FLERR,
               "Pair style equi: on step {} a command has changed types of atoms (set type), and ghosts on other ranks "
               "have the old ones: leave pre no out of the run command",
               update->ntimestep);
}

/* ----------------------------------------------------------------------
   Before each new neighbor list LAMMPS wraps atoms by one length of the periodic box. It drops those that are farther
away, and counts atoms only for thermo output. Through faces that are not periodic atoms may leave.
------------------------------------------------------------------------- */

void AtomChecks::check_dropped_atoms() const {
  if (domain->nonperiodic) return;
  // Numbers of atoms and sums of IDs, now and with the previous list.
  const size_t listed = list_images_.size();
  bigint mine[4] = {atom->nlocal, 0, static_cast<bigint>(listed), 0}, all[4];
  for (int i = 0; i < atom->nlocal; i++) mine[1] += atom->tag[i];
  for (size_t i = 0; i < listed; i++) mine[3] += list_ids_[i];
  MPI_Allreduce(mine, all, 4, MPI_LMP_BIGINT, MPI_SUM, world);
  const bigint dropped = atom->natoms - all[0];
  if (dropped <= 0) return;
  std::string id;
  if (dropped == 1 && all[2] == atom->natoms) id = fmt::format(", ID {}", all[3] - all[1]);
  error->all(FLERR,
             "Pair style equi: on step {} LAMMPS has dropped {} of {} atoms{}, which had left the periodic box by more "
             "than its length: wrap positions before LAMMPS reads them (pbc='true' in the ffsocket of i-PI)",
             update->ntimestep, dropped, atom->natoms, id);
}

}    // namespace equi

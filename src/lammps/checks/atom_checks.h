// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Whether LAMMPS's atoms are still those of the neighbor list that was read, and of the last evaluation.

#ifndef EQUI_ATOM_CHECKS_H
#define EQUI_ATOM_CHECKS_H

#include "src/lammps/evaluation/pair_atoms.h"
#include "src/lammps/evaluation/pair_models.h"

#include "lmptype.h"

#include <vector>

namespace LAMMPS_NS {
class NeighList;
}

namespace equi {

class AtomChecks : public PairPart {
 public:
  AtomChecks(LAMMPS_NS::LAMMPS *lmp, const PairModels &models) : PairPart(lmp), models_(models) {}

  // The list is about to be read.
  void note_list(const LAMMPS_NS::NeighList &list);
  // Whether atoms have the types that they had when the list was read.
  bool has_same_types() const;
  // On a step with an old list. If only some ranks see the fault, they end the others, which would wait for them.
  void check_listed_atoms(const LAMMPS_NS::NeighList &list) const;
  // On the first step of a run with an old list. Commands between runs (set type) may change types of atoms, while
  // ghosts on other ranks keep theirs. is_read: whether this rank has read the list. Collective.
  void check_ghost_types(bool is_read) const;
  // Before a new list is read. Collective.
  void check_dropped_atoms() const;
  // is_trial: nothing but the energy is requested.
  void check_hidden_atom(bool is_trial) const;

  // Forces of this step have been computed; keeps: something may request their atoms' data between runs.
  void note_evaluation(PairAtoms &atoms, bool keeps);
  LAMMPS_NS::bigint evaluation_step() const { return evaluation_step_; }
  // Stops if these are not the atoms of the last evaluation, or if they have moved since. Commands may change atoms
  // between runs, while ghosts and neighbor lists stay. Collective.
  void check_same_atoms(PairAtoms &atoms, bool at_same_positions) const;

 private:
  LAMMPS_NS::tagint find_hidden_atom() const;

  const PairModels &models_;
  // State of the neighbor list when it was read: IDs and types [atoms], ghosts included, image flags [nlocal], number
  // of receivers.
  std::vector<LAMMPS_NS::tagint> list_ids_;
  std::vector<int> list_types_;
  std::vector<LAMMPS_NS::imageint> list_images_;
  int list_length_ = -1;
  LAMMPS_NS::tagint hidden_atom_ = 0;    // ID of an atom of this rank outside the group all, since the last list; or 0
  LAMMPS_NS::bigint evaluation_step_ = -1;
  std::vector<LAMMPS_NS::tagint> evaluated_ids_;    // [atoms]; empty unless kept
};

}    // namespace equi

#endif

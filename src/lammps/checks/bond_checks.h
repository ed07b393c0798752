// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Checks of the bonds that LAMMPS provides.

#ifndef EQUI_BOND_CHECKS_H
#define EQUI_BOND_CHECKS_H

#include "src/lammps/evaluation/pair_atoms.h"
#include "src/lammps/evaluation/pair_models.h"

namespace equi {

class BondChecks : public PairPart {
 public:
  BondChecks(LAMMPS_NS::LAMMPS *lmp, const PairModels &models) : PairPart(lmp), models_(models) {}

  // Throws if the neighbor list lacks or marks bonded pairs of the model's atoms.
  void check_special_neighbors() const;
  // Warns if a force field adds the energy of bonds to that of the model. Collective.
  void check_bonds(PairAtoms &atoms) const;

 private:
  const PairModels &models_;
};

}    // namespace equi

#endif

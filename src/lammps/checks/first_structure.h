// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Checks the first structure that is evaluated. It shows a wrong order of symbols that neither labels nor masses show:
// atoms are too close for their elements, or the model strains against the box more than in any structure of its
// training.

#ifndef EQUI_FIRST_STRUCTURE_H
#define EQUI_FIRST_STRUCTURE_H

#include "src/lammps/evaluation/pair_runner.h"

namespace equi {

class FirstStructure : public PairPart {
 public:
  using PairPart::PairPart;

  // Once after each pair_coeff, with the first atoms that are evaluated. The trace of the virial is that of this rank's
  // edges, in eV, whatever other styles a hybrid has. Returns whether there were atoms to check. Collective.
  bool check(PairRunner &runner, double virial_trace) const;
};

}    // namespace equi

#endif

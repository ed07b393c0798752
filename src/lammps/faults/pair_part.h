// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The base of the classes that do the work of pair style equi: LAMMPS's classes, and errors in the style's name.

#ifndef EQUI_PAIR_PART_H
#define EQUI_PAIR_PART_H

#include "src/lammps/faults/lammps_faults.h"

#include "pointers.h"

namespace equi {

class PairPart : protected LAMMPS_NS::Pointers {
 protected:
  using Pointers::Pointers;

  // For work of a setup, without communication: an error of any rank stops all.
  void collective_try(Work work) const { equi::collective_try(error, world, "Pair style equi", work); }
};

}    // namespace equi

#endif

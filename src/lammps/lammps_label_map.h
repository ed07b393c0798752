// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The labels of atom types. Binary distributions of LAMMPS do not install label_map.h. There the one member that is
// used is declared: it is not virtual, and the class is only reached through a pointer.
#ifndef EQUI_LAMMPS_LABEL_MAP_H
#define EQUI_LAMMPS_LABEL_MAP_H

#if __has_include("label_map.h")
#include "label_map.h"
#else

#include <string>

namespace LAMMPS_NS {

class LabelMap {
 public:
  // The number of the type that has this label, -1 if none has it; mode: Atom::ATOM for types of atoms.
  int find(const std::string &label, int mode) const;
};

}    // namespace LAMMPS_NS

#endif

#endif

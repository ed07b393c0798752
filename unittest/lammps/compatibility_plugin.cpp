// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// A plugin for tests, compiled for a LAMMPS of another version, with integers of other sizes or with another MPI: it
// says whether it takes itself for a fitting one.

#include "src/lammps/lammps_compatibility.h"
#include "src/lammps/lammps_plugin_api.h"

#include <cstdio>

extern "C" __attribute__((visibility("default"))) void lammpsplugin_init(void *lmp, void * /*handle*/,
                                                                         void * /*register_function*/) {
  if (equi::is_compatible(lmp)) std::puts("The plugin fits");
}

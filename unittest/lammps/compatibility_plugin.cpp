// SPDX-License-Identifier: MIT
// A plugin for tests, compiled for a LAMMPS of another version, with integers of other sizes or with another MPI: it
// says whether it takes itself for a fitting one.

#include "src/lammps/plugin/lammps_compatibility.h"
#include "src/lammps/plugin/lammps_plugin_api.h"

#include <cstdio>

extern "C" __attribute__((visibility("default"))) void lammpsplugin_init(void *lmp, void * /*handle*/,
                                                                         void * /*register_function*/) {
  if (equi::is_compatible(lmp)) std::puts("The plugin fits");
}

/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Entry of equiplugin.so: registers the pair styles with the LAMMPS that loads it.

#include "lammps_plugin_api.h"
#include "pair_equi.h"

#include "lammps.h"

using namespace LAMMPS_NS;

static void *make_pair_equi(void *lmp) {
  return new PairEqui(static_cast<LAMMPS *>(lmp));
}

extern "C" __attribute__((visibility("default"))) void lammpsplugin_init(void *lmp, void *handle,
                                                                         void *register_function) {
  lammpsplugin_t plugin{};
#ifdef EQUI_LAMMPS_VERSION
  plugin.version = EQUI_LAMMPS_VERSION;    // `plugin load` prints a line if its own is another
#else
  plugin.version = static_cast<LAMMPS *>(lmp)->version;
#endif
  plugin.style = "pair";
  plugin.name = "equi";
  plugin.info = "O(3)-equivariant machine-learned potentials";
  plugin.author = "the equi developers";
  plugin.creator.v1 = make_pair_equi;
  plugin.handle = handle;
  reinterpret_cast<lammpsplugin_register>(register_function)(&plugin, lmp);
}

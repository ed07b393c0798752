/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Entry of equiplugin.so: registers the pair styles with the LAMMPS that loads it.

#include "lammps_plugin_api.h"
#include "pair_equi.h"
#ifdef EQUI_KK
#include "pair_equi_kokkos.h"
#endif

#include "lammps.h"

using namespace LAMMPS_NS;

template <class Style>
static void *make(void *lmp) {
  return static_cast<Pair *>(new Style(static_cast<LAMMPS *>(lmp)));
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
  plugin.info = "O(3)-equivariant machine-learned potentials";
  plugin.author = "the equi developers";
  plugin.handle = handle;
  auto add = [&](const char *name, lammpsplugin_make creator) {
    plugin.name = name;
    plugin.creator.v1 = creator;
    reinterpret_cast<lammpsplugin_register>(register_function)(&plugin, lmp);
  };
  add("equi", make<PairEqui>);
#ifdef EQUI_KK
  add("equi/kk", make<PairEquiKokkos<LMPDeviceType>>);
  add("equi/kk/device", make<PairEquiKokkos<LMPDeviceType>>);
  add("equi/kk/host", make<PairEquiKokkos<LMPHostType>>);
#endif
}

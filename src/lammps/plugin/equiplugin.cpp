// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Entry of equiplugin.so: registers pair style, computes and commands with the LAMMPS that loads it.

#include "src/lammps/commands/compute_equi_born.h"
#include "src/lammps/commands/compute_equi_deviation.h"
#include "src/lammps/commands/compute_equi_heat_flux.h"
#include "src/lammps/commands/compute_equi_hvp.h"
#include "src/lammps/commands/compute_equi_observable.h"
#include "src/lammps/commands/equi_dynamical_matrix.h"
#include "src/lammps/commands/equi_elastic.h"
#include "src/lammps/commands/equi_modes.h"
#include "src/lammps/faults/lammps_faults.h"
#include "src/lammps/pair/pair_equi.h"
#include "src/lammps/plugin/kokkos_styles.h"
#include "src/lammps/plugin/lammps_compatibility.h"
#include "src/lammps/plugin/lammps_plugin_api.h"

#include "error.h"
#include "info.h"
#include "lammps.h"

using namespace LAMMPS_NS;

// LAMMPS expects a pointer to the base class. A rank without memory for a style ends all ranks.
template <class Base, class Style, class... Arguments>
static void *make(void *lmp, Arguments... arguments) {
  LAMMPS *lammps = static_cast<LAMMPS *>(lmp);
  Base *made = nullptr;
  equi::local_try(lammps->error, lammps->world, "equi", [&] { made = new Style(lammps, arguments...); });
  return made;
}

#ifndef EQUI_KK
// Replaces equi/kk in a LAMMPS that cannot run it.
static void *refuse_kokkos_style(void *lmp) {
  static_cast<LAMMPS *>(lmp)->error->all(
      FLERR,
      "Pair style equi/kk needs a LAMMPS with the KOKKOS package, and this one has none: 'cmake --workflow --preset "
      "lammps-kokkos' builds one; use pair_style equi here");
  return nullptr;
}
#endif

extern "C" __attribute__((visibility("default"))) void lammpsplugin_init(void *lmp, void *handle,
                                                                         void *register_function) {
  if (!equi::is_compatible(lmp)) return;
  lammpsplugin_t plugin{};
#ifdef EQUI_LAMMPS_VERSION
  plugin.version = EQUI_LAMMPS_VERSION;
#else
  plugin.version = static_cast<LAMMPS *>(lmp)->version;
#endif
  plugin.author = "the equi developers";
  plugin.handle = handle;
  const auto add = [&](const char *style, const char *name, const char *info) {
    plugin.style = style;
    plugin.name = name;
    plugin.info = info;
    reinterpret_cast<lammpsplugin_register>(register_function)(&plugin, lmp);
  };
  const auto add_pair = [&](const char *name, lammpsplugin_make creator) {
    plugin.creator.v1 = creator;
    add("pair", name, "equivariant machine-learned potentials");
  };
  add_pair("equi", make<Pair, PairEqui>);
#ifdef EQUI_KK
  equi::add_kokkos_styles(add_pair);
#else
  // If LAMMPS has the package, a command with its suffix kk must still find plain equi.
  if (!Info::has_package("KOKKOS"))
    for (const char *name : {"equi/kk", "equi/kk/device", "equi/kk/host"}) add_pair(name, refuse_kokkos_style);
#endif
  plugin.creator.v1 = make<Command, EquiDynamicalMatrix>;
  add("command", "equi_dynamical_matrix", "dynamical matrix by second derivatives of pair style equi");
  plugin.creator.v1 = make<Command, EquiElastic>;
  add("command", "equi_elastic", "elastic constants by second derivatives of pair style equi");
  plugin.creator.v1 = make<Command, EquiModes>;
  add("command", "equi_modes", "lowest vibrational modes by second derivatives of pair style equi");
  plugin.creator.v2 = make<Compute, ComputeEquiDeviation, int, char **>;
  add("compute", "equi/deviation", "deviations among the models of a committee");
  plugin.creator.v2 = make<Compute, ComputeEquiHVP, int, char **>;
  add("compute", "equi/hvp", "second derivatives of pair style equi times a vector");
  plugin.creator.v2 = make<Compute, ComputeEquiHeatFlux, int, char **>;
  add("compute", "equi/heat/flux", "exact heat flux of pair style equi");
  plugin.creator.v2 = make<Compute, ComputeEquiBorn, int, char **>;
  add("compute", "equi/born", "Born effective charges of the model of pair style equi");
  plugin.creator.v2 = make<Compute, ComputeEquiObservable, int, char **>;
  add("compute", "equi/charge", "charges of the model of pair style equi");
  add("compute", "equi/dipole", "dipoles of the model of pair style equi");
  add("compute", "equi/polarizability", "polarizabilities of the model of pair style equi");
  add("compute", "equi/spin", "spins of the model of pair style equi");
}

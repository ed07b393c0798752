// SPDX-License-Identifier: MIT
// Declares what kokkos/lammps/ defines for the plugin's entry, in builds with equi/kk.
#ifndef EQUI_KOKKOS_STYLES_H
#define EQUI_KOKKOS_STYLES_H

#include "src/lammps/plugin/lammps_plugin_api.h"

#include <functional>

namespace equi {

// Calls `add` with the name and the maker of each pair style for LAMMPS's KOKKOS package.
void add_kokkos_styles(const std::function<void(const char *name, lammpsplugin_make maker)> &add);

}    // namespace equi

#endif

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Registers the pair styles of package KOKKOS.

#include "src/lammps/plugin/kokkos_styles.h"

#include "kokkos/lammps/pair_equi_kokkos.h"

#include "lammps.h"

using namespace LAMMPS_NS;

template <class DeviceType>
static void *make(void *lmp) {
  return static_cast<Pair *>(new PairEquiKokkos<DeviceType>(static_cast<LAMMPS *>(lmp)));
}

void equi::add_kokkos_styles(const std::function<void(const char *name, lammpsplugin_make maker)> &add) {
  add("equi/kk", make<LMPDeviceType>);
  add("equi/kk/device", make<LMPDeviceType>);
  add("equi/kk/host", make<LMPHostType>);
}

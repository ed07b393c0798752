// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// All differences between versions of LAMMPS's package KOKKOS are in this header. Known versions: 4Feb2025,
// 22Jul2025, and 10Sep2025 and newer, which store numbers per atom in a type of their own (KK_FLOAT) besides the
// double of the host.

#ifndef EQUI_LAMMPS_KOKKOS_VERSION_H
#define EQUI_LAMMPS_KOKKOS_VERSION_H

#include "kokkos_base.h"
#include "kokkos_type.h"

// DAT, LMPDeviceType and others are in this namespace in some versions and in the global one in others.
namespace LAMMPS_NS::EquiKokkos {

// The last argument of an unpacking hook is the buffer of messages; the name of its type differs between
// versions.
template <class Class, class Buffer>
Buffer buffer_of(void (Class::*)(int, int, Buffer &));
using CommBuffer = decltype(buffer_of(&KokkosBase::unpack_forward_comm_kokkos));
using CommList = DAT::tdual_int_1d;
using DeviceType = LMPDeviceType;

// Per-atom arrays of a pair style: views of doubles on the host.
template <class Arrays, class = void>
struct PerAtomArrays {
  using Energy = typename Arrays::tdual_efloat_1d;
  using Virial = typename Arrays::tdual_virial_array;
  using CentroidVirial = Kokkos::DualView<double *[9], Kokkos::LayoutRight, LMPDeviceType>;
};
template <class Arrays>
struct PerAtomArrays<Arrays, std::void_t<typename Arrays::ttransform_kkacc_1d>> {
  using Energy = typename Arrays::ttransform_kkacc_1d;
  using Virial = typename Arrays::ttransform_kkacc_1d_6;
  using CentroidVirial = typename Arrays::ttransform_kkacc_1d_9;
};
using PerAtom = PerAtomArrays<DAT>;

// The switches of CommKokkos that make it skip the device hooks of pair styles.
template <class Comm, class = void>
struct ClassicPairComm {
  static bool &forward(Comm &comm) { return comm.forward_pair_comm_classic; }
  static bool &reverse(Comm &comm) { return comm.reverse_pair_comm_classic; }
};
template <class Comm>
struct ClassicPairComm<Comm, std::void_t<decltype(Comm::forward_pair_comm_legacy)>> {
  static bool &forward(Comm &comm) { return comm.forward_pair_comm_legacy; }
  static bool &reverse(Comm &comm) { return comm.reverse_pair_comm_legacy; }
};

}    // namespace LAMMPS_NS::EquiKokkos

#endif

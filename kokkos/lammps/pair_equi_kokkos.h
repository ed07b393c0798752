// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// pair_style equi/kk is PairEqui under LAMMPS's package KOKKOS. Keywords, errors and the log are PairEqui's.
// Neighbors come from the package's lists. Positions, forces and per-atom quantities are in its views. Features of
// remote atoms travel through its communication. An evaluation on a device reads and writes all of these in place.

#ifdef PAIR_CLASS
// clang-format off
PairStyle(equi/kk,PairEquiKokkos<LMPDeviceType>);
PairStyle(equi/kk/device,PairEquiKokkos<LMPDeviceType>);
PairStyle(equi/kk/host,PairEquiKokkos<LMPHostType>);
// clang-format on
#else

#ifndef LMP_PAIR_EQUI_KOKKOS_H
#define LMP_PAIR_EQUI_KOKKOS_H

#include "kokkos/lammps/lammps_kokkos_version.h"
#include "src/lammps/pair/pair_equi.h"

namespace equi {
template <class DeviceType>
class PairAtomsKokkos;
}

namespace LAMMPS_NS {

template <class DeviceType>
class PairEquiKokkos : public PairEqui, public KokkosBase {
 public:
  PairEquiKokkos(class LAMMPS *);
  void init_style() override;

  int pack_forward_comm_kokkos(int, EquiKokkos::CommList, EquiKokkos::CommBuffer &, int, int *) override;
  void unpack_forward_comm_kokkos(int, int, EquiKokkos::CommBuffer &) override;
  int pack_reverse_comm_kokkos(int, int, EquiKokkos::CommBuffer &) override;
  void unpack_reverse_comm_kokkos(int, EquiKokkos::CommList, EquiKokkos::CommBuffer &) override;

 protected:
  bool is_for_gpus() const override;
  std::unique_ptr<equi::PairRunner> make_runner(std::unique_ptr<equi::Evaluator>,
                                                const equi::EvaluatorOptions &) override;

 private:
  equi::PairAtomsKokkos<DeviceType> *atoms;    // those of impl
};

}    // namespace LAMMPS_NS

#endif
#endif

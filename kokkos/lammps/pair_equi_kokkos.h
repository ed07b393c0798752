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

#include <array>
#include <vector>

namespace equi {
template <class DeviceType>
class LammpsExchangeKokkos;
class LammpsDeviceEvaluation;
}    // namespace equi

namespace LAMMPS_NS {

template <class DeviceType>
class PairEquiKokkos : public PairEqui, public KokkosBase {
 public:
  PairEquiKokkos(class LAMMPS *);
  ~PairEquiKokkos() override;
  void compute(int, int) override;
  void init_style() override;

  int pack_forward_comm_kokkos(int, EquiKokkos::CommList, EquiKokkos::CommBuffer &, int, int *) override;
  void unpack_forward_comm_kokkos(int, int, EquiKokkos::CommBuffer &) override;
  int pack_reverse_comm_kokkos(int, int, EquiKokkos::CommBuffer &) override;
  void unpack_reverse_comm_kokkos(int, EquiKokkos::CommList, EquiKokkos::CommBuffer &) override;

 protected:
  bool sync_host_bonds() const override;
  void read_neighbor_list() override;
  void use_neighborhood(bool) override;
  equi::EvaluationResult run_evaluator() override;
  const equi::Neighborhood &neighborhood_on_host(equi::Neighborhood &space) override;
  double energy_of_rank() override;
  void multiply_hessian(int, const double (*const *)[3], double (*const *)[3], bool) override;
  bool is_for_gpus() const override;
  bool has_host_neighborhood() const override;
  const double *positions() override;
  void sync_host_atoms() override;
  void sync_host_positions() override;
  void modified_host_positions() override;

 public:
  // Public because nvcc requires it of functions with lambdas. They add numbers of `count` rows. Row r is atom
  // atom_of_row[r], or r if atom_of_row is null; -1 means no atom.
  template <class To>
  void add_forces(int count, const int *atom_of_row, const double *forces, const To &to);
  template <class To>
  void add_energies(int count, const int *atom_of_row, const double *energies, const To &to);
  template <class To>
  void add_virials(int count, const int *atom_of_row, const double *virials, const To &to);
  template <class To>
  void add_centroid_virials(int count, const int *atom_of_row, const double *virials, const To &to);

 private:
  equi::LammpsExchangeKokkos<DeviceType> *exchange;           // the exchange of impl
  std::unique_ptr<equi::LammpsDeviceEvaluation> on_device;    // null for an evaluation in host memory
  // null likewise; for impl's directional evaluator
  std::unique_ptr<equi::LammpsDeviceEvaluation> hessian_on_device;
  EquiKokkos::PerAtom::Energy k_eatom;
  EquiKokkos::PerAtom::Virial k_vatom;
  EquiKokkos::PerAtom::CentroidVirial k_cvatom;
  std::vector<const int *> firstneigh;             // indexed by atom
  std::vector<std::array<double, 3> > position;    // if the view's numbers are not in the order of the evaluation
};

}    // namespace LAMMPS_NS

#endif
#endif

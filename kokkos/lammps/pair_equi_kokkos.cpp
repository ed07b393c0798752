// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// pair_style equi/kk: connects PairEqui with the atoms, neighbor lists and communication of package KOKKOS.

#include "kokkos/lammps/pair_equi_kokkos.h"

#include "kokkos/lammps/pair_runner_kokkos.h"
#include "src/lammps/pair/pair_equi_impl.h"

#include "atom_masks.h"
#include "comm.h"
#include "error.h"
#include "kokkos.h"
#include "neigh_request.h"
#include "neighbor.h"
#include "suffix.h"

#include <type_traits>
#include <utility>

using namespace LAMMPS_NS;

template <class DeviceType>
PairEquiKokkos<DeviceType>::PairEquiKokkos(LAMMPS *lmp) : PairEqui(lmp) {
  if (!lmp->kokkos)
    error->all(FLERR, "Pair style equi/kk requires the KOKKOS package to be enabled: start LAMMPS with -k on");
  suffix_flag |= Suffix::KOKKOS;
  kokkosable = 1;
  reverse_comm_device = 1;
  // LAMMPS's Device is where its views are stored, which can be a host. With Host the options `comm` would have no
  // effect.
  execution_space = std::is_same_v<DeviceType, LMPDeviceType> ? Device : Host;
  datamask_read = X_MASK | F_MASK | TAG_MASK | TYPE_MASK;
  datamask_modify = F_MASK;
  auto own = std::make_unique<equi::PairAtomsKokkos<DeviceType>>(*this, lmp);
  atoms = own.get();
  impl->atoms = std::move(own);
}

template <class DeviceType>
void PairEquiKokkos<DeviceType>::init_style() {
  PairEqui::init_style();
  impl->is_set_up = false;    // the following may fail
  auto request = neighbor->find_request(this);
  request->set_kokkos_host(std::is_same_v<DeviceType, LMPHostType> && !std::is_same_v<DeviceType, LMPDeviceType>);
  request->set_kokkos_device(std::is_same_v<DeviceType, LMPDeviceType>);
  if (impl->runner->has_host_neighborhood() && is_for_gpus())
    error->all(FLERR,
               "Pair style equi/kk on a GPU needs kernels device and reference no: use the suffix kk/host otherwise");
  const equi::ExchangeMode mode = impl->settings.exchange_mode;
  if (mode == equi::ExchangeMode::device && (execution_space == Host || comm->style != Comm::BRICK))
    error->all(FLERR, "Pair style equi/kk: exchange device needs comm style brick and not the suffix kk/host");
  if (mode == equi::ExchangeMode::device && is_for_gpus() && !lmp->kokkos->gpu_aware_flag && comm->me == 0)
    error->warning(FLERR,
                   "Pair style equi/kk: exchange device without a GPU-aware MPI copies whole buffers through the host, "
                   "and nothing is computed meanwhile: exchange auto is usually faster");
  atoms->exchange().set_mode(mode, lmp->kokkos->gpu_aware_flag);
  impl->is_set_up = true;
}

template <class DeviceType>
bool PairEquiKokkos<DeviceType>::is_for_gpus() const {
  return !Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename DeviceType::memory_space>::accessible;
}

template <class DeviceType>
std::unique_ptr<equi::PairRunner> PairEquiKokkos<DeviceType>::make_runner(std::unique_ptr<equi::Evaluator> evaluator,
                                                                          const equi::EvaluatorOptions &options) {
  if constexpr (std::is_same_v<DeviceType, LMPDeviceType>)
    if (dynamic_cast<equi::DeviceEvaluator *>(evaluator.get()))
      return std::make_unique<equi::PairRunnerKokkos>(lmp, std::move(evaluator), options, *atoms, impl->models);
  return PairEqui::make_runner(std::move(evaluator), options);
}

/* ----------------------------------------------------------------------
   hooks of KOKKOS's communication, which waits for them to end
------------------------------------------------------------------------- */

template <class DeviceType>
int PairEquiKokkos<DeviceType>::pack_forward_comm_kokkos(int n, EquiKokkos::CommList list,
                                                         EquiKokkos::CommBuffer &buffer, int /*pbc_flag*/,
                                                         int * /*pbc*/) {
  atoms->exchange().note_device_hooks();
  return atoms->exchange().pack_forward_device(n, list.template view<LMPHostType>().data(),
                                               buffer.template view<DeviceType>().data());
}

template <class DeviceType>
void PairEquiKokkos<DeviceType>::unpack_forward_comm_kokkos(int n, int first, EquiKokkos::CommBuffer &buffer) {
  atoms->exchange().unpack_forward_device(n, first, buffer.template view<DeviceType>().data());
}

template <class DeviceType>
int PairEquiKokkos<DeviceType>::pack_reverse_comm_kokkos(int n, int first, EquiKokkos::CommBuffer &buffer) {
  atoms->exchange().note_device_hooks();
  return atoms->exchange().pack_reverse_device(n, first, buffer.template view<DeviceType>().data());
}

template <class DeviceType>
void PairEquiKokkos<DeviceType>::unpack_reverse_comm_kokkos(int n, EquiKokkos::CommList list,
                                                            EquiKokkos::CommBuffer &buffer) {
  atoms->exchange().unpack_reverse_device(n, list.template view<LMPHostType>().data(),
                                          buffer.template view<DeviceType>().data());
}

namespace LAMMPS_NS {
template class PairEquiKokkos<LMPDeviceType>;
#ifdef LMP_KOKKOS_GPU
template class PairEquiKokkos<LMPHostType>;
#endif
}    // namespace LAMMPS_NS

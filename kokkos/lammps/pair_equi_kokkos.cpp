// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// pair_style equi/kk: connects PairEqui with the atoms, neighbor lists and communication of package KOKKOS.

#include "kokkos/lammps/pair_equi_kokkos.h"

#include "kokkos/lammps/lammps_device_evaluation.h"
#include "kokkos/lammps/lammps_exchange_kokkos.h"
#include "kokkos/runtime/device_launches.h"
#include "src/lammps/atoms/lammps_neighborhood.h"
#include "src/lammps/faults/lammps_faults.h"
#include "src/lammps/pair/pair_equi_impl.h"

#include "atom_kokkos.h"
#include "atom_masks.h"
#include "comm.h"
#include "error.h"
#include "force.h"
#include "kokkos.h"
#include "memory_kokkos.h"
#include "neigh_list_kokkos.h"
#include "neigh_request.h"
#include "neighbor_kokkos.h"
#include "suffix.h"

#include <algorithm>
#include <type_traits>

using namespace LAMMPS_NS;

namespace {

// Numbers of host memory, in memory that DeviceType can read.
template <class DeviceType, size_t WIDTH>
auto copy_to_space(const double *numbers, size_t count) {
  using Host = Kokkos::View<const double *, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
  return Kokkos::create_mirror_view_and_copy(typename DeviceType::memory_space(), Host(numbers, WIDTH * count));
}

template <class View>
auto on_host(const View &view) {
  return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
}

}    // namespace

/* ---------------------------------------------------------------------- */

template <class DeviceType>
PairEquiKokkos<DeviceType>::PairEquiKokkos(LAMMPS *lmp) : PairEqui(lmp) {
  if (!lmp->kokkos)
    error->all(FLERR, "Pair style equi/kk requires the KOKKOS package to be enabled: start LAMMPS with -k on");
  suffix_flag |= Suffix::KOKKOS;
  kokkosable = 1;
  reverse_comm_device = 1;
  atomKK = dynamic_cast<AtomKokkos *>(atom);
  // LAMMPS's Device is where its views are stored, which can be a host. With Host the options `comm` would have no
  // effect.
  execution_space = std::is_same_v<DeviceType, LMPDeviceType> ? Device : Host;
  datamask_read = X_MASK | F_MASK | TAG_MASK | TYPE_MASK;
  datamask_modify = F_MASK;
  auto own = std::make_unique<equi::LammpsExchangeKokkos<DeviceType>>(this, world);
  exchange = own.get();
  impl->exchange = std::move(own);
}

template <class DeviceType>
PairEquiKokkos<DeviceType>::~PairEquiKokkos() {
  if (copymode) return;
  memoryKK->destroy_kokkos(k_eatom, eatom);
  memoryKK->destroy_kokkos(k_vatom, vatom);
  memoryKK->destroy_kokkos(k_cvatom, cvatom);
}

template <class DeviceType>
void PairEquiKokkos<DeviceType>::init_style() {
  PairEqui::init_style();
  impl->is_set_up = false;    // the following may fail
  auto request = neighbor->find_request(this);
  request->set_kokkos_host(std::is_same_v<DeviceType, LMPHostType> && !std::is_same_v<DeviceType, LMPDeviceType>);
  request->set_kokkos_device(std::is_same_v<DeviceType, LMPDeviceType>);

  using Evaluator = equi::DeviceEvaluator;
  auto *evaluator =
      std::is_same_v<DeviceType, LMPDeviceType> ? dynamic_cast<Evaluator *>(impl->evaluator.get()) : nullptr;
  if (!evaluator)
    on_device.reset();
  else if (!on_device || &on_device->evaluator() != evaluator)
    collective_try([&] { on_device = std::make_unique<equi::LammpsDeviceEvaluation>(*evaluator); });
  if (!on_device && is_for_gpus())
    error->all(FLERR,
               "Pair style equi/kk on a GPU needs kernels device, reference no and a single model file: use the suffix "
               "kk/host otherwise");
  if (impl->exchange_mode == equi::ExchangeMode::device && (execution_space == Host || comm->style != Comm::BRICK))
    error->all(FLERR, "Pair style equi/kk: exchange device needs comm style brick and not the suffix kk/host");
  exchange->set_mode(impl->exchange_mode, lmp->kokkos->gpu_aware_flag);
  impl->is_set_up = true;
}

template <class DeviceType>
bool PairEquiKokkos<DeviceType>::is_for_gpus() const {
  return !Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename DeviceType::memory_space>::accessible;
}

/* ----------------------------------------------------------------------
   the evaluation reads and writes host memory, or that of the device
------------------------------------------------------------------------- */

template <class DeviceType>
void PairEquiKokkos<DeviceType>::read_neighbor_list() {
  if (on_device) {
    on_device->read_neighbor_list(*atomKK, list, impl->type_species);
    atomKK->sync(Host, TAG_MASK);    // ranks use it to agree on their messages
    const auto &n = on_device->neighborhood();
    impl->neighborhood.num_atoms = n.num_atoms;
    impl->neighborhood.num_receivers = n.num_receivers;
    impl->neighborhood.num_rows = n.num_rows;
    return;
  }
  atomKK->sync(Host, X_MASK | TAG_MASK | TYPE_MASK | MASK_MASK);
  const auto *of_device = static_cast<NeighListKokkos<DeviceType> *>(list);
  const auto atoms = on_host(of_device->d_ilist);
  const auto num_neighbors = on_host(of_device->d_numneigh);
  const auto neighbors = on_host(of_device->d_neighbors);
  firstneigh.assign(atom->nlocal, nullptr);
  for (int ii = 0; ii < list->inum; ii++) firstneigh[atoms(ii)] = neighbors.data() + atoms(ii) * neighbors.stride(0);
  const equi::FullList full{list->inum, atoms.data(), num_neighbors.data(), firstneigh.data(),
                            static_cast<int64_t>(neighbors.stride(1))};
  equi::build_neighborhood(*atom, full, impl->type_species, impl->neighborhood, impl->atom_row);
}

template <class DeviceType>
bool PairEquiKokkos<DeviceType>::sync_host_bonds() const {
  auto *lists = dynamic_cast<NeighborKokkos *>(neighbor);
  if (force->bond) lists->k_bondlist.sync_host();
  if (force->angle) lists->k_anglelist.sync_host();
  if (force->dihedral) lists->k_dihedrallist.sync_host();
  if (force->improper) lists->k_improperlist.sync_host();
  return true;
}

template <class DeviceType>
void PairEquiKokkos<DeviceType>::use_neighborhood(bool is_exchanged) {
  if (!on_device) return PairEqui::use_neighborhood(is_exchanged);
  exchange->set_device_rows(on_device->row_of_atom(), is_exchanged);
  on_device->use_neighborhood();
}

template <class DeviceType>
equi::EvaluationResult PairEquiKokkos<DeviceType>::run_evaluator() {
  if (!on_device) return PairEqui::run_evaluator();
  const bool per_atom_virial = vflag_atom || cvflag_atom;
  const equi::EvaluationResult result = on_device->evaluate(*atomKK, true, wants_virial(), per_atom_virial, *exchange);
  if (!force->newton_pair) on_device->send_ghosts_home(*exchange, per_atom_virial);
  if (!impl->forces_are_checked) {    // the check reads them on the host
    on_device->copy_forces(impl->forces);
    impl->neighborhood.receiver = on_device->receivers();
  }
  return result;
}

template <class DeviceType>
const equi::Neighborhood &PairEquiKokkos<DeviceType>::neighborhood_on_host(equi::Neighborhood &space) {
  if (!on_device) return PairEqui::neighborhood_on_host(space);
  on_device->copy_candidates(space);
  return space;
}

template <class DeviceType>
double PairEquiKokkos<DeviceType>::energy_of_rank() {
  if (!on_device) return PairEqui::energy_of_rank();
  return on_device->evaluate(*atomKK, false, false, false, *exchange).energy;
}

// The rows are those of the forces' evaluation, which the exchange knows.
template <class DeviceType>
bool PairEquiKokkos<DeviceType>::has_host_neighborhood() const {
  return !std::is_same_v<DeviceType, LMPDeviceType> || !dynamic_cast<equi::DeviceEvaluator *>(impl->evaluator.get());
}

template <class DeviceType>
void PairEquiKokkos<DeviceType>::multiply_hessian(int count, const double (*const *v)[3], double (*const *hv)[3],
                                                  bool same_positions) {
  if (!on_device) return PairEqui::multiply_hessian(count, v, hv, same_positions);
  auto &evaluator = dynamic_cast<equi::DeviceEvaluator &>(*impl->directional);
  if (!hessian_on_device || &hessian_on_device->evaluator() != &evaluator) {
    hessian_on_device = std::make_unique<equi::LammpsDeviceEvaluation>(evaluator);
    impl->directional_is_set = false;
  }
  if (!impl->directional_is_set) {
    hessian_on_device->read_neighbor_list(*atomKK, list, impl->type_species);
    hessian_on_device->use_neighborhood();
  }
  impl->directional_is_set = true;
  for (int done = 0, batch; done < count; done += batch, same_positions = true) {
    batch = same_positions ? std::min(count - done, evaluator.max_directions()) : 1;
    hessian_on_device->multiply_hessian(*atomKK, batch, v + done, hv + done, same_positions, *exchange);
  }
  for (int d = 0; d < count; d++)
    for (int i = 0; i < atom->nlocal; i++)
      for (int k = 0; k < 3; k++) hv[d][i][k] *= impl->energy_unit;
}

template <class DeviceType>
const double *PairEquiKokkos<DeviceType>::positions() {
  const int nall = atom->nlocal + atom->nghost;
  if (nall == 0) return nullptr;
  atomKK->sync(execution_space, X_MASK);
  const auto x = on_host(atomKK->k_x.template view<DeviceType>());
  using View = std::decay_t<decltype(x)>;
  if constexpr (std::is_same_v<typename View::memory_space, typename DeviceType::memory_space> &&
                std::is_same_v<typename View::non_const_value_type, double> &&
                std::is_same_v<typename View::array_layout, Kokkos::LayoutRight>)
    return x.data();
  position.resize(nall);
  for (int i = 0; i < nall; i++)
    for (int k = 0; k < 3; k++) position[i][k] = x(i, k);
  return position[0].data();
}

// Copies nothing that has not changed on the device since the last call.
template <class DeviceType>
void PairEquiKokkos<DeviceType>::sync_host_atoms() {
  atomKK->sync(Host,
               TAG_MASK | TYPE_MASK | MASK_MASK | IMAGE_MASK | (atom->molecular == Atom::ATOMIC ? 0 : SPECIAL_MASK));
}

template <class DeviceType>
void PairEquiKokkos<DeviceType>::sync_host_positions() {
  atomKK->sync(Host, X_MASK);
}

template <class DeviceType>
void PairEquiKokkos<DeviceType>::modified_host_positions() {
  atomKK->modified(Host, X_MASK);
}

/* ---------------------------------------------------------------------- */

template <class DeviceType>
void PairEquiKokkos<DeviceType>::compute(int eflag_in, int vflag_in) {
  ev_init(eflag_in, vflag_in, 0);
  atomKK->sync(execution_space, datamask_read);
  evaluate();

  // Forces and virials of rows or of all atoms, energies of receivers or of owned atoms.
  const int nlocal = atom->nlocal, nall = atom->nlocal + atom->nghost;
  const bool per_atom_virial = vflag_atom || cvflag_atom;
  equi::DeviceResults device_results;
  int num_rows = nall, num_energies = nlocal;
  decltype(copy_to_space<DeviceType, 1>(nullptr, 0)) forces, energies, virials;
  if (on_device) {
    device_results = on_device->results();
    num_rows = impl->neighborhood.num_rows;
    num_energies = impl->neighborhood.num_receivers;
  } else {
    forces = copy_to_space<DeviceType, 3>(impl->forces.data()->data(), nall);
    if (eflag_atom) energies = copy_to_space<DeviceType, 1>(impl->energies.data(), nlocal);
    if (per_atom_virial) virials = copy_to_space<DeviceType, 9>(impl->virials.data()->data(), nall);
  }
  const int *atom_of_row = device_results.row_atom;
  const double *f = on_device ? device_results.forces : forces.data(),
               *e = on_device ? device_results.energy : energies.data(),
               *v = on_device ? device_results.virial : virials.data();
  add_forces(num_rows, atom_of_row, f, atomKK->k_f.template view<DeviceType>());
  atomKK->modified(execution_space, datamask_modify);

  // Per-atom arrays are allocated again, as in LAMMPS's own styles: zero, and of the current length.
  if (eflag_atom) {
    memoryKK->destroy_kokkos(k_eatom, eatom);
    memoryKK->create_kokkos(k_eatom, eatom, maxeatom, "pair:eatom");
    add_energies(num_energies, atom_of_row, e, k_eatom.template view<DeviceType>());
    k_eatom.template modify<DeviceType>();
    k_eatom.sync_host();
  }
  if (vflag_atom) {
    memoryKK->destroy_kokkos(k_vatom, vatom);
    memoryKK->create_kokkos(k_vatom, vatom, maxvatom, "pair:vatom");
    add_virials(num_rows, atom_of_row, v, k_vatom.template view<DeviceType>());
    k_vatom.template modify<DeviceType>();
    k_vatom.sync_host();
  }
  if (cvflag_atom) {
    memoryKK->destroy_kokkos(k_cvatom, cvatom);
    memoryKK->create_kokkos(k_cvatom, cvatom, maxcvatom, "pair:cvatom");
    add_centroid_virials(num_rows, atom_of_row, v, k_cvatom.template view<DeviceType>());
    k_cvatom.template modify<DeviceType>();
    k_cvatom.sync_host();
  }
  DeviceType().fence("equi: the evaluation's arrays are in use no more");
  run_on_this_rank([] { equi::check_launches(); });
  finish_first_evaluation();
}

template <class DeviceType>
template <class To>
void PairEquiKokkos<DeviceType>::add_forces(int count, const int *atom_of_row, const double *forces, const To &to) {
  const double unit = impl->energy_unit;
  Kokkos::parallel_for(
      "equi:forces", Kokkos::RangePolicy<DeviceType>(0, count), KOKKOS_LAMBDA(int row) {
        const int i = atom_of_row ? atom_of_row[row] : row;
        if (i < 0) return;
        for (int k = 0; k < 3; k++) to(i, k) += unit * forces[3 * static_cast<int64_t>(row) + k];
      });
}

template <class DeviceType>
template <class To>
void PairEquiKokkos<DeviceType>::add_energies(int count, const int *atom_of_row, const double *energies, const To &to) {
  const double unit = impl->energy_unit;
  Kokkos::parallel_for(
      "equi:eatom", Kokkos::RangePolicy<DeviceType>(0, count),
      KOKKOS_LAMBDA(int row) { to(atom_of_row ? atom_of_row[row] : row) += unit * energies[row]; });
}

template <class DeviceType>
template <class To>
void PairEquiKokkos<DeviceType>::add_virials(int count, const int *atom_of_row, const double *virials, const To &to) {
  const double unit = impl->energy_unit;
  Kokkos::parallel_for(
      "equi:vatom", Kokkos::RangePolicy<DeviceType>(0, count), KOKKOS_LAMBDA(int row) {
        const int i = atom_of_row ? atom_of_row[row] : row;
        if (i < 0) return;
        const double *v = virials + 9 * static_cast<int64_t>(row);
        for (int k = 0; k < 3; k++) to(i, k) += unit * v[k];
        for (int k = 3; k < 6; k++) to(i, k) += 0.5 * unit * (v[k] + v[k + 3]);
      });
}

template <class DeviceType>
template <class To>
void PairEquiKokkos<DeviceType>::add_centroid_virials(int count, const int *atom_of_row, const double *virials,
                                                      const To &to) {
  const double unit = impl->energy_unit;
  Kokkos::parallel_for(
      "equi:cvatom", Kokkos::RangePolicy<DeviceType>(0, count), KOKKOS_LAMBDA(int row) {
        const int i = atom_of_row ? atom_of_row[row] : row;
        if (i < 0) return;
        for (int k = 0; k < 9; k++) to(i, k) += unit * virials[9 * static_cast<int64_t>(row) + k];
      });
}

/* ----------------------------------------------------------------------
   hooks of KOKKOS's communication, which waits for them to end
------------------------------------------------------------------------- */

template <class DeviceType>
int PairEquiKokkos<DeviceType>::pack_forward_comm_kokkos(int n, EquiKokkos::CommList list,
                                                         EquiKokkos::CommBuffer &buffer, int /*pbc_flag*/,
                                                         int * /*pbc*/) {
  exchange->note_device_hooks();
  return exchange->pack_forward_device(n, list.template view<LMPHostType>().data(),
                                       buffer.template view<DeviceType>().data());
}

template <class DeviceType>
void PairEquiKokkos<DeviceType>::unpack_forward_comm_kokkos(int n, int first, EquiKokkos::CommBuffer &buffer) {
  exchange->unpack_forward_device(n, first, buffer.template view<DeviceType>().data());
}

template <class DeviceType>
int PairEquiKokkos<DeviceType>::pack_reverse_comm_kokkos(int n, int first, EquiKokkos::CommBuffer &buffer) {
  exchange->note_device_hooks();
  return exchange->pack_reverse_device(n, first, buffer.template view<DeviceType>().data());
}

template <class DeviceType>
void PairEquiKokkos<DeviceType>::unpack_reverse_comm_kokkos(int n, EquiKokkos::CommList list,
                                                            EquiKokkos::CommBuffer &buffer) {
  exchange->unpack_reverse_device(n, list.template view<LMPHostType>().data(),
                                  buffer.template view<DeviceType>().data());
}

namespace LAMMPS_NS {
template class PairEquiKokkos<LMPDeviceType>;
#ifdef LMP_KOKKOS_GPU
template class PairEquiKokkos<LMPHostType>;
#endif
}    // namespace LAMMPS_NS

/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

#include "pair_equi_kokkos.h"

#include "lammps_exchange_kokkos.h"
#include "lammps_neighborhood.h"
#include "pair_equi_impl.h"

#include "atom_kokkos.h"
#include "atom_masks.h"
#include "error.h"
#include "kokkos.h"
#include "memory_kokkos.h"
#include "neigh_list_kokkos.h"
#include "neigh_request.h"
#include "neighbor.h"
#include "suffix.h"

#include <type_traits>

using namespace LAMMPS_NS;

namespace {

// A view of what lies in host memory, where DeviceType finds it.
template <class DeviceType, size_t WIDTH>
auto on_device(const std::vector<std::array<double, WIDTH>> &array) {
  using Host = Kokkos::View<const double *[WIDTH], Kokkos::LayoutRight, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
  return Kokkos::create_mirror_view_and_copy(typename DeviceType::memory_space(),
                                             Host(reinterpret_cast<const double *>(array.data()), array.size()));
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
  // FIXME_CUDA: the exchange packs features where DeviceType runs, and the evaluation hands them out in host memory.
  if (!Kokkos::SpaceAccessibility<DeviceType, Kokkos::HostSpace>::accessible)
    error->all(FLERR, "Pair style equi/kk runs on CPUs only: use suffix kk/host in a LAMMPS for GPUs");
  suffix_flag |= Suffix::KOKKOS;
  kokkosable = 1;
  reverse_comm_device = 1;
  atomKK = dynamic_cast<AtomKokkos *>(atom);
  // LAMMPS's Device is whatever its views live on, also a host: with Host the options `comm` would have no meaning.
  execution_space = std::is_same_v<DeviceType, LMPDeviceType> ? Device : Host;
  datamask_read = X_MASK | F_MASK | TAG_MASK | TYPE_MASK;
  datamask_modify = F_MASK;
  auto own = std::make_unique<equi::LammpsExchangeKokkos<DeviceType>>(this);
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
  auto request = neighbor->find_request(this);
  request->set_kokkos_host(std::is_same_v<DeviceType, LMPHostType> && !std::is_same_v<DeviceType, LMPDeviceType>);
  request->set_kokkos_device(std::is_same_v<DeviceType, LMPDeviceType>);
}

/* ----------------------------------------------------------------------
   the evaluation reads and writes host memory
------------------------------------------------------------------------- */

template <class DeviceType>
void PairEquiKokkos<DeviceType>::read_neighbor_list() {
  atomKK->sync(Host, X_MASK | TAG_MASK | TYPE_MASK);
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
  atomKK->sync(Host, TAG_MASK | TYPE_MASK);
  evaluate();

  const int nlocal = atom->nlocal, nall = atom->nlocal + atom->nghost;
  const double unit = impl->energy_unit;
  const auto f = atomKK->k_f.template view<DeviceType>();
  const auto forces = on_device<DeviceType>(impl->forces);
  Kokkos::parallel_for(
      "equi:forces", Kokkos::RangePolicy<DeviceType>(0, nall), KOKKOS_LAMBDA(int i) {
        for (int k = 0; k < 3; k++) f(i, k) += unit * forces(i, k);
      });
  atomKK->modified(execution_space, datamask_modify);

  // Per-atom arrays are made anew, as LAMMPS's own styles do: zero, and of the present length.
  if (eflag_atom) {
    memoryKK->destroy_kokkos(k_eatom, eatom);
    memoryKK->create_kokkos(k_eatom, eatom, maxeatom, "pair:eatom");
    const auto e = k_eatom.template view<DeviceType>();
    const auto energies = Kokkos::create_mirror_view_and_copy(
        typename DeviceType::memory_space(),
        Kokkos::View<const double *, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(impl->energies.data(), nall));
    Kokkos::parallel_for(
        "equi:eatom", Kokkos::RangePolicy<DeviceType>(0, nlocal), KOKKOS_LAMBDA(int i) { e(i) += unit * energies(i); });
    k_eatom.template modify<DeviceType>();
    k_eatom.sync_host();
  }
  if (vflag_atom) {
    memoryKK->destroy_kokkos(k_vatom, vatom);
    memoryKK->create_kokkos(k_vatom, vatom, maxvatom, "pair:vatom");
    const auto to = k_vatom.template view<DeviceType>();
    const auto v = on_device<DeviceType>(impl->virials);
    Kokkos::parallel_for(
        "equi:vatom", Kokkos::RangePolicy<DeviceType>(0, nall), KOKKOS_LAMBDA(int i) {
          for (int k = 0; k < 3; k++) to(i, k) += unit * v(i, k);
          for (int k = 3; k < 6; k++) to(i, k) += 0.5 * unit * (v(i, k) + v(i, k + 3));
        });
    k_vatom.template modify<DeviceType>();
    k_vatom.sync_host();
  }
  if (cvflag_atom) {
    memoryKK->destroy_kokkos(k_cvatom, cvatom);
    memoryKK->create_kokkos(k_cvatom, cvatom, maxcvatom, "pair:cvatom");
    const auto to = k_cvatom.template view<DeviceType>();
    const auto v = on_device<DeviceType>(impl->virials);
    Kokkos::parallel_for(
        "equi:cvatom", Kokkos::RangePolicy<DeviceType>(0, nall), KOKKOS_LAMBDA(int i) {
          for (int k = 0; k < 9; k++) to(i, k) += unit * v(i, k);
        });
    k_cvatom.template modify<DeviceType>();
    k_cvatom.sync_host();
  }
  DeviceType().fence("equi: the evaluation's arrays are in use no more");
  finish_first_evaluation();
}

/* ----------------------------------------------------------------------
   hooks of KOKKOS's communication, which waits for them to end
------------------------------------------------------------------------- */

template <class DeviceType>
int PairEquiKokkos<DeviceType>::pack_forward_comm_kokkos(int n, EquiKokkos::CommList list,
                                                         EquiKokkos::CommBuffer &buffer, int /*pbc_flag*/,
                                                         int * /*pbc*/) {
  return exchange->pack_forward_device(n, list.template view<DeviceType>().data(),
                                       buffer.template view<DeviceType>().data());
}

template <class DeviceType>
void PairEquiKokkos<DeviceType>::unpack_forward_comm_kokkos(int n, int first, EquiKokkos::CommBuffer &buffer) {
  exchange->unpack_forward_device(n, first, buffer.template view<DeviceType>().data());
}

template <class DeviceType>
int PairEquiKokkos<DeviceType>::pack_reverse_comm_kokkos(int n, int first, EquiKokkos::CommBuffer &buffer) {
  return exchange->pack_reverse_device(n, first, buffer.template view<DeviceType>().data());
}

template <class DeviceType>
void PairEquiKokkos<DeviceType>::unpack_reverse_comm_kokkos(int n, EquiKokkos::CommList list,
                                                            EquiKokkos::CommBuffer &buffer) {
  exchange->unpack_reverse_device(n, list.template view<DeviceType>().data(),
                                  buffer.template view<DeviceType>().data());
}

namespace LAMMPS_NS {
template class PairEquiKokkos<LMPDeviceType>;
#ifdef LMP_KOKKOS_GPU
template class PairEquiKokkos<LMPHostType>;
#endif
}    // namespace LAMMPS_NS

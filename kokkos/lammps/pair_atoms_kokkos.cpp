// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Copies atoms and lists to host memory where an evaluation needs them there, and adds results to views.

#include "kokkos/lammps/pair_atoms_kokkos.h"

#include "kokkos/runtime/device_launches.h"
#include "src/lammps/atoms/lammps_neighborhood.h"

#include "atom_kokkos.h"
#include "atom_masks.h"
#include "force.h"
#include "memory_kokkos.h"
#include "neigh_list_kokkos.h"
#include "neighbor_kokkos.h"
#include "pair.h"

#include <cstdint>
#include <memory>
#include <type_traits>

using namespace LAMMPS_NS;

namespace equi {

namespace {

// Numbers of host memory, in memory that DeviceType can read.
template <class DeviceType>
auto copy_to_space(const double *numbers, size_t count) {
  using Host = Kokkos::View<const double *, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
  return Kokkos::create_mirror_view_and_copy(typename DeviceType::memory_space(), Host(numbers, count));
}

template <class View>
auto on_host(const View &view) {
  return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
}

}    // namespace

template <class DeviceType>
PairAtomsKokkos<DeviceType>::PairAtomsKokkos(Pair &pair, LAMMPS *lmp)
    : PairAtoms(pair, lmp, std::make_unique<LammpsExchangeKokkos<DeviceType>>(&pair, lmp->world)) {}

template <class DeviceType>
PairAtomsKokkos<DeviceType>::~PairAtomsKokkos() {
  memoryKK->destroy_kokkos(k_eatom_, pair().eatom);
  memoryKK->destroy_kokkos(k_vatom_, pair().vatom);
  memoryKK->destroy_kokkos(k_cvatom_, pair().cvatom);
}

template <class DeviceType>
void PairAtomsKokkos<DeviceType>::sync_for_step() {
  atomKK->sync(pair().execution_space, pair().datamask_read);
}

// Copies nothing that has not changed on the device since the last call.
template <class DeviceType>
void PairAtomsKokkos<DeviceType>::sync_host_atoms() {
  atomKK->sync(Host,
               TAG_MASK | TYPE_MASK | MASK_MASK | IMAGE_MASK | (atom->molecular == Atom::ATOMIC ? 0 : SPECIAL_MASK));
}

template <class DeviceType>
void PairAtomsKokkos<DeviceType>::sync_host_positions() {
  atomKK->sync(Host, X_MASK);
}

template <class DeviceType>
void PairAtomsKokkos<DeviceType>::modified_host_positions() {
  atomKK->modified(Host, X_MASK);
}

template <class DeviceType>
bool PairAtomsKokkos<DeviceType>::sync_host_bonds() {
  auto *lists = dynamic_cast<NeighborKokkos *>(neighbor);
  if (force->bond) lists->k_bondlist.sync_host();
  if (force->angle) lists->k_anglelist.sync_host();
  if (force->dihedral) lists->k_dihedrallist.sync_host();
  if (force->improper) lists->k_improperlist.sync_host();
  return true;
}

template <class DeviceType>
PairAtoms::Positions PairAtomsKokkos<DeviceType>::positions() {
  if (num_all() == 0) return nullptr;
  atomKK->sync(pair().execution_space, X_MASK);
  const auto x = on_host(atomKK->k_x.template view<DeviceType>());
  using View = std::decay_t<decltype(x)>;
  if constexpr (std::is_same_v<typename View::memory_space, typename DeviceType::memory_space> &&
                std::is_same_v<typename View::non_const_value_type, double> &&
                std::is_same_v<typename View::array_layout, Kokkos::LayoutRight>)
    return reinterpret_cast<Positions>(x.data());
  position_.resize(num_all());
  for (int i = 0; i < num_all(); i++)
    for (int k = 0; k < 3; k++) position_[i][k] = x(i, k);
  return reinterpret_cast<Positions>(position_.data());
}

template <class DeviceType>
void PairAtomsKokkos<DeviceType>::note_positions() {
  num_noted_ = num_all();
  atomKK->sync(pair().execution_space, X_MASK);
  const auto x = atomKK->k_x.template view<DeviceType>();
  double *noted = noted_positions_.reserve(3 * static_cast<int64_t>(num_noted_));
  Kokkos::parallel_for(
      "equi:note_positions", RangeOn<typename DeviceType::execution_space>(0, num_noted_), KOKKOS_LAMBDA(int64_t i) {
        for (int k = 0; k < 3; k++) noted[3 * i + k] = x(i, k);
      });
}

template <class DeviceType>
bool PairAtomsKokkos<DeviceType>::has_noted_positions() {
  if (num_all() != num_noted_) return false;
  atomKK->sync(pair().execution_space, X_MASK);
  const auto x = atomKK->k_x.template view<DeviceType>();
  const double *noted = noted_positions_.data();
  int num_other = 0;
  Kokkos::parallel_reduce(
      "equi:compare_positions", RangeOn<typename DeviceType::execution_space>(0, num_noted_),
      KOKKOS_LAMBDA(int64_t i, int &number) {
        for (int k = 0; k < 3; k++) number += noted[3 * i + k] != x(i, k);
      },
      num_other);
  return num_other == 0;
}

template <class DeviceType>
void PairAtomsKokkos<DeviceType>::read_neighborhood(const std::vector<int> &type_species, Neighborhood &neighborhood,
                                                    std::vector<int> &atom_row) {
  atomKK->sync(Host, X_MASK | TAG_MASK | TYPE_MASK | MASK_MASK);
  const auto &list = *static_cast<NeighListKokkos<DeviceType> *>(pair().list);
  const auto atoms = on_host(list.d_ilist);
  const auto num_neighbors = on_host(list.d_numneigh);
  const auto neighbors = on_host(list.d_neighbors);
  firstneigh_.assign(atom->nlocal, nullptr);
  for (int ii = 0; ii < list.inum; ii++) firstneigh_[atoms(ii)] = neighbors.data() + atoms(ii) * neighbors.stride(0);
  build_neighborhood(
      *atom,
      {list.inum, atoms.data(), num_neighbors.data(), firstneigh_.data(), static_cast<int64_t>(neighbors.stride(1))},
      type_species, neighborhood, atom_row);
}

template <class DeviceType>
void PairAtomsKokkos<DeviceType>::add_results(const ResultRows &given) {
  const bool has_virials = pair().vflag_atom || pair().cvflag_atom;
  ResultRows rows = given;
  decltype(copy_to_space<DeviceType>(nullptr, 0)) forces, energies, virials;    // kept until the fence
  if (!rows.on_device) {
    forces = copy_to_space<DeviceType>(rows.forces, 3 * static_cast<size_t>(rows.num_rows));
    if (pair().eflag_atom) energies = copy_to_space<DeviceType>(rows.energies, rows.num_energies);
    if (has_virials) virials = copy_to_space<DeviceType>(rows.virials, 9 * static_cast<size_t>(rows.num_rows));
    rows.forces = forces.data();
    rows.energies = energies.data();
    rows.virials = virials.data();
  }
  const auto add = [](const char *label, int count, const auto &functor) {
    Kokkos::parallel_for(label, Kokkos::RangePolicy<DeviceType>(0, count), functor);
  };
  const auto f = atomKK->k_f.template view<DeviceType>();
  add("equi:forces", rows.num_rows, AddForces<decltype(f)>{rows, f});
  atomKK->modified(pair().execution_space, pair().datamask_modify);

  // Per-atom arrays are allocated again, as in LAMMPS's own styles: zero, and of the current length.
  const auto add_to_new = [&](auto &dual_view, auto &array, const char *name, const auto &add_to) {
    memoryKK->destroy_kokkos(dual_view, array);
    memoryKK->create_kokkos(dual_view, array, atom->nmax, name);
    add_to(dual_view.template view<DeviceType>());
    dual_view.template modify<DeviceType>();
    dual_view.sync_host();
  };
  if (pair().eflag_atom)
    add_to_new(k_eatom_, pair().eatom, "pair:eatom", [&](const auto &to) {
      add("equi:eatom", rows.num_energies, AddEnergies<std::decay_t<decltype(to)>>{rows, to});
    });
  if (pair().vflag_atom)
    add_to_new(k_vatom_, pair().vatom, "pair:vatom", [&](const auto &to) {
      add("equi:vatom", rows.num_rows, AddVirials<std::decay_t<decltype(to)>>{rows, to});
    });
  if (pair().cvflag_atom)
    add_to_new(k_cvatom_, pair().cvatom, "pair:cvatom", [&](const auto &to) {
      add("equi:cvatom", rows.num_rows, AddCentroidVirials<std::decay_t<decltype(to)>>{rows, to});
    });
  DeviceType().fence("equi: the evaluation's arrays are in use no more");
  check_launches();
}

}    // namespace equi

template class equi::PairAtomsKokkos<LMPDeviceType>;
#ifdef LMP_KOKKOS_GPU
template class equi::PairAtomsKokkos<LMPHostType>;
#endif

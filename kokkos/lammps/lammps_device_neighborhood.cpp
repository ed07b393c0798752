// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Builds neighborhoods from LAMMPS's neighbor lists on a device, and copies numbers between rows and atoms.

#include "kokkos/lammps/lammps_device_neighborhood.h"

#include "src/lammps/atoms/lammps_neighborhood.h"

#include "atom_kokkos.h"
#include "atom_masks.h"
#include "neigh_list_kokkos.h"

#include <climits>
#include <stdexcept>
#include <string>
#include <utility>

namespace equi {

using LAMMPS_NS::AtomKokkos;
using LAMMPS_NS::NeighList;
using LAMMPS_NS::NeighListKokkos;
using LAMMPS_NS::tagint;

template <class Tags, class Types, class Masks, class Positions, class Atoms, class Counts, class Neighbors>
void LammpsDeviceNeighborhood::build(const Tags &tag, const Types &type, const Masks &mask, const Positions &x,
                                     const Atoms &atoms, const Counts &num_neighbors, const Neighbors &neighbors,
                                     int num_listed, int num_local, int num_all) {
  const DeviceExec exec;
  DeviceNeighborList &n = list_;
  constexpr int MASK = NEIGHMASK;
  const int *type_species = scratch_.type_species.data();
  int *species = scratch_.species.reserve(num_all);    // like species_of_atom()
  Kokkos::parallel_for(
      "equi:species", DeviceRange(exec, 0, num_all),
      KOKKOS_LAMBDA(int64_t a) { species[a] = mask(a) & GROUP_ALL ? type_species[type(a)] : -1; });

  // first_copy: the first atom with the same ID, where owned atoms come before ghosts; -1 for ghosts without
  // species.
  int *first_copy = scratch_.first_copy.reserve(num_all);
  scratch_.ids.clear();
  if (scratch_.ids.capacity() < num_all + num_all / 4u) scratch_.ids.rehash(num_all + num_all / 2);
  while (true) {
    const auto ids = scratch_.ids;
    int *atom_of_id = scratch_.atom_of_id.reserve(ids.capacity());
    device_fill(exec, atom_of_id, ids.capacity(), INT_MAX);
    Kokkos::parallel_for(
        "equi:first_atoms", DeviceRange(exec, 0, num_all), KOKKOS_LAMBDA(int64_t a) {
          if (a >= num_local && species[a] < 0) return;
          const auto position = ids.insert(tag(a));
          if (!position.failed()) Kokkos::atomic_min(atom_of_id + position.index(), static_cast<int>(a));
        });
    exec.fence("equi: whether all IDs have a place");
    if (!ids.failed_insert()) {
      Kokkos::parallel_for(
          "equi:first_copies", DeviceRange(exec, 0, num_all), KOKKOS_LAMBDA(int64_t a) {
            const bool is_known = a < num_local || species[a] >= 0;
            first_copy[a] = is_known ? atom_of_id[ids.find(tag(a))] : -1;
          });
      break;
    }
    scratch_.ids.rehash(2 * ids.capacity());
  }

  // Receivers: those with owned senders only come first; both kinds are in the order of the list.
  int *row_of_atom = row_of_atom_.reserve(num_all);
  int *interior = scratch_.interior.reserve(num_listed), *border = scratch_.border.reserve(num_listed);
  device_fill(exec, row_of_atom, num_all, -1);
  Kokkos::parallel_for(
      "equi:receivers", DeviceRange(exec, 0, num_listed), KOKKOS_LAMBDA(int64_t k) {
        const int i = atoms(k);
        const bool is_receiver = species[i] >= 0;
        bool is_interior = is_receiver;
        for (int m = 0; is_interior && m < num_neighbors(i); m++)
          is_interior = first_copy[neighbors(i, m) & MASK] < num_local;
        interior[k] = is_interior;
        border[k] = is_receiver && !is_interior;
      });
  int *interior_position = scratch_.interior_position.reserve(num_listed + 1),
      *border_position = scratch_.border_position.reserve(num_listed + 1),
      *remote_position = scratch_.remote_position.reserve(num_all + 1);
  running_sums(
      exec, num_listed, KOKKOS_LAMBDA(int64_t k) { return interior[k]; }, interior_position);
  running_sums(
      exec, num_listed, KOKKOS_LAMBDA(int64_t k) { return border[k]; }, border_position);
  running_sums(
      exec, num_all, KOKKOS_LAMBDA(int64_t a) { return a >= num_local && first_copy[a] == a ? 1 : 0; },
      remote_position);
  int num_border, num_remote;
  copy_to_host(exec, &n.num_interior, interior_position + num_listed, 1);
  copy_to_host(exec, &num_border, border_position + num_listed, 1);
  copy_to_host(exec, &num_remote, remote_position + num_all, 1);
  n.num_atoms = num_all;
  n.num_receivers = n.num_interior + num_border;
  n.num_rows = n.num_receivers + num_remote;

  const int num_interior = n.num_interior, num_receivers = n.num_receivers;
  int *receiver = n.receiver.reserve(num_receivers), *row_species = n.row_species.reserve(n.num_rows);
  Kokkos::parallel_for(
      "equi:number_receivers", DeviceRange(exec, 0, num_listed), KOKKOS_LAMBDA(int64_t k) {
        if (!interior[k] && !border[k]) return;
        const int i = atoms(k), row = interior[k] ? interior_position[k] : num_interior + border_position[k];
        row_of_atom[i] = row;
        receiver[row] = i;
        row_species[row] = species[i];
      });
  Kokkos::parallel_for(
      "equi:number_remote", DeviceRange(exec, num_local, num_all), KOKKOS_LAMBDA(int64_t a) {
        if (first_copy[a] != a) return;
        row_of_atom[a] = num_receivers + remote_position[a];
        row_species[row_of_atom[a]] = species[a];
      });
  Kokkos::parallel_for(
      "equi:number_copies", DeviceRange(exec, num_local, num_all), KOKKOS_LAMBDA(int64_t a) {
        if (first_copy[a] >= 0 && first_copy[a] < a) row_of_atom[a] = row_of_atom[first_copy[a]];
      });

  // Counts candidates, then stores them in the order of their arrival.
  int *count = scratch_.count.reserve(num_receivers);
  Kokkos::parallel_for(
      "equi:count_senders", DeviceRange(exec, 0, num_receivers), KOKKOS_LAMBDA(int64_t row) {
        const int i = receiver[row];
        int sum = 0;
        for (int m = 0; m < num_neighbors(i); m++) sum += species[neighbors(i, m) & MASK] >= 0;
        count[row] = sum;
      });
  int64_t *first = n.first.reserve(num_receivers + 1);
  running_sums(
      exec, num_receivers, KOKKOS_LAMBDA(int64_t row) { return static_cast<int64_t>(count[row]); }, first);
  copy_to_host(exec, &n.num_candidates, first + num_receivers, 1);
  int *unsorted = scratch_.unsorted.reserve(n.num_candidates), *segment = scratch_.segment.reserve(n.num_candidates);
  Kokkos::parallel_for(
      "equi:fill_senders", DeviceRange(exec, 0, num_receivers), KOKKOS_LAMBDA(int64_t row) {
        const int i = receiver[row];
        int64_t c = first[row];
        for (int m = 0; m < num_neighbors(i); m++) {
          const int j = neighbors(i, m) & MASK;
          if (species[j] < 0) continue;
          unsorted[c] = j;
          segment[c++] = static_cast<int>(row);
        }
      });

  int *sender_atom = n.sender_atom.reserve(n.num_candidates), *sender_row = n.sender_row.reserve(n.num_candidates);
  sort_segments(
      exec, n.num_candidates, first, KOKKOS_LAMBDA(int64_t c) { return segment[c]; },
      KOKKOS_LAMBDA(int64_t a, int64_t b) {
        const int ja = unsorted[a], jb = unsorted[b];
        if (tag(ja) != tag(jb)) return tag(ja) < tag(jb);
        for (int k = 0; k < 3; k++)
          if (x(ja, k) != x(jb, k)) return x(ja, k) < x(jb, k);
        return a < b;
      },
      KOKKOS_LAMBDA(int64_t c, int64_t position) {
        sender_atom[position] = unsorted[c];
        sender_row[position] = row_of_atom[unsorted[c]];
      });

  tagint missing = 0;    // an ID
  Kokkos::parallel_reduce(
      "equi:missing", DeviceRange(exec, 0, n.num_candidates),
      KOKKOS_LAMBDA(int64_t c, tagint & largest) {
        if (sender_row[c] < 0 && tag(sender_atom[c]) > largest) largest = tag(sender_atom[c]);
      },
      Kokkos::Max<tagint>(missing));
  exec.fence("equi: whether all neighbors have a row");
  check_launches();
  if (missing > 0)
    throw std::runtime_error("atom " + std::to_string(missing) +
                             " is a neighbor but not in the neighbor list of pair style equi");
}

void LammpsDeviceNeighborhood::read_neighbor_list(AtomKokkos &atom, NeighList *list,
                                                  const std::vector<int> &type_species) {
  atom.sync(LAMMPS_NS::Device, X_MASK | TAG_MASK | TYPE_MASK | MASK_MASK);
  auto &of_device = *static_cast<NeighListKokkos<LammpsDeviceType> *>(list);
  assign(DeviceExec(), scratch_.type_species, type_species);
  build(atom.k_tag.template view<LammpsDeviceType>(), atom.k_type.template view<LammpsDeviceType>(),
        atom.k_mask.template view<LammpsDeviceType>(), atom.k_x.template view<LammpsDeviceType>(), of_device.d_ilist,
        of_device.d_numneigh, of_device.d_neighbors, list->inum, atom.nlocal, atom.nlocal + atom.nghost);
}

void LammpsDeviceNeighborhood::copy_candidates(Neighborhood &to) const {
  const DeviceExec exec;
  to.num_receivers = list_.num_receivers;
  to.receiver.resize(to.num_receivers);
  to.first.resize(to.num_receivers + 1);
  to.sender_atom.resize(list_.num_candidates);
  copy_to_host(exec, to.receiver.data(), list_.receiver.data(), to.receiver.size());
  copy_to_host(exec, to.first.data(), list_.first.data(), to.first.size());
  copy_to_host(exec, to.sender_atom.data(), list_.sender_atom.data(), to.sender_atom.size());
}

template <class Positions>
const double *LammpsDeviceNeighborhood::copy_positions(const Positions &x, int num_all) {
  double *to = positions_.reserve(3 * static_cast<int64_t>(num_all));
  Kokkos::parallel_for(
      "equi:positions", DeviceRange(DeviceExec(), 0, num_all), KOKKOS_LAMBDA(int64_t i) {
        for (int k = 0; k < 3; k++) to[3 * i + k] = x(i, k);
      });
  return to;
}

const double *LammpsDeviceNeighborhood::positions(AtomKokkos &atom) {
  atom.sync(LAMMPS_NS::Device, X_MASK);
  const auto x = atom.k_x.template view<LammpsDeviceType>();
  using View = std::decay_t<decltype(x)>;
  if constexpr (std::is_same_v<typename View::non_const_value_type, double> &&
                std::is_same_v<typename View::array_layout, Kokkos::LayoutRight>)
    return x.data();
  else
    return copy_positions(x, atom.nlocal + atom.nghost);
}

void LammpsDeviceNeighborhood::rows_of_atoms(int num_local, const double *of_atoms, double *rows) {
  const int *row_of_atom = row_of_atom_.data();
  Kokkos::parallel_for(
      "equi:rows_of_atoms", DeviceRange(DeviceExec(), 0, num_local), KOKKOS_LAMBDA(int64_t i) {
        const int64_t row = row_of_atom[i];
        for (int k = 0; row >= 0 && k < 3; k++) rows[3 * row + k] = of_atoms[3 * i + k];
      });
}

void LammpsDeviceNeighborhood::atoms_of_rows(int num_atoms, const double *rows, double factor, double *of_atoms) {
  const int *row_of_atom = row_of_atom_.data();
  Kokkos::parallel_for(
      "equi:atoms_of_rows", DeviceRange(DeviceExec(), 0, num_atoms), KOKKOS_LAMBDA(int64_t i) {
        const int64_t row = row_of_atom[i];
        for (int k = 0; k < 3; k++) of_atoms[3 * i + k] = row >= 0 ? factor * rows[3 * row + k] : 0.0;
      });
}

}    // namespace equi

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Converts LAMMPS's atoms and lists to rows and candidates, and counts the ranks of a node.
#include "src/lammps/atoms/lammps_neighborhood.h"

#include "atom.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace equi {

using LAMMPS_NS::Atom;
using LAMMPS_NS::tagint;

int species_of_atom(const Atom &atom, const std::vector<int> &type_species, int i) {
  return atom.mask[i] & GROUP_ALL ? type_species[atom.type[i]] : -1;
}

void build_neighborhood(const Atom &atom, const FullList &list, const std::vector<int> &type_species, Neighborhood &n,
                        std::vector<int> &atom_row) {
  const int nlocal = atom.nlocal, nall = atom.nlocal + atom.nghost;
  n.num_atoms = nall;
  n.receiver.clear();
  n.row_species.clear();
  n.sender_atom.clear();
  n.sender_row.clear();
  atom_row.assign(nall, -1);
  std::vector<int> species(nall);
  for (int i = 0; i < nall; i++) species[i] = species_of_atom(atom, type_species, i);

  // Owned atoms that are not in the list have no row, and neither have their images.
  std::unordered_map<tagint, int> row_of_tag;
  row_of_tag.reserve(2 * static_cast<size_t>(nlocal));
  for (int i = 0; i < nlocal; i++) row_of_tag[atom.tag[i]] = -1;
  std::vector<char> is_remote(nall, false);
  for (int g = nlocal; g < nall; g++) is_remote[g] = species[g] >= 0 && !row_of_tag.count(atom.tag[g]);

  std::vector<int> border;
  auto add_receiver = [&](int i) {
    row_of_tag[atom.tag[i]] = atom_row[i] = static_cast<int>(n.receiver.size());
    n.receiver.push_back(i);
    n.row_species.push_back(species[i]);
  };
  for (int ii = 0; ii < list.num_atoms; ii++) {
    const int i = list.atoms[ii];
    if (species[i] < 0) continue;
    bool is_interior = true;
    for (int k = 0; is_interior && k < list.num_neighbors[i]; k++)
      is_interior = !is_remote[list.firstneigh[i][k * list.stride] & NEIGHMASK];
    if (is_interior)
      add_receiver(i);
    else
      border.push_back(i);
  }
  n.num_interior = static_cast<int>(n.receiver.size());
  for (int i : border) add_receiver(i);
  n.num_receivers = static_cast<int>(n.receiver.size());
  for (int g = nlocal; g < nall; g++) {
    if (species[g] < 0) continue;
    const auto [entry, is_new] = row_of_tag.try_emplace(atom.tag[g], static_cast<int>(n.row_species.size()));
    if (is_new) n.row_species.push_back(species[g]);
    atom_row[g] = entry->second;
  }
  n.num_rows = static_cast<int>(n.row_species.size());

  n.first.assign(1, 0);
  std::vector<std::pair<tagint, int>> senders;    // ID and atom
  for (int i : n.receiver) {
    const int *neighbors = list.firstneigh[i];
    senders.clear();
    for (int k = 0; k < list.num_neighbors[i]; k++) {
      const int j = neighbors[k * list.stride] & NEIGHMASK;
      if (species[j] < 0) continue;
      if (atom_row[j] < 0)
        throw std::runtime_error("atom " + std::to_string(atom.tag[j]) +
                                 " is a neighbor but not in the neighbor list of pair style equi");
      senders.push_back({atom.tag[j], j});
    }
    std::sort(senders.begin(), senders.end(), [&](const auto &a, const auto &b) {
      if (a.first != b.first) return a.first < b.first;
      const double *xa = atom.x[a.second], *xb = atom.x[b.second];
      return std::lexicographical_compare(xa, xa + 3, xb, xb + 3);
    });
    for (const auto &[id, j] : senders) {
      n.sender_atom.push_back(j);
      n.sender_row.push_back(atom_row[j]);
    }
    n.first.push_back(static_cast<int64_t>(n.sender_atom.size()));
  }
}

namespace {

// The ranks of `world` that share this rank's memory.
class NodeComm {
 public:
  explicit NodeComm(MPI_Comm world) {
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm_);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }
  ~NodeComm() { MPI_Comm_free(&comm_); }
  NodeComm(const NodeComm &) = delete;
  NodeComm &operator=(const NodeComm &) = delete;
  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  MPI_Comm comm_;
  int rank_, size_;
};

}    // namespace

ThreadPlan threads_per_rank(MPI_Comm world, int processes) {
  NodeComm node(world);
  // A launcher may have bound each rank to separate cores, so the node's cores are those that any of its ranks may use.
  // Masks have the same length on a node, unless a rank could not read its own.
  std::vector<unsigned char> mine = affinity_mask();
  const int own_cores = count_cores(mine);
  int length = static_cast<int>(mine.size());
  MPI_Allreduce(MPI_IN_PLACE, &length, 1, MPI_INT, MPI_MAX, node.comm());
  mine.resize(length, 0);
  std::vector<unsigned char> all(length, 0);
  MPI_Allreduce(mine.data(), all.data(), length, MPI_BYTE, MPI_BOR, node.comm());
  const double cores = std::min<double>(count_cores(all), core_quota());
  return plan_threads(std::getenv("OMP_NUM_THREADS"), static_cast<int>(cores), own_cores, processes);
}

NodePlace node_place(MPI_Comm world, int partitions) {
  const NodeComm node(world);
  return {node.rank(), node.size(), processes_on_node(node.size(), partitions, launched_on_node(std::getenv))};
}

int ranks_on_device(MPI_Comm world, const DeviceIdentity &mine) {
  const NodeComm node(world);
  constexpr int BYTES = static_cast<int>(sizeof(DeviceIdentity));
  std::vector<DeviceIdentity> all(node.size());
  MPI_Allgather(mine.data(), BYTES, MPI_BYTE, all.data(), BYTES, MPI_BYTE, node.comm());
  return static_cast<int>(std::count(all.begin(), all.end(), mine));
}

}    // namespace equi

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Makes a Neighborhood from LAMMPS's atoms and full neighbor list, and collects what a rank must know of its node.

#ifndef EQUI_LAMMPS_NEIGHBORHOOD_H
#define EQUI_LAMMPS_NEIGHBORHOOD_H

#include "src/base/host_resources.h"
#include "src/evaluation/native_evaluators.h"
#include "src/geometry/neighbor_graph.h"

#include <mpi.h>

#include <vector>

namespace LAMMPS_NS {
class Atom;
}

namespace equi {

// A full neighbor list of LAMMPS as plain arrays in host memory: neighbor k of atom i is firstneigh[i][k * stride].
struct FullList {
  int num_atoms = 0;
  const int *atoms = nullptr;                // [num_atoms]
  const int *num_neighbors = nullptr;        // indexed by atom
  const int *const *firstneigh = nullptr;    // indexed by atom
  int64_t stride = 1;
};

// The bit of LAMMPS's group all in the masks of atoms. The model skips an atom without it. Monte Carlo fixes that need
// the energy without an atom remove it from all groups and leave it in place (fix gcmc full_energy). The atom then has
// no neighbors, but a model would still assign it an energy.
constexpr int GROUP_ALL = 1;
// The species of atom i, which may be a ghost; -1 for none. type_species [ntypes+1]: species of a type, -1 for none.
int species_of_atom(const LAMMPS_NS::Atom &atom, const std::vector<int> &type_species, int i);

// Rows follow lammps_exchange.h and neighbor_graph.h. Receivers are the atoms of the list that have a species; those
// with only owned senders come first. Images of receivers share their rows, and copies of one remote atom (recognized
// by its ID) share one. atom_row: set for all atoms, ghosts included. Candidates of a receiver are in the order of
// their IDs, and images of one atom in the order of their positions. So sums do not depend on how LAMMPS built its list
// or ordered its ghosts. Throws std::runtime_error if an owned neighbor has a species but is missing from the list.
void build_neighborhood(const LAMMPS_NS::Atom &atom, const FullList &list, const std::vector<int> &type_species,
                        Neighborhood &neighborhood, std::vector<int> &atom_row);

// Threads for this rank: OMP_NUM_THREADS if it is set, else the cores that the ranks of this node may use, divided by
// their number. processes: those of all partitions on the node. Collective over world.
ThreadPlan threads_per_rank(MPI_Comm world, int processes);

// This rank among the ranks of its node. processes: those of all partitions, as far as they are known. Collective over
// world.
struct NodePlace {
  int rank, num_ranks, processes;
};
NodePlace node_place(MPI_Comm world, int partitions);

// Number of ranks on this rank's node that use its GPU; all of them if there is none. Collective over world.
int ranks_on_device(MPI_Comm world, const DeviceIdentity &mine);

}    // namespace equi

#endif

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Computes the deviations between the models of a committee for LAMMPS.
#include "src/lammps/commands/compute_equi_deviation.h"

#include "src/lammps/evaluation/committee_deviation.h"
#include "src/lammps/pair/pair_equi.h"

#include "atom.h"
#include "error.h"
#include "force.h"
#include "group.h"
#include "memory.h"
#include "update.h"

#include <algorithm>
#include <limits>

using namespace LAMMPS_NS;

/* ----------------------------------------------------------------------
   compute ID group-ID equi/deviation
------------------------------------------------------------------------- */

ComputeEquiDeviation::ComputeEquiDeviation(LAMMPS *lmp, int narg, char **arg) : Compute(lmp, narg, arg) {
  if (narg != 3) error->all(FLERR, "Compute equi/deviation takes no arguments, found {}", narg - 3);
  peratom_flag = 1;
  size_peratom_cols = 0;
  vector_flag = 1;
  size_vector = 4;
  extvector = 0;
  vector = new double[size_vector];
}

ComputeEquiDeviation::~ComputeEquiDeviation() {
  memory->destroy(vector_atom);
  delete[] vector;
}

// Looked up each time: a new pair_style may have replaced it since the last setup.
PairEqui *ComputeEquiDeviation::pair() const {
  auto *pair = dynamic_cast<PairEqui *>(force->pair_match("^equi", 0));
  if (!pair) error->all(FLERR, "Compute equi/deviation needs one pair style equi");
  return pair;
}

void ComputeEquiDeviation::compute_peratom() {
  const int nlocal = atom->nlocal;
  if (nlocal > capacity_ || !vector_atom) {
    memory->destroy(vector_atom);
    capacity_ = std::max(atom->nmax, 1);
    memory->create(vector_atom, capacity_, "equi/deviation:vector_atom");
  }
  const double *deviation = pair()->deviation().force();
  for (int i = 0; i < nlocal; i++) vector_atom[i] = (atom->mask[i] & groupbit) ? deviation[i] : 0.0;
  invoked_peratom = update->ntimestep;
}

// Largest, mean and smallest deviation of the force on an atom of the group, and deviation of the energy per atom.
void ComputeEquiDeviation::compute_vector() {
  const double *deviation = pair()->deviation().force();
  double sum = 0.0, extremes[2] = {0.0, -std::numeric_limits<double>::infinity()};    // largest, minus the smallest
  for (int i = 0; i < atom->nlocal; i++) {
    if (!(atom->mask[i] & groupbit)) continue;
    sum += deviation[i];
    extremes[0] = std::max(extremes[0], deviation[i]);
    extremes[1] = std::max(extremes[1], -deviation[i]);
  }
  double all[2];
  MPI_Allreduce(&sum, &vector[1], 1, MPI_DOUBLE, MPI_SUM, world);
  MPI_Allreduce(extremes, all, 2, MPI_DOUBLE, MPI_MAX, world);
  const auto number = static_cast<double>(group->count(igroup));
  vector[0] = all[0];
  vector[1] = number > 0.0 ? vector[1] / number : 0.0;
  vector[2] = number > 0.0 ? -all[1] : 0.0;
  vector[3] = atom->natoms > 0 ? pair()->deviation().energy() / static_cast<double>(atom->natoms) : 0.0;
  invoked_vector = update->ntimestep;
}

double ComputeEquiDeviation::memory_usage() {
  return static_cast<double>(capacity_) * sizeof(double);
}

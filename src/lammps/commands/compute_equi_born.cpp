// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Prints the Born effective charges of atoms, and their sum.
#include "src/lammps/commands/compute_equi_born.h"

#include "src/lammps/commands/command_options.h"
#include "src/lammps/evaluation/pair_observables.h"
#include "src/lammps/faults/lammps_faults.h"
#include "src/lammps/pair/pair_equi.h"

#include "atom.h"
#include "error.h"
#include "memory.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <cmath>

using namespace LAMMPS_NS;

namespace {

constexpr char NAME[] = "Compute equi/born";

}    // namespace

/* ----------------------------------------------------------------------
   compute ID group-ID equi/born keyword value
------------------------------------------------------------------------- */

ComputeEquiBorn::ComputeEquiBorn(LAMMPS *lmp, int narg, char **arg) : Compute(lmp, narg, arg) {
  equi::read_options(
      lmp, NAME, narg - 3, arg + 3,
      {{"neutral", [&](const std::string &value) { neutral_ = utils::logical(FLERR, value, false, lmp); }}});
  peratom_flag = 1;
  size_peratom_cols = 9;
  vector_flag = 1;
  size_vector = 10;    // the sum of the Born charges, and the largest |dQ/dr|
  vector = new double[size_vector];
  extvector = -1;
  extlist = new int[size_vector];
  std::fill_n(extlist, 9, 1);
  extlist[9] = 0;
}

ComputeEquiBorn::~ComputeEquiBorn() {
  delete[] vector;
  delete[] extlist;
  memory->destroy(array_atom);
}

void ComputeEquiBorn::init() {
  pair().init_born_charges();
  evaluated_ = -1;
}

// Looked up each time: a new pair_style may have replaced it since the last setup. Under a hybrid style it is the first
// one whose models have charges, else the first one with dipoles.
PairEqui &ComputeEquiBorn::pair() const {
  return PairEqui::style_with_observable(lmp, {"charge", "dipole"}, NAME);
}

/* ---------------------------------------------------------------------- */

void ComputeEquiBorn::evaluate() {
  PairEqui &style = pair();
  if (update->whichflag == 0) style.check_same_atoms(true);
  charges_ = style.observables().born_charges(neutral_);
  evaluated_ = update->ntimestep;
}

void ComputeEquiBorn::compute_vector() {
  equi::local_try(error, world, NAME, [&] { evaluate(); });
  double sums[9] = {}, largest = 0.0;
  for (int i = 0; i < atom->nlocal; i++) {
    if (!(atom->mask[i] & groupbit)) continue;
    for (int k = 0; k < 9; k++) sums[k] += charges_.born[i][k];
    const auto &d = charges_.charge_derivative[i];
    largest = std::max(largest, std::sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]));
  }
  MPI_Allreduce(sums, vector, 9, MPI_DOUBLE, MPI_SUM, world);
  MPI_Allreduce(&largest, vector + 9, 1, MPI_DOUBLE, MPI_MAX, world);
  invoked_vector = update->ntimestep;
}

void ComputeEquiBorn::compute_peratom() {
  equi::local_try(error, world, NAME, [&] {
    // The results of the sums at this step are for the same atoms.
    if (invoked_vector != update->ntimestep || evaluated_ != update->ntimestep) evaluate();
    if (atom->nmax > capacity_ || !array_atom) {
      memory->destroy(array_atom);
      capacity_ = atom->nmax > 0 ? atom->nmax : 1;
      memory->create(array_atom, capacity_, 9, "equi/born:array_atom");
    }
    for (int i = 0; i < atom->nlocal; i++)
      for (int k = 0; k < 9; k++) array_atom[i][k] = atom->mask[i] & groupbit ? charges_.born[i][k] : 0.0;
  });
  invoked_peratom = update->ntimestep;
}

double ComputeEquiBorn::memory_usage() {
  return 9.0 * capacity_ * sizeof(double) + 13.0 * charges_.charge.capacity() * sizeof(double);
}

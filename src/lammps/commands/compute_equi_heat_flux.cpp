// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Computes the heat flux of pair style equi from energy moments.
#include "src/lammps/commands/compute_equi_heat_flux.h"

#include "src/lammps/evaluation/pair_derivatives.h"
#include "src/lammps/faults/lammps_faults.h"
#include "src/lammps/pair/pair_equi.h"

#include "atom.h"
#include "error.h"
#include "force.h"
#include "memory.h"
#include "update.h"

#include <cstring>

using namespace LAMMPS_NS;

/* ----------------------------------------------------------------------
   compute ID group-ID equi/heat/flux keyword value ...
------------------------------------------------------------------------- */

ComputeEquiHeatFlux::ComputeEquiHeatFlux(LAMMPS *lmp, int narg, char **arg) : Compute(lmp, narg, arg) {
  for (int k = 3; k < narg; k += 2) {
    if (strcmp(arg[k], "peratom") != 0 || k + 1 == narg)
      error->all(FLERR, "Compute equi/heat/flux: expected peratom yes or peratom no, found {}", arg[k]);
    peratom_flag = utils::logical(FLERR, arg[k + 1], false, lmp);
  }
  vector_flag = extvector = 1;
  size_vector = 6;
  vector = new double[size_vector];
  if (peratom_flag) size_peratom_cols = 6;
}

ComputeEquiHeatFlux::~ComputeEquiHeatFlux() {
  delete[] vector;
  memory->destroy(array_atom);
}

void ComputeEquiHeatFlux::init() {
  pair().init_energy_moments();
  evaluated_ = -1;
}

// Looked up each time: a new pair_style may have replaced it since the last setup.
PairEqui &ComputeEquiHeatFlux::pair() const {
  return PairEqui::only_style(lmp, "Compute equi/heat/flux");
}

/* ---------------------------------------------------------------------- */

// The flux of each atom of the group: (ke_i + e_i) v_i + sum over j of (r_i - r_j) (de_i/dr_j . v_j), and its first
// part.
void ComputeEquiHeatFlux::evaluate() {
  if (update->whichflag == 0) pair().check_same_atoms(true);
  const int nlocal = atom->nlocal;
  energies_.assign(nlocal + 1, 0.0);
  moments_.assign(nlocal + 1, {});
  flux_.assign(nlocal + 1, {});
  const auto *v = reinterpret_cast<const double(*)[3]>(nlocal > 0 ? atom->v[0] : nullptr);
  pair().derivatives().energy_moments(v, energies_.data(), reinterpret_cast<double(*)[3]>(moments_.data()));
  for (int i = 0; i < nlocal; i++) {
    if (!(atom->mask[i] & groupbit)) continue;
    const double mass = atom->rmass ? atom->rmass[i] : atom->mass[atom->type[i]];
    const double speed2 = v[i][0] * v[i][0] + v[i][1] * v[i][1] + v[i][2] * v[i][2];
    const double energy = 0.5 * force->mvv2e * mass * speed2 + energies_[i];
    for (int k = 0; k < 3; k++) {
      flux_[i][3 + k] = energy * v[i][k];
      flux_[i][k] = flux_[i][3 + k] + moments_[i][k];
    }
  }
  evaluated_ = update->ntimestep;
}

void ComputeEquiHeatFlux::compute_vector() {
  equi::local_try(error, world, "Compute equi/heat/flux", [&] { evaluate(); });
  double sum[6] = {};
  for (int i = 0; i < atom->nlocal; i++)
    for (int k = 0; k < 6; k++) sum[k] += flux_[i][k];
  MPI_Allreduce(sum, vector, 6, MPI_DOUBLE, MPI_SUM, world);
  invoked_vector = update->ntimestep;
}

void ComputeEquiHeatFlux::compute_peratom() {
  equi::local_try(error, world, "Compute equi/heat/flux", [&] {
    // The results of the vector at this step are for the same atoms.
    if (invoked_vector != update->ntimestep || evaluated_ != update->ntimestep) evaluate();
    if (atom->nmax > capacity_ || !array_atom) {
      memory->destroy(array_atom);
      capacity_ = atom->nmax > 0 ? atom->nmax : 1;
      memory->create(array_atom, capacity_, 6, "equi/heat/flux:array_atom");
    }
    for (int i = 0; i < atom->nlocal; i++)
      for (int k = 0; k < 6; k++) array_atom[i][k] = flux_[i][k];
  });
  invoked_peratom = update->ntimestep;
}

double ComputeEquiHeatFlux::memory_usage() {
  return 6.0 * capacity_ * sizeof(double) + energies_.capacity() * sizeof(double) +
         moments_.capacity() * sizeof(moments_[0]) + flux_.capacity() * sizeof(Flux);
}

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */
// How much the models of a committee differ, for fix pair of LAMMPS and for compute equi/deviation.
#include "src/lammps/pair/pair_equi_impl.h"

#include "src/evaluation/committee.h"
#include "src/lammps/faults/lammps_faults.h"

#include "atom.h"
#include "error.h"
#include "update.h"

#include <cmath>
#include <cstring>

using namespace LAMMPS_NS;

namespace {

constexpr const char *DEVIATION = "force_deviation", *DEVIATION_FLAG = "force_deviation_flag";

}    // namespace

void PairEqui::update_deviations() {
  if (impl->models.size() > 1 && impl->evaluation_step == update->ntimestep) check_same_atoms(false);
  if (impl->deviation_step != update->ntimestep) find_deviations();
}

void PairEqui::find_deviations() {
  const auto *committee = dynamic_cast<const equi::Committee *>(impl->evaluator.get());
  if (!committee) error->all(FLERR, "Pair style equi: deviations among models need several model files in pair_coeff");
  const bigint step = update->ntimestep;
  if (impl->evaluation_step != step) error->all(FLERR, "Pair style equi: no forces were computed on step {}", step);
  const int num_models = committee->size(), width = 3 * num_models, nlocal = atom->nlocal;

  // Sends the forces on ghosts to their owners.
  run_on_this_rank([&] {
    std::vector<double> &sums = impl->row_sums;
    sums.assign(static_cast<size_t>(impl->neighborhood.num_rows + 1) * width, 0.0);
    for (int i = 0; i < nlocal + atom->nghost; i++)
      for (int m = 0; impl->atom_row[i] >= 0 && m < num_models; m++)
        for (int k = 0; k < 3; k++)
          sums[static_cast<size_t>(impl->atom_row[i]) * width + 3 * m + k] += committee->forces(m)[i][k];
    impl->exchange->reverse(equi::FeaturePieces<double>{{sums.data(), width}});

    impl->force_deviation.assign(nlocal + 1, 0.0);
    for (int i = 0; i < nlocal; i++) {
      if (impl->atom_row[i] < 0) continue;
      const double *forces = sums.data() + static_cast<size_t>(impl->atom_row[i]) * width;
      double squares = 0.0;
      for (int k = 0; k < 3; k++) {
        double mean = 0.0;
        for (int m = 0; m < num_models; m++) mean += forces[3 * m + k] / num_models;
        for (int m = 0; m < num_models; m++) squares += std::pow(forces[3 * m + k] - mean, 2) / num_models;
      }
      impl->force_deviation[i] = impl->energy_unit * std::sqrt(squares);
    }
  });

  std::vector<double> mine(num_models), all(num_models);
  for (int m = 0; m < num_models; m++) mine[m] = committee->energy(m);
  MPI_Allreduce(mine.data(), all.data(), num_models, MPI_DOUBLE, MPI_SUM, world);
  double mean = 0.0, squares = 0.0;
  for (double energy : all) mean += energy / num_models;
  for (double energy : all) squares += (energy - mean) * (energy - mean) / num_models;
  impl->energy_deviation = impl->energy_unit * std::sqrt(squares);
  impl->deviation_step = step;
}

const double *PairEqui::force_deviation() {
  update_deviations();
  return impl->force_deviation.data();
}

double PairEqui::energy_deviation() {
  update_deviations();
  return impl->energy_deviation;
}

/* ----------------------------------------------------------------------
   for fix pair, which sets the flag before the steps that it reads on
------------------------------------------------------------------------- */

void *PairEqui::extract(const char *name, int &dim) {
  dim = 0;
  return impl->models.size() > 1 && std::strcmp(name, DEVIATION_FLAG) == 0 ? &impl->wants_deviation : nullptr;
}

void *PairEqui::extract_peratom(const char *name, int &num_columns) {
  num_columns = 0;
  if (impl->models.size() < 2 || std::strcmp(name, DEVIATION) != 0) return nullptr;
  impl->force_deviation.resize(atom->nlocal + 1);    // needed before the first evaluation
  return impl->force_deviation.data();
}

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Computes the deviations among the models of a committee.
#include "src/lammps/evaluation/committee_deviation.h"

#include "src/evaluation/committee.h"

#include "atom.h"
#include "error.h"
#include "update.h"

#include <cmath>

using namespace LAMMPS_NS;

namespace equi {

bool CommitteeDeviation::is_known() const {
  return step_ == update->ntimestep;
}

void CommitteeDeviation::find(PairRunner *runner, bigint evaluation_step) {
  const Committee *committee = runner ? runner->evaluator().committee() : nullptr;
  if (!committee) error->all(FLERR, "Pair style equi: deviations among models need several model files in pair_coeff");
  const bigint step = update->ntimestep;
  if (evaluation_step != step) error->all(FLERR, "Pair style equi: no forces were computed on step {}", step);
  const int num_models = committee->size();
  const double unit = runner->atoms().energy_unit();

  runner->try_step([&] {
    const auto forces = runner->forces_of_models();
    force_.assign(atom->nlocal + 1, 0.0);
    for (int i = 0; i < atom->nlocal; i++) {
      double squares = 0.0;
      for (int k = 0; k < 3; k++) {
        double mean = 0.0;
        for (const auto &of_model : forces) mean += of_model[i][k] / num_models;
        for (const auto &of_model : forces) squares += std::pow(of_model[i][k] - mean, 2) / num_models;
      }
      force_[i] = unit * std::sqrt(squares);
    }
  });

  std::vector<double> mine(num_models), all(num_models);
  for (int m = 0; m < num_models; m++) mine[m] = committee->energy(m);
  MPI_Allreduce(mine.data(), all.data(), num_models, MPI_DOUBLE, MPI_SUM, world);
  double mean = 0.0, squares = 0.0;
  for (double energy : all) mean += energy / num_models;
  for (double energy : all) squares += (energy - mean) * (energy - mean) / num_models;
  energy_ = unit * std::sqrt(squares);
  step_ = step;
}

int *CommitteeDeviation::flag(const std::string &name) {
  return name == "force_deviation_flag" ? &wants_ : nullptr;
}

double *CommitteeDeviation::peratom(const std::string &name) {
  if (name != "force_deviation") return nullptr;
  force_.resize(atom->nlocal + 1);    // needed before the first evaluation
  return force_.data();
}

}    // namespace equi

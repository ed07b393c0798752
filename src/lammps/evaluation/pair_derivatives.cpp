// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Computes derivatives along directions and converts them to LAMMPS's units.
#include "src/lammps/evaluation/pair_derivatives.h"

#include "atom.h"
#include "error.h"

using namespace LAMMPS_NS;

namespace equi {

void PairDerivatives::make_hessian(int kept_directions) {
  if (!hessian_ || kept_directions > kept_directions_) {
    hessian_.reset();
    kept_directions_ = kept_directions;
    EvaluatorOptions options = runner_.options();
    options.kept_directions = kept_directions;
    hessian_ = evaluators_.make_directional(evaluators_.maker(), options, "second derivatives");
    hessian_is_set_ = false;
  }
  runner_.atoms().reserve_buffers(hessian_->exchange_bytes_per_row());
}

void PairDerivatives::make_moments() {
  if (!moments_) {
    EvaluatorOptions options = runner_.options();
    options.energy_moments = true;
    moments_ = evaluators_.make_directional(evaluators_.maker(), options, "the heat flux");
    moments_are_set_ = false;
  }
  runner_.atoms().reserve_buffers(moments_->exchange_bytes_per_row());
}

double PairDerivatives::memory_bytes() const {
  double bytes = 0.0;
  for (const Evaluator *evaluator : {hessian_.get(), moments_.get()})
    if (evaluator) bytes += static_cast<double>(evaluator->memory_bytes());
  return bytes;
}

void PairDerivatives::check_hessian() const {
  if (!hessian_) error->all(FLERR, "Pair style equi: second derivatives were not asked for before the last setup");
}

void PairDerivatives::multiply_hessian(int count, const double (*const *v)[3], double (*const *hv)[3],
                                       bool same_positions) {
  check_hessian();
  runner_.try_step([&] {
    runner_.multiply_hessian(*hessian_, hessian_is_set_, count, v, hv, same_positions);
    hessian_is_set_ = true;
    for (int d = 0; d < count; d++)
      for (int i = 0; i < atom->nlocal; i++)
        for (int k = 0; k < 3; k++) hv[d][i][k] *= runner_.atoms().energy_unit();
  });
}

StrainDerivatives PairDerivatives::strain(const double strain[3][3], double (*force_tangents)[3]) {
  check_hessian();
  const double unit = runner_.atoms().energy_unit();
  EvaluationResult result;
  runner_.try_step([&] {
    result = runner_.derive_by_strain(*hessian_, hessian_is_set_, strain, force_tangents);
    hessian_is_set_ = true;
    for (int i = 0; i < atom->nlocal; i++)
      for (int k = 0; k < 3; k++) force_tangents[i][k] *= unit;
  });
  StrainDerivatives all;
  MPI_Allreduce(result.virial, all.virial, 6, MPI_DOUBLE, MPI_SUM, world);
  MPI_Allreduce(result.virial_tangent, all.virial_tangent, 6, MPI_DOUBLE, MPI_SUM, world);
  for (double *numbers : {all.virial, all.virial_tangent})
    for (int k = 0; k < 6; k++) numbers[k] *= unit;
  return all;
}

void PairDerivatives::energy_moments(const double (*v)[3], double *energies, double (*moments)[3]) {
  if (!moments_) error->all(FLERR, "Pair style equi: the heat flux was not asked for before the last setup");
  runner_.try_step([&] {
    runner_.energy_moments(*moments_, moments_are_set_, v, energies, moments);
    moments_are_set_ = true;
    const double unit = runner_.atoms().energy_unit();
    for (int i = 0; i < atom->nlocal; i++) {
      energies[i] *= unit;
      for (int k = 0; k < 3; k++) moments[i][k] *= unit;
    }
  });
}

}    // namespace equi

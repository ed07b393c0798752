// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Derivatives of pair style equi along directions: products of the Hessian with vectors of atoms, derivatives by
// strains, and the moments of the derivatives of atoms' energies.

#ifndef EQUI_PAIR_DERIVATIVES_H
#define EQUI_PAIR_DERIVATIVES_H

#include "src/lammps/evaluation/pair_evaluators.h"
#include "src/lammps/evaluation/pair_runner.h"

#include <memory>

namespace equi {

// In LAMMPS's units of energy per unit of strain: the virial of all ranks (xx,yy,zz,xy,xz,yz), and its derivative.
struct StrainDerivatives {
  double virial[6], virial_tangent[6];
};

// All functions are collective, and their results are in LAMMPS's units.
class PairDerivatives : public PairPart {
 public:
  PairDerivatives(LAMMPS_NS::LAMMPS *lmp, PairRunner &runner, const PairEvaluators &evaluators)
      : PairPart(lmp), runner_(runner), evaluators_(evaluators) {}

  // Make the evaluators unless they exist. kept_directions: EvaluatorOptions::kept_directions.
  void make_hessian(int kept_directions);
  void make_moments();
  void forget_neighborhood() { hessian_is_set_ = moments_are_set_ = false; }    // the runner has another one

  // These stop unless their evaluator has been made; vectors and results are those of this rank's atoms, [nlocal].
  // hv = H v for each of `count` vectors, where H is the matrix of second derivatives of this style's energy by the
  // positions. same_positions: nothing has moved since the last call.
  void multiply_hessian(int count, const double (*const *v)[3], double (*const *hv)[3], bool same_positions);
  // Derivatives by a homogeneous strain, those of forces at fixed fractional coordinates.
  StrainDerivatives strain(const double strain[3][3], double (*force_tangents)[3]);
  // The energies of atoms, and the moments of their derivatives, sum over j of (r_i - r_j) (de_i/dr_j . v_j)
  // (EvaluationRequest::energy_moments).
  void energy_moments(const double (*v)[3], double *energies, double (*moments)[3]);
  double memory_bytes() const;

 private:
  void check_hessian() const;

  PairRunner &runner_;
  const PairEvaluators &evaluators_;
  std::unique_ptr<Evaluator> hessian_, moments_;
  int kept_directions_ = 0;
  bool hessian_is_set_ = false, moments_are_set_ = false;    // whether they have the runner's neighborhood
};

}    // namespace equi

#endif

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The quantities of atoms that the models of the pair style compute besides the energy: charges, dipoles,
// polarizabilities.

#ifndef EQUI_PAIR_OBSERVABLES_H
#define EQUI_PAIR_OBSERVABLES_H

#include "src/lammps/evaluation/pair_evaluators.h"
#include "src/lammps/evaluation/pair_runner.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace equi {

class PairObservables : public PairPart {
 public:
  PairObservables(LAMMPS_NS::LAMMPS *lmp, PairRunner &runner, const PairEvaluators &evaluators)
      : PairPart(lmp), runner_(runner), evaluators_(evaluators) {}

  // Make the evaluators of observables, or of Born charges, unless they exist; they run on CPUs. Collective.
  void make();
  void make_born_charges();
  void forget_neighborhood() { is_set_ = born_is_set_ = false; }    // the runner has another one

  // Numbers of the present atoms of this rank [nlocal][Model::num_observable_numbers()], 0 for an atom without a
  // species; for a committee their means. Several calls for the same positions evaluate once. Call it after make().
  // Collective.
  const std::vector<double> &evaluate();
  // The Born charges of this rank's atoms, [nlocal] instead of receivers; 0 for an atom without a species, and means
  // for a committee. neutral: as BornEvaluation::evaluate(). Call it after make_born_charges(). Collective.
  BornCharges born_charges(bool neutral);
  double memory_bytes() const;

 private:
  bool is_evaluated() const;    // on all ranks, for the present positions

  PairRunner &runner_;
  const PairEvaluators &evaluators_;
  std::vector<std::unique_ptr<Evaluator>> members_;
  std::vector<std::unique_ptr<BornEvaluation>> born_members_;
  bool is_set_ = false, born_is_set_ = false;    // whether they have the runner's neighborhood
  std::vector<double> numbers_;
  std::vector<std::array<double, 3>> positions_;    // for which these are
};

}    // namespace equi

#endif

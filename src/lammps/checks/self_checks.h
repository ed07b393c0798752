// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The checks of `check yes`: the structures of the file and the kernels of the model, then laws that hold for the
// present system, and forces of a few of its atoms by differences of energies.

#ifndef EQUI_SELF_CHECKS_H
#define EQUI_SELF_CHECKS_H

#include "src/lammps/evaluation/pair_evaluators.h"
#include "src/lammps/evaluation/pair_runner.h"

#include <array>
#include <memory>
#include <vector>

namespace equi {

// All functions are collective, print what they measured, and stop with an error if it exceeds what is allowed.
class SelfChecks : public PairPart {
 public:
  SelfChecks(LAMMPS_NS::LAMMPS *lmp, const PairSettings &settings, PairRunner &runner, std::unique_ptr<Evaluator> plain)
      : PairPart(lmp), settings_(settings), runner_(runner), plain_(std::move(plain)) {}

  // Stored structures and kernels of each model.
  void check_models(EvaluatorMaker *maker) const;
  // After the first evaluation of a system.
  void check_evaluation();

 private:
  void check_system();
  // forces: of all atoms, ghosts included: contributions of this rank's receivers.
  void check_forces(const std::vector<std::array<double, 3>> &forces);
  void check_stored_structures(const Model &model, EvaluatorMaker *maker) const;
  void check_kernels(const Model &model) const;
  // Computed by the runner, or by plain loops.
  double total_energy(bool is_plain);

  const PairSettings &settings_;
  PairRunner &runner_;
  std::unique_ptr<Evaluator> plain_;    // plain loops, for comparison
};

}    // namespace equi

#endif

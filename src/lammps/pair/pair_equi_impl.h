// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The parts of PairEqui, for its own source and for that of equi/kk.

#ifndef LMP_PAIR_EQUI_IMPL_H
#define LMP_PAIR_EQUI_IMPL_H

#include "src/lammps/pair/pair_equi.h"

#include "src/lammps/checks/atom_checks.h"
#include "src/lammps/checks/bond_checks.h"
#include "src/lammps/checks/self_checks.h"
#include "src/lammps/checks/setup_checks.h"
#include "src/lammps/evaluation/committee_deviation.h"
#include "src/lammps/evaluation/pair_atoms.h"
#include "src/lammps/evaluation/pair_derivatives.h"
#include "src/lammps/evaluation/pair_evaluators.h"
#include "src/lammps/evaluation/pair_models.h"
#include "src/lammps/evaluation/pair_observables.h"
#include "src/lammps/evaluation/pair_runner.h"
#include "src/lammps/evaluation/pair_settings.h"

namespace LAMMPS_NS {

struct PairEqui::Impl {
  Impl(PairEqui &pair, LAMMPS *lmp)
      : models(lmp, settings),
        atoms(std::make_unique<equi::PairAtoms>(pair, lmp)),
        evaluators(lmp, settings, models, [&pair] { return pair.is_for_gpus(); }),
        setup_checks(lmp, settings, models),
        atom_checks(lmp, models),
        bond_checks(lmp, models),
        deviation(lmp) {}

  // Call before a command or a setup that may be refused: drops everything that was set up.
  void unset() {
    is_set_up = false;
    self_checks.reset();
    derivatives.reset();
    observables.reset();
    runner.reset();
  }

  // Whether there is an evaluation that can be used. Drops one that stopped anywhere.
  bool has_runner() {
    if (runner && runner->is_broken()) unset();
    return runner != nullptr;
  }

  equi::PairSettings settings;
  equi::PairModels models;
  std::unique_ptr<equi::PairAtoms> atoms;
  equi::PairEvaluators evaluators;
  equi::SetupChecks setup_checks;
  equi::AtomChecks atom_checks;
  equi::BondChecks bond_checks;
  equi::CommitteeDeviation deviation;

  bool is_set_up = false;    // init_style() has succeeded since the last pair_style or pair_coeff
  // For the present settings and models; null before the first setup.
  std::unique_ptr<equi::PairRunner> runner;
  std::unique_ptr<equi::PairDerivatives> derivatives;
  std::unique_ptr<equi::PairObservables> observables;
  std::unique_ptr<equi::SelfChecks> self_checks;    // with `check yes`, until the first evaluation has been checked

  bool wants_hessian = false, wants_moments = false, wants_observables = false, wants_born_charges = false;
  int kept_directions = 0;
  bool neighborhood_is_set = false;    // the runner has the neighborhood of the present list
  bool bonds_are_checked = false;      // since the last setup of a run
  bool memory_is_logged = false;
  double virial_trace = 0.0;    // trace over this rank's edges in the last evaluation, eV
};

}    // namespace LAMMPS_NS

#endif

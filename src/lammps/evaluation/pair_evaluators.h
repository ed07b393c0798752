// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Makes the evaluators of the models for the settings, and starts what they run on.

#ifndef EQUI_PAIR_EVALUATORS_H
#define EQUI_PAIR_EVALUATORS_H

#include "src/evaluation/born_charges.h"
#include "src/lammps/evaluation/pair_models.h"

#include <functional>
#include <memory>
#include <vector>

namespace equi {

using EvaluatorMaker = std::unique_ptr<Evaluator>(const Model &, const EvaluatorOptions &);

class PairEvaluators : public PairPart {
 public:
  // is_for_gpus: which kernels the keyword `kernels` selects with auto.
  PairEvaluators(LAMMPS_NS::LAMMPS *lmp, const PairSettings &settings, const PairModels &models,
                 std::function<bool()> is_for_gpus)
      : PairPart(lmp), settings_(settings), models_(models), is_for_gpus_(std::move(is_for_gpus)) {}

  // Starts Kokkos unless it runs, and returns the options of the settings, with the limit of the memory. Collective.
  EvaluatorOptions start() const;
  EvaluatorMaker *maker() const;
  // The mean of several models, each of which may use its share of the memory.
  std::unique_ptr<Evaluator> make(EvaluatorMaker *make, EvaluatorOptions options) const;
  // The layers of each model that lead to its observables, on CPUs. Throws std::invalid_argument if the models have
  // none, or different ones.
  std::vector<std::unique_ptr<Evaluator>> make_observables(EvaluatorOptions options) const;
  // For the Born charges of each model, on CPUs in float64. Throws as before if the models have neither charges nor
  // dipoles.
  std::vector<std::unique_ptr<BornEvaluation>> make_born_charges(EvaluatorOptions options) const;
  // Makes an evaluator with these options that computes derivatives along directions, and prints its description. name:
  // the derivatives. Collective.
  std::unique_ptr<Evaluator> make_directional(EvaluatorMaker *make, EvaluatorOptions options, const char *name) const;
  void log_models() const;

 private:
  void log_model(const Model &model) const;
  void check_observables(const Model &model) const;

  const PairSettings &settings_;
  const PairModels &models_;
  std::function<bool()> is_for_gpus_;
};

}    // namespace equi

#endif

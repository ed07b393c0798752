// SPDX-License-Identifier: MIT
// Evaluates the structures that are stored in a model file and compares the results with those of the framework.
#ifndef EQUI_SELF_CHECK_H
#define EQUI_SELF_CHECK_H

#include "src/evaluation/evaluator.h"

#include <functional>
#include <string>
#include <vector>

namespace equi {

// Largest allowed differences. If the largest force of the structure exceeds 1 eV/Angstrom, forces are relative to it.
// Stresses are likewise relative to the largest component above 1 eV/Angstrom^3.
struct CheckTolerance {
  double energy;    // eV/atom
  double force;     // eV/Angstrom
  double stress;    // eV/Angstrom^3
};
CheckTolerance check_tolerance(const EvaluatorOptions &options);

struct CheckResult {
  std::string name;
  int num_atoms = 0;
  double energy_error = 0.0, force_error = 0.0, stress_error = 0.0;    // units and scales of CheckTolerance
  bool passed = false;
};

// One result per stored structure. `make` receives the model reduced to the elements of the structure.
using EvaluatorFactory = std::function<std::unique_ptr<Evaluator>(const Model &, const EvaluatorOptions &)>;
std::vector<CheckResult> run_self_check(const Model &model, const EvaluatorOptions &options,
                                        const EvaluatorFactory &make);

}    // namespace equi

#endif

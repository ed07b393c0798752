// SPDX-License-Identifier: MIT
// Makes a HostEvaluation with every choice of a test.
#ifndef EQUI_TEST_MAKE_KOKKOS_H
#define EQUI_TEST_MAKE_KOKKOS_H

#include "kokkos/evaluation/host_evaluation.h"
#include "kokkos/plan/linear_folds.h"

#include <memory>

namespace equi {
namespace testing {

struct KokkosOptions {
  Precision precision = Precision::double_;
  bool radial_exact = false;
  bool deterministic = false;
  InstructionSet set = best_instruction_set();
  bool directional = false;
  int kept_directions = 0;
  bool energy_moments = false;
  double radial_tolerance = 0.0;
  double memory_limit = 0.0;
  bool folds = true;
  WaveVectorSet wave_vectors = WaveVectorSet::of_file;
  OpenSum open = OpenSum::framework;
};

inline std::unique_ptr<Evaluator> make_kokkos(const Model &model, const KokkosOptions &k = {}) {
  EvaluatorOptions options;
  options.precision = k.precision;
  options.radial_exact = k.radial_exact;
  options.deterministic = k.deterministic;
  options.directional = k.directional;
  options.kept_directions = k.kept_directions;
  options.energy_moments = k.energy_moments;
  options.radial_tolerance = k.radial_tolerance;
  options.memory_limit = k.memory_limit;
  options.wave_vectors = k.wave_vectors;
  options.open = k.open;
  return make_for_precision(options, [&](auto t, const EvaluatorOptions &o) -> std::unique_ptr<Evaluator> {
    return std::make_unique<HostEvaluation<decltype(t)>>(k.folds ? fold_linears(model) : model, o, k.set);
  });
}

}    // namespace testing
}    // namespace equi

#endif

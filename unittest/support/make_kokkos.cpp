// SPDX-License-Identifier: MIT
// Makes a HostEvaluation, whose code is compiled only here and not in each test.
#include "unittest/support/make_kokkos.h"

#include "kokkos/evaluation/host_evaluation.h"
#include "kokkos/plan/linear_folds.h"

namespace equi {
namespace testing {

std::unique_ptr<Evaluator> make_kokkos(const Model &model, const KokkosOptions &k) {
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

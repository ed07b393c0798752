// SPDX-License-Identifier: MIT
// Makes a HostEvaluation with every choice of a test.
#ifndef EQUI_TEST_MAKE_KOKKOS_H
#define EQUI_TEST_MAKE_KOKKOS_H

#include "kokkos/host_kernels/host_kernels.h"
#include "src/evaluation/evaluator.h"

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

std::unique_ptr<Evaluator> make_kokkos(const Model &model, const KokkosOptions &k = {});

}    // namespace testing
}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Which features the backward pass evaluates again, because that costs little compared with the memory that they need.
#ifndef EQUI_REPEATED_FEATURES_H
#define EQUI_REPEATED_FEATURES_H

#include "kokkos/plan/evaluation_plan.h"

#include <vector>

namespace equi {

// By feature.
struct RepeatedFeatures {
  // Evaluated again, into the scratch of the batch: before the backward pass of a batch, or with an exchanged input.
  std::vector<bool> in_batch;
  // Evaluated again with an exchanged input, and stored for the backward pass of the own stage: costly ones.
  std::vector<bool> restored;
};

// fixed: features that depend only on the species; needed_input: those whose values the backward pass needs. The stages
// of the plan and the layouts and consumers of its features must be known. Marks the steps and the exchanged inputs
// that are repeated in the plan.
RepeatedFeatures find_repeated_features(const Model &model, const std::vector<bool> &fixed,
                                        const std::vector<bool> &needed_input, bool is_lean, EvaluationPlan &plan);

}    // namespace equi

#endif

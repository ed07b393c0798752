// SPDX-License-Identifier: MIT
// Divides memory among features, and adjoints, that are needed at different times.
#ifndef EQUI_SHARED_MEMORIES_H
#define EQUI_SHARED_MEMORIES_H

#include "kokkos/plan/evaluation_plan.h"

#include <vector>

namespace equi {

// What is known of features when memory is divided; by feature.
struct FeatureUses {
  const std::vector<int> &memory;                      // the feature that owns the memory
  const std::vector<int> &first_stage, &last_stage;    // of the layers that use it
  const std::vector<bool> &keeps_adjoint;              // whether the adjoint is read after the batches of a stage
  const std::vector<bool> &needs_output;               // whether the layer that writes it needs its value
  const std::vector<bool> &is_restored;                // RepeatedFeatures::restored
};

// Sets EvaluationPlan::receiver_memories and the numbers of features in them.
void share_receiver_memories(const Model &model, const FeatureUses &uses, EvaluationPlan &plan);

// Sets EvaluationPlan::exchanged_memories and the numbers of features in them. gather_senders: make_evaluation_plan().
// The order of adjoints must be known.
void share_exchanged_memories(const Model &model, const FeatureUses &uses, bool gather_senders, bool has_slices,
                              EvaluationPlan &plan);

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The floating-point operations of a model, layer by layer (src/layers/operations.h), in the order of the evaluation
// plan.
#ifndef EQUI_OPERATION_COUNT_H
#define EQUI_OPERATION_COUNT_H

#include "kokkos/plan/evaluation_plan.h"
#include "src/layers/operations.h"

#include <vector>

namespace equi {

struct OperationCount {
  std::vector<LayerOperations> layers;    // indexed by the number of the layer in the model
  LayerOperations total() const;
};

// plan: a plan of this model for values only. An edge of a PairRepulsion counts if it is within its cutoff. The
// schedules of all targets have the same operations.
OperationCount count_operations(const Model &model, const EvaluationPlan &plan, const KernelTarget &target,
                                int rows_per_bin = QUINTIC_ROWS);

}    // namespace equi

#endif

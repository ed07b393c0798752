// SPDX-License-Identifier: MIT
// Counts the floating-point operations of a model's layers.
#include "kokkos/plan/operation_count.h"

#include <algorithm>

namespace equi {

LayerOperations OperationCount::total() const {
  LayerOperations sum;
  for (const LayerOperations &layer : layers) {
    sum.per_atom = sum.per_atom + layer.per_atom;
    sum.per_edge = sum.per_edge + layer.per_edge;
  }
  return sum;
}

OperationCount count_operations(const Model &model, const EvaluationPlan &plan, const KernelTarget &target,
                                int rows_per_bin) {
  OperationCount count;
  count.layers.resize(model.layers.size());
  OperationContext context{model.features, target, rows_per_bin};
  const auto add = [&](int number) {
    count.layers[number] =
        std::visit([&](const auto &layer) { return layer.operations(context); }, model.layers[number]);
  };
  for (const Stage &stage : plan.stages) {
    for (const Step &step : stage.steps) {
      context.fixed_input = step.fixed_input;
      add(step.layer);
    }
    for (const BalanceStep &step : stage.balances) add(step.layer);
  }
  for (size_t k = 0; k < model.layers.size(); ++k)
    if (traits(model.layers[k]).scales_energies) add(static_cast<int>(k));
  return count;
}

}    // namespace equi

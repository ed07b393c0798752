// SPDX-License-Identifier: MIT
// The memory of an evaluation's features and of their adjoints, divided as an EvaluationPlan says; on either back
// end.
#ifndef EQUI_FEATURE_MEMORY_H
#define EQUI_FEATURE_MEMORY_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/plan/evaluation_plan.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace equi {

// Some consecutive receivers and their memory.
template <class R>
struct BatchRows {
  int first, count;
  R *batch_features;          // storage batch: plan.stages[..].batch_row_size numbers for each row
  int64_t stage_first = 0;    // its first row in the storage stage
  bool is_backward = false;
};

// R: float or double. Array: Buffer<R> or DeviceBuffer<R>.
template <class R, class Array>
class FeatureMemory {
 public:
  // The plan must outlive this object.
  FeatureMemory(const EvaluationPlan &plan, int num_species)
      : plan_(plan),
        num_species_(num_species),
        feature_(plan.features.size()),
        adjoint_(plan.features.size()),
        receiver_(plan.receiver_memories.size()),
        exchanged_adjoint_(plan.exchanged_adjoints.size()) {}

  // num_rows, num_receivers: those of the neighborhood. stage_rows: receivers whose storage stage is kept at a time.
  void set_rows(int64_t num_rows, int64_t num_receivers, int64_t stage_rows) {
    num_rows_ = num_rows;
    num_receivers_ = num_receivers;
    stage_rows_ = stage_rows;
  }

  FeatureRows<R> rows(const BatchRows<R> &batch, int feature, bool adjoint) const {
    const FeaturePlan &plan = plan_.features[feature];
    feature = plan.memory;
    if (adjoint && plan.has_own_adjoint) {
      if (plan.adjoint_storage == Storage::batch)
        return {batch.batch_features + batch.count * plan.adjoint_offset, batch.count, 0};
      if (plan.adjoint_storage == Storage::owned)
        return {receiver_[plan.adjoint_receiver_memory].data(), num_receivers_, batch.first};
      return {adjoint_[feature].data(), num_rows_, batch.first};
    }
    if (plan.is_recomputed && batch.is_backward)
      return {batch.batch_features + batch.count * plan.recomputed_offset, batch.count, 0};
    switch (plan.storage) {
      case Storage::rows:
        return {adjoint ? exchanged_adjoint(plan.consumer) : feature_[feature].data(), num_rows_, batch.first};
      case Storage::owned:    // the adjoint replaces the value
        return {receiver_[plan.receiver_memory].data(), num_receivers_, batch.first};
      case Storage::stage:
        return {stage_.data() + stage_rows_ * plan.offset, stage_rows_, batch.stage_first};
      case Storage::batch:
        return {batch.batch_features + batch.count * plan.offset, batch.count, 0};
      case Storage::fixed:
        break;
    }
    return {feature_[feature].data(), num_species_, 0};
  }
  // All rows of a feature that is fixed or has storage rows.
  R *data(int feature) const { return feature_[plan_.features[feature].memory].data(); }
  // The adjoint of a stage's exchanged input, all rows.
  R *exchanged_adjoint(int stage) const {
    const int input = plan_.stages[stage].exchanged_input;
    const FeaturePlan &plan = plan_.features[input];
    return plan.has_own_adjoint ? adjoint_[input].data() : exchanged_adjoint_[plan.exchanged_adjoint].data();
  }

  // Calls f(array, size) for all arrays except those of fixed features.
  void for_arrays(const ArrayVisitor &f) {
    for (size_t k = 0; k < plan_.features.size(); k++) {
      const FeaturePlan &feature = plan_.features[k];
      if (feature.memory != static_cast<int>(k)) continue;
      const int64_t size = feature.layout.row_size();
      if (feature.storage == Storage::rows) f(feature_[k], num_rows_ * size);
      if (feature.has_own_adjoint && feature.adjoint_storage == Storage::rows) f(adjoint_[k], num_rows_ * size);
    }
    for (size_t k = 0; k < receiver_.size(); k++) f(receiver_[k], num_receivers_ * plan_.receiver_memories[k]);
    int64_t stage_row_size = 0;
    for (const Stage &stage : plan_.stages) stage_row_size = std::max(stage_row_size, stage.stage_row_size);
    f(stage_, stage_rows_ * stage_row_size);
    for (size_t k = 0; k < exchanged_adjoint_.size(); k++)
      f(exchanged_adjoint_[k], num_rows_ * plan_.exchanged_adjoints[k]);
  }
  // The same for fixed features, which have a row per species.
  void for_fixed_arrays(const std::function<void(Array &, int64_t)> &f) {
    for (size_t k = 0; k < feature_.size(); k++)
      if (plan_.features[k].storage == Storage::fixed)
        f(feature_[k], static_cast<int64_t>(num_species_) * plan_.features[k].layout.row_size());
  }

 private:
  const EvaluationPlan &plan_;
  int num_species_;
  int64_t num_rows_ = 0, num_receivers_ = 0, stage_rows_ = 0;
  std::vector<Array> feature_, adjoint_, receiver_;
  Array stage_;
  std::vector<Array> exchanged_adjoint_;    // FeaturePlan::exchanged_adjoint
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The memory of an evaluation's features and of their adjoints, divided as an EvaluationPlan says; on either back
// end.
#ifndef EQUI_FEATURE_MEMORY_H
#define EQUI_FEATURE_MEMORY_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/plan/evaluation_plan.h"
#include "src/base/owned_memory.h"

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
      : plan_(plan), num_species_(num_species), fixed_(plan.features.size()) {
    release_rows();
  }
  // Releases all arrays except those of fixed features, after the plan has changed.
  void release_rows() {
    const auto renew = [](std::vector<Array> &arrays, size_t count) {
      arrays.clear();
      arrays.resize(count);
    };
    renew(receiver_, plan_.receiver_memories.size());
    renew(exchanged_, plan_.exchanged_memories.size());
    renew(set_aside_, plan_.stages.size());
    stage_ = Array();
  }

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
      return {exchanged_[plan.exchanged_adjoint].data(), num_rows_, batch.first};
    }
    if (plan.is_recomputed && batch.is_backward)
      return {batch.batch_features + batch.count * plan.recomputed_offset, batch.count, 0};
    switch (plan.storage) {
      case Storage::rows:
        return {exchanged_[adjoint ? plan.exchanged_adjoint : plan.exchanged_value].data(), num_rows_, batch.first};
      case Storage::owned:    // the adjoint replaces the value
        return {receiver_[plan.receiver_memory].data(), num_receivers_, batch.first};
      case Storage::stage:
        return {stage_.data() + stage_rows_ * plan.offset, stage_rows_, batch.stage_first};
      case Storage::batch:
        return {batch.batch_features + batch.count * plan.offset, batch.count, 0};
      case Storage::fixed:
        break;
    }
    return {fixed_[feature].data(), num_species_, 0};
  }
  // All rows of a feature that is fixed or has storage rows.
  R *data(int feature) const {
    const FeaturePlan &plan = plan_.features[feature];
    return plan.storage == Storage::fixed ? fixed_[plan.memory].data() : exchanged_[plan.exchanged_value].data();
  }
  // The adjoint of a stage's exchanged input, all rows.
  R *exchanged_adjoint(int stage) const { return exchanged_[input_of(stage).exchanged_adjoint].data(); }
  // Calls f(rows of the exchanged input, rows set aside for them) with the remote rows, if the input is repeated.
  template <class F>
  void for_rows_set_aside(int stage, const F &f) const {
    const int64_t num_remote = num_rows_ - num_receivers_;
    if (plan_.stages[stage].repeated_stage < 0 || num_remote == 0) return;
    f(FeatureRows<R>{data(plan_.stages[stage].exchanged_input), num_rows_, num_receivers_},
      FeatureRows<R>{set_aside_[stage].data(), num_remote, 0});
  }

  // Calls f(array, size) for all arrays except those of fixed features.
  void for_arrays(const ArrayVisitor &f) {
    for (size_t k = 0; k < receiver_.size(); k++) f(receiver_[k], num_receivers_ * plan_.receiver_memories[k]);
    int64_t stage_row_size = 0;
    for (const Stage &stage : plan_.stages) stage_row_size = std::max(stage_row_size, stage.stage_row_size);
    f(stage_, stage_rows_ * stage_row_size);
    for (size_t k = 0; k < exchanged_.size(); k++) f(exchanged_[k], num_rows_ * plan_.exchanged_memories[k]);
    for (size_t s = 0; s < set_aside_.size(); s++)
      if (plan_.stages[s].repeated_stage >= 0)
        f(set_aside_[s], (num_rows_ - num_receivers_) * input_of(static_cast<int>(s)).layout.row_size());
  }
  void for_memory(const MemoryPartVisitor &f) const {
    visit_memory(part_of_memory("features of receivers", f), receiver_);
    visit_memory(part_of_memory("inputs of convolutions and their adjoints", f), exchanged_, set_aside_);
    visit_memory(part_of_memory("adjoints of convolutions' outputs", f), stage_);
    visit_memory(part_of_memory("tables, weights and scratch of layers", f), fixed_);
  }
  // Calls f(array, size) for those of fixed features, which have a row per species.
  void for_fixed_arrays(const std::function<void(Array &, int64_t)> &f) {
    for (size_t k = 0; k < fixed_.size(); k++)
      if (plan_.features[k].storage == Storage::fixed)
        f(fixed_[k], static_cast<int64_t>(num_species_) * plan_.features[k].layout.row_size());
  }

 private:
  const FeaturePlan &input_of(int stage) const { return plan_.features[plan_.stages[stage].exchanged_input]; }

  const EvaluationPlan &plan_;
  int num_species_;
  int64_t num_rows_ = 0, num_receivers_ = 0, stage_rows_ = 0;
  std::vector<Array> fixed_;        // by feature
  std::vector<Array> receiver_;     // EvaluationPlan::receiver_memories
  std::vector<Array> exchanged_;    // EvaluationPlan::exchanged_memories
  std::vector<Array> set_aside_;    // by stage: values of remote rows of its input, if that is repeated
  Array stage_;
};

}    // namespace equi

#endif

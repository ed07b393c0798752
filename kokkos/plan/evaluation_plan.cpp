// SPDX-License-Identifier: MIT
// Divides a model's layers into stages, and decides where features and adjoints are stored.
#include "kokkos/plan/evaluation_plan.h"

#include "kokkos/plan/repeated_features.h"
#include "kokkos/plan/shared_memories.h"
#include "src/base/model_limits.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace equi {

// The reader of models limits the memory of features and matrices in this layout.
static_assert(CHANNEL_PAD <= PADDED_CHANNELS);

namespace {

// The outputs of nonlinear layers, and the adjoints of their inputs, cannot be separated from what other layers add.
bool can_keep_values(const Model &model) {
  std::vector<int> writers(model.features.size(), 0), readers(model.features.size(), 0);
  for (const Layer &layer : model.layers) {
    const Ports p = ports(layer);
    if (p.output >= 0) writers[p.output]++;
    p.for_inputs([&](int f) { readers[f]++; });
  }
  for (const Layer &layer : model.layers) {
    const Ports p = ports(layer);
    const LayerTraits t = traits(layer);
    if (p.output >= 0 && writers[p.output] > 1 && !t.is_linear) return false;
    if (p.keeps_input && (readers[p.input] > 1 || p.second_input >= 0)) return false;
    if (t.tangents_need_values) return false;
  }
  return true;
}

// Makes a plan, step by step in the order of its functions.
class PlanMaker {
 public:
  PlanMaker(const Model &model, bool gather_senders, const PlanMemory &saving, EvaluationPlan plan)
      : model_(model),
        gather_senders_(gather_senders),
        saving_(saving),
        plan_(std::move(plan)),
        num_features_(static_cast<int>(model.features.size())),
        memory_(num_features_),
        first_stage_(num_features_, -1),
        last_stage_(num_features_, -1),
        readers_(num_features_, 0),
        fixed_(num_features_, true),
        kept_output_(num_features_, false),
        needed_input_(num_features_, false),
        needed_output_(num_features_, false),
        kept_value_(num_features_, false),
        kept_adjoint_(num_features_, false),
        needs_own_adjoint_(num_features_, false) {
    std::iota(memory_.begin(), memory_.end(), 0);
    for (const Layer &layer : model.layers)
      if (const Ports p = ports(layer); traits(layer).changes_in_place) memory_[p.output] = memory_[p.input];
    for (const Layer &layer : model.layers)
      if (const Ports p = memory_ports(layer); p.keeps_output)
        needed_output_[p.output] = needed_input_[p.output] = true;
  }

  EvaluationPlan make() {
    plan_.features.resize(num_features_);
    for (int f = 0; f < num_features_; f++) plan_.features[f].layout = FeatureLayout(model_.features[f], plan_.planes);
    find_fixed_features();
    divide_into_stages();
    plan_.fuses_last_stage = !plan_.keeps_values;
    const RepeatedFeatures repeated = find_repeated_features(model_, fixed_, needed_input_, saving_.is_lean, plan_);
    for (int f = 0; f < num_features_; f++) {
      plan_.features[f].memory = memory_[f];
      if (memory_[f] == f) place_feature(f, repeated.in_batch[f]);
    }
    order_adjoints();
    const FeatureUses uses{memory_, first_stage_, last_stage_, kept_output_, needed_output_, repeated.restored};
    share_receiver_memories(model_, uses, plan_);
    share_exchanged_memories(model_, uses, gather_senders_, saving_.has_slices, plan_);
    for (int f = 0; f < num_features_; f++) plan_.features[f] = plan_.features[memory_[f]];
    return std::move(plan_);
  }

 private:
  // Ports named by the features that own the memory.
  Ports memory_ports(const Layer &layer) const {
    Ports p = ports(layer);
    for (int *f : {&p.input, &p.output, &p.second_input})
      if (*f >= 0) *f = memory_[*f];
    return p;
  }

  // A feature is fixed if all layers that write it read only fixed features and are not convolutions. All writers
  // must be known for this, so start from "all fixed" and remove features until nothing changes.
  void find_fixed_features() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Layer &layer : model_.layers) {
        const Ports p = memory_ports(layer);
        if (p.output < 0 || !fixed_[p.output]) continue;
        bool is_fixed = !traits(layer).depends_on_edges && !traits(layer).sums_over_atoms;
        p.for_inputs([&](int f) { is_fixed = is_fixed && fixed_[f]; });
        if (is_fixed) continue;
        fixed_[p.output] = false;
        changed = true;
      }
    }
  }

  void divide_into_stages() {
    plan_.stages.emplace_back();
    int num_pair_energies = 0;
    for (size_t k = 0; k < model_.layers.size(); k++) {
      const Layer &layer = model_.layers[k];
      const Ports p = memory_ports(layer);
      const int number = static_cast<int>(k);
      const LayerTraits t = traits(layer);
      if (t.scales_energies) continue;
      if (t.needs_geometric_input && fixed_[p.input])
        throw std::invalid_argument("feature " + model_.feature_names[p.input] +
                                    " depends on the species alone, which a layer of type " + layer_type(layer) +
                                    " cannot read");
      if (t.adds_pair_energy && p.input < 0) {    // before the other layers
        plan_.stages.front().steps.insert(plan_.stages.front().steps.begin() + num_pair_energies++, {number});
      } else if (p.output >= 0 && fixed_[p.output]) {
        plan_.fixed_layers.push_back(number);
      } else if (t.sums_over_atoms) {
        const Stage &last = plan_.stages.back();
        if (!last.steps.empty() || last.exchanged_input >= 0) plan_.stages.emplace_back();
        plan_.stages.back().balances.push_back({number});
        const int present = static_cast<int>(plan_.stages.size()) - 1;
        if (!t.changes_in_place) {    // the batches of the stage read what the layer has summed up
          add_step(layer, p, number, present);
          continue;
        }
        needs_own_adjoint_[p.output] = needs_own_adjoint_[p.output] || t.needs_own_adjoint;
        last_stage_[p.output] = present;
      } else {
        add_step(layer, p, number, stage_of(layer, p));
      }
    }
  }

  // The stage of a feature's first convolution includes the other ones.
  int stage_of(const Layer &layer, const Ports &p) {
    const int present = static_cast<int>(plan_.stages.size()) - 1;
    const LayerTraits t = traits(layer);
    if (!(t.reads_senders || t.far_cutoff > 0.0) || fixed_[p.input]) return present;
    FeaturePlan &input = plan_.features[p.input];
    if (input.consumer < 0) {
      input.consumer = present + 1;
      plan_.stages.emplace_back();
      plan_.stages.back().exchanged_input = p.input;
      plan_.max_exchanged_row_size = std::max(plan_.max_exchanged_row_size, input.layout.row_size());
    }
    if (t.reads_senders) {
      kept_output_[p.output] = gather_senders_;
      plan_.stages[input.consumer].returns_adjoints = true;
    }
    return input.consumer;
  }

  void add_step(const Layer &layer, const Ports &p, int number, int stage) {
    p.for_inputs([&](int f) {
      readers_[f]++;
      if (p.keeps_input) needed_input_[f] = true;
    });
    if (plan_.keeps_values && traits(layer).is_readout) kept_value_[p.input] = true;
    if (plan_.keeps_values && p.output >= 0 && !traits(layer).is_linear) kept_adjoint_[p.output] = true;
    Step step;
    step.layer = number;
    step.second_input = ports(layer).second_input;
    p.for_inputs([&](int f) { step.fixed_input = step.fixed_input || fixed_[f]; });
    if (step.fixed_input && p.keeps_input)
      throw std::invalid_argument("feature " + model_.feature_names[p.output] +
                                  " mixes a gate, a normalization or a contraction of a fixed feature with others");
    plan_.stages[stage].steps.push_back(step);
    for (int f : {p.input, p.second_input, p.output}) {
      if (f < 0) continue;
      if (first_stage_[f] < 0) first_stage_[f] = stage;
      last_stage_[f] = stage;
    }
  }

  // Decides where a feature and its adjoint are stored.
  void place_feature(int f, bool is_again) {
    FeaturePlan &feature = plan_.features[f];
    const bool is_one_stage = first_stage_[f] == last_stage_[f];
    const bool is_of_fused_stage =
        plan_.fuses_last_stage && is_one_stage && first_stage_[f] == static_cast<int>(plan_.stages.size()) - 1;
    // The backward pass finds the value in the scratch of the batch.
    const bool is_in_batch = is_again || is_of_fused_stage;
    feature.is_recomputed = is_again && !is_one_stage;
    feature.has_own_adjoint =
        !fixed_[f] && first_stage_[f] >= 0 &&
        (plan_.keeps_values || needs_own_adjoint_[f] || needed_output_[f] || (needed_input_[f] && readers_[f] > 1));
    if (fixed_[f])
      feature.storage = Storage::fixed;
    else if (feature.consumer >= 0)
      feature.storage = Storage::rows;
    else if ((needed_input_[f] && !is_in_batch) || kept_value_[f] || !is_one_stage)
      feature.storage = Storage::owned;
    else if (first_stage_[f] >= 0) {
      Stage &stage = plan_.stages[first_stage_[f]];
      const bool is_of_stage = kept_output_[f] && !feature.has_own_adjoint;    // the adjoint outlives the batch
      feature.storage = is_of_stage ? Storage::stage : Storage::batch;
      feature.offset = take(is_of_stage ? stage.stage_row_size : stage.batch_row_size, feature);
    }
    if (feature.is_recomputed) {
      feature.recomputed_offset = take(plan_.stages[first_stage_[f]].batch_row_size, feature);
      feature.has_own_adjoint = true;
    }
    if (!feature.has_own_adjoint) return;
    if (feature.storage == Storage::rows)
      feature.adjoint_storage = Storage::rows;
    else if (kept_adjoint_[f] || kept_output_[f] || !is_one_stage)
      feature.adjoint_storage = Storage::owned;
    else if (feature.storage == Storage::batch && !is_in_batch)
      feature.adjoint_offset = feature.offset;
    else
      feature.adjoint_offset = take(plan_.stages[first_stage_[f]].batch_row_size, feature);
  }
  // Reserves numbers per row for the feature after those in use, and returns their offset.
  static int64_t take(int64_t &used, const FeaturePlan &feature) {
    const int64_t offset = used;
    used += feature.layout.row_size();
    return offset;
  }

  // The first layer of the backward order that writes the adjoint of receivers' rows overwrites it; contributions to
  // senders are added later. A layer whose output has no adjoint is skipped.
  void order_adjoints() {
    std::vector<bool> has_adjoint(num_features_, false), written(num_features_, false);
    for (auto stage = plan_.stages.rbegin(); stage != plan_.stages.rend(); ++stage) {
      stage->input_adjoint_is_begun = stage->exchanged_input >= 0 && written[stage->exchanged_input];
      for (auto step = stage->steps.rbegin(); step != stage->steps.rend(); ++step) {
        const Layer &layer = model_.layers[step->layer];
        const Ports p = memory_ports(layer);
        if (p.input < 0 || (p.output >= 0 && !has_adjoint[p.output]) || traits(layer).has_no_adjoint) continue;
        if (step->fixed_input && !reads_senders(layer)) continue;
        p.for_inputs([&](int f) {
          (f == p.second_input ? step->second_adjoint : step->adjoint) =
              written[f] ? Step::Adjoint::add : Step::Adjoint::overwrite;
          if (step->fixed_input) return;
          has_adjoint[f] = true;
          if (!reads_senders(layer) || reads_receivers(layer)) written[f] = true;
        });
      }
      stage->input_adjoint_is_written = stage->exchanged_input >= 0 && written[stage->exchanged_input];
      // The sums of senders exist before layers of earlier stages that read the feature add to them.
      if (stage->exchanged_input >= 0 && has_adjoint[stage->exchanged_input]) written[stage->exchanged_input] = true;
      for (BalanceStep &balance : stage->balances) {
        const int output = memory_ports(model_.layers[balance.layer]).output;
        balance.has_adjoint = output >= 0 && has_adjoint[output];
      }
    }
  }

  const Model &model_;
  bool gather_senders_;
  PlanMemory saving_;
  EvaluationPlan plan_;
  int num_features_;
  // By feature: the feature that owns its memory, stages, numbers of readers.
  std::vector<int> memory_, first_stage_, last_stage_, readers_;
  std::vector<bool> fixed_, kept_output_, needed_input_, needed_output_, kept_value_, kept_adjoint_, needs_own_adjoint_;
};

}    // namespace

EvaluationPlan make_evaluation_plan(const Model &model, bool gather_senders, bool duals, int kept_directions,
                                    int directions, const PlanMemory &memory) {
  EvaluationPlan plan;
  plan.keeps_values = kept_directions > 0 && can_keep_values(model);
  plan.planes = plan.keeps_values ? 1 + kept_directions : duals ? 1 + directions : 1;
  return PlanMaker(model, gather_senders, memory, std::move(plan)).make();
}

}    // namespace equi

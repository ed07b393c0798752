// SPDX-License-Identifier: MIT
#include "kokkos/layers/evaluation_plan.h"

#include "src/base/model_limits.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace equi {

// The reader bounds what features and matrices take in this layout.
static_assert(CHANNEL_PAD <= PADDED_CHANNELS);

namespace {

template <class L>
bool is(const Layer &layer) {
  return std::holds_alternative<L>(layer);
}

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
    if (p.output >= 0 && writers[p.output] > 1 && !is<Linear>(layer)) return false;
    if (p.keeps_input && (readers[p.input] > 1 || p.second_input >= 0)) return false;
    if (const auto *c = std::get_if<Convolution>(&layer); c && c->radial.reads_features()) return false;
    if (is<So2Convolution>(layer) || is<ChannelBalance>(layer) || is<Coulomb>(layer)) return false;
  }
  return true;
}

// Adjoints of exchanged inputs share memory where their stages, from the first to the last, do not overlap.
void share_exchanged_adjoints(EvaluationPlan &plan, const std::vector<int> &first_stage,
                              const std::vector<int> &last_stage) {
  for (const Stage &stage : plan.stages) {
    const int f = stage.exchanged_input;
    if (f < 0 || plan.features[f].has_own_adjoint) continue;
    const auto overlaps = [&](size_t memory) {
      for (const Stage &other : plan.stages) {
        const int g = other.exchanged_input;
        if (g >= 0 && plan.features[g].exchanged_adjoint == static_cast<int>(memory) &&
            first_stage[g] <= last_stage[f] && first_stage[f] <= last_stage[g])
          return true;
      }
      return false;
    };
    size_t memory = 0;
    while (memory < plan.exchanged_adjoints.size() && overlaps(memory)) memory++;
    if (memory == plan.exchanged_adjoints.size()) plan.exchanged_adjoints.push_back(0);
    plan.features[f].exchanged_adjoint = static_cast<int>(memory);
    plan.exchanged_adjoints[memory] = std::max(plan.exchanged_adjoints[memory], plan.features[f].layout.row_size());
  }
}

}    // namespace

EvaluationPlan make_evaluation_plan(const Model &model, bool gather_senders, bool duals, int kept_directions,
                                    int directions) {
  EvaluationPlan plan;
  plan.keeps_values = kept_directions > 0 && !gather_senders && can_keep_values(model);
  plan.planes = plan.keeps_values ? 1 + kept_directions : duals ? 1 + directions : 1;
  const int num_features = static_cast<int>(model.features.size());
  plan.features.resize(num_features);
  for (int f = 0; f < num_features; f++) plan.features[f].layout = FeatureLayout(model.features[f], plan.planes);
  std::vector<int> memory(num_features);
  std::iota(memory.begin(), memory.end(), 0);
  for (const Layer &layer : model.layers)
    if (const auto *b = std::get_if<ChannelBalance>(&layer)) memory[b->output] = memory[b->input];
  const auto memory_ports = [&](const Layer &layer) {
    Ports p = ports(layer);
    for (int *f : {&p.input, &p.output, &p.second_input})
      if (*f >= 0) *f = memory[*f];
    return p;
  };

  // Fixed features: every layer that writes them reads fixed features only and is not a convolution. Deciding this
  // needs all writers of a feature, so start from "all fixed" and strike out until nothing changes.
  std::vector<bool> fixed(num_features, true);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Layer &layer : model.layers) {
      const Ports p = memory_ports(layer);
      if (p.output < 0 || !fixed[p.output]) continue;
      bool is_fixed = !reads_senders(layer) && !is<DensityNormalization>(layer) && !is<ChannelBalance>(layer);
      p.for_inputs([&](int f) { is_fixed = is_fixed && fixed[f]; });
      if (!is_fixed) {
        fixed[p.output] = false;
        changed = true;
      }
    }
  }

  std::vector<int> first_stage(num_features, -1), last_stage(num_features, -1), readers(num_features, 0);
  std::vector<bool> kept_output(num_features, false), needed_input(num_features, false),
      kept_value(num_features, false), kept_adjoint(num_features, false), has_shares(num_features, false);
  plan.stages.emplace_back();
  int num_repulsions = 0;
  for (size_t k = 0; k < model.layers.size(); k++) {
    const Layer &layer = model.layers[k];
    const Ports p = memory_ports(layer);
    if (is<ScaleShift>(layer)) continue;
    if (is<PairRepulsion>(layer)) {    // no features: before the others
      plan.stages.front().steps.insert(plan.stages.front().steps.begin() + num_repulsions++, {static_cast<int>(k)});
      continue;
    }
    if (p.output >= 0 && fixed[p.output]) {
      if (is<SymmetricContraction>(layer) || is<NodeProduct>(layer))
        throw std::invalid_argument("feature " + model.feature_names[p.input] +
                                    " depends on the species alone and is contracted");
      plan.fixed_layers.push_back(static_cast<int>(k));
      continue;
    }
    if (const auto *balance = std::get_if<ChannelBalance>(&layer)) {
      has_shares[p.output] = has_shares[p.output] || balance->has_shares();
      const Stage &last = plan.stages.back();
      if (!last.steps.empty() || last.exchanged_input >= 0) plan.stages.emplace_back();
      plan.stages.back().balances.push_back({static_cast<int>(k)});
      last_stage[p.output] = static_cast<int>(plan.stages.size()) - 1;
      continue;
    }
    int stage = static_cast<int>(plan.stages.size()) - 1;
    if ((reads_senders(layer) || is<Coulomb>(layer)) && !fixed[p.input]) {
      FeaturePlan &input = plan.features[p.input];
      if (input.consumer < 0) {
        input.consumer = static_cast<int>(plan.stages.size());
        plan.stages.emplace_back();
        plan.stages.back().exchanged_input = p.input;
        plan.max_exchanged_row_size = std::max(plan.max_exchanged_row_size, input.layout.row_size());
      }
      stage = input.consumer;    // that of the first convolution of this feature takes the others too
      if (!is<Coulomb>(layer)) {
        kept_output[p.output] = gather_senders;
        plan.stages[stage].returns_adjoints = true;
      }
    }
    p.for_inputs([&](int f) {
      readers[f]++;
      if (p.keeps_input) needed_input[f] = true;
    });
    if (plan.keeps_values && is<Readout>(layer)) kept_value[p.input] = true;
    if (plan.keeps_values && p.output >= 0 && !is<Linear>(layer)) kept_adjoint[p.output] = true;
    Step step;
    step.layer = static_cast<int>(k);
    step.second_input = ports(layer).second_input;
    p.for_inputs([&](int f) { step.fixed_input = step.fixed_input || fixed[f]; });
    if (step.fixed_input && is<Coulomb>(layer))
      throw std::invalid_argument("feature " + model.feature_names[p.input] +
                                  " depends on the species alone and has a Coulomb energy");
    if (step.fixed_input && is<Readout>(layer))
      throw std::invalid_argument("feature " + model.feature_names[p.input] +
                                  " depends on the species alone and is read out");
    if (step.fixed_input && p.keeps_input)
      throw std::invalid_argument("feature " + model.feature_names[p.output] +
                                  " mixes a gate, a normalization or a contraction of a fixed feature with others");
    plan.stages[stage].steps.push_back(step);
    for (int f : {p.input, p.second_input, p.output}) {
      if (f < 0) continue;
      if (first_stage[f] < 0) first_stage[f] = stage;
      last_stage[f] = stage;
    }
  }

  for (int f = 0; f < num_features; f++) {
    FeaturePlan &feature = plan.features[f];
    feature.memory = memory[f];
    if (feature.memory != f) continue;
    const bool is_one_stage = first_stage[f] == last_stage[f];
    feature.has_own_adjoint =
        !fixed[f] && first_stage[f] >= 0 && (plan.keeps_values || has_shares[f] || (needed_input[f] && readers[f] > 1));
    if (fixed[f])
      feature.storage = Storage::fixed;
    else if (feature.consumer >= 0)
      feature.storage = Storage::rows;
    else if (needed_input[f] || kept_value[f] || !is_one_stage)
      feature.storage = Storage::owned;
    else if (first_stage[f] >= 0) {
      Stage &stage = plan.stages[first_stage[f]];
      feature.storage = kept_output[f] ? Storage::stage : Storage::batch;
      int64_t &used = kept_output[f] ? stage.stage_row_size : stage.batch_row_size;
      feature.offset = used;
      used += feature.layout.row_size();
    }
    if (!feature.has_own_adjoint) continue;
    if (feature.storage == Storage::rows)
      feature.adjoint_storage = Storage::rows;
    else if (kept_adjoint[f] || kept_output[f] || !is_one_stage)
      feature.adjoint_storage = Storage::owned;
    else if (feature.storage == Storage::batch)
      feature.adjoint_offset = feature.offset;
    else {
      feature.adjoint_offset = plan.stages[first_stage[f]].batch_row_size;
      plan.stages[first_stage[f]].batch_row_size += feature.layout.row_size();
    }
  }

  share_exchanged_adjoints(plan, first_stage, last_stage);
  for (int f = 0; f < num_features; f++) plan.features[f] = plan.features[memory[f]];

  // The first layer that writes the adjoint of receivers' rows in the backward order overwrites it; what comes to
  // senders is added later. A layer whose output has no adjoint takes no part.
  std::vector<bool> has_adjoint(num_features, false), written(num_features, false);
  for (auto stage = plan.stages.rbegin(); stage != plan.stages.rend(); ++stage) {
    stage->input_adjoint_is_begun = stage->exchanged_input >= 0 && written[stage->exchanged_input];
    for (auto step = stage->steps.rbegin(); step != stage->steps.rend(); ++step) {
      const Layer &layer = model.layers[step->layer];
      const Ports p = memory_ports(layer);
      if (p.input < 0 || (p.output >= 0 && !has_adjoint[p.output])) continue;
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
    for (BalanceStep &balance : stage->balances)
      balance.has_adjoint = has_adjoint[memory_ports(model.layers[balance.layer]).output];
  }
  return plan;
}

}    // namespace equi

// SPDX-License-Identifier: MIT
#include "kokkos/evaluation/evaluation_plan.h"

#include "src/base/model_limits.h"

#include <algorithm>
#include <stdexcept>

namespace equi {

// The reader bounds what features and matrices take in this layout.
static_assert(CHANNEL_PAD <= PADDED_CHANNELS);

namespace {

struct Ports {
  int input = -1, output = -1;
};

Ports ports(const Layer &layer) {
  struct Visitor {
    Ports operator()(const SpeciesEmbedding &l) const { return {-1, l.output}; }
    Ports operator()(const Linear &l) const { return {l.input, l.output}; }
    Ports operator()(const Convolution &l) const { return {l.input, l.output}; }
    Ports operator()(const Gate &l) const { return {l.input, l.output}; }
    Ports operator()(const DensityNormalization &l) const { return {l.input, l.output}; }
    Ports operator()(const SymmetricContraction &l) const { return {l.input, l.output}; }
    Ports operator()(const Readout &l) const { return {l.input, -1}; }
    Ports operator()(const PairRepulsion &) const { return {}; }
    Ports operator()(const ScaleShift &) const { return {}; }
  };
  return std::visit(Visitor{}, layer);
}

template <class L>
bool is(const Layer &layer) {
  return std::holds_alternative<L>(layer);
}

// Whether the backward pass needs the layer's input. It replaces it by its adjoint.
bool needs_input(const Layer &layer) {
  return is<Gate>(layer) || is<DensityNormalization>(layer) || is<SymmetricContraction>(layer);
}

// What layers that are not linear write cannot be told from what others add to it.
bool can_keep_values(const Model &model) {
  std::vector<int> writers(model.features.size(), 0);
  for (const Layer &layer : model.layers)
    if (ports(layer).output >= 0) writers[ports(layer).output]++;
  for (const Layer &layer : model.layers) {
    const int output = ports(layer).output;
    if (output >= 0 && writers[output] > 1 && !is<Linear>(layer)) return false;
    if (const auto *c = std::get_if<Convolution>(&layer); c && c->radial.reads_features()) return false;
  }
  return true;
}

}    // namespace

EvaluationPlan make_evaluation_plan(const Model &model, bool gather_senders, bool duals, int kept_directions) {
  EvaluationPlan plan;
  plan.keeps_values = kept_directions > 0 && !gather_senders && can_keep_values(model);
  plan.planes = plan.keeps_values ? 1 + kept_directions : duals ? 2 : 1;
  const int num_features = static_cast<int>(model.features.size());
  plan.features.resize(num_features);
  for (int f = 0; f < num_features; f++) plan.features[f].layout = FeatureLayout(model.features[f], plan.planes);

  // Fixed features: every layer that writes them reads fixed features only and is no convolution. Deciding this needs
  // all writers of a feature, so start from "all fixed" and strike out until nothing changes.
  std::vector<bool> fixed(num_features, true);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Layer &layer : model.layers) {
      const Ports p = ports(layer);
      if (p.output < 0 || !fixed[p.output]) continue;
      if (is<Convolution>(layer) || is<DensityNormalization>(layer) || (p.input >= 0 && !fixed[p.input])) {
        fixed[p.output] = false;
        changed = true;
      }
    }
  }

  std::vector<int> first_stage(num_features, -1), last_stage(num_features, -1), readers(num_features, 0);
  std::vector<bool> kept_output(num_features, false), needed_input(num_features, false),
      kept_value(num_features, false), kept_adjoint(num_features, false);
  plan.stages.emplace_back();
  for (size_t k = 0; k < model.layers.size(); k++) {
    const Layer &layer = model.layers[k];
    const Ports p = ports(layer);
    if (is<ScaleShift>(layer) || is<PairRepulsion>(layer)) continue;    // no features
    if (p.output >= 0 && fixed[p.output]) {
      if (is<SymmetricContraction>(layer))
        throw std::invalid_argument("feature " + model.feature_names[p.input] +
                                    " depends on the species alone and is contracted");
      plan.fixed_layers.push_back(static_cast<int>(k));
      continue;
    }
    if (is<Convolution>(layer) && !fixed[p.input]) {
      plan.stages.emplace_back();
      plan.stages.back().exchanged_input = p.input;
      plan.max_exchanged_row_size = std::max(plan.max_exchanged_row_size, plan.features[p.input].layout.row_size());
      if (plan.features[p.input].consumer >= 0)
        throw std::invalid_argument("feature " + model.feature_names[p.input] + " is read by two convolutions");
      plan.features[p.input].consumer = static_cast<int>(plan.stages.size()) - 1;
      kept_output[p.output] = gather_senders;
    }
    if (p.input >= 0) readers[p.input]++;
    if (needs_input(layer)) needed_input[p.input] = true;
    if (plan.keeps_values && is<Readout>(layer)) kept_value[p.input] = true;
    if (plan.keeps_values && p.output >= 0 && !is<Linear>(layer)) kept_adjoint[p.output] = true;
    Step step;
    step.layer = static_cast<int>(k);
    step.fixed_input = p.input >= 0 && fixed[p.input];
    if (step.fixed_input && is<Readout>(layer))
      throw std::invalid_argument("feature " + model.feature_names[p.input] +
                                  " depends on the species alone and is read out");
    if (step.fixed_input && needs_input(layer))
      throw std::invalid_argument("feature " + model.feature_names[p.output] +
                                  " mixes a gate, a normalisation or a contraction of a fixed feature with others");
    plan.stages.back().steps.push_back(step);
    const int stage = static_cast<int>(plan.stages.size()) - 1;
    for (int f : {p.input, p.output}) {
      if (f < 0) continue;
      if (first_stage[f] < 0) first_stage[f] = stage;
      last_stage[f] = stage;
    }
  }

  for (int f = 0; f < num_features; f++) {
    FeaturePlan &feature = plan.features[f];
    if (fixed[f])
      feature.storage = Storage::fixed;
    else if (feature.consumer >= 0)
      feature.storage = Storage::rows;
    else if (needed_input[f] || kept_value[f] || first_stage[f] != last_stage[f])
      feature.storage = Storage::owned;
    else if (first_stage[f] >= 0) {
      Stage &stage = plan.stages[first_stage[f]];
      feature.storage = kept_output[f] ? Storage::stage : Storage::tile;
      int64_t &used = kept_output[f] ? stage.stage_row_size : stage.tile_row_size;
      feature.offset = used;
      used += feature.layout.row_size();
    }
    if (plan.keeps_values && first_stage[f] >= 0) {
      if (feature.storage == Storage::rows)
        feature.adjoint_storage = Storage::rows;
      else if (kept_adjoint[f] || first_stage[f] != last_stage[f])
        feature.adjoint_storage = Storage::owned;
      else if (feature.storage == Storage::tile)
        feature.adjoint_offset = feature.offset;
      else {
        feature.adjoint_offset = plan.stages[first_stage[f]].tile_row_size;
        plan.stages[first_stage[f]].tile_row_size += feature.layout.row_size();
      }
    }
    if (needed_input[f] && readers[f] > 1)
      throw std::invalid_argument("feature " + model.feature_names[f] +
                                  " is read by a gate, a normalisation or a contraction and by another layer");
  }

  // The first layer that writes an adjoint in the backward order overwrites it. A layer whose output has no adjoint
  // takes no part.
  std::vector<bool> written(num_features, false);
  for (auto stage = plan.stages.rbegin(); stage != plan.stages.rend(); ++stage) {
    stage->input_adjoint_is_begun = stage->exchanged_input >= 0 && written[stage->exchanged_input];
    for (auto step = stage->steps.rbegin(); step != stage->steps.rend(); ++step) {
      const Ports p = ports(model.layers[step->layer]);
      if (p.output >= 0 && !written[p.output]) continue;
      if (is<Convolution>(model.layers[step->layer]) || !step->fixed_input) {
        if (p.input < 0) continue;
        step->adjoint = written[p.input] ? Step::Adjoint::add : Step::Adjoint::overwrite;
        if (!step->fixed_input) written[p.input] = true;
      }
    }
  }
  return plan;
}

}    // namespace equi

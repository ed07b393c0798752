// SPDX-License-Identifier: MIT
// Finds the features that the backward pass evaluates again.
#include "kokkos/plan/repeated_features.h"

#include "src/layers/operations.h"

#include <algorithm>
#include <variant>

namespace equi {

namespace {

// A lean plan repeats at most this share of the operations of an atom with this number of neighbors.
constexpr double MOST_REPEATED = 0.1, USUAL_NEIGHBORS = 50.0;

class RepeatFinder {
 public:
  RepeatFinder(const Model &model, const std::vector<bool> &fixed, const std::vector<bool> &needed_input,
               const EvaluationPlan &plan)
      : model_(model),
        fixed_(fixed),
        needed_input_(needed_input),
        plan_(plan),
        num_stages_(static_cast<int>(plan.stages.size())),
        num_features_(model.features.size()),
        stage_of_(num_features_, -1),
        first_stage_(num_features_, num_stages_),
        last_stage_(num_features_, -1),
        is_changed_(num_features_, false),
        is_candidate_(num_features_, false) {
    for (const Layer &layer : model.layers)
      if (const Ports p = ports(layer); traits(layer).sums_over_atoms && traits(layer).changes_in_place)
        is_changed_[p.input] = is_changed_[p.output] = true;
      else if (traits(layer).sums_over_atoms)
        p.for_inputs([&](int f) { is_changed_[f] = true; });
    std::vector<bool> is_of_one_stage(num_features_, true), is_read_by_consumer(num_features_, true);
    for_steps([&](const Step &, const Ports &p, int s) {
      if (p.output >= 0) {
        if (stage_of_[p.output] < 0) stage_of_[p.output] = s;
        is_of_one_stage[p.output] = is_of_one_stage[p.output] && stage_of_[p.output] == s && !p.keeps_output;
      }
      p.for_inputs([&](int f) { is_read_by_consumer[f] = is_read_by_consumer[f] && plan_.features[f].consumer == s; });
      for (const int f : {p.input, p.second_input, p.output}) {
        if (f < 0) continue;
        first_stage_[f] = std::min(first_stage_[f], s);
        last_stage_[f] = std::max(last_stage_[f], s);
      }
    });
    // The input of the last stage is still there when the backward pass begins.
    for (size_t f = 0; f < num_features_; f++) {
      const int consumer = plan_.features[f].consumer;
      is_candidate_[f] = consumer >= 0 && consumer < num_stages_ - 1 && is_of_one_stage[f] && is_read_by_consumer[f] &&
                         !fixed_[f] && !is_changed_[f];
    }
  }

  struct Choice {
    std::vector<bool> again;                // before the backward pass of a batch
    std::vector<bool> restored;             // RepeatedFeatures
    std::vector<bool> inputs;               // exchanged inputs that are repeated
    std::vector<bool> on_the_way;           // what leads to them
    std::vector<std::vector<bool>> ways;    // the same for each of these inputs, by feature
    double operations = 0.0;                // of an atom
  };

  // with_convolutions: whether convolutions of fixed features are repeated.
  Choice choose(bool with_convolutions) const {
    const std::vector<bool> possible = find_possible(with_convolutions);
    const std::vector<bool> none(num_features_, false);
    Choice choice{none, none, none, none, std::vector<std::vector<bool>>(num_features_)};
    for (size_t f = 0; f < num_features_; f++) choice.inputs[f] = possible[f] && is_candidate_[f];
    for (size_t f = 0; f < num_features_; f++) {
      if (!choice.inputs[f]) continue;
      const std::vector<bool> &way = choice.ways[f] = closure(only(f), possible, none);
      for (size_t g = 0; g < num_features_; g++) {
        choice.on_the_way[g] = choice.on_the_way[g] || way[g];
        if (way[g] && needed_input_[g] && first_stage_[g] == last_stage_[g] && needs_convolution(g, possible))
          choice.restored[g] = true;
      }
      choice.operations += repeated_operations(way);
    }
    std::vector<bool> needed(num_features_);
    for (size_t f = 0; f < num_features_; f++)
      needed[f] = possible[f] && needed_input_[f] && !is_candidate_[f] && !choice.restored[f];
    choice.again = closure(needed, possible, choice.restored);
    choice.operations += repeated_operations(choice.again);
    return choice;
  }

  double all_operations() const {
    double sum = 0.0;
    for_steps([&](const Step &step, const Ports &, int) { sum += operations(step).both(); });
    return sum;
  }
  // The steps that write these features.
  std::vector<Step> steps_of(const std::vector<bool> &features) const {
    std::vector<Step> steps;
    for_steps([&](const Step &step, const Ports &p, int) {
      if (p.output >= 0 && features[p.output]) steps.push_back(step);
    });
    return steps;
  }
  int stage_of(int feature) const { return stage_of_[feature]; }

 private:
  // Calls f(step, its ports, number of the stage).
  template <class F>
  void for_steps(const F &f) const {
    for (int s = 0; s < num_stages_; s++)
      for (const Step &step : plan_.stages[s].steps) f(step, ports(model_.layers[step.layer]), s);
  }
  std::vector<bool> only(size_t feature) const {
    std::vector<bool> set(num_features_, false);
    set[feature] = true;
    return set;
  }
  Operations operations(const Step &step) const {
    OperationContext context{model_.features, AVX512_TARGET, QUINTIC_ROWS, step.fixed_input};
    return std::visit([&](const auto &layer) { return layer.operations(context); }, model_.layers[step.layer])
        .per_atom_with(USUAL_NEIGHBORS);
  }
  double repeated_operations(const std::vector<bool> &outputs) const {
    double sum = 0.0;
    for_steps([&](const Step &step, const Ports &p, int s) {
      const bool is_fused = plan_.fuses_last_stage && s == num_stages_ - 1;
      if (p.output >= 0 && outputs[p.output] && !is_fused) sum += operations(step).forward;
    });
    return sum;
  }
  bool is_of_senders(const Step &step) const { return traits(model_.layers[step.layer]).reads_senders; }
  bool is_cheap(const Step &step, bool with_convolutions) const {
    const LayerTraits t = traits(model_.layers[step.layer]);
    const bool is_plain_convolution = t.reads_senders && step.fixed_input && !t.has_costly_edges &&
                                      !t.has_edge_networks && t.far_cutoff == 0.0 && !t.sums_over_atoms;
    return t.is_cheap || (with_convolutions && is_plain_convolution);
  }
  // Values that exist when the backward pass of their stage begins, and before.
  bool is_kept(int f) const {
    const bool is_input = plan_.features[f].consumer >= 0;
    return !is_changed_[f] && (is_input ? !is_candidate_[f] : needed_input_[f]);
  }

  std::vector<bool> find_possible(bool with_convolutions) const {
    std::vector<bool> possible(num_features_);
    for (size_t f = 0; f < num_features_; f++)
      possible[f] =
          !fixed_[f] && !is_changed_[f] && stage_of_[f] >= 0 && (plan_.features[f].consumer < 0 || is_candidate_[f]);
    for (bool changed = true; changed;) {
      changed = false;
      for_steps([&](const Step &step, const Ports &p, int s) {
        if (p.output < 0 || !possible[p.output]) return;
        bool is_possible = is_cheap(step, with_convolutions) && stage_of_[p.output] == s;
        p.for_inputs([&](int f) {
          const bool is_made = possible[f] && stage_of_[f] == s && plan_.features[f].consumer < 0;
          is_possible = is_possible && (fixed_[f] || is_kept(f) || is_made);
        });
        possible[p.output] = is_possible;
        changed = changed || !is_possible;
      });
    }
    // A feature that is evaluated again is not kept, so another stage must not read it for an evaluation again.
    for_steps([&](const Step &, const Ports &p, int s) {
      p.for_inputs([&](int f) {
        if (p.output >= 0 && possible[p.output] && possible[f] && stage_of_[f] != s) possible[f] = false;
      });
    });
    return possible;
  }

  // Adds what leads to these features from kept and from available ones.
  std::vector<bool> closure(std::vector<bool> set, const std::vector<bool> &possible,
                            const std::vector<bool> &available) const {
    for (bool changed = true; changed;) {
      changed = false;
      for_steps([&](const Step &, const Ports &p, int) {
        if (p.output < 0 || !set[p.output]) return;
        p.for_inputs([&](int f) {
          if (fixed_[f] || set[f] || available[f] || !possible[f]) return;
          set[f] = changed = true;
        });
      });
    }
    return set;
  }
  bool needs_convolution(size_t feature, const std::vector<bool> &possible) const {
    const std::vector<bool> way = closure(only(feature), possible, std::vector<bool>(num_features_, false));
    bool found = false;
    for_steps([&](const Step &step, const Ports &p, int) {
      found = found || (p.output >= 0 && way[p.output] && is_of_senders(step));
    });
    return found;
  }

  const Model &model_;
  const std::vector<bool> &fixed_, &needed_input_;
  const EvaluationPlan &plan_;
  int num_stages_;
  size_t num_features_;
  std::vector<int> stage_of_, first_stage_, last_stage_;    // stage_of_: of the first layer that writes it
  std::vector<bool> is_changed_;                            // by sums over all atoms, or read by them
  std::vector<bool> is_candidate_;                          // exchanged inputs that one stage computes and one reads
};

}    // namespace

RepeatedFeatures find_repeated_features(const Model &model, const std::vector<bool> &fixed,
                                        const std::vector<bool> &needed_input, bool is_lean, EvaluationPlan &plan) {
  const std::vector<bool> none(model.features.size(), false);
  // Compared with such edges everything is cheap.
  is_lean = is_lean || any_layer(model.layers, &LayerTraits::has_costly_edges);
  if (plan.keeps_values || !is_lean) return {none, none};
  const RepeatFinder finder(model, fixed, needed_input, plan);
  const double most = MOST_REPEATED * finder.all_operations();
  RepeatFinder::Choice choice = finder.choose(true);
  if (choice.operations > most) choice = finder.choose(false);
  if (choice.operations > most) return {none, none};
  const int last = static_cast<int>(plan.stages.size()) - 1;
  for (int s = 0; s <= last; s++)
    for (Step &step : plan.stages[s].steps) {
      const int output = ports(model.layers[step.layer]).output;
      step.is_recomputed = output >= 0 && choice.again[output] && !(plan.fuses_last_stage && s == last);
    }
  RepeatedFeatures repeated{choice.again, choice.restored};
  for (size_t f = 0; f < model.features.size(); f++) {
    repeated.in_batch[f] = (repeated.in_batch[f] || (choice.on_the_way[f] && !choice.inputs[f])) && !choice.restored[f];
    if (!choice.inputs[f]) continue;
    plan.features[f].is_repeated = true;
    Stage &consumer = plan.stages[plan.features[f].consumer];
    consumer.repeated_stage = finder.stage_of(static_cast<int>(f));
    consumer.repeated_steps = finder.steps_of(choice.ways[f]);
  }
  return repeated;
}

}    // namespace equi

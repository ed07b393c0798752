// SPDX-License-Identifier: MIT
// How a model's layers are scheduled (kokkos/plan/evaluation_plan.h).
#include "kokkos/plan/evaluation_plan.h"
#include "unittest/support/model_builder.h"
#include "unittest/support/model_cases.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

int feature(const Model &model, const std::string &name) {
  for (size_t f = 0; f < model.feature_names.size(); ++f)
    if (model.feature_names[f] == name) return static_cast<int>(f);
  ADD_FAILURE() << "no feature " << name;
  return 0;
}

// Three interactions: x0 (species) -> z0 -> x1 -> z1 -> x2 -> z2 -> x3 (read out); y, m are inputs and outputs of
// convolutions.
Model three_layers() {
  TinyModelOptions options;
  options.hidden = {"5x0e+3x1e", "4x0e+2x1e", "5x0e"};
  return make_tiny_model(options).model();
}

TEST(EvaluationPlan, what_depends_on_the_species_alone_is_fixed) {
  const Model model = three_layers();
  const EvaluationPlan plan = make_evaluation_plan(model, false);
  for (size_t f = 0; f < model.features.size(); ++f) {
    const std::string &name = model.feature_names[f];
    EXPECT_EQ(plan.features[f].storage == Storage::fixed, name == "x0" || name == "y0") << name;
  }
  ASSERT_EQ(plan.fixed_layers.size(), 2u);    // the embedding and the linear before the first convolution
  EXPECT_TRUE(std::holds_alternative<SpeciesEmbedding>(model.layers[plan.fixed_layers[0]]));
  EXPECT_EQ(std::get<Linear>(model.layers[plan.fixed_layers[1]]).output, feature(model, "y0"));
}

TEST(EvaluationPlan, a_stage_begins_at_each_convolution_whose_input_is_not_fixed) {
  const Model model = three_layers();
  const EvaluationPlan plan = make_evaluation_plan(model, false);
  ASSERT_EQ(plan.stages.size(), 3u);
  EXPECT_EQ(plan.stages[0].exchanged_input, -1);
  for (int s = 1; s < 3; ++s) {
    const Stage &stage = plan.stages[s];
    const int y = feature(model, "y" + std::to_string(s));
    EXPECT_EQ(stage.exchanged_input, y);
    EXPECT_EQ(plan.features[y].storage, Storage::rows);
    EXPECT_EQ(plan.features[y].consumer, s);
    EXPECT_EQ(std::get<Convolution>(model.layers[stage.steps.front().layer]).input, y);
    EXPECT_LE(plan.features[y].layout.row_size(), plan.max_exchanged_row_size);
  }
  // y1 is 5x0e+3x1e: four components of one padded block each.
  EXPECT_EQ(plan.max_exchanged_row_size, 4 * CHANNEL_PAD);
}

TEST(EvaluationPlan, every_layer_is_evaluated_once_and_in_order) {
  const Model model = three_layers();
  const EvaluationPlan plan = make_evaluation_plan(model, false);
  std::vector<int> seen(model.layers.size(), 0);
  for (const int k : plan.fixed_layers) ++seen[k];
  int before = -1;
  for (const Stage &stage : plan.stages)
    for (const Step &step : stage.steps) {
      EXPECT_GT(step.layer, before);
      before = step.layer;
      ++seen[step.layer];
    }
  for (size_t k = 0; k < seen.size(); ++k)
    EXPECT_EQ(seen[k], std::holds_alternative<ScaleShift>(model.layers[k]) ? 0 : 1) << "layer " << k;
}

TEST(EvaluationPlan, gate_inputs_are_kept_and_what_dies_in_a_tile_is_not) {
  const Model model = three_layers();
  for (const bool gather : {false, true}) {
    const EvaluationPlan plan = make_evaluation_plan(model, gather);
    for (int t = 0; t < 3; ++t) {
      const std::string n = std::to_string(t);
      EXPECT_EQ(plan.features[feature(model, "z" + n)].storage, Storage::owned);
      // The adjoint of a convolution's output is gathered after the stage. The first convolution has no senders to
      // gather for.
      EXPECT_EQ(plan.features[feature(model, "m" + n)].storage, gather && t > 0 ? Storage::stage : Storage::batch) << n;
    }
    // x1 is read by the linear before the next convolution and, after the exchange, as self-connection or not at all.
    EXPECT_NE(plan.features[feature(model, "x3")].storage, Storage::rows);
  }
}

TEST(EvaluationPlan, features_of_a_scratch_do_not_overlap) {
  const Model model = three_layers();
  for (const bool gather : {false, true}) {
    const EvaluationPlan plan = make_evaluation_plan(model, gather);
    for (size_t s = 0; s < plan.stages.size(); ++s)
      for (const Storage storage : {Storage::batch, Storage::stage}) {
        const int64_t size = storage == Storage::batch ? plan.stages[s].batch_row_size : plan.stages[s].stage_row_size;
        std::vector<int> used(size, 0);
        std::vector<bool> seen(model.features.size(), false);
        for (const Step &step : plan.stages[s].steps) {
          int f = -1;
          if (const auto *c = std::get_if<Convolution>(&model.layers[step.layer])) f = c->output;
          if (const auto *g = std::get_if<Gate>(&model.layers[step.layer])) f = g->output;
          if (const auto *l = std::get_if<Linear>(&model.layers[step.layer])) f = l->output;
          if (f < 0 || seen[f] || plan.features[f].storage != storage) continue;
          seen[f] = true;
          for (int k = 0; k < plan.features[f].layout.row_size(); ++k) {
            ASSERT_LT(plan.features[f].offset + k, size);
            EXPECT_EQ(used[plan.features[f].offset + k]++, 0) << model.feature_names[f];
          }
        }
      }
  }
}

// Walks the backward pass: an adjoint is overwritten once, before it is added to, and never read before it is written.
TEST(EvaluationPlan, adjoints_are_overwritten_first_and_added_to_later) {
  const Model model = three_layers();
  const EvaluationPlan plan = make_evaluation_plan(model, false);
  std::vector<int> writes(model.features.size(), 0);
  for (auto stage = plan.stages.rbegin(); stage != plan.stages.rend(); ++stage)
    for (auto step = stage->steps.rbegin(); step != stage->steps.rend(); ++step) {
      const Layer &layer = model.layers[step->layer];
      int in = -1, out = -1;
      if (const auto *l = std::get_if<Linear>(&layer)) in = l->input, out = l->output;
      if (const auto *c = std::get_if<Convolution>(&layer)) in = c->input, out = c->output;
      if (const auto *g = std::get_if<Gate>(&layer)) in = g->input, out = g->output;
      if (const auto *r = std::get_if<Readout>(&layer)) in = r->input;
      EXPECT_EQ(step->fixed_input, in >= 0 && plan.features[in].storage == Storage::fixed);
      if (step->adjoint == Step::Adjoint::none) {
        EXPECT_TRUE(step->fixed_input && std::holds_alternative<Linear>(layer)) << "layer " << step->layer;
        continue;
      }
      if (out >= 0) {
        EXPECT_GT(writes[out], 0) << "layer " << step->layer;
      }
      if (step->fixed_input) continue;
      EXPECT_EQ(step->adjoint == Step::Adjoint::add, writes[in] > 0) << "layer " << step->layer;
      ++writes[in];
    }
}

// ---- refusals
void expect_refusal(const Model &model, const std::string &feature_name) {
  try {
    make_evaluation_plan(model, false);
    ADD_FAILURE() << "no error";
  } catch (const std::invalid_argument &e) {
    EXPECT_NE(std::string(e.what()).find(feature_name), std::string::npos) << e.what();
  }
}

template <class L>
std::vector<size_t> layers_of_type(const Model &model) {
  std::vector<size_t> found;
  for (size_t k = 0; k < model.layers.size(); ++k)
    if (std::holds_alternative<L>(model.layers[k])) found.push_back(k);
  return found;
}

// A copy of layer k directly after it, which writes to a new feature of the same irreps.
void duplicate_layer(Model &model, size_t k) {
  Layer copy = model.layers[k];
  const int next = static_cast<int>(model.features.size());
  const auto renew = [&](int &output) {
    const Irreps irreps = model.features[output];
    model.features.push_back(irreps);
    model.feature_names.push_back("copy");
    output = next;
  };
  if (auto *c = std::get_if<Convolution>(&copy)) renew(c->output);
  if (auto *g = std::get_if<Gate>(&copy)) renew(g->output);
  model.layers.insert(model.layers.begin() + static_cast<std::ptrdiff_t>(k) + 1, copy);
}

TEST(EvaluationPlan, two_convolutions_of_one_feature_share_a_stage) {
  Model model = three_layers();
  const size_t num_stages = make_evaluation_plan(model, false).stages.size();
  duplicate_layer(model, layers_of_type<Convolution>(model)[1]);
  const EvaluationPlan plan = make_evaluation_plan(model, true);
  EXPECT_EQ(plan.stages.size(), num_stages);
  EXPECT_EQ(plan.stages[1].exchanged_input, feature(model, "y1"));
  EXPECT_EQ(plan.features[feature(model, "copy")].storage, Storage::stage);
}

TEST(EvaluationPlan, two_convolutions_of_a_fixed_feature_are_allowed) {
  Model model = three_layers();
  duplicate_layer(model, layers_of_type<Convolution>(model)[0]);
  EXPECT_NO_THROW(make_evaluation_plan(model, false));
}

TEST(EvaluationPlan, two_gates_of_one_feature_leave_its_values) {
  Model model = three_layers();
  EXPECT_FALSE(make_evaluation_plan(model, false).features[feature(model, "z1")].has_own_adjoint);
  duplicate_layer(model, layers_of_type<Gate>(model)[1]);
  const EvaluationPlan plan = make_evaluation_plan(model, false);
  EXPECT_TRUE(plan.features[feature(model, "z1")].has_own_adjoint);
  EXPECT_EQ(plan.features[feature(model, "z1")].storage, Storage::owned);
}

TEST(EvaluationPlan, refuses_the_readout_of_a_feature_of_the_species) {
  Model model = three_layers();
  auto &readout = std::get<Readout>(model.layers[layers_of_type<Readout>(model)[0]]);
  readout.input = feature(model, "x0");
  readout.block = 0;
  expect_refusal(model, "x0");
}

TEST(EvaluationPlan, a_gate_and_a_convolution_may_read_one_feature) {
  Model model = three_layers();
  auto &convolution = std::get<Convolution>(model.layers[layers_of_type<Convolution>(model)[1]]);
  convolution.input = feature(model, "z0");
  const EvaluationPlan plan = make_evaluation_plan(model, false);
  EXPECT_TRUE(plan.features[feature(model, "z0")].has_own_adjoint);
  EXPECT_EQ(plan.features[feature(model, "z0")].storage, Storage::rows);
  EXPECT_EQ(plan.features[feature(model, "z0")].adjoint_storage, Storage::rows);
}

// Walks both passes step by step, and notes which value or adjoint each memory of receivers holds.
class ReceiverMemoryWalk {
 public:
  ReceiverMemoryWalk(const Model &model, const EvaluationPlan &plan)
      : model_(model), plan_(plan), holds_(plan.receiver_memories.size(), {-1, false}) {}

  void run() {
    for (const Stage &stage : plan_.stages)
      for (const Step &step : stage.steps) forward(step, false);
    for (auto stage = plan_.stages.rbegin(); stage != plan_.stages.rend(); ++stage) {
      for (const Step &step : stage->steps)
        if (step.is_recomputed) forward(step, true);
      for (auto step = stage->steps.rbegin(); step != stage->steps.rend(); ++step) backward(*step);
    }
  }

 private:
  using Content = std::pair<int, bool>;    // feature, whether it is its adjoint
  static constexpr int NONE = -1;          // another kind of storage, in which nothing is shared in this way

  int value_memory(int f, bool is_backward) const {
    const FeaturePlan &feature = plan_.features[f];
    return feature.is_recomputed && is_backward ? NONE : feature.receiver_memory;
  }
  int adjoint_memory(int f) const {
    const FeaturePlan &feature = plan_.features[f];
    return feature.has_own_adjoint ? feature.adjoint_receiver_memory : feature.receiver_memory;
  }
  void read(int k, int f, bool is_adjoint) {
    if (k == NONE) return;
    EXPECT_EQ(holds_[k], Content(plan_.features[f].memory, is_adjoint)) << model_.feature_names[f];
  }
  void write(int k, int f, bool is_adjoint) {
    if (k != NONE) holds_[k] = {plan_.features[f].memory, is_adjoint};
  }
  void forward(const Step &step, bool is_backward) {
    const Ports p = ports(model_.layers[step.layer]);
    p.for_inputs([&](int f) { read(value_memory(f, is_backward), f, false); });
    if (p.output < 0) return;
    const int k = value_memory(p.output, is_backward);
    if (written_[{p.output, is_backward}]++ > 0) read(k, p.output, false);
    write(k, p.output, false);
  }
  void backward(const Step &step) {
    if (step.adjoint == Step::Adjoint::none) return;
    const Ports p = ports(model_.layers[step.layer]);
    if (p.output >= 0) read(adjoint_memory(p.output), p.output, true);
    p.for_inputs([&](int f) {
      if (p.keeps_input) read(value_memory(f, true), f, false);
      if (step.adds(f)) read(adjoint_memory(f), f, true);
      if (plan_.features[f].storage != Storage::rows) write(adjoint_memory(f), f, true);
    });
  }

  const Model &model_;
  const EvaluationPlan &plan_;
  std::vector<Content> holds_;
  std::map<Content, int> written_;
};

TEST(EvaluationPlan, memory_of_receivers_holds_what_is_read) {
  for (const TinyCase &c : all_cases()) {
    SCOPED_TRACE(c.name);
    const Model model = c.model();
    for (const bool gather : {false, true}) {
      const EvaluationPlan plan = make_evaluation_plan(model, gather);
      ReceiverMemoryWalk(model, plan).run();
    }
  }
}

// x1 -> z1 = x1 + (SO(2) convolution) -> x2 = z1 + (network of an atom), and another such block.
TEST(EvaluationPlan, in_models_with_so2_convolutions_what_comes_of_kept_features_is_made_again) {
  const Model model = case_named("so2_of_blocks").model();
  const EvaluationPlan plan = make_evaluation_plan(model, false);
  const auto plan_of = [&](const char *name) { return plan.features[feature(model, name)]; };
  for (const char *name : {"z0", "z1", "z2"}) {
    EXPECT_EQ(plan_of(name).storage, Storage::owned) << name;
    EXPECT_FALSE(plan_of(name).is_recomputed) << name;
  }
  // Inputs of gates, within a stage.
  for (const char *name : {"u1", "u2", "x3"}) EXPECT_EQ(plan_of(name).storage, Storage::batch) << name;
  // The next stage reads one memory in both blocks, also for its adjoint.
  for (const char *name : {"x1", "x2"}) {
    EXPECT_TRUE(plan_of(name).is_recomputed) << name;
    EXPECT_EQ(plan_of(name).receiver_memory, plan_of("x1").receiver_memory) << name;
    EXPECT_EQ(plan_of(name).adjoint_receiver_memory, plan_of("x1").receiver_memory) << name;
  }
  EXPECT_EQ(plan.receiver_memories.size(), 4u);    // z0, z1, z2 and this one

  // Models without SO(2) convolutions recompute nothing.
  int num_steps = 0;
  for (const TinyCase &c : family_cases())
    for (const Stage &stage : make_evaluation_plan(c.model(), false).stages)
      for (const Step &step : stage.steps) num_steps += step.is_recomputed;
  EXPECT_EQ(num_steps, 0);
}

}    // namespace

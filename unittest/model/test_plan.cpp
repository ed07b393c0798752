// SPDX-License-Identifier: MIT
// How a model's layers are scheduled (kokkos/plan/evaluation_plan.h).
#include "kokkos/plan/evaluation_plan.h"
#include "unittest/support/model_builder.h"
#include "unittest/support/model_cases.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <stdexcept>
#include <string>
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

// Walks both passes batch by batch, with two batches, and notes which value or adjoint each row of the shared memories
// holds.
class MemoryWalk {
 public:
  MemoryWalk(const Model &model, const EvaluationPlan &plan, bool gathers, bool has_slices)
      : model_(model),
        plan_(plan),
        gathers_(gathers),
        has_slices_(has_slices),
        receiver_(plan.receiver_memories.size(), EMPTY),
        exchanged_(plan.exchanged_memories.size(), EMPTY) {}

  void run() {
    const int last = static_cast<int>(plan_.stages.size()) - 1;
    for (int s = 0; s <= last; ++s) {
      if (plan_.fuses_last_stage && s == last) break;
      for (int b = 0; b < NUM_BATCHES; ++b)
        for (const Step &step : plan_.stages[s].steps) forward(step, b, false, 0);
    }
    for (int s = last; s >= 0; --s) {
      const Stage &stage = plan_.stages[s];
      for (int b = 0; b < NUM_BATCHES; ++b)
        for (const Step &step : stage.repeated_steps) forward(step, b, true, 1 + 2 * s);
      if (gathers_ && !stage.input_adjoint_is_begun && (stage.input_adjoint_is_written || has_slices_)) clear(stage);
      for (int b = 0; b < NUM_BATCHES; ++b) {
        if (plan_.fuses_last_stage && s == last)
          for (const Step &step : stage.steps) forward(step, b, false, 0);
        for (const Step &step : stage.steps)
          if (step.is_recomputed) forward(step, b, true, 2 + 2 * s);
        for (auto step = stage.steps.rbegin(); step != stage.steps.rend(); ++step) backward(*step, b);
        if (has_slices_) add_up_senders(stage);
      }
      if (!has_slices_) add_up_senders(stage);
    }
  }

 private:
  static constexpr int NUM_BATCHES = 2;
  using Content = std::pair<int, bool>;    // feature, whether it is its adjoint
  using Rows = std::array<Content, NUM_BATCHES>;
  static constexpr Rows EMPTY{Content{-1, false}, Content{-1, false}};

  // Null: another kind of storage, in which nothing is shared in this way.
  Rows *rows_of(int f, bool is_adjoint, bool is_backward) {
    const FeaturePlan &feature = plan_.features[f];
    if (is_adjoint && feature.has_own_adjoint) {
      if (feature.adjoint_storage == Storage::owned) return &receiver_.at(feature.adjoint_receiver_memory);
      return feature.adjoint_storage == Storage::rows ? &exchanged_.at(feature.exchanged_adjoint) : nullptr;
    }
    if (feature.is_recomputed && is_backward) return nullptr;
    if (feature.storage == Storage::owned) return &receiver_.at(feature.receiver_memory);
    if (feature.storage != Storage::rows) return nullptr;
    return &exchanged_.at(is_adjoint ? feature.exchanged_adjoint : feature.exchanged_value);
  }
  void read(int f, bool is_adjoint, int batch, bool is_backward) {
    if (const Rows *rows = rows_of(f, is_adjoint, is_backward)) {
      EXPECT_EQ((*rows)[batch], Content(plan_.features[f].memory, is_adjoint))
          << model_.feature_names[f] << (is_adjoint ? ", adjoint" : "");
    }
  }
  void write(int f, bool is_adjoint, int batch, bool is_backward) {
    if (Rows *rows = rows_of(f, is_adjoint, is_backward)) (*rows)[batch] = {plan_.features[f].memory, is_adjoint};
  }
  template <class F>
  void for_read_rows(const Layer &layer, int f, int batch, const F &read_row) const {
    for (int b = 0; b < NUM_BATCHES; ++b)
      if (b == batch || (reads_senders(layer) && plan_.features[f].storage == Storage::rows)) read_row(b);
  }
  // pass: one in which features are written anew
  void forward(const Step &step, int batch, bool is_backward, int pass) {
    const Layer &layer = model_.layers[step.layer];
    const Ports p = ports(layer);
    p.for_inputs([&](int f) { for_read_rows(layer, f, batch, [&](int b) { read(f, false, b, is_backward); }); });
    if (p.output < 0) return;
    if (written_[{p.output, NUM_BATCHES * pass + batch}]++ > 0) read(p.output, false, batch, is_backward);
    write(p.output, false, batch, is_backward);
  }
  void backward(const Step &step, int batch) {
    if (step.adjoint == Step::Adjoint::none) return;
    const Layer &layer = model_.layers[step.layer];
    const Ports p = ports(layer);
    if (p.output >= 0) read(p.output, true, batch, true);
    p.for_inputs([&](int f) {
      if (p.keeps_input || reads_senders(layer))
        for_read_rows(layer, f, batch, [&](int b) { read(f, false, b, true); });
      if (plan_.features[f].storage == Storage::rows && reads_senders(layer) && !reads_receivers(layer)) return;
      if (step.adds(f)) read(f, true, batch, true);
      write(f, true, batch, true);
    });
  }
  void clear(const Stage &stage) {
    for (int b = 0; stage.exchanged_input >= 0 && b < NUM_BATCHES; ++b) write(stage.exchanged_input, true, b, true);
  }
  // Adds contributions of a stage's receivers to the adjoint of its input.
  void add_up_senders(const Stage &stage) {
    const int f = stage.exchanged_input;
    if (!stage.returns_adjoints) return;
    const auto check_values = [&](int b) {
      if (gathers_) read(f, false, b, true);
    };
    for (int b = 0; b < NUM_BATCHES; ++b) {
      check_values(b);
      if (stage.input_adjoint_is_written || has_slices_) read(f, true, b, true);
      write(f, true, b, true);
      check_values(b);
    }
  }

  const Model &model_;
  const EvaluationPlan &plan_;
  bool gathers_, has_slices_;
  std::vector<Rows> receiver_, exchanged_;
  std::map<std::pair<int, int>, int> written_;
};

TEST(EvaluationPlan, shared_memory_holds_what_is_read) {
  int num_repeated = 0;
  for (const TinyCase &c : all_cases()) {
    const Model model = c.model();
    for (const bool gathers : {false, true})
      for (const bool is_lean : {false, true})
        for (const bool has_slices : {false, gathers}) {
          SCOPED_TRACE(std::string(c.name) + (gathers ? ", gathers" : "") + (is_lean ? ", lean" : "") +
                       (has_slices ? ", slices" : ""));
          const EvaluationPlan plan = make_evaluation_plan(model, gathers, false, 0, 1, {is_lean, has_slices});
          MemoryWalk(model, plan, gathers, has_slices).run();
          for (const Stage &stage : plan.stages) num_repeated += !stage.repeated_steps.empty();
        }
  }
  EXPECT_GT(num_repeated, 20);
}

// Inputs of SO(2) convolutions are written again for the backward pass, and receivers write adjoints of their own.
TEST(EvaluationPlan, inputs_of_so2_convolutions_share_three_memories) {
  TinyCase c = case_named("so2_of_blocks");
  for (const int num_layers : {4, 5, 8}) {
    c.options.hidden.resize(num_layers, c.options.hidden.front());
    const Model model = c.model();
    for (const bool gathers : {false, true}) {
      SCOPED_TRACE(std::to_string(num_layers) + (gathers ? " layers, gathers" : " layers"));
      const EvaluationPlan plan = make_evaluation_plan(model, gathers);
      EXPECT_EQ(plan.exchanged_memories.size(), 3u);
      MemoryWalk(model, plan, gathers, false).run();
    }
  }
}

// x1 -> z1 = x1 + (SO(2) convolution) -> x2 = z1 + (network of an atom), and another such block.
TEST(EvaluationPlan, in_models_with_so2_convolutions_what_comes_of_kept_features_is_made_again) {
  const Model model = case_named("so2_of_blocks").model();
  const EvaluationPlan plan = make_evaluation_plan(model, false);
  const auto plan_of = [&](const char *name) { return plan.features[feature(model, name)]; };
  for (const char *name : {"z0", "z1"}) {
    EXPECT_EQ(plan_of(name).storage, Storage::owned) << name;
    EXPECT_FALSE(plan_of(name).is_recomputed) << name;
  }
  EXPECT_EQ(plan_of("z2").storage, Storage::batch);    // a batch of the last stage goes backward at once
  // Inputs of gates, within a stage.
  for (const char *name : {"u1", "u2", "x3"}) EXPECT_EQ(plan_of(name).storage, Storage::batch) << name;
  // The next stage reads one memory in both blocks, also for its adjoint.
  for (const char *name : {"x1", "x2"}) {
    EXPECT_TRUE(plan_of(name).is_recomputed) << name;
    EXPECT_EQ(plan_of(name).receiver_memory, plan_of("x1").receiver_memory) << name;
    EXPECT_EQ(plan_of(name).adjoint_receiver_memory, plan_of("x1").receiver_memory) << name;
  }
  EXPECT_EQ(plan.receiver_memories.size(), 3u);    // z0, z1 and this one

  // Models without SO(2) convolutions recompute nothing.
  int num_steps = 0;
  for (const TinyCase &c : family_cases())
    for (const Stage &stage : make_evaluation_plan(c.model(), false).stages)
      for (const Step &step : stage.steps) num_steps += step.is_recomputed;
  EXPECT_EQ(num_steps, 0);
}

}    // namespace

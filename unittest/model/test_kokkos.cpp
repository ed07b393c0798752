// SPDX-License-Identifier: MIT
// HostEvaluation: the evaluators that obey the laws of evaluator_laws.cpp, and tests only for it.
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/direct_forces.h"
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/make_kokkos.h"
#include "unittest/support/model_cases.h"
#include "unittest/support/scalar_model.h"
#include "unittest/support/sharp_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace {

using namespace equi;
using namespace equi::testing;

// float32 network: 6e-8 per operation, relative to numbers of order ten.
constexpr Closeness FLOAT32 = {5e-5};

class HostEvaluationTest : public ::testing::TestWithParam<TinyCase> {
 protected:
  HostEvaluationTest() : model(GetParam().model()), structure(random_structure(model.num_species(), 7)) {}

  Model model;
  Structure structure;
};

TEST_P(HostEvaluationTest, precisions_and_instruction_sets_agree) {
  const ImageStructure images = structure.images(model.reach());
  const Evaluation exact = evaluate_whole(*make_kokkos(model, {Precision::double_, true}), images);
  const double largest = std::max(1.0, largest_force(exact.forces));
  for (const InstructionSet set : INSTRUCTION_SETS) {
    if (!instruction_set_available(set)) continue;
    const std::string what = host_kernels<double>(set).name;
    const Evaluation tabulated = evaluate_whole(*make_kokkos(model, {Precision::double_, false, false, set}), images);
    expect_same(tabulated, exact, {100 * TABLE.absolute * largest}, what + " double");
    const Evaluation mixed = evaluate_whole(*make_kokkos(model, {Precision::mixed, false, false, set}), images);
    expect_same(mixed, exact, {FLOAT32.absolute * largest}, what + " mixed");
    EXPECT_NE(mixed.energy, exact.energy);    // the arithmetic differs
  }
}

TEST_P(HostEvaluationTest, deterministic_agrees_with_the_default) {
  const ImageStructure images = random_structure(model.num_species(), 11, 4).images(model.reach());
  for (const bool exact : {false, true})
    expect_same(evaluate_whole(*make_kokkos(model, {Precision::double_, exact, true}), images),
                evaluate_whole(*make_kokkos(model, {Precision::double_, exact, false}), images),
                {10 * ROUNDING.absolute}, exact ? "exact" : "table");
}

INSTANTIATE_TEST_SUITE_P(Tiny, HostEvaluationTest, ::testing::ValuesIn(all_cases()),
                         [](const auto &info) { return info.param.name; });

class DirectForcesTest : public ::testing::TestWithParam<TinyCase> {};

TEST_P(DirectForcesTest, are_those_of_plain_loops) {
  for (const bool deterministic : {false, true}) {
    const auto make = [&](Precision precision, bool exact) {
      return [=](const Model &m) { return make_kokkos(m, {precision, exact, deterministic}); };
    };
    expect_direct_forces(make(Precision::double_, true), GetParam(), ROUNDING);
    expect_direct_forces(make(Precision::double_, false), GetParam(), TABLE);
    expect_direct_forces(make(Precision::mixed, false), GetParam(), FLOAT32);
  }
}

TEST_P(DirectForcesTest, have_no_derivatives) {
  const Model model = with_direct_forces(GetParam());
  KokkosOptions options;
  options.directional = true;
  EXPECT_THROW(make_kokkos(model, options), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(, DirectForcesTest, ::testing::ValuesIn(direct_force_cases()), name_of_case);

class SharpAttention : public ::testing::TestWithParam<SharpCase> {};

TEST_P(SharpAttention, is_a_softmax_for_any_scores) {
  for (const bool deterministic : {false, true})
    expect_sharp_attention(
        [&](const Model &model, EvaluatorOptions options) {
          options.deterministic = deterministic;
          return make_host_evaluator(model, options);
        },
        GetParam());
}

INSTANTIATE_TEST_SUITE_P(, SharpAttention, ::testing::ValuesIn(sharp_cases()), name_of_sharp_case);

// The edges of a receiver are computed together, whatever other receivers are in its batch. With small batches only
// some edges are in memory at a time.
TEST(HostEvaluation, local_networks_have_the_same_bits_in_batches_of_any_size) {
  const Model model = case_named("local_of_2_layers").model();
  const ImageStructure images = random_structure(2, 11, 4).images(model.reach());
  const std::vector<Vector3> direction = random_direction(images.neighborhood.num_receivers, 12);
  for (const Precision precision : {Precision::double_, Precision::mixed})
    for (const bool directional : {false, true}) {
      EvaluatorOptions options;
      options.precision = precision;
      options.directional = directional;
      const auto all_at_once = make_host_evaluator(model, options);
      const std::vector<Vector3> *const along = directional ? &direction : nullptr;
      const Evaluation whole = evaluate_whole(*all_at_once, images, along);
      for (const int batch : {1, 7}) {
        options.batch = batch;
        const auto evaluator = make_host_evaluator(model, options);
        for (const char *step : {"first", "warm"}) {
          const Evaluation found = evaluate_whole(*evaluator, images, along);
          expect_same(found, whole, {0.0}, std::to_string(batch) + ", " + step);
          EXPECT_EQ(found.force_tangents, whole.force_tangents) << batch;
          EXPECT_EQ(found.virial_tangent, whole.virial_tangent) << batch;
        }
        if (batch == 1) {
          EXPECT_LT(evaluator->memory_bytes(), all_at_once->memory_bytes());
        }
      }
    }
}

// ---- shapes of models that the builder does not make
TEST(HostEvaluation, a_layer_that_the_energy_does_not_see_changes_nothing) {
  TinyModelOptions options;
  options.hidden = {"5x0e+3x1e", "5x0e"};
  ModelDocument longer = make_tiny_model(options);
  options.hidden = {"5x0e+3x1e"};
  // The readout and all that follows of the long model, on the features of its first layer.
  for (auto &layer : longer.document["layers"])
    if (layer["type"] == "readout") {
      layer["input"] = "x1";
      layer["irreps_in"] = "5x0e+3x1e";
    }
  const Model model = longer.model();
  Model shorter = model;
  shorter.layers.clear();
  int num_convolutions = 0, num_gates = 0;
  for (const Layer &layer : model.layers) {
    // Layers of the second interaction lie between the first gate and the readout.
    if (std::holds_alternative<Readout>(layer) || std::holds_alternative<ScaleShift>(layer) || num_gates == 0)
      shorter.layers.push_back(layer);
    num_gates += std::holds_alternative<Gate>(layer);
    num_convolutions += std::holds_alternative<Convolution>(layer);
  }
  ASSERT_EQ(num_convolutions, 2);
  const ImageStructure images = random_structure(2, 7).images(model.reach());
  for (const bool deterministic : {false, true}) {
    const KokkosOptions o{Precision::double_, true, deterministic};
    const auto evaluator = make_kokkos(model, o);
    expect_same(evaluate_whole(*evaluator, images), evaluate_whole(*make_kokkos(shorter, o), images), ROUNDING,
                "unseen layer");
    // Memory that an earlier step has used must have no effect either.
    expect_same(evaluate_whole(*evaluator, images), evaluate_whole(*make_kokkos(shorter, o), images), ROUNDING,
                "unseen layer, warm");
  }
}

TEST(HostEvaluation, features_may_be_read_by_several_layers) {
  for (const TinyCase &c : all_cases()) {
    TinyCase once = c;
    once.reads_twice = false;
    const Model model = once.model(), twice = with_features_read_twice(model);
    if (c.reads_twice) {
      EXPECT_GT(twice.features.size(), model.features.size() + 1) << c.name;
    }
    const ImageStructure images = random_structure(model.num_species(), 7).images(model.reach());
    for (const bool deterministic : {false, true}) {
      const KokkosOptions o{Precision::double_, true, deterministic};
      const auto evaluator = make_kokkos(twice, o);
      const Evaluation expected = evaluate_whole(*make_kokkos(model, o), images);
      expect_same(evaluate_whole(*evaluator, images), expected, ROUNDING, c.name);
      expect_same(evaluate_whole(*evaluator, images), expected, ROUNDING, c.name + ", warm");
    }
  }
}

// SO(2) convolutions keep values from forward to backward for as many edges as the limit on the memory allows.
TEST(HostEvaluation, values_are_evaluated_again_where_memory_is_limited) {
  const Model model = case_named("so2_of_fewer_m").model();
  const ImageStructure images = random_structure(model.num_species(), 7, 4).images(model.reach());
  const auto keeping = make_kokkos(model);
  const Evaluation expected = evaluate_whole(*keeping, images);
  const std::size_t most = keeping->memory_bytes();
  // Enough for an evaluation: half of the limit is for kept values.
  std::vector<std::size_t> held;
  for (const double share : {1.2, 1.6, 1.9, 2.5}) {
    KokkosOptions options;
    options.memory_limit = share * static_cast<double>(most);
    const auto limited = make_kokkos(model, options);
    for (const char *step : {"first", "warm", "third"}) {
      const Evaluation found = evaluate_whole(*limited, images);
      EXPECT_EQ(found.energy, expected.energy) << share << ", " << step;
      EXPECT_EQ(found.forces, expected.forces) << share << ", " << step;
    }
    held.push_back(limited->memory_bytes());
    EXPECT_LT(static_cast<double>(held.back()), options.memory_limit);
  }
  EXPECT_LT(held[0], held[1]);    // nothing is kept, or something
  EXPECT_LT(held[1], held[2]);
  EXPECT_LT(held[2], most);
  EXPECT_EQ(held[3], most);
}

TEST(HostEvaluation, two_readouts_add_up) {
  TinyModelOptions options;
  options.hidden = {"5x0e+3x1e", "5x0e"};
  Model both = make_tiny_model(options).model();
  // A second readout, which reads the first layer's scalars.
  size_t at = 0;
  int first_gate = -1;
  Readout early{};
  for (size_t k = 0; k < both.layers.size(); ++k) {
    if (const auto *g = std::get_if<Gate>(&both.layers[k]); g && first_gate < 0) first_gate = g->output;
    if (const auto *r = std::get_if<Readout>(&both.layers[k])) {
      early = *r;
      at = k;
    }
  }
  early.input = first_gate;
  early.block = 0;
  both.layers.insert(both.layers.begin() + static_cast<std::ptrdiff_t>(at), early);
  const Structure structure = random_structure(2, 7);
  const ImageStructure images = structure.images(both.reach());
  const std::vector<double> expected = scalar_energies(both, images);
  for (const bool deterministic : {false, true}) {
    const auto evaluator = make_kokkos(both, {Precision::double_, true, deterministic});
    const Evaluation e = evaluate_whole(*evaluator, images);
    for (int i = 0; i < structure.size(); ++i) EXPECT_NEAR(e.atom_energy[i], expected[i], ROUNDING.absolute);
    for (int k = 0; k < 3; ++k) {
      const auto energy = [&](double step) {
        Structure moved = structure;
        moved.positions[2][k] += step;
        return energy_of(*evaluator, moved, both.reach());
      };
      const double h = 3e-4, wide = (energy(h) - energy(-h)) / (2 * h), narrow = (energy(h / 2) - energy(-h / 2)) / h;
      EXPECT_NEAR(e.forces[2][k], -(4 * narrow - wide) / 3, FINITE_DIFFERENCE * largest_force(e.forces));
    }
  }
}

TEST(HostEvaluation, the_log_names_precision_kernels_and_tables) {
  const Model model = make_tiny_model().model();
  const std::string text = make_kokkos(model, {Precision::mixed})->describe();
  for (const char *word : {"precision mixed", "2 threads", "convolution 0", "convolution 1", "knots", "error"})
    EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
  const std::string kernels =
      std::string(instruction_set_name(vector_set(best_instruction_set()))) + " kernels and dense products";
  EXPECT_NE(text.find(kernels), std::string::npos) << text;
  // A build for fewer instruction sets than this machine has; the preset asan makes one.
  const bool lacks_kernels = best_instruction_set(false) != best_instruction_set();
  EXPECT_EQ(text.find("WARNING: this CPU has") != std::string::npos, lacks_kernels) << text;
  EXPECT_NE(make_kokkos(model, {Precision::double_, true, true})->describe().find("deterministic"), std::string::npos);
  EXPECT_NE(make_kokkos(model, {Precision::double_, true})->describe().find("exact"), std::string::npos);
  TinyModelOptions options;
  options.sender_scalars = 5;
  const std::string no_table = make_kokkos(make_tiny_model(options).model())->describe();
  EXPECT_NE(no_table.find("no table"), std::string::npos) << no_table;
  EXPECT_EQ(no_table.find("knots"), std::string::npos) << no_table;
}

}    // namespace

namespace equi {
namespace testing {

// Each two of precision, radial functions and gathering appear together, but not each three: layers with radial
// functions have kernels of their own for tables that are gathered, and the type of numbers is a parameter of
// templates.
std::vector<EvaluatorKind> evaluator_kinds() {
  std::vector<EvaluatorKind> kinds;
  const auto add = [&](const std::string &name, Precision precision, bool exact, bool deterministic) {
    const bool is_double = precision == Precision::double_;
    kinds.push_back({name,
                     [=](const Model &m, double radial_tolerance) {
                       KokkosOptions options{precision, exact, deterministic};
                       options.radial_tolerance = radial_tolerance;
                       return make_kokkos(m, options);
                     },
                     is_double ? ROUNDING : FLOAT32,
                     !is_double ? FLOAT32
                     : exact    ? ROUNDING
                                : TABLE,
                     is_double ? NOTICEABLE : 20 * FLOAT32.absolute, is_double});
  };
  add("double_exact", Precision::double_, true, false);
  add("double_table", Precision::double_, false, false);
  add("double_table_deterministic", Precision::double_, false, true);
  add("mixed_table", Precision::mixed, false, false);
  add("mixed_exact_deterministic", Precision::mixed, true, true);
  return kinds;
}

std::vector<TinyCase> evaluator_law_cases() {
  return all_cases();
}

}    // namespace testing
}    // namespace equi

// SPDX-License-Identifier: MIT
// Evaluations on CPUs that keep fewer features and compute more.
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/lean_evaluation.h"
#include "unittest/support/model_builder.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

class LeanHostEvaluation : public ::testing::TestWithParam<TinyCase> {};

TEST_P(LeanHostEvaluation, has_the_same_bits) {
  const Model model = GetParam().model();
  std::vector<EvaluatorOptions> all(3);
  all[1].deterministic = true;
  all[1].precision = Precision::double_;
  all[2].directional = true;
  all[2].precision = Precision::double_;
  for (const EvaluatorOptions &options : all)
    expect_lean_evaluations_have_the_same_bits(make_host_evaluator, model, options,
                                               options.directional     ? "directional"
                                               : options.deterministic ? "deterministic"
                                                                       : "mixed");
}
INSTANTIATE_TEST_SUITE_P(Cases, LeanHostEvaluation, ::testing::ValuesIn(all_cases()),
                         [](const auto &info) { return info.param.name; });

TEST(LeanHostEvaluationMemory, is_less_and_limits_lead_to_it) {
  TinyModelOptions layers;
  layers.hidden = {"32x0e+32x1e", "32x0e+32x1e", "32x0e+32x1e", "32x0e"};
  layers.embedding_channels = 32;
  const Model model = make_tiny_model(layers).model();
  const ImageStructure images = random_structure(2, 5, 6).images(model.reach());
  for (const bool deterministic : {false, true}) {
    EvaluatorOptions options;
    options.deterministic = deterministic;
    options.radial_tolerance = COARSE_TABLES;
    const auto held = [&](double limit, bool lean) {
      options.memory_limit = limit;
      options.lean = lean;
      const auto evaluator = make_host_evaluator(model, options);
      const std::size_t constants = evaluator->memory_bytes();
      evaluate_whole(*evaluator, images);
      evaluate_whole(*evaluator, images);
      std::size_t parts = 0;
      for (const MemoryPart &part : memory_parts(*evaluator)) parts += part.bytes;
      EXPECT_EQ(parts, evaluator->memory_bytes());
      return static_cast<double>(evaluator->memory_bytes() - constants);
    };
    const double most = held(0.0, false), least = held(0.0, true);
    EXPECT_LT(least, 0.95 * most);
    options.memory_limit = 0.0;
    options.lean = false;
    const double constants = static_cast<double>(make_host_evaluator(model, options)->memory_bytes());
    EXPECT_EQ(held(1.001 * (most + constants), false), most);
    EXPECT_EQ(held(0.999 * (most + constants), false), least);
    EXPECT_THROW(held(0.99 * (least + constants), false), MemoryLimitError);
  }
}

}    // namespace

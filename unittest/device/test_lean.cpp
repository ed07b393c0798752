// SPDX-License-Identifier: MIT
// Evaluations by the device kernels that keep fewer features and compute more.
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/lean_evaluation.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

namespace {

using namespace equi;
using namespace equi::testing;

class LeanDeviceEvaluation : public ::testing::TestWithParam<TinyCase> {};

TEST_P(LeanDeviceEvaluation, has_the_same_bits) {
  const Model model = GetParam().model();
  for (const bool directional : {false, true}) {
    EvaluatorOptions options;
    options.directional = directional;
    expect_lean_evaluations_have_the_same_bits(make_device_evaluator, model, options,
                                               directional ? "directional" : "plain");
  }
}
INSTANTIATE_TEST_SUITE_P(Cases, LeanDeviceEvaluation, ::testing::ValuesIn(evaluator_law_cases()),
                         [](const auto &info) { return info.param.name; });

TEST(LeanDeviceEvaluationMemory, has_the_same_bytes_in_parts_and_as_a_whole) {
  const Model model = case_named("parity_three_layers").model();
  const ImageStructure images = random_structure(model.num_species(), 5, 8).images(model.reach());
  double before = 0.0;
  for (const bool lean : {false, true}) {
    EvaluatorOptions options;
    options.lean = lean;
    const auto evaluator = make_device_evaluator(model, options);
    evaluate_whole(*evaluator, images);
    std::size_t parts = 0;
    for (const MemoryPart &part : memory_parts(*evaluator)) parts += part.bytes;
    EXPECT_EQ(parts, evaluator->memory_bytes());
    if (lean) {
      EXPECT_LE(static_cast<double>(parts), before);
    }
    before = static_cast<double>(parts);
  }
}

}    // namespace

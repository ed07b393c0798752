// SPDX-License-Identifier: MIT
// TorchModel: the evaluators that obey the laws of evaluator_laws.cpp, and tests only for it.
#include "src/reference/torch_model.h"
#include "unittest/support/direct_forces.h"
#include "unittest/support/evaluator_laws.h"

#include <gtest/gtest.h>

namespace {

using namespace equi;
using namespace equi::testing;

// float32 network: 6e-8 per operation, relative to numbers of order ten.
constexpr Closeness FLOAT32 = {2e-5};

EvaluatorOptions precision(Precision p) {
  EvaluatorOptions options;
  options.precision = p;
  return options;
}

std::unique_ptr<Evaluator> make(const Model &model, Precision p = Precision::double_) {
  return std::make_unique<TorchModel>(model, precision(p));
}

class TorchModelTest : public ::testing::TestWithParam<TinyCase> {
 protected:
  TorchModelTest()
      : model(GetParam().model()), images(random_structure(model.num_species(), 7).images(model.reach())) {}
  Model model;
  ImageStructure images;
};

TEST_P(TorchModelTest, precisions_agree) {
  const Evaluation exact = evaluate_whole(*make(model), images);
  const Evaluation mixed = evaluate_whole(*make(model, Precision::mixed), images);
  expect_same(mixed, exact, FLOAT32, "mixed");
  EXPECT_NE(mixed.energy, exact.energy);    // the arithmetic differs
}

TEST_P(TorchModelTest, chunks_of_edges_change_only_rounding) {
  TorchModel chunked(model, precision(Precision::double_), 30e3);
  expect_same(evaluate_whole(chunked, images), evaluate_whole(*make(model), images), ROUNDING, "chunks");
  EXPECT_LT(chunked.memory_bytes(), make(model)->memory_bytes() + (1 << 20));
}

INSTANTIATE_TEST_SUITE_P(TinyModels, TorchModelTest, ::testing::ValuesIn(all_cases()),
                         [](const auto &info) { return info.param.name; });

class TorchDirectForces : public ::testing::TestWithParam<TinyCase> {};

TEST_P(TorchDirectForces, are_those_of_plain_loops) {
  expect_direct_forces([](const Model &m) { return make(m); }, GetParam(), ROUNDING);
}

INSTANTIATE_TEST_SUITE_P(, TorchDirectForces, ::testing::ValuesIn(direct_force_cases()), name_of_case);

TEST(TorchEntry, reports_a_model_that_does_not_fit_together) {
  Model model = tiny_cases().front().model();
  EvaluatorOptions options;
  char error[200] = "";
  std::unique_ptr<Evaluator> evaluator(equi_make_torch_evaluator(&model, &options, error, sizeof(error)));
  ASSERT_TRUE(evaluator) << error;
  EXPECT_NE(evaluator->describe().find("LibTorch"), std::string::npos);
  for (Layer &layer : model.layers)
    if (auto *c = std::get_if<Convolution>(&layer)) c->product.paths.front().l2 = 99;
  evaluator.reset(equi_make_torch_evaluator(&model, &options, error, sizeof(error)));
  EXPECT_FALSE(evaluator);
  EXPECT_STRNE(error, "");
}

}    // namespace

namespace equi {
namespace testing {

std::vector<EvaluatorKind> evaluator_kinds() {
  return {{"double", [](const Model &m, double) { return make(m, Precision::double_); }, ROUNDING, ROUNDING, NOTICEABLE,
           true},
          {"mixed", [](const Model &m, double) { return make(m, Precision::mixed); }, FLOAT32, FLOAT32,
           100 * FLOAT32.absolute, false}};
}

std::vector<TinyCase> evaluator_law_cases() {
  return all_cases();
}

}    // namespace testing
}    // namespace equi

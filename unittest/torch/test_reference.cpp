// SPDX-License-Identifier: MIT
// Compares TorchModel with the framework.
#include "src/reference/torch_model.h"
#include "unittest/support/framework_answers.h"

#include <gtest/gtest.h>

namespace {

using namespace equi;
using namespace equi::testing;

void expect_all_answers_of_torch(Precision precision, const ReferenceTolerance &tolerance) {
  EvaluatorOptions options;
  options.precision = precision;
  expect_all_answers([&](const Model &model) { return std::make_unique<TorchModel>(model, options); }, tolerance);
}

TEST(TorchReference, double_equals_the_framework) {
  expect_all_answers_of_torch(Precision::double_, EXACT_REFERENCE);
}

TEST(TorchReference, mixed_is_near_the_framework) {
  expect_all_answers_of_torch(Precision::mixed, MIXED_REFERENCE);
}

}    // namespace

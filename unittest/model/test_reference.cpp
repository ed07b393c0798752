// SPDX-License-Identifier: MIT
// HostEvaluation against the framework.
#include "unittest/support/framework_answers.h"
#include "unittest/support/make_kokkos.h"

#include <gtest/gtest.h>

namespace {

using namespace equi;
using namespace equi::testing;

void expect_all_answers_of_kokkos(const KokkosOptions &options, const ReferenceTolerance &tolerance) {
  expect_all_answers([&](const Model &model) { return make_kokkos(model, options); }, tolerance);
}

TEST(ModelReference, double_exact_equals_the_framework) {
  expect_all_answers_of_kokkos({Precision::double_, true, false}, EXACT_REFERENCE);
}

TEST(ModelReference, double_exact_deterministic_equals_the_framework) {
  expect_all_answers_of_kokkos({Precision::double_, true, true}, EXACT_REFERENCE);
}

TEST(ModelReference, double_by_tables_is_near_the_framework) {
  expect_all_answers_of_kokkos({Precision::double_, false, false}, TABLE_REFERENCE);
}

TEST(ModelReference, mixed_by_tables_is_near_the_framework) {
  expect_all_answers_of_kokkos({Precision::mixed, false, false}, MIXED_REFERENCE);
}

TEST(ModelReference, mixed_exact_deterministic_is_near_the_framework) {
  expect_all_answers_of_kokkos({Precision::mixed, true, true}, MIXED_REFERENCE);
}

TEST(ModelReference, single_by_tables_is_near_the_framework) {
  expect_all_answers_of_kokkos({Precision::single, false, false}, SINGLE_REFERENCE);
}

}    // namespace

// SPDX-License-Identifier: MIT
// Compares HostEvaluation with the framework.
#include "kokkos/host_kernels/host_kernels.h"
#include "unittest/support/framework_answers.h"
#include "unittest/support/make_kokkos.h"

#include <gtest/gtest.h>

namespace {

using namespace equi;
using namespace equi::testing;

void expect_all_answers_of_kokkos(const KokkosOptions &options, const ReferenceTolerance &tolerance) {
  expect_all_answers([&](const Model &model) { return make_kokkos(model, options); }, tolerance);
}

// The kernels for any CPU round each product and each sum, one term after another. They missed an energy by 1.6e-6 that
// the others computed to 3e-7.
ReferenceTolerance mixed_tolerance() {
  ReferenceTolerance tolerance = MIXED_REFERENCE;
  if (best_instruction_set() == InstructionSet::generic) tolerance.energy *= 2;
  return tolerance;
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
  expect_all_answers_of_kokkos({Precision::mixed, false, false}, mixed_tolerance());
}

TEST(ModelReference, mixed_exact_deterministic_is_near_the_framework) {
  expect_all_answers_of_kokkos({Precision::mixed, true, true}, mixed_tolerance());
}

}    // namespace

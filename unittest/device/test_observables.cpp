// SPDX-License-Identifier: MIT
// The energy of dipoles in a field by DeviceEvaluation, also over duals, and models that have observables, too.
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/device_directional.h"
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/observables.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

constexpr std::array<double, 3> FIELD = {0.3, -0.2, 0.5};
// The same sums in another order, in float64, relative to the largest number of their kind.
constexpr Closeness SUM_ORDER = {0.0, 1e-12};
constexpr double TANGENT_ORDER = 1e-11;
// In float32 through a few layers.
constexpr Closeness FLOAT32 = {0.0, 3e-5};

class DeviceObservables : public ::testing::TestWithParam<TinyCase> {
 protected:
  static EvaluatorOptions plain(Precision precision) {
    EvaluatorOptions options = directional(precision, true);
    options.directional = false;
    return options;
  }
  const Model bare = observed_model(GetParam(), false), in_field = bare.with_field(FIELD),
              without = bare.without_observables();
  const Structure structure = random_structure(bare.num_species(), 7);
  const ImageStructure images = structure.images(bare.reach());
};

TEST_P(DeviceObservables, have_the_energy_and_forces_of_the_host_kernels_in_a_field) {
  const EvaluatorOptions options = plain(Precision::double_);
  const Evaluation device = evaluate_whole(*make_device_evaluator(in_field, options), images),
                   host = evaluate_whole(*make_host_evaluator(in_field, options), images),
                   elsewhere = evaluate_whole(*make_device_evaluator(without, options), images);
  expect_same(device, host, SUM_ORDER, "in a field");
  EXPECT_GT(largest_difference(device.forces, elsewhere.forces), NOTICEABLE);
  expect_same(evaluate_whole(*make_device_evaluator(in_field, plain(Precision::mixed)), images), host, FLOAT32,
              "mixed");
}

TEST_P(DeviceObservables, do_not_change_the_energy_without_a_field) {
  const EvaluatorOptions options = plain(Precision::double_);
  expect_same(evaluate_whole(*make_device_evaluator(bare, options), images),
              evaluate_whole(*make_device_evaluator(without, options), images), SUM_ORDER, "beside observables");
}

TEST_P(DeviceObservables, have_second_derivatives_in_a_field) {
  const std::vector<Vector3> direction = random_direction(structure.size(), 11);
  const EvaluatorOptions options = directional(Precision::double_, true);
  const Evaluation device = evaluate_whole(*make_device_evaluator(in_field, options), images, &direction),
                   host = evaluate_whole(*make_host_evaluator(in_field, options), images, &direction);
  expect_same(device, host, SUM_ORDER, "in a field");
  EXPECT_LT(largest_difference(device.force_tangents, host.force_tangents),
            TANGENT_ORDER * largest_force(host.force_tangents));
}

TEST_P(DeviceObservables, themselves_are_left_to_the_host) {
  const auto device = make_device_evaluator(bare, plain(Precision::double_));
  EXPECT_THROW(observables_of(*device, bare, images), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(, DeviceObservables, ::testing::ValuesIn(observable_cases()),
                         [](const auto &info) { return info.param.name; });

}    // namespace

// SPDX-License-Identifier: MIT
// EvaluationRequest::energy_moments by DeviceEvaluation. They are compared with those of HostEvaluation, whose laws
// unittest/model/test_energy_moments.cpp tests.
#include "kokkos/runtime/device_exec.h"
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/device_directional.h"
#include "unittest/support/evaluator_laws.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace {

using namespace equi;
using namespace equi::testing;

// The same sums in another order, in float64, relative to the largest moment.
constexpr double SUM_ORDER = 1e-11;
EvaluatorOptions with_moments(Precision precision, bool radial_exact = false) {
  EvaluatorOptions options = directional(precision, radial_exact);
  options.energy_moments = true;
  return options;
}

Evaluation moments_of(Evaluator &evaluator, const ImageStructure &images, const std::vector<Vector3> &velocity) {
  return evaluate_whole(evaluator, images, &velocity, Wanted::energy_moments);
}

void expect_same_moments(const Evaluation &e, const Evaluation &expected, const std::string &what) {
  const double largest = largest_force(expected.energy_moments);
  ASSERT_GT(largest, 0.0) << what;
  EXPECT_LT(largest_difference(e.energy_moments, expected.energy_moments), SUM_ORDER * std::max(1.0, largest)) << what;
  const double allowed = allowed_differences({0.0, SUM_ORDER}, expected).energy;
  for (size_t i = 0; i < e.atom_energy.size(); ++i)
    EXPECT_NEAR(e.atom_energy[i], expected.atom_energy[i], allowed) << what;
  EXPECT_NEAR(e.energy, expected.energy, allowed) << what;
  EXPECT_NEAR(e.energy_tangent, expected.energy_tangent, SUM_ORDER * std::max(1.0, largest) * e.atom_energy.size())
      << what;
}

class DeviceEnergyMoments : public OfDirection {};

TEST_P(DeviceEnergyMoments, agree_with_those_of_the_host_kernels) {
  for (const bool exact : {false, true}) {
    const EvaluatorOptions options = with_moments(Precision::double_, exact);
    expect_same_moments(moments_of(*make_device_evaluator(model, options), images, direction),
                        moments_of(*make_host_evaluator(model, options), images, direction), exact ? "exact" : "table");
  }
}

// A small system's evaluation is recorded when it is evaluated again.
TEST_P(DeviceEnergyMoments, depend_on_the_present_velocities_only) {
  const EvaluatorOptions options = with_moments(Precision::double_);
  const auto evaluator = make_device_evaluator(model, options);
  const std::vector<Vector3> other = random_direction(structure.size(), 12);
  const Evaluation first = moments_of(*evaluator, images, direction), between = moments_of(*evaluator, images, other);
  EXPECT_GT(largest_difference(between.energy_moments, first.energy_moments), NOTICEABLE);
  for (const char *step : {"warm", "replayed"})
    EXPECT_EQ(moments_of(*evaluator, images, direction).energy_moments, first.energy_moments) << step;
}

TEST_P(DeviceEnergyMoments, mixed_precision_is_near_double) {
  const Evaluation expected =
                       moments_of(*make_host_evaluator(model, with_moments(Precision::double_)), images, direction),
                   mixed = moments_of(*make_device_evaluator(model, with_moments(Precision::mixed)), images, direction);
  EXPECT_LT(largest_difference(mixed.energy_moments, expected.energy_moments),
            FLOAT32_NETWORK * std::max(1.0, largest_force(expected.energy_moments)));
}

TEST_P(DeviceEnergyMoments, ranks_agree_with_one_rank) {
  const EvaluatorOptions options = with_moments(Precision::double_);
  const Evaluation whole = moments_of(*make_device_evaluator(model, options), images, direction);
  for_splits(options, Wanted::energy_moments, [&](const Evaluation &e, int num_ranks, RankGroup &group) {
    expect_same_moments(e, whole, std::to_string(num_ranks) + " ranks");
    EXPECT_EQ(group.calls(0), num_exchanged_features(model));
  });
}

INSTANTIATE_TEST_SUITE_P(, DeviceEnergyMoments, ::testing::ValuesIn(local_cases(evaluator_law_cases())),
                         [](const auto &info) { return info.param.name; });

// More atoms than a batch holds, and little memory.
TEST(DeviceEnergyMomentsRun, do_not_depend_on_batches) {
  std::vector<Model> models{make_tiny_model({}).model(), case_named("weights_of_features").model()};
  if (DeviceTraits<>::ON_HOST)    // an emulated GPU would be slow
    models.push_back(case_named("so2_biases_rows_of_species").model());
  for (const Model &model : models) {
    const Structure structure = random_structure(model.num_species(), 3, 8);
    const ImageStructure images = structure.images(model.reach());
    const std::vector<Vector3> velocity = random_direction(structure.size(), 5);
    EvaluatorOptions options = with_moments(Precision::double_);
    const Evaluation host = moments_of(*make_host_evaluator(model, options), images, velocity);
    const auto free = make_device_evaluator(model, options);
    expect_same_moments(moments_of(*free, images, velocity), host, "free");
    options.memory_limit = least_memory(model, options, [&](Evaluator &e) { moments_of(e, images, velocity); });
    ASSERT_GT(options.memory_limit, 1.0);
    const auto limited = make_device_evaluator(model, options);
    expect_same_moments(moments_of(*limited, images, velocity), host, "limited");
    EXPECT_LT(limited->memory_bytes(), free->memory_bytes());
    EXPECT_LE(static_cast<double>(limited->memory_bytes()), options.memory_limit);
  }
}

TEST(DeviceEnergyMomentsRun, of_atoms_without_neighbors_are_zero) {
  for (const char *name : {"rotations_only", "weights_of_features", "attention_of_3_heads"}) {
    const Model model = case_named(name).model();
    for (const int num_atoms : {1, 2}) {
      const std::vector<Vector3> velocity = random_direction(num_atoms, 1);
      const Evaluation e = moments_of(*make_device_evaluator(model, with_moments(Precision::mixed)),
                                      isolated_atoms(num_atoms).images(model.reach()), velocity);
      EXPECT_EQ(largest_force(e.energy_moments), 0.0) << name;
      EXPECT_EQ(e.energy_tangent, 0.0) << name;
    }
  }
}

TEST(DeviceEnergyMomentsRun, are_refused_as_on_the_host) {
  EXPECT_THROW(make_device_evaluator(case_named("balanced_channels").model(), with_moments(Precision::double_)),
               std::invalid_argument);
  const Model model = case_named("rotations_only").model();
  const Structure structure = random_structure(model.num_species(), 7);
  const std::vector<Vector3> v = random_direction(structure.size(), 1);
  const ImageStructure images = structure.images(model.reach());
  EXPECT_THROW(evaluate_whole(*make_device_evaluator(model, with_moments(Precision::double_)), images, &v),
               std::logic_error);
  EXPECT_THROW(moments_of(*make_device_evaluator(model, {}), images, v), std::logic_error);
}

}    // namespace

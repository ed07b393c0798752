// SPDX-License-Identifier: MIT
// Derivatives of forces along a direction, -H v, by DeviceEvaluation over duals. They are compared with HostEvaluation
// over duals, which test_model_directional.cpp compares with differences and symmetry, and with differences of
// DeviceEvaluation's own forces.
#include "kokkos/runtime/device_exec.h"
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/device_directional.h"
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/kept_directions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace {

using namespace equi;
using namespace equi::testing;

// The same sums in another order, in float64, relative to the largest number of their kind.
constexpr Closeness SUM_ORDER = {0.0, 1e-12};
constexpr double TANGENT_ORDER = 1e-11;
// Several directions at a time and one after another.
constexpr double KEPT_ROUNDING = 1e-12;
// Central differences of forces, relative to the largest component of H v.
constexpr double DIFFERENCES = 1e-7;

class DeviceDirectional : public OfDirection {};

TEST_P(DeviceDirectional, agrees_with_the_host_kernels) {
  for (const bool exact : {false, true}) {
    const std::string name = exact ? "exact" : "table";
    const EvaluatorOptions options = directional(Precision::double_, exact);
    const Evaluation device = evaluate_whole(*make_device_evaluator(model, options), images, &direction),
                     host = evaluate_whole(*make_host_evaluator(model, options), images, &direction);
    expect_same(device, host, SUM_ORDER, name);
    EXPECT_LT(largest_difference(device.force_tangents, host.force_tangents),
              TANGENT_ORDER * largest_force(host.force_tangents))
        << name;
    for (int k = 0; k < 6; ++k)
      EXPECT_NEAR(device.virial_tangent[k], host.virial_tangent[k],
                  TANGENT_ORDER * structure.size() * model.cutoff * largest_force(host.force_tangents))
          << name;
    EXPECT_NEAR(device.energy_tangent, host.energy_tangent,
                TANGENT_ORDER * structure.size() * largest_force(host.forces))
        << name;
  }
}

TEST_P(DeviceDirectional, mixed_precision_is_near_double) {
  const Evaluation expected =
                       evaluate_whole(*make_host_evaluator(model, directional(Precision::double_)), images, &direction),
                   mixed =
                       evaluate_whole(*make_device_evaluator(model, directional(Precision::mixed)), images, &direction);
  EXPECT_LT(largest_difference(mixed.force_tangents, expected.force_tangents),
            FLOAT32_NETWORK * std::max(1.0, largest_force(expected.force_tangents)));
}

TEST_P(DeviceDirectional, tangents_are_differences_of_forces_and_virials) {
  const auto evaluator = make_device_evaluator(model, directional(Precision::double_));
  const Evaluation tangents = evaluate_whole(*evaluator, images, &direction);
  const double largest = largest_force(tangents.force_tangents);
  const TangentErrors errors = largest_errors_by_differences(*evaluator, model, structure, direction, tangents);
  EXPECT_LT(errors.forces, DIFFERENCES * largest);
  EXPECT_LT(errors.virial, DIFFERENCES * largest * structure.size() * model.cutoff);
}

TEST_P(DeviceDirectional, ranks_agree_with_one_rank) {
  const EvaluatorOptions options = directional(Precision::double_);
  const Evaluation whole = evaluate_whole(*make_device_evaluator(model, options), images, &direction);
  for_splits(options, Wanted::all, [&](const Evaluation &e, int num_ranks, RankGroup &) {
    EXPECT_LT(largest_difference(e.force_tangents, whole.force_tangents),
              TANGENT_ORDER * largest_force(whole.force_tangents))
        << num_ranks;
  });
}

EvaluatorOptions keeping(int kept_directions, Precision precision = Precision::double_, bool radial_exact = false) {
  EvaluatorOptions options = directional(precision, radial_exact);
  options.kept_directions = kept_directions;
  return options;
}
std::unique_ptr<Evaluator> make_keeping(const Model &model, int kept_directions, bool radial_exact = false) {
  return make_device_evaluator(model, keeping(kept_directions, Precision::double_, radial_exact));
}

void expect_further_directions_on_devices_get_the_same(const TinyCase &tiny, const Model &model, bool exact) {
  const auto make = [&](const Model &m, int kept_directions) { return make_keeping(m, kept_directions, exact); };
  expect_further_directions_get_the_same(make, model, can_keep(tiny, model), KEPT_ROUNDING);
}

TEST_P(DeviceDirectional, further_directions_at_the_same_positions_get_the_same) {
  expect_further_directions_on_devices_get_the_same(GetParam(), model, false);
}

TEST_P(DeviceDirectional, further_directions_of_exact_functions_get_the_same) {
  expect_further_directions_on_devices_get_the_same(GetParam(), model, true);
}

INSTANTIATE_TEST_SUITE_P(, DeviceDirectional, ::testing::ValuesIn(evaluator_law_cases()),
                         [](const auto &info) { return info.param.name; });

// More atoms than a batch holds, and so little memory that adjoints of senders are gathered slice by slice.
TEST(DeviceDirectionalRun, batches_and_slices_do_not_show) {
  TinyModelOptions tiny;
  tiny.per_species_linear = true;
  std::vector<Model> models{make_tiny_model(tiny).model(), case_named("weights_of_features").model()};
  if (DeviceTraits<>::ON_HOST)    // an emulated GPU would be slow
    models.push_back(case_named("so2_biases_rows_of_species").model());
  for (const Model &model : models) {
    const Structure structure = random_structure(model.num_species(), 3, 8);
    const ImageStructure images = structure.images(model.reach());
    const std::vector<Vector3> direction = random_direction(structure.size(), 5);
    EvaluatorOptions options = directional(Precision::double_);
    const Evaluation host = evaluate_whole(*make_host_evaluator(model, options), images, &direction);
    const auto free = make_device_evaluator(model, options);
    const auto expect_near_host = [&](const Evaluation &e, const std::string &name) {
      EXPECT_LT(largest_difference(e.force_tangents, host.force_tangents),
                TANGENT_ORDER * largest_force(host.force_tangents))
          << name;
    };
    expect_near_host(evaluate_whole(*free, images, &direction), "free");
    options.memory_limit = least_memory(model, options, [&](Evaluator &e) { evaluate_whole(e, images, &direction); });
    const auto limited = make_device_evaluator(model, options);
    expect_near_host(evaluate_whole(*limited, images, &direction), "limited");
    EXPECT_LT(limited->memory_bytes(), free->memory_bytes());
  }
}

TEST(DeviceDirectionalRun, kept_values_are_those_of_the_last_neighborhood_and_evaluation) {
  expect_kept_values_of_the_last_evaluation([](const Model &m, int kept) { return make_keeping(m, kept); },
                                            KEPT_ROUNDING);
}

TEST(DeviceDirectionalRun, ranks_add_to_kept_adjoints_once) {
  expect_kept_adjoints_of_gates([](const Model &m, int kept) { return make_keeping(m, kept); }, KEPT_ROUNDING);
}

// Directions of one atom, of none, and of all, at positions that an evaluator knows.
struct TogetherCase {
  explicit TogetherCase(const Model &model, int side = 2)
      : structure(random_structure(model.num_species(), 7, side)), images(structure.images(model.reach())) {
    for (int d = 0; d < KEPT_DIRECTIONS; ++d) directions.push_back(random_direction(structure.size(), 11 + d));
    directions[1].assign(structure.size(), Vector3{});
    directions[2].assign(structure.size(), Vector3{});
    directions[2][5] = directions[0][5];
  }
  // The tangents along all of them at once, after an evaluation that has kept its values.
  std::vector<Vector3> together(Evaluator &evaluator) const {
    EXPECT_EQ(evaluator.max_directions(), KEPT_DIRECTIONS);
    evaluate_whole(evaluator, images, &directions[3]);
    const std::vector<Vector3> all = joined(directions);
    return evaluate_whole(evaluator, images, &all, Wanted::tangents).force_tangents;
  }
  // The same by an evaluator without kept values, one after another.
  std::vector<Vector3> one_by_one(Evaluator &evaluator) const {
    std::vector<std::vector<Vector3>> tangents;
    for (const auto &v : directions) tangents.push_back(evaluate_whole(evaluator, images, &v).force_tangents);
    return joined(tangents);
  }

  const Structure structure;
  const ImageStructure images;
  std::vector<std::vector<Vector3>> directions;
};

TEST(DeviceDirectionalRun, kept_values_in_mixed_precision_are_near_double) {
  for (const char *name : {"parity_three_layers", "contraction_agnesi_density", "layer_norm"}) {
    const Model model = case_named(name).model();
    const TogetherCase c(model);
    const std::vector<Vector3> expected = c.one_by_one(*make_device_evaluator(model, directional(Precision::double_)));
    const auto kept = make_device_evaluator(model, keeping(KEPT_DIRECTIONS, Precision::mixed));
    EXPECT_LT(largest_difference(c.together(*kept), expected), FLOAT32_NETWORK * std::max(1.0, largest_force(expected)))
        << name;
  }
}

// A limit makes batches smaller, while the values of all atoms are kept.
TEST(DeviceDirectionalRun, kept_directions_keep_to_a_limit_of_memory) {
  for (const char *name : {"parity_three_layers", "contraction_agnesi_density"}) {
    const Model model = case_named(name).model();
    const TogetherCase c(model, 5);
    EvaluatorOptions options = keeping(KEPT_DIRECTIONS);
    const auto free = make_device_evaluator(model, options);
    const std::vector<Vector3> expected = c.one_by_one(*make_host_evaluator(model, directional(Precision::double_)));
    const double allowed = TANGENT_ORDER * largest_force(expected);
    EXPECT_LT(largest_difference(c.together(*free), expected), allowed) << name;
    options.memory_limit = 1.0;
    double least = 0.0;
    try {
      c.together(*make_device_evaluator(model, options));
    } catch (const MemoryLimitError &e) {
      least = e.bytes;
    }
    ASSERT_GT(least, 0.0) << name;
    options.memory_limit = 1.011 * least;    // a little more
    const auto limited = make_device_evaluator(model, options);
    EXPECT_LT(largest_difference(c.together(*limited), expected), allowed) << name;
    EXPECT_LT(limited->memory_bytes(), free->memory_bytes()) << name;
    EXPECT_LE(static_cast<double>(limited->memory_bytes()), options.memory_limit) << name;
    options.memory_limit = 0.9 * least;
    EXPECT_THROW(c.together(*make_device_evaluator(model, options)), MemoryLimitError) << name;
  }
}

TEST(DeviceDirectionalRun, without_neighbors_or_a_direction_nothing_changes) {
  const Model model = evaluator_law_cases()[0].model(), networks = case_named("weights_of_features").model();
  for (const Model *m : {&model, &networks})
    for (const int num_atoms : {0, 1, 2}) {
      const Structure alone = isolated_atoms(num_atoms);
      const std::vector<Vector3> direction = random_direction(num_atoms, 1);
      const Evaluation e = evaluate_whole(*make_device_evaluator(*m, directional(Precision::mixed)),
                                          alone.images(m->cutoff), &direction);
      EXPECT_EQ(largest_force(e.force_tangents), 0.0);
      EXPECT_EQ(e.energy_tangent, 0.0);
    }
  const Structure structure = random_structure(model.num_species(), 7);
  const Evaluation still =
      evaluate_whole(*make_device_evaluator(model, directional(Precision::double_)), structure.images(model.reach()));
  EXPECT_GT(largest_force(still.forces), 0.0);
  EXPECT_EQ(largest_force(still.force_tangents), 0.0);
}

}    // namespace

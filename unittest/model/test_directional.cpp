// SPDX-License-Identifier: MIT
// Derivatives of forces along a direction, -H v, by evaluators of duals.
#include "src/model/model_file.h"
#include "unittest/support/dot.h"
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/kept_directions.h"
#include "unittest/support/make_kokkos.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <tuple>

namespace {

using namespace equi;
using namespace equi::testing;

// Sums of some thousand products in float64, relative to the largest number of a result.
constexpr double SUM_ROUNDING = 1e-12;
// Central differences of forces, relative to the largest component of H v.
constexpr double DIFFERENCES = 1e-7;
// Weights and slopes in float32 through three layers.
constexpr double FLOAT32_NETWORK = 3e-4;

KokkosOptions with_direction(KokkosOptions options) {
  options.directional = true;
  return options;
}

struct RadialAndSums {
  const char *name;
  bool radial_exact, deterministic;

  friend void PrintTo(const RadialAndSums &r, std::ostream *out) { *out << r.name; }
};
constexpr RadialAndSums RADIAL_AND_SUMS[] = {
    {"exact", true, false}, {"table", false, false}, {"table_deterministic", false, true}};

class Directional : public ::testing::TestWithParam<std::tuple<RadialAndSums, TinyCase>> {
 protected:
  Directional()
      : options{Precision::double_, std::get<0>(GetParam()).radial_exact, std::get<0>(GetParam()).deterministic},
        model(std::get<1>(GetParam()).model()),
        structure(random_structure(model.num_species(), 7)),
        direction(random_direction(structure.size(), 11)),
        keeping_nothing(make_kokkos(model, with_direction(options))) {}

  // By one evaluator without kept values.
  Evaluation along(const std::vector<Vector3> &v) const {
    return evaluate_whole(*keeping_nothing, structure.images(model.reach()), &v);
  }

  const KokkosOptions options;
  const Model model;
  const Structure structure;
  const std::vector<Vector3> direction;
  const std::unique_ptr<Evaluator> keeping_nothing;
};

TEST_P(Directional, energies_forces_and_virials_are_those_of_plain_numbers) {
  const Evaluation plain = evaluate_whole(*make_kokkos(model, options), structure.images(model.reach()));
  const Evaluation duals = along(direction);
  expect_same(duals, plain, ROUNDING, "duals");
  EXPECT_NEAR(duals.energy_tangent, -dot(plain.forces, direction),
              10 * ROUNDING.absolute * largest_force(plain.forces));
}

TEST_P(Directional, tangents_are_differences_of_forces_and_virials) {
  const Evaluation tangents = along(direction);
  const auto evaluator = make_kokkos(model, options);
  const double largest = largest_force(tangents.force_tangents);
  ASSERT_GT(largest, 1e-3);
  const TangentErrors errors = largest_errors_by_differences(*evaluator, model, structure, direction, tangents);
  EXPECT_LT(errors.forces, DIFFERENCES * largest);
  EXPECT_LT(errors.virial, DIFFERENCES * largest * structure.size() * model.cutoff);
}

TEST_P(Directional, the_matrix_is_symmetric_and_translations_are_in_its_kernel) {
  const std::vector<Vector3> other = random_direction(structure.size(), 12);
  const std::vector<Vector3> hv = along(direction).force_tangents, hu = along(other).force_tangents;
  const double size = structure.size() * std::max(largest_force(hv), largest_force(hu));
  EXPECT_NEAR(dot(other, hv), dot(direction, hu), SUM_ROUNDING * size);

  const std::vector<Vector3> shift(structure.size(), Vector3{0.3, -0.7, 0.9});
  const Evaluation still = along(shift);
  EXPECT_EQ(largest_force(still.force_tangents), 0.0);
  EXPECT_EQ(still.energy_tangent, 0.0);
}

TEST_P(Directional, ranks_agree_with_one_rank) {
  const ImageStructure images = structure.images(model.reach());
  const Evaluation whole = along(direction);
  const std::vector<std::vector<int>> splits = {{0, 1, 0, 1, 1, 0, 1, 0}, {3, 0, 1, 1, 3, 0, 3, 1}};
  for (const std::vector<int> &split : splits) {
    const int num_ranks = 1 + *std::max_element(split.begin(), split.end());
    const std::vector<RankPart> parts = split_structure(images, split, num_ranks);
    std::vector<std::unique_ptr<Evaluator>> evaluators;
    for (int r = 0; r < num_ranks; ++r) evaluators.push_back(make_kokkos(model, with_direction(options)));
    RankGroup group(parts);
    const Evaluation e = evaluate_ranks(evaluators, parts, structure.size(), group, &direction);
    for (const auto &error : e.errors) ASSERT_FALSE(error);
    expect_same(e, whole, ROUNDING, std::to_string(num_ranks) + " ranks");
    EXPECT_LT(largest_difference(e.force_tangents, whole.force_tangents),
              SUM_ROUNDING * largest_force(whole.force_tangents));
    for (int k = 0; k < 6; ++k)
      EXPECT_NEAR(e.virial_tangent[k], whole.virial_tangent[k],
                  SUM_ROUNDING * largest_force(whole.force_tangents) * structure.size() * model.cutoff);
    EXPECT_EQ(group.calls(0), 2 * num_exchanged_features(model) + num_sent_features(model));
    if (num_exchanged_features(model) == 0) continue;
    group.mute_reverse = true;
    const Evaluation broken = evaluate_ranks(evaluators, parts, structure.size(), group, &direction);
    EXPECT_GT(largest_difference(broken.force_tangents, whole.force_tangents), NOTICEABLE);
  }
}

TEST_P(Directional, further_directions_at_the_same_positions_get_the_same) {
  const auto make = [&](const Model &m, int kept_directions) {
    KokkosOptions kept = with_direction(options);
    kept.kept_directions = kept_directions;
    return make_kokkos(m, kept);
  };
  expect_further_directions_get_the_same(
      make, model, !options.deterministic && can_keep(std::get<1>(GetParam()), model), SUM_ROUNDING);
}

std::unique_ptr<Evaluator> make_keeping(const Model &model, int kept_directions) {
  KokkosOptions options = with_direction({Precision::double_, false, false});
  options.kept_directions = kept_directions;
  return make_kokkos(model, options);
}

TEST(DirectionalRun, kept_values_are_those_of_the_last_neighborhood_and_evaluation) {
  expect_kept_values_of_the_last_evaluation(make_keeping, SUM_ROUNDING);
}

TEST(DirectionalRun, ranks_add_to_kept_adjoints_once) {
  expect_kept_adjoints_of_gates(make_keeping, SUM_ROUNDING);
}

TEST_P(Directional, mixed_precision_is_near_double) {
  const Evaluation whole = along(direction);
  KokkosOptions mixed = with_direction(options);
  mixed.precision = Precision::mixed;
  const Evaluation e = evaluate_whole(*make_kokkos(model, mixed), structure.images(model.reach()), &direction);
  EXPECT_LT(largest_difference(e.force_tangents, whole.force_tangents),
            FLOAT32_NETWORK * std::max(1.0, largest_force(whole.force_tangents)));
}

INSTANTIATE_TEST_SUITE_P(Tiny, Directional,
                         ::testing::Combine(::testing::ValuesIn(RADIAL_AND_SUMS), ::testing::ValuesIn(all_cases())),
                         [](const auto &info) {
                           return std::get<1>(info.param).name + "_" + std::get<0>(info.param).name;
                         });

// Instruction sets with and without fused multiply-adds round the float32 sums of split bins differently. Each
// derivative multiplies the difference for weights, 4e-13 (SPLIT_SHARE), by 50 to 100; relative to the largest tangent.
constexpr double UPPER_ROUNDING = 1e-9;

// Kernels of every instruction set: generated ones for AVX2 and AVX-512, the generic one; with kept values those of
// edges that do not move.
TEST(DirectionalKernels, instruction_sets_agree) {
  for (const TinyCase &tiny : all_cases()) {
    const Model model = tiny.model();
    const Structure structure = random_structure(model.num_species(), 9);
    const std::vector<Vector3> direction = random_direction(structure.size(), 3);
    KokkosOptions options = with_direction({});
    options.set = InstructionSet::generic;
    const ImageStructure images = structure.images(model.reach());
    std::vector<Vector3> of_one_atom(structure.size(), Vector3{});
    of_one_atom[2] = direction[2];
    const Evaluation expected = evaluate_whole(*make_kokkos(model, options), images, &direction),
                     expected_of_one = evaluate_whole(*make_kokkos(model, options), images, &of_one_atom);
    std::optional<Evaluation> of_other_fused;
    for (const InstructionSet set : INSTRUCTION_SETS) {
      if (set == InstructionSet::generic || !instruction_set_available(set)) continue;
      options.set = set;
      const Evaluation e = evaluate_whole(*make_kokkos(model, options), images, &direction);
      if (of_other_fused) {
        EXPECT_LT(largest_difference(e.force_tangents, of_other_fused->force_tangents),
                  SUM_ROUNDING * largest_force(e.force_tangents))
            << tiny.name << " " << instruction_set_name(set) << ", both with fused multiply-adds";
      }
      of_other_fused = e;
      const double allowed = UPPER_ROUNDING * largest_force(expected.force_tangents);
      EXPECT_LT(largest_difference(e.force_tangents, expected.force_tangents), allowed)
          << tiny.name << " " << instruction_set_name(set);

      options.kept_directions = KEPT_DIRECTIONS;
      const auto kept = make_kokkos(model, options);
      options.kept_directions = 0;
      evaluate_whole(*kept, images, &direction);
      const Evaluation along_one = evaluate_whole(*kept, images, &of_one_atom, Wanted::tangents);
      EXPECT_LT(largest_difference(along_one.force_tangents, expected_of_one.force_tangents), allowed)
          << tiny.name << " " << instruction_set_name(set) << ", kept values";
      if (kept->max_directions() == 1) continue;
      const std::vector<Vector3> both = joined({of_one_atom, direction});
      EXPECT_LT(largest_difference(evaluate_whole(*kept, images, &both, Wanted::tangents).force_tangents,
                                   joined({expected_of_one.force_tangents, expected.force_tangents})),
                allowed)
          << tiny.name << " " << instruction_set_name(set) << ", two directions";
    }
  }
}

TEST(DirectionalEdges, atoms_without_neighbors_feel_nothing) {
  const Model model = all_cases()[0].model();
  for (const int num_atoms : {0, 1, 2}) {
    const Structure alone = isolated_atoms(num_atoms);
    const std::vector<Vector3> direction = random_direction(num_atoms, 1);
    const Evaluation e =
        evaluate_whole(*make_kokkos(model, with_direction({})), alone.images(model.reach()), &direction);
    EXPECT_EQ(largest_force(e.force_tangents), 0.0);
    EXPECT_EQ(e.energy_tangent, 0.0);
  }
}

}    // namespace

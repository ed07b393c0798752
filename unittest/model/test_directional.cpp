// SPDX-License-Identifier: MIT
// Derivatives of forces along a direction, -H v, by evaluators of duals.
#include "src/model/model_file.h"
#include "unittest/support/dot.h"
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/make_kokkos.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <tuple>

namespace {

using namespace equi;
using namespace equi::testing;

// Sums of some thousand products in float64, relative to the largest number of a result.
constexpr double SUM_ROUNDING = 1e-12;
// Central differences of forces, relative to the largest component of H v.
constexpr double DIFFERENCES = 1e-7;
// Of evaluators that keep values.
constexpr int KEPT_DIRECTIONS = 4;
// Weights and slopes in float32 through three layers.
constexpr double FLOAT32_NETWORK = 3e-4;

std::vector<Vector3> joined(const std::vector<std::vector<Vector3>> &parts) {
  std::vector<Vector3> all;
  for (const auto &part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Layers whose values cannot be kept.
bool has_other_inputs(const Model &model) {
  return std::any_of(model.layers.begin(), model.layers.end(), [](const Layer &layer) {
    const auto *c = std::get_if<Convolution>(&layer);
    return std::holds_alternative<So2Convolution>(layer) || (c && c->radial.reads_features()) ||
           ports(layer).second_input >= 0;
  });
}

KokkosOptions with_direction(KokkosOptions options) {
  options.directional = true;
  return options;
}

// radial exact, deterministic
class Directional : public ::testing::TestWithParam<std::tuple<bool, bool, TinyCase>> {
 protected:
  Directional()
      : options{Precision::double_, std::get<0>(GetParam()), std::get<1>(GetParam())},
        model(std::get<2>(GetParam()).model()),
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

TEST_P(Directional, force_tangents_are_differences_of_forces) {
  const std::vector<Vector3> tangents = along(direction).force_tangents;
  const auto evaluator = make_kokkos(model, options);
  const double largest = largest_force(tangents);
  ASSERT_GT(largest, 1e-3);
  EXPECT_LT(largest_error_by_differences(*evaluator, model, structure, direction, tangents), DIFFERENCES * largest);
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
    EXPECT_EQ(group.calls(0), 2 * num_exchanged_features(model) + num_sent_features(model));
    if (num_exchanged_features(model) == 0) continue;
    group.mute_reverse = true;
    const Evaluation broken = evaluate_ranks(evaluators, parts, structure.size(), group, &direction);
    EXPECT_GT(largest_difference(broken.force_tangents, whole.force_tangents), NOTICEABLE);
  }
}

// With kept values: directions of single atoms, of all, and none, after another one; one at a time and as many as go
// together; on one rank and on several.
TEST_P(Directional, further_directions_at_the_same_positions_get_the_same) {
  const ImageStructure images = structure.images(model.reach());
  KokkosOptions kept = with_direction(options);
  kept.kept_directions = KEPT_DIRECTIONS;
  const Evaluation first = along(direction);
  const auto expect_along = [&](const std::vector<Vector3> &v, const Evaluation &e, const std::string &name) {
    const Evaluation expected = along(v);
    EXPECT_LT(largest_difference(e.force_tangents, expected.force_tangents),
              SUM_ROUNDING * largest_force(first.force_tangents))
        << name;
    EXPECT_NEAR(e.energy_tangent, expected.energy_tangent,
                SUM_ROUNDING * largest_force(first.forces) * structure.size())
        << name;
    EXPECT_NEAR(e.energy, first.energy, ROUNDING.absolute) << name;
  };
  const auto of_atom = [&](int i) {
    std::vector<Vector3> v(structure.size(), Vector3{});
    v[i] = direction[i];
    return v;
  };
  const auto evaluator = make_kokkos(model, kept);
  expect_same(evaluate_whole(*evaluator, images, &direction), first, ROUNDING, "first");
  for (int i = 0; i < structure.size(); ++i) {
    const std::vector<Vector3> v = of_atom(i);
    expect_along(v, evaluate_whole(*evaluator, images, &v, Wanted::tangents), "atom " + std::to_string(i));
  }
  expect_along(direction, evaluate_whole(*evaluator, images, &direction, Wanted::tangents), "all");
  const int most = evaluator->max_directions();
  // Values are not kept where radial networks read features, nor by SO(2) convolutions and channel balances, nor where
  // a layer that is not linear reads two features or is one of several that read a feature.
  const bool keeps = !options.deterministic && !has_other_inputs(model) && !has_channel_balance(model.layers) &&
                     !std::get<2>(GetParam()).reads_twice;
  EXPECT_EQ(most, keeps ? KEPT_DIRECTIONS : 1);
  const std::vector<Vector3> at_rest(structure.size(), Vector3{});
  std::vector<std::vector<Vector3>> directions = {of_atom(1), at_rest, direction, of_atom(5)};
  directions.resize(most);
  std::vector<std::vector<Vector3>> tangents;
  for (const auto &v : directions) tangents.push_back(along(v).force_tangents);
  const std::vector<Vector3> together = joined(directions), expected = joined(tangents);
  const auto expect_together = [&](const Evaluation &e, const std::string &name) {
    EXPECT_LT(largest_difference(e.force_tangents, expected), SUM_ROUNDING * largest_force(first.force_tangents))
        << name;
  };
  expect_together(evaluate_whole(*evaluator, images, &together, Wanted::tangents), "together");
  const std::vector<Vector3> one = of_atom(0);
  expect_along(one, evaluate_whole(*evaluator, images, &one, Wanted::tangents), "one after several");
  const Evaluation none = evaluate_whole(*evaluator, images, nullptr, Wanted::tangents);
  EXPECT_EQ(largest_force(none.force_tangents), 0.0);
  if (most > 1) {
    EXPECT_THROW(evaluate_whole(*make_kokkos(model, kept), images, &together), std::logic_error);
  }

  const std::vector<RankPart> parts = split_structure(images, {3, 0, 1, 1, 3, 0, 3, 1}, 4);
  std::vector<std::unique_ptr<Evaluator>> evaluators;
  for (int r = 0; r < 4; ++r) evaluators.push_back(make_kokkos(model, kept));
  RankGroup group(parts);
  evaluate_ranks(evaluators, parts, structure.size(), group, &direction);
  for (int i = 0; i < structure.size(); ++i) {
    const std::vector<Vector3> v = of_atom(i);
    const Evaluation e = evaluate_ranks(evaluators, parts, structure.size(), group, &v, Wanted::tangents);
    for (const auto &error : e.errors) ASSERT_FALSE(error);
    expect_along(v, e, "4 ranks, atom " + std::to_string(i));
  }
  expect_together(evaluate_ranks(evaluators, parts, structure.size(), group, &together, Wanted::tangents),
                  "4 ranks, together");
}

// Whatever the caller says of the positions, what was kept belongs to the last evaluation that came to its end, and to
// its neighborhood.
TEST(DirectionalRun, kept_values_are_those_of_the_last_neighborhood_and_evaluation) {
  const Model model = case_named("parity_three_layers").model();
  KokkosOptions options = with_direction({Precision::double_, false, false});
  options.kept_directions = KEPT_DIRECTIONS;
  const Structure first = random_structure(model.num_species(), 7), second = random_structure(model.num_species(), 8);
  const ImageStructure images = first.images(model.reach()), other = second.images(model.reach());
  const std::vector<Vector3> direction = random_direction(first.size(), 11);
  const auto fresh = [&](const ImageStructure &s) {
    return evaluate_whole(*make_kokkos(model, options), s, &direction);
  };
  const auto expect_fresh = [&](const Evaluation &e, const ImageStructure &s, const char *when) {
    const Evaluation expected = fresh(s);
    EXPECT_LT(largest_difference(e.force_tangents, expected.force_tangents),
              SUM_ROUNDING * largest_force(expected.force_tangents))
        << when;
  };
  const auto evaluator = make_kokkos(model, options);
  evaluate_whole(*evaluator, images, &direction);
  evaluator->set_neighborhood(other.neighborhood);
  expect_fresh(evaluate_whole(*evaluator, other, &direction, Wanted::tangents), other, "another neighborhood");

  evaluate_whole(*evaluator, images, &direction);
  ImageStructure lost = images;
  lost.positions[0][0] = std::nan("");
  evaluator->set_neighborhood(lost.neighborhood);
  EXPECT_ANY_THROW(evaluate_whole(*evaluator, lost, &direction, Wanted::tangents));
  expect_fresh(evaluate_whole(*evaluator, images, &direction, Wanted::tangents), images, "an evaluation that failed");
  evaluate_whole(*evaluator, images);
  expect_fresh(evaluate_whole(*evaluator, images, &direction, Wanted::tangents), images, "energies and forces alone");

  // The same with one neighborhood: an evaluation that fails behind its forward pass has left its values.
  NoExchange none;
  std::mutex mutex;
  Evaluation unused = make_evaluation(images.neighborhood.num_receivers, 1);
  evaluate_whole(*evaluator, images, &direction);
  EXPECT_ANY_THROW(add_rank(*evaluator, lost.positions, lost.owner, none, mutex, unused, &direction));
  expect_fresh(evaluate_whole(*evaluator, images, &direction, Wanted::tangents), images, "one that failed in between");

  // Values without a backward pass are not kept either: it is what keeps slopes.
  ImageStructure moved = images;
  for (std::size_t a = 0; a < moved.positions.size(); ++a) moved.positions[a][0] += 0.02 * direction[moved.owner[a]][0];
  EvaluationRequest energies;
  energies.positions = reinterpret_cast<const double(*)[3]>(moved.positions.data());
  evaluate_whole(*evaluator, images, &direction);
  evaluator->evaluate(energies, none);
  expect_fresh(evaluate_whole(*evaluator, moved, &direction, Wanted::tangents), moved, "energies alone");
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
                         ::testing::Combine(::testing::Bool(), ::testing::Bool(), ::testing::ValuesIn(all_cases())),
                         [](const auto &info) {
                           return std::get<2>(info.param).name + (std::get<0>(info.param) ? "_exact" : "_table") +
                                  (std::get<1>(info.param) ? "_deterministic" : "");
                         });

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
    for (const InstructionSet set : INSTRUCTION_SETS) {
      if (set == InstructionSet::generic || !instruction_set_available(set)) continue;
      options.set = set;
      const Evaluation e = evaluate_whole(*make_kokkos(model, options), images, &direction);
      const double allowed = SUM_ROUNDING * largest_force(expected.force_tangents);
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

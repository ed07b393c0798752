// SPDX-License-Identifier: MIT
// The promises of evaluators of duals that keep values, on either back end: further directions at the same positions
// get the results of an evaluator without kept values, one at a time and several together.
#ifndef EQUI_TEST_KEPT_DIRECTIONS_H
#define EQUI_TEST_KEPT_DIRECTIONS_H

#include "unittest/support/evaluator_laws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace equi {
namespace testing {

// Number of directions of evaluators that keep values.
constexpr int KEPT_DIRECTIONS = 4;

// An evaluator of duals in float64 with these EvaluatorOptions::kept_directions.
using MakeKeeping = std::function<std::unique_ptr<Evaluator>(const Model &, int kept_directions)>;

inline std::vector<Vector3> joined(const std::vector<std::vector<Vector3>> &parts) {
  std::vector<Vector3> all;
  for (const auto &part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Evaluators keep no values if radial networks read features, or in SO(2) convolutions and channel balances. The same
// holds if a layer that is not linear reads two features or is one of several that read a feature.
inline bool can_keep(const TinyCase &tiny, const Model &model) {
  const bool has_other_inputs = std::any_of(model.layers.begin(), model.layers.end(), [](const Layer &layer) {
    const auto *c = std::get_if<Convolution>(&layer);
    return std::holds_alternative<So2Convolution>(layer) || std::holds_alternative<PairAttention>(layer) ||
           std::holds_alternative<LocalNetwork>(layer) || (c && c->radial.reads_features()) ||
           ports(layer).second_input >= 0;
  });
  return !has_other_inputs && !sums_over_atoms(model.layers) && !tiny.reads_twice &&
         tiny.options.message_reader != "norm_scale";
}

// Directions of single atoms, of all, and none, after another one; one at a time and as many as possible together; on
// one rank and on several. sums: allowed difference of sums of some thousand products, relative to the largest number.
inline void expect_further_directions_get_the_same(const MakeKeeping &make, const Model &model, bool keeps,
                                                   double sums) {
  const Structure structure = random_structure(model.num_species(), 7);
  const std::vector<Vector3> direction = random_direction(structure.size(), 11);
  const ImageStructure images = structure.images(model.reach());
  const auto keeping_nothing = make(model, 0);
  std::map<std::vector<Vector3>, Evaluation> evaluated;
  const auto along = [&](const std::vector<Vector3> &v) -> const Evaluation & {
    auto found = evaluated.find(v);
    if (found == evaluated.end()) found = evaluated.emplace(v, evaluate_whole(*keeping_nothing, images, &v)).first;
    return found->second;
  };
  const Evaluation &first = along(direction);
  const auto expect_along = [&](const std::vector<Vector3> &v, const Evaluation &e, const std::string &name) {
    const Evaluation &expected = along(v);
    EXPECT_LT(largest_difference(e.force_tangents, expected.force_tangents), sums * largest_force(first.force_tangents))
        << name;
    EXPECT_NEAR(e.energy_tangent, expected.energy_tangent, sums * largest_force(first.forces) * structure.size())
        << name;
    EXPECT_NEAR(e.energy, first.energy, ROUNDING.absolute) << name;
  };
  const auto direction_of_atom = [&](int i) {
    std::vector<Vector3> v(structure.size(), Vector3{});
    v[i] = direction[i];
    return v;
  };
  constexpr int single_atoms[] = {0, 1, 2};    // those of three ranks below
  const auto evaluator = make(model, KEPT_DIRECTIONS);
  expect_same(evaluate_whole(*evaluator, images, &direction), first, ROUNDING, "first");
  for (const int i : single_atoms) {
    const std::vector<Vector3> v = direction_of_atom(i);
    expect_along(v, evaluate_whole(*evaluator, images, &v, Wanted::tangents), "atom " + std::to_string(i));
  }
  expect_along(direction, evaluate_whole(*evaluator, images, &direction, Wanted::tangents), "all");
  const int most = evaluator->max_directions();
  EXPECT_EQ(most, keeps ? KEPT_DIRECTIONS : 1);
  const std::vector<Vector3> at_rest(structure.size(), Vector3{});
  std::vector<std::vector<Vector3>> directions = {direction_of_atom(1), at_rest, direction, direction_of_atom(5)};
  directions.resize(most);
  std::vector<std::vector<Vector3>> tangents;
  for (const auto &v : directions) tangents.push_back(along(v).force_tangents);
  const std::vector<Vector3> together = joined(directions), expected = joined(tangents);
  const auto expect_together = [&](const Evaluation &e, const std::string &name) {
    EXPECT_LT(largest_difference(e.force_tangents, expected), sums * largest_force(first.force_tangents)) << name;
  };
  expect_together(evaluate_whole(*evaluator, images, &together, Wanted::tangents), "together");
  const std::vector<Vector3> one = direction_of_atom(0);
  expect_along(one, evaluate_whole(*evaluator, images, &one, Wanted::tangents), "one after several");
  const Evaluation none = evaluate_whole(*evaluator, images, nullptr, Wanted::tangents);
  EXPECT_EQ(largest_force(none.force_tangents), 0.0);
  if (most > 1) {
    EXPECT_THROW(evaluate_whole(*make(model, KEPT_DIRECTIONS), images, &together), std::logic_error);
  }

  const std::vector<RankPart> parts = split_structure(images, {3, 0, 1, 1, 3, 0, 3, 1}, 4);
  std::vector<std::unique_ptr<Evaluator>> evaluators;
  for (int r = 0; r < 4; ++r) evaluators.push_back(make(model, KEPT_DIRECTIONS));
  RankGroup group(parts);
  evaluate_ranks(evaluators, parts, structure.size(), group, &direction);
  for (const int i : single_atoms) {
    const std::vector<Vector3> v = direction_of_atom(i);
    const Evaluation e = evaluate_ranks(evaluators, parts, structure.size(), group, &v, Wanted::tangents);
    for (const auto &error : e.errors) ASSERT_FALSE(error);
    expect_along(v, e, "4 ranks, atom " + std::to_string(i));
  }
  expect_together(evaluate_ranks(evaluators, parts, structure.size(), group, &together, Wanted::tangents),
                  "4 ranks, together");
}

// A convolution that reads a gate's output without a linear layer in between: ranks add to the adjoint whose value the
// gate keeps.
inline void expect_kept_adjoints_of_gates(const MakeKeeping &make, double sums) {
  Model model = case_named("parity_three_layers").model();
  int num_taken = 0;
  for (size_t k = 2; k < model.layers.size(); ++k)
    if (auto *convolution = std::get_if<Convolution>(&model.layers[k])) {
      ASSERT_TRUE(std::holds_alternative<Linear>(model.layers[k - 1]));
      ASSERT_EQ(ports(model.layers[k - 1]).output, convolution->input);
      if (num_taken++ == 0) continue;    // its input depends only on the species
      convolution->input = ports(model.layers[k - 1]).input;
      model.layers.erase(model.layers.begin() + static_cast<std::ptrdiff_t>(k) - 1);
    }
  ASSERT_EQ(num_taken, 3);
  expect_further_directions_get_the_same(make, model, true, sums);
}

// Whatever the caller says about the positions, kept values belong to the last completed evaluation, and to its
// neighborhood.
inline void expect_kept_values_of_the_last_evaluation(const MakeKeeping &make, double sums) {
  const Model model = case_named("parity_three_layers").model();
  const Structure first = random_structure(model.num_species(), 7), second = random_structure(model.num_species(), 8);
  const ImageStructure images = first.images(model.reach()), other = second.images(model.reach());
  const std::vector<Vector3> direction = random_direction(first.size(), 11);
  const auto fresh = [&](const ImageStructure &s) {
    return evaluate_whole(*make(model, KEPT_DIRECTIONS), s, &direction);
  };
  const auto expect_fresh = [&](const Evaluation &e, const ImageStructure &s, const char *when) {
    const Evaluation expected = fresh(s);
    EXPECT_LT(largest_difference(e.force_tangents, expected.force_tangents),
              sums * largest_force(expected.force_tangents))
        << when;
  };
  const auto evaluator = make(model, KEPT_DIRECTIONS);
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

  // The same with one neighborhood: an evaluation that fails after its forward pass has stored its values.
  NoExchange none;
  std::mutex mutex;
  Evaluation unused = make_evaluation(images.neighborhood.num_receivers, 1);
  evaluate_whole(*evaluator, images, &direction);
  EXPECT_ANY_THROW(add_rank(*evaluator, lost.positions, lost.owner, none, mutex, unused, &direction));
  expect_fresh(evaluate_whole(*evaluator, images, &direction, Wanted::tangents), images, "one that failed in between");

  // Values without a backward pass are not kept either, because that pass stores slopes.
  ImageStructure moved = images;
  for (std::size_t a = 0; a < moved.positions.size(); ++a) moved.positions[a][0] += 0.02 * direction[moved.owner[a]][0];
  EvaluationRequest energies;
  energies.positions = reinterpret_cast<const double(*)[3]>(moved.positions.data());
  evaluate_whole(*evaluator, images, &direction);
  evaluator->evaluate(energies, none);
  expect_fresh(evaluate_whole(*evaluator, moved, &direction, Wanted::tangents), moved, "energies alone");
}

}    // namespace testing
}    // namespace equi

#endif

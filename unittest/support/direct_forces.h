// SPDX-License-Identifier: MIT
// The promises of evaluators for models with direct forces, on either back end.
#ifndef EQUI_TEST_DIRECT_FORCES_H
#define EQUI_TEST_DIRECT_FORCES_H

#include "unittest/support/evaluator_laws.h"
#include "unittest/support/scalar_model.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace equi {
namespace testing {

// Interactions of energies and of forces by convolutions, and by SO(2) convolutions with attention.
inline std::vector<TinyCase> direct_force_cases() {
  std::vector<TinyCase> cases(4);
  cases[0].name = "rotations_only";
  cases[1].name = "parity";
  cases[1].options.parity = true;
  cases[1].options.elements = {"O", "H", "Si"};
  cases[1].options.hidden = {"5x0e+3x1o+3x1e", "13x0e+5x1o"};
  cases[1].options.per_species_linear = true;
  cases[2].name = "so2_with_attention";
  TinyModelOptions &attention = cases[2].options;
  attention.hidden = {"5x0e+3x1e", "7x0e+2x1e"};
  attention.so2_lmax = attention.so2_mmax = 2;
  attention.so2_hidden = {5, 13};
  attention.so2_product = attention.biases = true;
  attention.so2_heads = 3;
  attention.so2_scores = 7;
  attention.so2_out = 15;
  cases[3].name = "so2_nearest_neighbors";
  TinyModelOptions &nearest = cases[3].options;
  nearest.hidden = {"5x0e+5x1e+5x2e", "5x0e+5x1e+5x2e"};
  nearest.so2_lmax = nearest.so2_mmax = 2;
  nearest.so2_in = nearest.so2_out = 5;
  nearest.so2_blocks = true;
  nearest.spherical_norm = "all";
  nearest.nearest = 9;
  for (TinyCase &tiny : cases) tiny.options.direct_forces = true;
  return cases;
}

inline Model with_direct_forces(const TinyCase &tiny) {
  return parse_model(make_tiny_model(tiny.options).bytes(), "tiny.equi", {}, ForcesOf::features);
}

inline std::string name_of_case(const ::testing::TestParamInfo<TinyCase> &info) {
  return info.param.name;
}

// make(model): an evaluator. closeness: to plain loops.
inline void expect_direct_forces(const std::function<std::unique_ptr<Evaluator>(const Model &)> &make,
                                 const TinyCase &tiny, const Closeness &closeness) {
  const Model model = with_direct_forces(tiny);
  ASSERT_TRUE(has_direct_forces(model.layers));
  const Structure structure = random_structure(model.num_species(), 7);
  const ImageStructure images = structure.images(model.reach());
  std::vector<Vector3> forces;
  const std::vector<double> energies = scalar_energies(model, images, &forces);
  ASSERT_GT(largest_force(forces), 1e-2);
  const auto expect_of_loops = [&](const Evaluation &e, const std::string &what) {
    const AllowedDifferences allowed = allowed_differences(closeness, e);
    EXPECT_LT(largest_difference(e.forces, forces), allowed.force) << what;
    for (int i = 0; i < structure.size(); ++i)
      EXPECT_NEAR(e.atom_energy[i], energies[i], allowed.energy) << what << ", atom " << i;
    EXPECT_EQ(e.bystander_force, 0.0) << what;
  };
  const auto evaluator = make(model);
  const Evaluation whole = evaluate_whole(*evaluator, images, nullptr, Wanted::forces);
  expect_of_loops(whole, "whole");
  const Evaluation again = evaluate_whole(*evaluator, images, nullptr, Wanted::forces);
  EXPECT_EQ(again.forces, whole.forces);
  EXPECT_THROW(evaluate_whole(*evaluator, images), std::logic_error);    // there is no virial

  // Three ranks, one of them without atoms.
  std::vector<int> rank_of_atom(structure.size());
  for (int i = 0; i < structure.size(); ++i) rank_of_atom[i] = i % 3 == 0 ? 0 : 2;
  const auto parts = split_structure(images, rank_of_atom, 3);
  RankGroup group(parts);
  std::vector<std::unique_ptr<Evaluator>> ranks;
  for (int r = 0; r < 3; ++r) ranks.push_back(make(model));
  const Evaluation split = evaluate_ranks(ranks, parts, structure.size(), group, nullptr, Wanted::forces);
  for (const auto &error : split.errors) EXPECT_FALSE(error);
  expect_of_loops(split, "ranks");

  // There are no forces on atoms without neighbors: there is no direction.
  const Evaluation alone = evaluate_whole(*evaluator, isolated_atoms(2).images(model.reach()), nullptr, Wanted::forces);
  EXPECT_EQ(largest_force(alone.forces), 0.0);

  // If only the derivatives of its energy are requested, a file behaves like one without direct forces.
  TinyModelOptions options = tiny.options;
  const Model of_energy = make_tiny_model(options).model();
  EXPECT_TRUE(of_energy.offers_direct_forces);
  EXPECT_FALSE(has_direct_forces(of_energy.layers));
  options.direct_forces = false;
  const Model without = make_tiny_model(options).model();
  EXPECT_FALSE(without.offers_direct_forces);
  EXPECT_EQ(of_energy.layers.size(), without.layers.size());
  const Evaluation derivative = evaluate_whole(*make(of_energy), images);
  EXPECT_NEAR(derivative.energy, whole.energy, allowed_differences(closeness, whole).energy);
  EXPECT_GT(largest_difference(derivative.forces, whole.forces), 1e-2);
}

}    // namespace testing
}    // namespace equi

#endif

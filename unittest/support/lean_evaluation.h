// SPDX-License-Identifier: MIT
// The promise of EvaluatorOptions::lean on either back end: the same results to the last bit, on one rank and on
// several, also for duals.
#ifndef EQUI_TEST_LEAN_EVALUATION_H
#define EQUI_TEST_LEAN_EVALUATION_H

#include "unittest/support/evaluator_laws.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace equi {
namespace testing {

inline void expect_same_bits(const Evaluation &found, const Evaluation &expected, const std::string &what) {
  SCOPED_TRACE(what);
  for (const auto &error : found.errors) EXPECT_FALSE(error);
  EXPECT_EQ(found.energy, expected.energy);
  EXPECT_EQ(found.virial, expected.virial);
  EXPECT_EQ(found.forces, expected.forces);
  EXPECT_EQ(found.atom_energy, expected.atom_energy);
  EXPECT_EQ(found.atom_virial, expected.atom_virial);
  EXPECT_EQ(found.force_tangents, expected.force_tangents);
  EXPECT_EQ(found.virial_tangent, expected.virial_tangent);
}

// make(model, options). Returns the bytes that a lean evaluation saves.
template <class Make>
double expect_lean_evaluations_have_the_same_bits(const Make &make, const Model &model, EvaluatorOptions options,
                                                  const std::string &name) {
  options.radial_tolerance = COARSE_TABLES;
  const Structure structure = random_structure(model.num_species(), 7);
  const ImageStructure images = structure.images(model.reach());
  const std::vector<Vector3> direction = random_direction(structure.size(), 11),
                             *along = options.directional ? &direction : nullptr;
  const auto make_one = [&](bool lean) {
    options.lean = lean;
    return make(model, options);
  };
  const auto keeping = make_one(false), lean = make_one(true);
  for (const char *step : {"first", "warm"})
    expect_same_bits(evaluate_whole(*lean, images, along), evaluate_whole(*keeping, images, along), name + ", " + step);

  // The last rank is empty.
  std::vector<int> rank(structure.size());
  for (int i = 0; i < structure.size(); ++i) rank[i] = i % 2;
  const std::vector<RankPart> parts = split_structure(images, rank, 3);
  const auto on_ranks = [&](bool is_lean) {
    std::vector<std::unique_ptr<Evaluator>> ranks;
    for (size_t r = 0; r < parts.size(); ++r) ranks.push_back(make_one(is_lean));
    RankGroup group(parts);
    evaluate_ranks(ranks, parts, structure.size(), group, along);
    return evaluate_ranks(ranks, parts, structure.size(), group, along);
  };
  expect_same_bits(on_ranks(true), on_ranks(false), name + ", ranks");
  return static_cast<double>(keeping->memory_bytes()) - static_cast<double>(lean->memory_bytes());
}

}    // namespace testing
}    // namespace equi

#endif

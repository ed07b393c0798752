// SPDX-License-Identifier: MIT
// The promise of Evaluator::for_memory() on either back end: it visits all arrays that an evaluation has allocated.
#ifndef EQUI_TEST_LISTED_MEMORY_H
#define EQUI_TEST_LISTED_MEMORY_H

#include "unittest/support/evaluator_laws.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace equi {
namespace testing {

struct AllocatedArray {
  std::size_t bytes;
  bool must_be_listed;    // else it may be
};
using AllocatedArrays = std::map<const void *, AllocatedArray>;

// Allocations of device memory are whole words.
constexpr std::size_t WORD = 8;

inline void expect_listed(const std::vector<std::unique_ptr<Evaluator>> &evaluators, AllocatedArrays allocated) {
  for (const auto &evaluator : evaluators) {
    std::size_t listed = 0;
    evaluator->for_memory([&](const char *part, const void *data, std::size_t bytes) {
      if (bytes == 0) return;
      listed += bytes;
      const auto array = allocated.find(data);
      if (array == allocated.end()) {
        ADD_FAILURE() << part << ": an array of " << bytes << " bytes is listed twice, or was not allocated";
        return;
      }
      EXPECT_EQ((bytes + WORD - 1) / WORD, (array->second.bytes + WORD - 1) / WORD) << part;
      allocated.erase(array);
    });
    EXPECT_EQ(listed, evaluator->memory_bytes());
    EXPECT_GT(listed, 0u);
  }
  for (const auto &[data, array] : allocated)
    if (array.must_be_listed) ADD_FAILURE() << "an array of " << array.bytes << " bytes is not listed";
}

// Evaluates a structure on two ranks and on one. before_steps() is called when all evaluators have been made,
// allocated() at the end.
inline void expect_all_arrays_are_listed(const std::function<std::unique_ptr<Evaluator>()> &make, const Model &model,
                                         bool is_directional, const std::function<void()> &before_steps,
                                         const std::function<AllocatedArrays()> &allocated) {
  constexpr int NUM_RANKS = 2;
  const Structure structure = random_structure(model.num_species(), 7, 3);
  const ImageStructure images = structure.images(model.reach());
  const std::vector<Vector3> direction = random_direction(structure.size(), 11),
                             *along = is_directional ? &direction : nullptr;
  std::vector<int> rank(structure.size());
  for (int i = 0; i < structure.size(); ++i) rank[i] = i % NUM_RANKS;
  const std::vector<RankPart> parts = split_structure(images, rank, NUM_RANKS);
  std::vector<std::unique_ptr<Evaluator>> evaluators;
  for (int k = 0; k <= NUM_RANKS; ++k) evaluators.push_back(make());
  before_steps();
  RankGroup group(parts);
  evaluate_ranks(evaluators, parts, structure.size(), group, along);
  evaluate_whole(*evaluators.back(), images, along);
  expect_listed(evaluators, allocated());
}

// What evaluators differ in by their arrays, of which each of many models takes two: most arrays depend on one of both.
inline std::vector<EvaluatorOptions> options_of_arrays(int number_of_model) {
  EvaluatorOptions plain;
  plain.radial_tolerance = 0.05;    // tables that are built quickly
  EvaluatorOptions lean = plain, directional = plain, keeping = plain;
  lean.lean = lean.deterministic = true;
  directional.directional = directional.radial_exact = true;
  keeping.directional = true;
  keeping.kept_directions = 2;
  if (number_of_model % 2 == 0) return {plain, directional};
  return {lean, keeping};
}

}    // namespace testing
}    // namespace equi

#endif

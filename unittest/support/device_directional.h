// SPDX-License-Identifier: MIT
// What tests of derivatives along a direction on devices share: a system, options, ranks, and a small memory limit.
#ifndef EQUI_TEST_DEVICE_DIRECTIONAL_H
#define EQUI_TEST_DEVICE_DIRECTIONAL_H

#include "kokkos/layers/convolution/convolution_constants.h"
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/evaluator_laws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace equi::testing {

// Weights and slopes in float32 through a few layers.
constexpr double FLOAT32_NETWORK = 3e-4;

inline EvaluatorOptions directional(Precision precision, bool radial_exact = false) {
  EvaluatorOptions options;
  options.precision = precision;
  options.radial_exact = radial_exact;
  // The same polynomials in float64 on both back ends: tables that the host does not split.
  if (precision == Precision::double_) options.radial_tolerance = 0.1 * SPLIT_TOLERANCE;
  options.directional = true;
  return options;
}

// A model, atoms, and a direction along which they move.
class OfDirection : public ::testing::TestWithParam<TinyCase> {
 protected:
  OfDirection()
      : model(GetParam().model()),
        structure(random_structure(model.num_species(), 7)),
        images(structure.images(model.reach())),
        direction(random_direction(structure.size(), 11)) {}

  // Calls f(evaluation, number of ranks, exchange) for atoms that are split among ranks, also with an empty one.
  template <class F>
  void for_splits(const EvaluatorOptions &options, Wanted wanted, const F &f) const {
    const std::vector<std::vector<int>> splits = {{0, 1, 0, 1, 1, 0, 1, 0}, {3, 0, 1, 1, 3, 0, 3, 1}};
    for (const std::vector<int> &split : splits) {
      const int num_ranks = 1 + *std::max_element(split.begin(), split.end());
      const std::vector<RankPart> parts = split_structure(images, split, num_ranks);
      std::vector<std::unique_ptr<Evaluator>> evaluators;
      for (int r = 0; r < num_ranks; ++r) evaluators.push_back(make_device_evaluator(model, options));
      RankGroup group(parts);
      const Evaluation e = evaluate_ranks(evaluators, parts, structure.size(), group, &direction, wanted);
      for (const auto &error : e.errors) ASSERT_FALSE(error);
      f(e, num_ranks, group);
    }
  }

  const Model model;
  const Structure structure;
  const ImageStructure images;
  const std::vector<Vector3> direction;
};

// A little more than the least memory with which an evaluation on a device is possible. evaluate(evaluator) tries it.
template <class F>
double least_memory(const Model &model, EvaluatorOptions options, const F &evaluate) {
  options.memory_limit = 1.0;
  try {
    evaluate(*make_device_evaluator(model, options));
  } catch (const MemoryLimitError &e) {
    return 1.011 * e.bytes;
  }
  ADD_FAILURE() << "one byte is enough";
  return 1.0;
}

}    // namespace equi::testing

#endif

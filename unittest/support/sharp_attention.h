// SPDX-License-Identifier: MIT
// The promises of evaluators for attention whose scores differ by any amount, on either back end.
#ifndef EQUI_TEST_SHARP_ATTENTION_H
#define EQUI_TEST_SHARP_ATTENTION_H

#include "unittest/support/dot.h"
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/scalar_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace equi {
namespace testing {

struct SharpCase {
  std::string name;
  TinyModelOptions options;
  double spread;    // size of the differences of scores
  friend void PrintTo(const SharpCase &c, std::ostream *out) { *out << c.name; }
};

inline std::string name_of_sharp_case(const ::testing::TestParamInfo<SharpCase> &info) {
  return info.param.name;
}

// With a cutoff function and without. In the wide one a receiver has more edges than a host processes at a time, and
// all of them are more than an emulated device processes.
inline std::vector<SharpCase> sharp_cases() {
  std::vector<SharpCase> cases;
  for (const char *name : {"so2_with_attention", "so2_at_points_with_attention"})
    for (const double spread : {100.0, 1000.0}) {
      SharpCase made{name + ("_" + std::to_string(static_cast<int>(spread))), case_named(name).options, spread};
      made.options.so2_vector = 0.4 * spread;
      made.options.hidden.erase(made.options.hidden.begin());
      cases.push_back(made);
    }
  SharpCase wide = cases.front();
  wide.name = "so2_of_many_edges";
  wide.options.cutoff = 9.0;
  cases.push_back(wide);
  return cases;
}

// make(model, options): an evaluator.
inline void expect_sharp_attention(
    const std::function<std::unique_ptr<Evaluator>(const Model &, const EvaluatorOptions &)> &make,
    const SharpCase &sharp) {
  const Model model = make_tiny_model(sharp.options).model();
  EvaluatorOptions options;
  options.precision = Precision::double_;
  options.radial_exact = true;
  const auto evaluator = make(model, options);
  Structure structure = random_structure(model.num_species(), 7);
  const bool is_wide = sharp.options.cutoff > 8.0;
  if (is_wide) {
    // Lists of edges and chunks of them end within a receiver.
    const Evaluation all = evaluate_whole(*evaluator, structure.images(model.reach()));
    ASSERT_GT(all.num_edges, 1024);
    ASSERT_GT(all.num_edges, 96 * structure.size());
  } else {
    // One without neighbors.
    structure.positions.push_back({500.0, 0.0, 0.0});
    structure.species.push_back(0);
    std::fill_n(structure.periodic, 3, false);
  }
  const auto moved = [&](const std::vector<Vector3> &direction, double step) {
    Structure to = structure;
    for (int i = 0; i < to.size(); ++i)
      for (int k = 0; k < 3; ++k) to.positions[i][k] += step * direction[i][k];
    return to.images(model.reach());
  };
  const std::vector<Vector3> direction = random_direction(structure.size(), 11);
  const ImageStructure images = moved(direction, 0.0);
  const Evaluation whole = evaluate_whole(*evaluator, images);
  const std::vector<double> energies = scalar_energies(model, images);
  // Scores are rounded relative to their size.
  const double rounding = 1e-13 * sharp.spread;
  double size = 1.0;
  for (const double e : energies) size = std::max(size, std::fabs(e));
  for (int i = 0; i < structure.size(); ++i) EXPECT_NEAR(whole.atom_energy[i], energies[i], rounding * size) << i;

  const double h = 2e-4 / sharp.spread;
  const double power = dot(whole.forces, direction), force = largest_force(whole.forces);
  ASSERT_GT(force, 1e-2);
  const auto energy = [&](double step) { return evaluate_whole(*evaluator, moved(direction, step)).energy; };
  EXPECT_NEAR((energy(2 * h) - energy(-2 * h) - 8 * (energy(h) - energy(-h))) / (12 * h), power, 1e-5 * force);

  // Second derivatives, with the same values.
  options.directional = true;
  const Evaluation duals = evaluate_whole(*make(model, options), images, &direction);
  EXPECT_LT(largest_difference(duals.forces, whole.forces), 10 * rounding * force);
  const auto forces = [&](double step) { return evaluate_whole(*evaluator, moved(direction, step)).forces; };
  const auto far_up = forces(2 * h), up = forces(h), down = forces(-h), far_down = forces(-2 * h);
  std::vector<Vector3> slope(structure.size());
  for (int i = 0; i < structure.size(); ++i)
    for (int k = 0; k < 3; ++k)
      slope[i][k] = (8 * (up[i][k] - down[i][k]) - (far_up[i][k] - far_down[i][k])) / (12 * h);
  EXPECT_LT(largest_difference(duals.force_tangents, slope), 1e-5 * largest_force(duals.force_tangents));

  // In float32 scores have errors of some 1e-6 of their size, and weights have this relative error.
  for (const bool directional : {false, true}) {
    options.directional = directional;
    options.precision = Precision::mixed;
    const Evaluation mixed = evaluate_whole(*make(model, options), images, directional ? &direction : nullptr);
    const double float32 = 3e-6 * sharp.spread;
    EXPECT_NEAR(mixed.energy, whole.energy, float32 * size * structure.size());
    EXPECT_LT(largest_difference(mixed.forces, whole.forces), 10 * float32 * force);
    if (directional) {
      const double allowed = 100 * float32 * largest_force(duals.force_tangents);
      EXPECT_LT(largest_difference(mixed.force_tangents, duals.force_tangents), allowed);
    }
  }
}

}    // namespace testing
}    // namespace equi

#endif

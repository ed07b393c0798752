// SPDX-License-Identifier: MIT
// The layer potential in open systems, in slabs and in fields by HostEvaluation: compared with differences, symmetries
// and splits among ranks. test_torch.cpp compares it with LibTorch.
#include "unittest/support/boundary_cases.h"
#include "unittest/support/system_sum_laws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

// Sums in another order, relative to the largest number of a kind. Displaced charges lose digits.
constexpr Closeness SUM = {1e-10, 1e-12};
// Differences of the best of several steps, relative to the largest number of a kind.
constexpr double DIFFERENCE = 2e-7;

class BoundaryOfPotential : public ::testing::TestWithParam<BoundaryCase> {
 protected:
  BoundaryOfPotential() : model(GetParam().model()), structure(GetParam().structure(model.num_species())) {}
  std::unique_ptr<Evaluator> make(KokkosOptions options = GetParam().options()) const {
    return make_kokkos(model, options);
  }
  ImageStructure images() const { return structure.images(model.reach()); }
  bool is_open() const { return GetParam().boundary == Boundary::open; }
  bool has_field() const { return GetParam().field != std::array<double, 3>{}; }

  const Model model;
  const Structure structure;
};

TEST_P(BoundaryOfPotential, is_not_that_of_another_boundary) {
  BoundaryCase other = GetParam();
  other.boundary = is_open() ? Boundary::periodic : Boundary::open;
  const Evaluation here = evaluate_whole(*make(), images()),
                   there = evaluate_whole(*make(), other.structure(model.num_species()).images(model.reach())),
                   without = evaluate_whole(*make_kokkos(GetParam().tiny.model().with_field({}), GetParam().options()),
                                            images());
  EXPECT_GT(std::fabs(here.energy - there.energy), NOTICEABLE);
  if (has_field()) {
    EXPECT_GT(std::fabs(here.energy - without.energy), NOTICEABLE);
  }
}

TEST_P(BoundaryOfPotential, atoms_sum_to_the_whole) {
  const Evaluation e = evaluate_whole(*make(), images());
  // A field pulls at the total charge, whose origin is not the mean of the positions.
  expect_atoms_sum_to_the_whole(e, allowed_differences(SUM, e), has_field());
}

TEST_P(BoundaryOfPotential, forces_are_derivatives_of_the_energy) {
  expect_forces_are_derivatives(*make(), structure, model.reach(), DIFFERENCE);
}

TEST_P(BoundaryOfPotential, virials_are_derivatives_by_a_strain) {
  KokkosOptions options = GetParam().options();
  options.wave_vectors = WaveVectorSet::frozen;
  expect_virials_are_derivatives(*make(options), structure, model.reach(), DIFFERENCE);
}

TEST_P(BoundaryOfPotential, ranks_agree_with_one_and_need_the_sums) {
  expect_ranks_agree_and_need_the_sums([&] { return make(); }, images(), SUM);
}

TEST_P(BoundaryOfPotential, a_shift_and_an_order_of_atoms_change_nothing) {
  const auto evaluator = make();
  const Evaluation e = evaluate_whole(*evaluator, images());
  const AllowedDifferences allowed = allowed_differences(SUM, e);
  const double moved = energy_of(*evaluator, shifted(structure), model.reach());
  if (!has_field()) {
    EXPECT_NEAR(moved, e.energy, allowed.energy);
  }
  EXPECT_NEAR(energy_of(*evaluator, reversed(structure), model.reach()), e.energy, allowed.energy);
}

TEST_P(BoundaryOfPotential, exact_multipoles_may_turn) {
  if (has_field()) return;
  const double c = std::cos(0.7), s = std::sin(0.7), q[3][3] = {{c, 0.0, -s}, {0.0, 1.0, 0.0}, {s, 0.0, c}};
  const auto evaluator = make();
  const Evaluation e = evaluate_whole(*evaluator, images()),
                   of_turned = evaluate_whole(*evaluator, turned(q, structure).images(model.reach()));
  // Without dipoles no layer of these models reads gradients.
  if (is_open() && depends_on_axes(model.layers, GetParam().open) && GetParam().tiny.options.potential_dipoles) {
    EXPECT_GT(std::fabs(of_turned.energy - e.energy), 1e-6);
    return;
  }
  expect_turned(q, of_turned, e, allowed_differences(SUM, e));
}

TEST_P(BoundaryOfPotential, second_derivatives_are_differences_of_forces) {
  KokkosOptions options = GetParam().options();
  options.directional = true;
  const auto evaluator = make(options);
  const std::vector<Vector3> v = random_direction(structure.size(), 11), w = random_direction(structure.size(), 12);
  const Evaluation tangents = evaluate_whole(*evaluator, images(), &v);
  double size = 1.0;
  for (const Vector3 &t : tangents.force_tangents)
    for (const double x : t) size = std::max(size, std::fabs(x));
  const TangentErrors errors = largest_errors_by_differences(*make(), model, structure, v, tangents);
  EXPECT_LE(errors.forces, 10 * DIFFERENCE * size);
  EXPECT_LE(errors.virial, 100 * DIFFERENCE * size);
  const Evaluation others = evaluate_whole(*evaluator, images(), &w);
  double vHw = 0.0, wHv = 0.0;
  for (int i = 0; i < structure.size(); ++i)
    for (int k = 0; k < 3; ++k) {
      vHw += v[i][k] * others.force_tangents[i][k];
      wHv += w[i][k] * tangents.force_tangents[i][k];
    }
  EXPECT_NEAR(vHw, wHv, 1e-9 * size * structure.size());
}

TEST_P(BoundaryOfPotential, evaluations_repeat_to_the_last_bit_after_another_boundary) {
  const auto evaluator = make();
  const Evaluation first = evaluate_whole(*evaluator, images());
  BoundaryCase other = GetParam();
  for (const Boundary boundary : {Boundary::open, Boundary::slab, Boundary::periodic}) {
    other.boundary = boundary;
    evaluate_whole(*evaluator, other.structure(model.num_species(), 9, 3).images(model.reach()));
  }
  expect_same(evaluate_whole(*evaluator, images()), first, {0.0}, "repeated");
}

INSTANTIATE_TEST_SUITE_P(All, BoundaryOfPotential, ::testing::ValuesIn(boundary_cases()),
                         [](const auto &info) { return info.param.name; });

TEST(OpenPotential, of_one_atom_is_what_it_adds_of_its_own) {
  const Structure one = isolated_atoms(1);
  for (const BoundaryCase &open : boundary_cases()) {
    if (open.boundary != Boundary::open || open.field != std::array<double, 3>{}) continue;
    Model model = open.model();
    const double energy = energy_of(*make_kokkos(model, open.options()), one, model.reach());
    for (Layer &layer : model.layers)
      if (auto *potential = std::get_if<Potential>(&layer)) potential->function.prefactor *= 2.0;
    EXPECT_EQ(energy_of(*make_kokkos(model, open.options()), one, model.reach()), energy) << open.name;
    for (Layer &layer : model.layers)
      if (auto *potential = std::get_if<Potential>(&layer))
        for (auto &numbers : potential->open->added)
          for (double &number : numbers) number = 0.0;
    EXPECT_NE(energy_of(*make_kokkos(model, open.options()), one, model.reach()), energy) << open.name;
  }
}

TEST(OpenPotential, states_what_it_found_and_refuses_other_boundaries) {
  const BoundaryCase dipoles = boundary_cases().back();
  const Model model = dipoles.model();
  const auto evaluator = make_kokkos(model, dipoles.options());
  Structure s = random_structure(model.num_species(), 7);
  s.periodic[1] = s.periodic[2] = false;
  const auto expect_error = [](const std::function<void()> &evaluate, const char *part) {
    try {
      evaluate();
      ADD_FAILURE() << "no error";
    } catch (const EvaluationError &fault) {
      EXPECT_NE(std::string(fault.what()).find(part), std::string::npos) << fault.what();
    }
  };
  expect_error([&] { energy_of(*evaluator, s, model.reach()); }, "in the first two, or in none");
  s.periodic[2] = true;
  expect_error([&] { energy_of(*evaluator, s, model.reach()); }, "in the first two, or in none");
  s.periodic[0] = s.periodic[2] = false;
  energy_of(*evaluator, s, model.reach());
  const std::string lines = evaluator->describe_system();
  for (const char *part : {"open system, 28 pairs", "displaced charges", "keyword open", "turned"})
    EXPECT_NE(lines.find(part), std::string::npos) << part << " in " << lines;

  Model old = model;
  for (Layer &layer : old.layers)
    if (auto *potential = std::get_if<Potential>(&layer)) potential->open.reset();
  expect_error([&] { energy_of(*make_kokkos(old, dipoles.options()), s, model.reach()); }, "three directions");
}

}    // namespace

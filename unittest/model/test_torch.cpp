// SPDX-License-Identifier: MIT
// Compares HostEvaluation with the LibTorch reference, which shares no arithmetic with it, for tiny models with every
// option.
#include "src/reference/torch_model.h"
#include "unittest/support/boundary_cases.h"
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/framework_answers.h"
#include "unittest/support/linear_chain.h"
#include "unittest/support/make_kokkos.h"
#include "unittest/support/model_cases.h"
#include "unittest/support/observables.h"
#include "unittest/support/sharp_attention.h"

#include <gtest/gtest.h>

namespace {

using namespace equi;
using namespace equi::testing;

class ModelTorch : public ::testing::TestWithParam<TinyCase> {};

std::unique_ptr<Evaluator> make_torch(const Model &model, OpenSum open = OpenSum::framework) {
  EvaluatorOptions options;
  options.precision = Precision::double_;
  options.open = open;
  char error[500] = "";
  std::unique_ptr<Evaluator> evaluator(equi_make_torch_evaluator(&model, &options, error, sizeof error));
  if (!evaluator) throw std::runtime_error(error);
  return evaluator;
}

TEST_P(ModelTorch, agrees_with_autograd) {
  const Model model = GetParam().model();
  const auto torch = make_torch(model);
  for (const int side : {2, 4}) {
    const Structure structure = random_structure(model.num_species(), 20 + side / 2, side);
    const ImageStructure images = structure.images(model.reach());
    const Evaluation expected = evaluate_whole(*torch, images);
    const double largest = std::max(1.0, largest_force(expected.forces));
    // The random networks' energies are of the order of 10 eV per atom, and float32 errors in proportion.
    double energy_size = 1.0;
    for (const double e : expected.atom_energy) energy_size = std::max(energy_size, std::fabs(e));
    for (const bool deterministic : {false, true})
      for (const auto &[options, tolerance] :
           {std::pair<KokkosOptions, ReferenceTolerance>{{Precision::double_, true, deterministic}, EXACT_REFERENCE},
            {{Precision::double_, false, deterministic}, TABLE_REFERENCE},
            {{Precision::mixed, true, deterministic}, MIXED_REFERENCE},
            {{Precision::mixed, false, deterministic}, MIXED_REFERENCE}}) {
        const Evaluation e = evaluate_whole(*make_kokkos(model, options), images);
        const std::string what = std::to_string(structure.size()) + " atoms, precision " +
                                 std::to_string(static_cast<int>(options.precision)) +
                                 (options.radial_exact ? ", exact" : ", table") +
                                 (deterministic ? ", deterministic" : "");
        const double energy = tolerance.energy * energy_size, force = tolerance.force * largest;
        EXPECT_EQ(e.num_edges, expected.num_edges) << what;
        EXPECT_NEAR(e.energy, expected.energy, energy * structure.size()) << what;
        for (int k = 0; k < 6; ++k) EXPECT_NEAR(e.virial[k], expected.virial[k], force * structure.size()) << what;
        for (int i = 0; i < structure.size(); ++i) {
          // In the energy of one atom the errors of other atoms do not cancel.
          EXPECT_NEAR(e.atom_energy[i], expected.atom_energy[i], 10 * energy) << what << ", atom " << i;
          for (int k = 0; k < 3; ++k)
            EXPECT_NEAR(e.forces[i][k], expected.forces[i][k], force) << what << ", atom " << i;
          for (int k = 0; k < 9; ++k)
            EXPECT_NEAR(e.atom_virial[i][k], expected.atom_virial[i][k], 10 * force) << what << ", atom " << i;
        }
      }
  }
}

TEST(ModelTorchAttention, of_any_scores_agrees_with_autograd) {
  for (const SharpCase &sharp : sharp_cases()) {
    const Model model = make_tiny_model(sharp.options).model();
    const ImageStructure images = random_structure(model.num_species(), 22).images(model.reach());
    const Evaluation expected = evaluate_whole(*make_torch(model), images);
    ASSERT_GT(largest_force(expected.forces), 1e-2);
    expect_same(evaluate_whole(*make_kokkos(model, {Precision::double_, true}), images), expected,
                {0.0, 1e-13 * sharp.spread * sharp.spread}, sharp.name);
  }
}

TEST(ModelTorchObservables, agree_with_autograd) {
  for (const TinyCase &tiny : observable_cases()) {
    const Model all = observed_model(tiny), observed = all.for_observables();
    const ImageStructure images = random_structure(all.num_species(), 22).images(all.reach());
    const std::vector<double> expected = observables_of(*make_torch(observed), observed, images);
    double largest = 0.0;
    for (const double number : expected) largest = std::max(largest, std::fabs(number));
    ASSERT_GT(largest, 1e-2);
    for (const auto &[precision, tolerance] : {std::pair{Precision::double_, 1e-12}, {Precision::mixed, 1e-5}}) {
      const std::vector<double> found = observables_of(*make_kokkos(observed, {precision, true}), observed, images);
      for (size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(found[k], expected[k], tolerance * largest) << tiny.name;
    }
    const Model in_field = observed_model(tiny, false).with_field({0.3, -0.2, 0.5});
    expect_same(evaluate_whole(*make_kokkos(in_field, {Precision::double_, true}), images),
                evaluate_whole(*make_torch(in_field), images), ROUNDING, tiny.name);
  }
}

TEST(ModelTorchObservables, have_born_charges_of_autograd) {
  std::vector<TinyCase> cases = observable_cases();
  for (const bool shares : {false, true}) {    // sums over all atoms, whose backward passes have none
    cases.push_back(cases.front());
    cases.back().options.balanced_channels = 2;
    cases.back().options.balance_shares = shares;
  }
  for (const TinyCase &tiny : cases) {
    const Model derived = observed_model(tiny).for_observable_derivatives();
    const Structure structure = random_structure(derived.num_species(), 22);
    const BornCharges expected = born_charges_of(make_torch(derived), derived, structure),
                      found = born_charges_of(make_kokkos(derived, {Precision::double_, true}), derived, structure);
    for (int i = 0; i < structure.size(); ++i) {
      for (int k = 0; k < 9; ++k) EXPECT_NEAR(found.born[i][k], expected.born[i][k], 1e-10) << tiny.name;
      for (int k = 0; k < 3; ++k)
        EXPECT_NEAR(found.charge_derivative[i][k], expected.charge_derivative[i][k], 1e-11) << tiny.name;
    }
  }
}

class ModelTorchBoundary : public ::testing::TestWithParam<BoundaryCase> {};

TEST_P(ModelTorchBoundary, agrees_with_autograd_on_any_number_of_ranks) {
  const BoundaryCase &boundary = GetParam();
  const Model model = boundary.model();
  const Structure structure = boundary.structure(model.num_species());
  const ImageStructure images = structure.images(model.reach());
  const Evaluation expected = evaluate_whole(*make_torch(model, boundary.open), images);
  // Displaced charges lose digits, and so does the closed form of exact ones at short distances.
  constexpr Closeness CLOSE = {1e-10, 1e-11};
  expect_same(evaluate_whole(*make_kokkos(model, boundary.options()), images), expected, CLOSE, "one rank");
  const std::vector<RankPart> parts = split_structure(images, {0, 2, 0, 2, 0, 0, 2, 2}, 3);
  std::vector<std::unique_ptr<Evaluator>> evaluators;
  for (int r = 0; r < 3; ++r) evaluators.push_back(make_torch(model, boundary.open));
  RankGroup group(parts);
  const Evaluation e = evaluate_ranks(evaluators, parts, structure.size(), group);
  for (const auto &error : e.errors) ASSERT_FALSE(error);
  expect_same(e, expected, CLOSE, "three ranks");
}

INSTANTIATE_TEST_SUITE_P(All, ModelTorchBoundary, ::testing::ValuesIn(boundary_cases()),
                         [](const auto &info) { return info.param.name; });

// The reference evaluates each layer separately.
TEST(ModelTorchFolds, folded_linears_agree_with_autograd) {
  for (const Chain &chain : all_chains()) {
    const Model model = with_chain(chain);
    const ImageStructure images = random_structure(model.num_species(), 7).images(model.reach());
    expect_same(evaluate_whole(*make_kokkos(model, {Precision::double_, true}), images),
                evaluate_whole(*make_torch(model), images), {EXACT_REFERENCE.force}, "folded");
  }
}

INSTANTIATE_TEST_SUITE_P(Ewald, ModelTorch, ::testing::ValuesIn(ewald_cases()),
                         [](const auto &info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Potential, ModelTorch, ::testing::ValuesIn(potential_cases()),
                         [](const auto &info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Tiny, ModelTorch, ::testing::ValuesIn(all_cases()),
                         [](const auto &info) { return info.param.name; });

}    // namespace

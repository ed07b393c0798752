// SPDX-License-Identifier: MIT
// The laws of an Evaluator on tiny random models: comparisons with plain loops, finite differences, symmetries and
// splits among ranks.
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/scalar_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

namespace equi {
namespace testing {

AllowedDifferences allowed_differences(const Closeness &closeness, const Evaluation &expected) {
  double energy = 1.0, virial = 1.0;
  for (const double e : expected.atom_energy) energy += std::fabs(e);
  for (const auto &atom : expected.atom_virial)
    for (const double v : atom) virial = std::max(virial, std::fabs(v));
  const double force = std::max(1.0, largest_force(expected.forces));
  const double num_atoms = static_cast<double>(expected.forces.size());
  return {closeness.absolute + closeness.relative * energy, closeness.absolute + closeness.relative * force,
          10 * closeness.absolute + closeness.relative * virial * num_atoms,
          10 * closeness.absolute + closeness.relative * virial};
}

void expect_same(const Evaluation &a, const Evaluation &expected, const Closeness &closeness, const std::string &what) {
  const AllowedDifferences allowed = allowed_differences(closeness, expected);
  EXPECT_EQ(a.num_edges, expected.num_edges) << what;
  EXPECT_NEAR(a.energy, expected.energy, allowed.energy) << what;
  for (int k = 0; k < 6; ++k) EXPECT_NEAR(a.virial[k], expected.virial[k], allowed.virial) << what << ", virial " << k;
  ASSERT_EQ(a.forces.size(), expected.forces.size()) << what;
  for (size_t i = 0; i < a.forces.size(); ++i) {
    EXPECT_NEAR(a.atom_energy[i], expected.atom_energy[i], allowed.energy) << what << ", atom " << i;
    for (int k = 0; k < 3; ++k)
      EXPECT_NEAR(a.forces[i][k], expected.forces[i][k], allowed.force) << what << ", atom " << i;
    for (int k = 0; k < 9; ++k)
      EXPECT_NEAR(a.atom_virial[i][k], expected.atom_virial[i][k], allowed.atom_virial) << what << ", atom " << i;
  }
  EXPECT_EQ(a.bystander_force, 0.0) << what;
}

double largest_difference(const std::vector<Vector3> &a, const std::vector<Vector3> &b) {
  double largest = a.size() == b.size() ? 0.0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    for (int k = 0; k < 3; ++k) {
      const double d = std::fabs(a[i][k] - b[i][k]);
      if (!(d <= largest)) largest = d;    // NaN stays the largest
    }
  return largest;
}

std::vector<Vector3> random_direction(int num_atoms, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> component(-1.0, 1.0);
  std::vector<Vector3> v(num_atoms);
  for (Vector3 &one : v)
    for (double &c : one) c = component(random);
  return v;
}

TangentErrors largest_errors_by_differences(Evaluator &evaluator, const Model &model, const Structure &structure,
                                            const std::vector<Vector3> &direction, const Evaluation &tangents) {
  const auto results_at = [&](double step) {
    Structure moved = structure;
    for (int i = 0; i < moved.size(); ++i)
      for (int k = 0; k < 3; ++k) moved.positions[i][k] += step * direction[i][k];
    return evaluate_whole(evaluator, moved.images(model.reach()));
  };
  TangentErrors best;
  for (const double h : {2e-3, 1e-3, 5e-4}) {
    const Evaluation wide_up = results_at(h), wide_down = results_at(-h), up = results_at(0.5 * h),
                     down = results_at(-0.5 * h);
    const auto slope = [&](const auto &number) {    // (4 D(h/2) - D(h)) / 3
      return (8 * (number(up) - number(down)) - (number(wide_up) - number(wide_down))) / (6 * h);
    };
    std::vector<Vector3> of_forces(structure.size());
    for (int i = 0; i < structure.size(); ++i)
      for (int k = 0; k < 3; ++k) of_forces[i][k] = slope([&](const Evaluation &e) { return e.forces[i][k]; });
    double of_virial = 0.0;
    for (int k = 0; k < 6; ++k)
      of_virial = std::max(
          of_virial, std::fabs(tangents.virial_tangent[k] - slope([&](const Evaluation &e) { return e.virial[k]; })));
    best.forces = std::min(best.forces, largest_difference(tangents.force_tangents, of_forces));
    best.virial = std::min(best.virial, of_virial);
  }
  return best;
}

namespace {

class EvaluatorLaws : public ::testing::TestWithParam<std::tuple<EvaluatorKind, TinyCase>> {
 protected:
  EvaluatorLaws()
      : kind(std::get<0>(GetParam())),
        tiny(std::get<1>(GetParam())),
        model(tiny.model()),
        structure(random_structure(model.num_species(), 7)) {}

  std::unique_ptr<Evaluator> make(double radial_tolerance = COARSE_TABLES) const {
    return kind.make(model, radial_tolerance);
  }
  std::vector<std::unique_ptr<Evaluator>> make_ranks(int num_ranks) const {
    std::vector<std::unique_ptr<Evaluator>> evaluators;
    for (int r = 0; r < num_ranks; ++r) evaluators.push_back(make());
    return evaluators;
  }

  // Applies a 3x3 matrix to positions and cell and compares energies and turned forces.
  void expect_covariant(const double q[3][3]) const {
    const auto turn = [&](const double v[3], double out[3]) {
      for (int a = 0; a < 3; ++a) out[a] = q[a][0] * v[0] + q[a][1] * v[1] + q[a][2] * v[2];
    };
    Structure turned = structure;
    for (int i = 0; i < structure.size(); ++i) turn(structure.positions[i].data(), turned.positions[i].data());
    for (int row = 0; row < 3; ++row) turn(structure.cell[row], turned.cell[row]);
    const auto evaluator = make();
    const Evaluation a = evaluate_whole(*evaluator, structure.images(model.reach()));
    const Evaluation b = evaluate_whole(*evaluator, turned.images(model.reach()));
    const AllowedDifferences allowed = allowed_differences(kind.rounding, a);
    EXPECT_NEAR(a.energy, b.energy, allowed.energy + tiny.turn_error);
    for (int i = 0; i < structure.size(); ++i) {
      double f[3];
      turn(a.forces[i].data(), f);
      for (int k = 0; k < 3; ++k) EXPECT_NEAR(f[k], b.forces[i][k], allowed.force + tiny.turn_error) << "atom " << i;
    }
  }

  const EvaluatorKind kind;
  const TinyCase tiny;
  const Model model;
  const Structure structure;
};

// The results of one model.
class EvaluatorKindLaws : public ::testing::TestWithParam<EvaluatorKind> {};

// The best of central differences with several steps. Richardson's combination of two steps removes the h^2 term.
template <class EnergyAt>
double error_of_slope(double expected, std::initializer_list<double> steps, const EnergyAt &energy_at) {
  double best = INFINITY;
  for (const double h : steps) {
    const auto slope = [&](double step) { return (energy_at(step) - energy_at(-step)) / (2 * step); };
    best = std::min(best, std::fabs((4 * slope(0.5 * h) - slope(h)) / 3 - expected));
  }
  return best;
}

// The laws about differences of energies that are lost in the rounding of float32.
class EvaluatorLawsInFloat64 : public EvaluatorLaws {};

// Energies of a model's structure, computed once for all kinds of evaluators.
const std::vector<double> &energies_by_plain_loops(const std::string &name, const Model &model,
                                                   const ImageStructure &images) {
  static std::map<std::string, std::vector<double>> known;
  const auto [it, is_new] = known.try_emplace(name);
  if (is_new) it->second = scalar_energies(model, images);
  return it->second;
}

TEST_P(EvaluatorLaws, energies_equal_plain_loops) {
  const ImageStructure images = structure.images(model.reach());
  const std::vector<double> &expected = energies_by_plain_loops(tiny.name, model, images);
  const Evaluation e = evaluate_whole(*make(ACCURATE_TABLES), images);
  ASSERT_GT(e.num_edges, structure.size());
  const double allowed = allowed_differences(kind.to_plain_loops, e).energy;
  for (int i = 0; i < structure.size(); ++i) EXPECT_NEAR(e.atom_energy[i], expected[i], allowed) << "atom " << i;
  EXPECT_NEAR(e.energy, std::accumulate(expected.begin(), expected.end(), 0.0), allowed);
}

TEST_P(EvaluatorLawsInFloat64, forces_are_minus_the_gradient_of_the_energy) {
  const auto evaluator = make(ACCURATE_TABLES);
  const Evaluation e = evaluate_whole(*evaluator, structure.images(model.reach()));
  const double largest = largest_force(e.forces);
  ASSERT_GT(largest, 1e-4);
  for (int i = 0; i < structure.size(); i += 3)
    for (int k = 0; k < 3; ++k) {
      const double error = error_of_slope(-e.forces[i][k], {1e-3, 3e-4, 1e-4}, [&](double step) {
        Structure moved = structure;
        moved.positions[i][k] += step;
        return energy_of(*evaluator, moved, model.reach());
      });
      EXPECT_LT(error, FINITE_DIFFERENCE * largest) << "atom " << i << " direction " << k;
    }
}

TEST_P(EvaluatorLawsInFloat64, virial_is_minus_the_strain_derivative) {
  const auto evaluator = make(ACCURATE_TABLES);
  const Evaluation e = evaluate_whole(*evaluator, structure.images(model.reach()));
  double largest = 0.0;
  for (const double v : e.virial) largest = std::max(largest, std::fabs(v));
  ASSERT_GT(largest, 1e-4);
  const int axes[6][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}};
  for (int n = 0; n < 6; ++n) {
    const int a = axes[n][0], b = axes[n][1];
    // Symmetric strains, which do not turn the structure.
    const double error = error_of_slope(-e.virial[n], {3e-4, 1e-4, 3e-5}, [&](double strain) {
      Structure s = structure;
      for (int i = 0; i < s.size(); ++i) {
        s.positions[i][a] += 0.5 * strain * structure.positions[i][b];
        s.positions[i][b] += 0.5 * strain * structure.positions[i][a];
      }
      for (int row = 0; row < 3; ++row) {
        s.cell[row][a] += 0.5 * strain * structure.cell[row][b];
        s.cell[row][b] += 0.5 * strain * structure.cell[row][a];
      }
      return energy_of(*evaluator, s, model.reach());
    });
    EXPECT_LT(error, FINITE_DIFFERENCE * largest) << "component " << n;
  }
}

TEST_P(EvaluatorLaws, per_atom_values_sum_to_the_whole) {
  const Evaluation e = evaluate_whole(*make(), structure.images(model.reach()));
  const AllowedDifferences allowed = allowed_differences(kind.rounding, e);
  EXPECT_NEAR(std::accumulate(e.atom_energy.begin(), e.atom_energy.end(), 0.0), e.energy, allowed.energy);
  std::array<double, 9> sum{};
  Vector3 momentum{};
  for (int i = 0; i < structure.size(); ++i) {
    for (int k = 0; k < 9; ++k) sum[k] += e.atom_virial[i][k];
    for (int k = 0; k < 3; ++k) momentum[k] += e.forces[i][k];
  }
  for (int k = 0; k < 3; ++k) EXPECT_NEAR(momentum[k], 0.0, allowed.force);
  for (int k = 0; k < 6; ++k)
    EXPECT_NEAR(k < 3 ? sum[k] : 0.5 * (sum[k] + sum[k + 3]), e.virial[k], allowed.virial) << k;
  // The virial of an energy that rotation does not change is symmetric.
  for (int k = 0; k < 3; ++k) EXPECT_NEAR(sum[6 + k], sum[3 + k], allowed.virial + tiny.turn_error) << k;
}

TEST_P(EvaluatorLaws, rotation_rotates_forces) {
  // By 0.7 about y, then 1.1 about x.
  const double c = std::cos(0.7), s = std::sin(0.7), d = std::cos(1.1), t = std::sin(1.1);
  const double q[3][3] = {{c, 0, s}, {t * s, d, -t * c}, {-d * s, t, d * c}};
  expect_covariant(q);
}

TEST_P(EvaluatorLawsInFloat64, inversion_inverts_forces_exactly_if_parity_is_kept) {
  const double q[3][3] = {{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}};
  if (tiny.keeps_parity) {
    expect_covariant(q);
    return;
  }
  // A model that is symmetric only under rotations distinguishes left from right.
  Structure mirrored = structure;
  for (Vector3 &p : mirrored.positions)
    for (double &c : p) c = -c;
  const auto evaluator = make();
  EXPECT_GT(std::fabs(energy_of(*evaluator, mirrored, model.reach()) - energy_of(*evaluator, structure, model.reach())),
            tiny.mirror_change);
}

TEST_P(EvaluatorLaws, permutation_and_translation_change_nothing) {
  Structure moved = structure;
  std::vector<int> order(structure.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(3));
  for (int i = 0; i < structure.size(); ++i) {
    const Vector3 &p = structure.positions[order[i]];
    moved.positions[i] = {p[0] + 1.7, p[1] - 0.9, p[2] + 11.3};
    moved.species[i] = structure.species[order[i]];
  }
  const auto evaluator = make();
  const Evaluation a = evaluate_whole(*evaluator, structure.images(model.reach()));
  const Evaluation b = evaluate_whole(*evaluator, moved.images(model.reach()));
  const AllowedDifferences allowed = allowed_differences(kind.rounding, a);
  EXPECT_NEAR(a.energy, b.energy, allowed.energy);
  for (int i = 0; i < structure.size(); ++i)
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(a.forces[order[i]][k], b.forces[i][k], allowed.force) << "atom " << i;
}

TEST_P(EvaluatorLaws, ranks_agree_with_one_rank) {
  const ImageStructure images = structure.images(model.reach());
  const Evaluation whole = evaluate_whole(*make(), images);
  // Rank 2 and rank 1 of the first two splits are empty.
  const std::vector<std::vector<int>> splits = {
      {3, 0, 1, 1, 3, 0, 3, 1}, {0, 2, 2, 0, 2, 2, 0, 2}, {0, 0, 0, 0, 1, 1, 1, 1}, {0, 1, 0, 1, 1, 0, 1, 0}};
  auto evaluators = make_ranks(4);
  for (const std::vector<int> &split : splits) {
    const int num_ranks = 1 + *std::max_element(split.begin(), split.end());
    const std::vector<RankPart> parts = split_structure(images, split, num_ranks);
    evaluators.resize(num_ranks);    // what they evaluated before leaves nothing behind
    RankGroup group(parts);
    const Evaluation e = evaluate_ranks(evaluators, parts, structure.size(), group);
    for (const auto &error : e.errors) ASSERT_FALSE(error);
    expect_same(e, whole, kind.rounding, std::to_string(num_ranks) + " ranks");
    // One forward and one reverse for each exchanged feature; in TorchModel, for each layer that reads one. The
    // features of layers with far edges are only sent forward; TorchModel returns their adjoints, too.
    EXPECT_GE(group.calls(0), 2 * num_exchanged_features(model) + num_sent_features(model));
    EXPECT_LE(group.calls(0), 2 * num_exchanging_convolutions(model) + 2 * num_far_layers(model));

    // The comparison notices a broken exchange.
    if (sums_over_atoms(model.layers)) {
      RankGroup sum_group(parts);
      sum_group.mute_sum = true;
      const Evaluation no_sum = evaluate_ranks(evaluators, parts, structure.size(), sum_group);
      EXPECT_GT(std::fabs(no_sum.energy - whole.energy), kind.noticeable);
    }
    if (num_exchanged_features(model) == 0) continue;
    group.mute_reverse = true;
    const Evaluation no_reverse = evaluate_ranks(evaluators, parts, structure.size(), group);
    EXPECT_NEAR(no_reverse.energy, whole.energy, allowed_differences(kind.rounding, whole).energy);
    EXPECT_GT(largest_difference(no_reverse.forces, whole.forces), kind.noticeable);
    // Remote rows may still hold the features of the previous step; atoms must move for a fault to show.
    Structure moved = structure;
    for (int i = 0; i < moved.size(); ++i) moved.positions[i][i % 3] += 0.3;
    const ImageStructure moved_images = moved.images(model.reach());
    const std::vector<RankPart> moved_parts = split_structure(moved_images, split, num_ranks);
    RankGroup moved_group(moved_parts);
    moved_group.mute_forward = true;
    const Evaluation no_forward = evaluate_ranks(evaluators, moved_parts, structure.size(), moved_group);
    const Evaluation moved_whole = evaluate_whole(*evaluators[0], moved_images);
    // Errors of the atoms' energies may cancel in their sum.
    EXPECT_GT(std::max(std::fabs(no_forward.energy - moved_whole.energy),
                       largest_difference(no_forward.forces, moved_whole.forces)),
              kind.noticeable);
  }
}

TEST_P(EvaluatorLaws, evaluations_repeat_to_the_last_bit) {
  const ImageStructure images = random_structure(model.num_species(), 13, 4).images(model.reach());
  const auto evaluator = make();
  const Evaluation first = evaluate_whole(*evaluator, images);
  evaluate_whole(*evaluator, structure.images(model.reach()));    // leaves other numbers in the memory
  expect_same(evaluate_whole(*evaluator, images), first, {0.0}, "repeated");
  expect_same(evaluate_whole(*make(), images), first, {0.0}, "another evaluator");
}

TEST_P(EvaluatorLaws, outputs_are_added_to_and_optional) {
  const ImageStructure images = structure.images(model.reach());
  const auto evaluator = make();
  const Evaluation whole = evaluate_whole(*evaluator, images);
  const AllowedDifferences allowed = allowed_differences(kind.rounding, whole);
  EXPECT_EQ(energy_of(*evaluator, structure, model.reach()), whole.energy);    // without forces

  evaluator->set_neighborhood(images.neighborhood);
  std::vector<Vector3> forces(images.positions.size(), Vector3{1.0, 2.0, 3.0});
  std::vector<double> energies(images.positions.size(), 4.0);
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
  request.forces = reinterpret_cast<double(*)[3]>(forces.data());
  request.atom_energy = energies.data();
  NoExchange none;
  const EvaluationResult result = evaluator->evaluate(request, none);
  for (const double v : result.virial) EXPECT_EQ(v, 0.0);    // it was not requested
  std::vector<Vector3> sum(structure.size(), Vector3{});
  for (size_t a = 0; a < forces.size(); ++a) {
    for (int k = 0; k < 3; ++k) sum[images.owner[a]][k] += forces[a][k] - (k + 1.0);
    const bool is_receiver = a < static_cast<size_t>(structure.size());
    EXPECT_NEAR(energies[a], 4.0 + (is_receiver ? whole.atom_energy[a] : 0.0), allowed.energy);
  }
  EXPECT_LE(largest_difference(sum, whole.forces), allowed.force);
}

TEST_P(EvaluatorLaws, a_lone_atom_has_no_force) {
  Structure lone;
  lone.positions = {{0.3, 0.2, 0.1}};
  lone.species = {model.num_species() - 1};
  for (bool &p : lone.periodic) p = false;
  const ImageStructure images = lone.images(model.reach());
  const Evaluation e = evaluate_whole(*make(), images);
  EXPECT_EQ(e.num_edges, 0);
  // No edge, so no table.
  EXPECT_NEAR(e.energy, scalar_energies(model, images)[0], allowed_differences(kind.rounding, e).energy);
  for (const double f : e.forces[0]) EXPECT_EQ(f, 0.0);
  for (const double v : e.virial) EXPECT_EQ(v, 0.0);
}

TEST_P(EvaluatorLaws, an_empty_structure_has_no_energy) {
  Neighborhood nothing;
  nothing.first = {0};
  const auto evaluator = make();
  evaluator->set_neighborhood(nothing);
  double positions[1][3] = {}, forces[1][3] = {};
  EvaluationRequest request;
  request.positions = positions;
  request.forces = forces;
  request.virial = true;
  NoExchange none;
  const EvaluationResult result = evaluator->evaluate(request, none);
  EXPECT_EQ(result.energy, 0.0);
  EXPECT_EQ(result.num_edges, 0);
  for (const double v : result.virial) EXPECT_EQ(v, 0.0);
}

// Except for the number of atoms, among which sums of balanced channels are shared.
TEST_P(EvaluatorLaws, an_atom_beyond_all_cutoffs_changes_nothing) {
  Structure open = structure;
  for (bool &p : open.periodic) p = false;
  const Evaluation without = evaluate_whole(*make(), open.images(model.reach()));
  Structure more = open;
  more.positions.push_back({100.0, 0.0, 0.0});
  more.species.push_back(0);
  const Evaluation with = evaluate_whole(*make(), more.images(model.reach()));
  for (const double f : with.forces.back()) EXPECT_EQ(f, 0.0);
  const AllowedDifferences allowed = allowed_differences(kind.rounding, without);
  const double change = std::fabs(with.energy - with.atom_energy.back() - without.energy);
  if (sums_over_atoms(model.layers)) {
    EXPECT_GT(change, allowed.energy);
    return;
  }
  EXPECT_LE(change, allowed.energy);
  for (int i = 0; i < open.size(); ++i)
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(with.forces[i][k], without.forces[i][k], allowed.force);
}

TEST_P(EvaluatorLaws, errors_name_the_atoms_and_let_other_ranks_finish) {
  Structure broken = structure;
  broken.positions[5] = broken.positions[2];
  const auto evaluator = make();
  const auto evaluators = make_ranks(2);
  for (const double distance : {0.5 * MIN_DISTANCE, 0.01 * MIN_DISTANCE, 0.0}) {
    broken.positions[5][0] = broken.positions[2][0] + distance;
    const ImageStructure images = broken.images(model.reach());
    try {
      evaluate_whole(*evaluator, images);
      FAIL() << "no error";
    } catch (const EvaluationError &e) {
      ASSERT_GE(std::min(e.atom_i, e.atom_j), 0);
      EXPECT_EQ(std::min(images.owner[e.atom_i], images.owner[e.atom_j]), 2);
      EXPECT_EQ(std::max(images.owner[e.atom_i], images.owner[e.atom_j]), 5);
      EXPECT_NEAR(e.distance, distance, 1e-12);
    }

    // Both atoms on rank 0, all others on rank 1.
    const std::vector<RankPart> parts = split_structure(images, {1, 1, 0, 1, 1, 0, 1, 1}, 2);
    RankGroup group(parts);
    const Evaluation e = evaluate_ranks(evaluators, parts, broken.size(), group);
    ASSERT_TRUE(e.errors[0]);
    EXPECT_THROW(std::rethrow_exception(e.errors[0]), EvaluationError);
    EXPECT_EQ(group.calls(0), group.calls(1));
    if (e.errors[1]) {
      EXPECT_THROW(std::rethrow_exception(e.errors[1]), EvaluationError);
    }
  }
}

// Positions of an atom with neighbors and of one without, with and without forces.
TEST_P(EvaluatorLaws, positions_that_are_not_finite_are_an_error) {
  const auto evaluator = make();
  const auto expect_error = [&](const ImageStructure &images, int atom, int component, double value) {
    ImageStructure broken = images;
    broken.positions[atom][component] = value;
    const std::string what = "atom " + std::to_string(atom) + ", " + std::to_string(value);
    EXPECT_THROW(evaluate_whole(*evaluator, broken), EvaluationError) << what;
    EvaluationRequest request;
    request.positions = reinterpret_cast<const double(*)[3]>(broken.positions.data());
    NoExchange none;
    try {
      const double energy = evaluator->evaluate(request, none).energy;
      ADD_FAILURE() << what << " has the energy " << energy;
    } catch (const EvaluationError &e) {
      EXPECT_TRUE(e.atom_i == atom || e.atom_j == atom) << what << " is said to be " << e.atom_i << ", " << e.atom_j;
    }
  };
  const ImageStructure images = structure.images(model.reach()), alone = isolated_atoms(3).images(model.reach());
  for (int component = 0; component < 3; component++) {
    expect_error(images, 3, component, NAN);
    expect_error(alone, 1, component, NAN);
  }
  expect_error(images, structure.size() - 1, 0, INFINITY);
  expect_error(alone, 0, 2, -INFINITY);
  const Evaluation e = evaluate_whole(*evaluator, images);
  EXPECT_TRUE(std::isfinite(e.energy));
}

// Two atoms almost on top of each other repel. The derivative of their energy by the distance is a hundred times as
// large as the energy, which is half of the largest number.
TEST_P(EvaluatorKindLaws, forces_that_are_not_finite_are_an_error_that_names_an_atom) {
  TinyModelOptions options;
  options.repulsion_inside = true;
  Model model = make_tiny_model(options).model();
  Structure structure = random_structure(model.num_species(), 7);
  structure.positions[5] = structure.positions[2];
  structure.positions[5][0] += 0.01;
  const ImageStructure images = structure.images(model.reach());
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
  NoExchange none;
  std::vector<double> atom_energy(images.positions.size());
  request.atom_energy = atom_energy.data();
  const auto energy = [&] {
    const auto evaluator = GetParam().make(model, COARSE_TABLES);
    evaluator->set_neighborhood(images.neighborhood);
    return evaluator->evaluate(request, none).energy;
  };
  energy();
  double sum = 0.0;    // of sizes: energies of atoms have both signs
  for (const double e : atom_energy) sum += std::fabs(e);
  for (Layer &layer : model.layers)
    if (auto *s = std::get_if<ScaleShift>(&layer))
      for (double &scale : s->scale) scale *= 0.5 * std::numeric_limits<double>::max() / sum;
  ASSERT_TRUE(std::isfinite(energy()));

  for (const bool is_split : {false, true}) {
    const std::vector<RankPart> parts = split_structure(images, {1, 1, 0, 1, 1, 0, 1, 1}, 2);
    RankGroup group(parts);
    try {
      if (is_split) {
        std::vector<std::unique_ptr<Evaluator>> ranks;
        for (int r = 0; r < 2; ++r) ranks.push_back(GetParam().make(model, COARSE_TABLES));
        const Evaluation e = evaluate_ranks(ranks, parts, structure.size(), group);
        EXPECT_EQ(group.calls(0), group.calls(1));
        ASSERT_TRUE(e.errors[0]);
        std::rethrow_exception(e.errors[0]);
      }
      evaluate_whole(*GetParam().make(model, COARSE_TABLES), images);
      FAIL() << "no error";
    } catch (const EvaluationError &e) {
      EXPECT_NE(std::string(e.what()).find("not finite"), std::string::npos) << e.what();
      ASSERT_GE(e.atom_i, 0);
      const int atom = is_split ? parts[0].real_atom[e.atom_i] : images.owner[e.atom_i];
      // In float32 the factor alone is too large a number, and all atoms have broken forces.
      if (GetParam().is_double) {
        EXPECT_TRUE(atom == 2 || atom == 5) << atom;
      }
    }
  }
}

// Shares distribute the charges of atoms, so sums over ranks matter too.
TEST_P(EvaluatorKindLaws, coulomb_energies_of_all_pairs_are_those_of_clusters) {
  TinyModelOptions options;
  options.hidden = {"13x0e+3x1e", "17x0e"};
  options.balanced_channels = 3;
  options.balance_shares = true;
  options.coulomb_cutoff = 9.0;
  const Model model = make_tiny_model(options).model();
  Structure structure = random_structure(model.num_species(), 11);
  for (bool &p : structure.periodic) p = false;
  const ImageStructure images = structure.images(model.reach());
  const Evaluation whole = evaluate_whole(*GetParam().make(model, ACCURATE_TABLES), images);
  const std::vector<double> expected = scalar_energies(model, images);
  const double allowed = allowed_differences(GetParam().to_plain_loops, whole).energy;
  for (int i = 0; i < structure.size(); ++i) EXPECT_NEAR(whole.atom_energy[i], expected[i], allowed) << "atom " << i;

  const std::vector<int> split = {0, 1, 0, 3, 1, 0, 3, 0};    // rank 2 is empty
  const auto on_ranks = [&](const Structure &s) {
    const std::vector<RankPart> parts = split_structure(s.images(model.reach()), split, 4);
    std::vector<std::unique_ptr<Evaluator>> evaluators;
    for (int r = 0; r < 4; ++r) evaluators.push_back(GetParam().make(model, ACCURATE_TABLES));
    RankGroup group(parts);
    return evaluate_ranks(evaluators, parts, s.size(), group);
  };
  const Evaluation ranks = on_ranks(structure);
  for (const auto &error : ranks.errors) ASSERT_FALSE(error);
  expect_same(ranks, whole, GetParam().rounding, "ranks");

  // An atom beyond the reach of some, and images within reach.
  Structure wide = structure, periodic = structure;
  wide.positions[7][2] += 9.0;
  periodic.periodic[1] = true;
  for (const Structure &s : {wide, periodic}) {
    try {
      evaluate_whole(*GetParam().make(model, COARSE_TABLES), s.images(model.reach()));
      FAIL() << "no error";
    } catch (const EvaluationError &e) {
      EXPECT_NE(std::string(e.what()).find("nearer than 9 Angstrom"), std::string::npos) << e.what();
    }
    for (const auto &error : on_ranks(s).errors) {
      ASSERT_TRUE(error);
      EXPECT_THROW(std::rethrow_exception(error), EvaluationError);
    }
  }
}

std::vector<EvaluatorKind> kinds_in_float64() {
  std::vector<EvaluatorKind> kinds;
  for (const EvaluatorKind &k : evaluator_kinds())
    if (k.is_double) kinds.push_back(k);
  return kinds;
}

std::string name_of(const ::testing::TestParamInfo<EvaluatorLaws::ParamType> &info) {
  return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(, EvaluatorLaws,
                         ::testing::Combine(::testing::ValuesIn(evaluator_kinds()),
                                            ::testing::ValuesIn(evaluator_law_cases())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(, EvaluatorKindLaws, ::testing::ValuesIn(evaluator_kinds()),
                         [](const auto &info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(, EvaluatorLawsInFloat64,
                         ::testing::Combine(::testing::ValuesIn(kinds_in_float64()),
                                            ::testing::ValuesIn(evaluator_law_cases())),
                         name_of);

}    // namespace
}    // namespace testing
}    // namespace equi

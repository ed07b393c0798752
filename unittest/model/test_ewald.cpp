// SPDX-License-Identifier: MIT
// The layer ewald by HostEvaluation: compared with differences, symmetries and splits among ranks. test_torch.cpp
// compares it with LibTorch, and core/test_ewald_sum.cpp the sum itself with an Ewald sum of point charges.
#include "unittest/support/make_kokkos.h"
#include "unittest/support/model_cases.h"
#include "unittest/support/system_sum_laws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

// Sums over some hundred wave vectors in another order, relative to the largest number of a kind.
constexpr Closeness SUM = {1e-10, 1e-13};
// Differences of the best of several steps, relative to the largest number of a kind.
constexpr double DIFFERENCE = 2e-7;
// Float32 networks, whose energies are of the order of 10 eV.
constexpr double FLOAT32 = 2e-3;

KokkosOptions exact() {
  KokkosOptions options;
  options.precision = Precision::double_;
  options.radial_exact = true;
  return options;
}

class EwaldLayer : public ::testing::TestWithParam<TinyCase> {
 protected:
  EwaldLayer() : model(GetParam().model()), structure(random_structure(model.num_species(), 7)) {}
  std::unique_ptr<Evaluator> make(KokkosOptions options = exact()) const { return make_kokkos(model, options); }
  ImageStructure images() const { return structure.images(model.reach()); }

  const Model model;
  const Structure structure;
};

TEST_P(EwaldLayer, energy_of_charges_is_not_lost) {
  Model neutral = model;
  for (Layer &layer : neutral.layers)
    if (auto *ewald = std::get_if<Ewald>(&layer))
      std::fill(ewald->weights.begin(), ewald->weights.end(), 0.0);
    else if (auto *potential = std::get_if<Potential>(&layer))
      potential->function.prefactor = 0.0;
  const Evaluation with = evaluate_whole(*make(), images()),
                   zero = evaluate_whole(*make_kokkos(neutral, exact()), images());
  EXPECT_GT(std::fabs(with.energy - zero.energy), NOTICEABLE);
  EXPECT_GT(largest_difference(with.forces, zero.forces), NOTICEABLE);
}

TEST_P(EwaldLayer, atoms_sum_to_the_whole) {
  const Evaluation e = evaluate_whole(*make(), images());
  expect_atoms_sum_to_the_whole(e, allowed_differences(SUM, e), false);
}

TEST_P(EwaldLayer, forces_are_derivatives_of_the_energy) {
  expect_forces_are_derivatives(*make(), structure, model.reach(), DIFFERENCE);
}

TEST_P(EwaldLayer, virials_are_derivatives_by_a_strain) {
  KokkosOptions options = exact();
  options.wave_vectors = WaveVectorSet::frozen;
  expect_virials_are_derivatives(*make(options), structure, model.reach(), DIFFERENCE);
}

TEST_P(EwaldLayer, ranks_agree_with_one_and_need_the_sum) {
  expect_ranks_agree_and_need_the_sums([&] { return make(); }, images(), SUM);
}

TEST_P(EwaldLayer, a_turn_a_shift_and_an_order_of_atoms_change_nothing) {
  const auto evaluator = make();
  const Evaluation e = evaluate_whole(*evaluator, images());
  const AllowedDifferences allowed = allowed_differences(SUM, e);
  const double c = std::cos(0.7), s = std::sin(0.7), q[3][3] = {{c, -s, 0.0}, {s, c, 0.0}, {0.0, 0.0, 1.0}};
  expect_turned(q, evaluate_whole(*evaluator, turned(q, structure).images(model.reach())), e, allowed);
  EXPECT_NEAR(energy_of(*evaluator, shifted(structure), model.reach()), e.energy, allowed.energy);
  EXPECT_NEAR(energy_of(*evaluator, reversed(structure), model.reach()), e.energy, allowed.energy);
}

Structure repeated(const Structure &s, int times) {
  Structure big = s;
  big.positions.clear();
  big.species.clear();
  for (int a = 0; a < times; ++a)
    for (int b = 0; b < times; ++b)
      for (int c = 0; c < times; ++c)
        for (int i = 0; i < s.size(); ++i) {
          Vector3 r = s.positions[i];
          for (int k = 0; k < 3; ++k) r[k] += a * s.cell[0][k] + b * s.cell[1][k] + c * s.cell[2][k];
          big.positions.push_back(r);
          big.species.push_back(s.species[i]);
        }
  for (auto &v : big.cell)
    for (double &x : v) x *= times;
  return big;
}

// The wave vectors of the large cell include those of the small one; its charges have no others.
TEST_P(EwaldLayer, a_supercell_has_eight_times_the_energy) {
  const auto evaluator = make();
  Model large = model;
  for (Layer &layer : large.layers)
    if (auto *balance = std::get_if<ChannelBalance>(&layer))
      for (double &target : balance->target) target *= 8.0;
  const double one = energy_of(*evaluator, structure, model.reach()),
               eight = energy_of(*make_kokkos(large, exact()), repeated(structure, 2), model.reach());
  EXPECT_NEAR(eight, 8.0 * one, 8.0 * allowed_differences(SUM, evaluate_whole(*evaluator, images())).energy);
}

TEST_P(EwaldLayer, second_derivatives_are_differences_of_forces) {
  KokkosOptions options = exact();
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
  // The matrix is symmetric.
  const Evaluation others = evaluate_whole(*evaluator, images(), &w);
  double vHw = 0.0, wHv = 0.0;
  for (int i = 0; i < structure.size(); ++i)
    for (int k = 0; k < 3; ++k) {
      vHw += v[i][k] * others.force_tangents[i][k];
      wHv += w[i][k] * tangents.force_tangents[i][k];
    }
  EXPECT_NEAR(vHw, wHv, 1e-10 * size * structure.size());
}

// The direction of a strain also moves the cell.
TEST_P(EwaldLayer, derivatives_by_a_strain_are_differences) {
  KokkosOptions options = exact();
  options.wave_vectors = WaveVectorSet::frozen;
  const auto plain = make(options);
  options.directional = true;
  const auto evaluator = make(options);
  evaluate_whole(*plain, images());    // freezes the integers
  const auto at = [&](double h) { return evaluate_whole(*plain, strained(structure, h).images(model.reach())); };
  const ImageStructure all = images();
  evaluate_whole(*evaluator, all);    // in the same cell, which does not move
  const Evaluation along = evaluate_along_strain(*evaluator, all, structure);
  double force_error = INFINITY, virial_error = INFINITY, energy_error = INFINITY, size = 1.0;
  for (const double h : {2e-3, 1e-3, 5e-4}) {
    const Evaluation wide_up = at(h), wide_down = at(-h), up = at(0.5 * h), down = at(-0.5 * h);
    const auto slope = [&](const auto &number) {
      return (8 * (number(up) - number(down)) - (number(wide_up) - number(wide_down))) / (6 * h);
    };
    double of_forces = 0.0, of_virial = 0.0;
    for (int i = 0; i < structure.size(); ++i)
      for (int k = 0; k < 3; ++k) {
        const double d = slope([&](const Evaluation &e) { return e.forces[i][k]; });
        size = std::max(size, std::fabs(d));
        of_forces = std::max(of_forces, std::fabs(d - along.force_tangents[i][k]));
      }
    for (int k = 0; k < 6; ++k) {
      const double d = slope([&](const Evaluation &e) { return e.virial[k]; });
      size = std::max(size, std::fabs(d));
      of_virial = std::max(of_virial, std::fabs(d - along.virial_tangent[k]));
    }
    force_error = std::min(force_error, of_forces);
    virial_error = std::min(virial_error, of_virial);
    energy_error =
        std::min(energy_error, std::fabs(slope([](const Evaluation &e) { return e.energy; }) - along.energy_tangent));
  }
  EXPECT_LE(force_error, 10 * DIFFERENCE * size);
  EXPECT_LE(virial_error, 10 * DIFFERENCE * size);
  EXPECT_LE(energy_error, 10 * DIFFERENCE * size);
}

TEST_P(EwaldLayer, mixed_precision_differs_by_float32) {
  KokkosOptions options = exact();
  options.precision = Precision::mixed;
  const Evaluation e = evaluate_whole(*make(), images()), mixed = evaluate_whole(*make(options), images());
  EXPECT_NEAR(mixed.energy, e.energy, FLOAT32 * std::max(1.0, std::fabs(e.energy)));
  EXPECT_LE(largest_difference(mixed.forces, e.forces), FLOAT32 * std::max(1.0, largest_force(e.forces)));
}

// A box of 4 x 4 x 100 Angstrom has wave vectors in one direction far more than in others.
TEST_P(EwaldLayer, a_long_box_is_that_of_another_order_of_axes) {
  Structure tall;
  for (int i = 0; i < 5; ++i) {
    tall.positions.push_back({0.3 * i, 1.9 * (i % 2), 2.3 * i});
    tall.species.push_back(i % model.num_species());
  }
  const double cell[3][3] = {{4.0, 0.0, 0.0}, {0.0, 4.0, 0.0}, {0.0, 0.0, 100.0}};
  for (int k = 0; k < 3; ++k) std::copy_n(cell[k], 3, tall.cell[k]);
  Structure other = tall;
  std::swap_ranges(other.cell[0], other.cell[0] + 3, other.cell[2]);
  const Evaluation a = evaluate_whole(*make(), tall.images(model.reach())),
                   b = evaluate_whole(*make(), other.images(model.reach()));
  const AllowedDifferences allowed = allowed_differences(SUM, a);
  EXPECT_NEAR(a.energy, b.energy, allowed.energy);
  EXPECT_LE(largest_difference(a.forces, b.forces), allowed.force);
}

TEST_P(EwaldLayer, evaluations_repeat_to_the_last_bit) {
  const auto evaluator = make();
  const Evaluation first = evaluate_whole(*evaluator, images());
  evaluate_whole(*evaluator, random_structure(model.num_species(), 9, 3).images(model.reach()));
  expect_same(evaluate_whole(*evaluator, images()), first, {0.0}, "repeated");
}

// The shortest wave vector of this cell is longer than the cutoff of all spheres.
TEST_P(EwaldLayer, an_atom_in_a_cell_without_wave_vectors_feels_no_force) {
  Structure small;
  small.positions.push_back({0.3, 0.4, 0.5});
  small.species.push_back(0);
  const double cell[3][3] = {{1.7, 0.0, 0.0}, {0.0, 1.7, 0.0}, {0.0, 0.0, 1.7}};
  for (int k = 0; k < 3; ++k) std::copy_n(cell[k], 3, small.cell[k]);
  const Evaluation e = evaluate_whole(*make(), small.images(model.reach()));
  EXPECT_TRUE(std::isfinite(e.energy));
  for (double v : e.virial) EXPECT_TRUE(std::isfinite(v));
  EXPECT_LE(largest_force(e.forces), allowed_differences(SUM, e).virial);
}

INSTANTIATE_TEST_SUITE_P(Tiny, EwaldLayer, ::testing::ValuesIn(ewald_cases()),
                         [](const auto &info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Potential, EwaldLayer, ::testing::ValuesIn(potential_cases()),
                         [](const auto &info) { return info.param.name; });

TEST(EwaldOfSystem, needs_a_cell_and_states_what_it_found) {
  const Model model = ewald_cases()[0].model();
  const auto evaluator = make_kokkos(model, exact());
  Structure open = random_structure(model.num_species(), 7);
  EXPECT_EQ(evaluator->describe_system(), "");
  open.periodic[1] = false;
  try {
    energy_of(*evaluator, open, model.reach());
    ADD_FAILURE() << "no error";
  } catch (const EvaluationError &fault) {
    EXPECT_NE(std::string(fault.what()).find("periodic in three directions"), std::string::npos) << fault.what();
  }
  energy_of(*evaluator, random_structure(model.num_species(), 7), model.reach());
  const std::string lines = evaluator->describe_system();
  for (const char *part : {"wave vectors within 3.3/Angstrom", "kspace", "MB per rank", "WARNING", "background"})
    EXPECT_NE(lines.find(part), std::string::npos) << part << " in " << lines;
}

// The energy of a sphere jumps as wave vectors enter it; that of frozen and of converged ones does not.
TEST(EwaldOfSystem, jumps_with_the_cell_unless_wave_vectors_stay) {
  TinyCase narrow = ewald_cases()[0];
  narrow.options.ewald_width = 0.6;
  const Model model = narrow.model();
  const Structure structure = random_structure(model.num_species(), 7);
  const auto roughness = [&](WaveVectorSet set) {
    KokkosOptions options = exact();
    options.wave_vectors = set;
    const auto evaluator = make_kokkos(model, options);
    std::vector<double> energies;
    for (int n = 0; n <= 60; ++n) {
      Structure s = structure;
      const double factor = 1.0 + 1e-3 * n;
      for (Vector3 &r : s.positions)
        for (double &x : r) x *= factor;
      for (auto &v : s.cell)
        for (double &x : v) x *= factor;
      energies.push_back(energy_of(*evaluator, s, model.reach()));
    }
    double largest = 0.0;
    for (size_t n = 3; n < energies.size(); ++n)
      largest = std::max(largest, std::fabs(energies[n] - 3 * energies[n - 1] + 3 * energies[n - 2] - energies[n - 3]));
    return largest;
  };
  const double smooth = roughness(WaveVectorSet::frozen);
  EXPECT_GT(roughness(WaveVectorSet::sphere), 10.0 * smooth);
  EXPECT_LT(roughness(WaveVectorSet::converged), 2.0 * smooth);
}

TEST(EwaldOfSystem, memory_counts_the_tables) {
  const Model model = ewald_cases()[0].model();
  const auto evaluator = make_kokkos(model, exact());
  const std::size_t before = evaluator->memory_bytes();
  energy_of(*evaluator, random_structure(model.num_species(), 7, 4), model.reach());
  EXPECT_GT(evaluator->memory_bytes(), before + 64 * 2 * 3 * 5 * sizeof(double));
}

TEST(EwaldOfSystem, charges_that_are_not_finite_are_an_error) {
  Model model = ewald_cases()[0].model();
  for (Layer &layer : model.layers)
    if (auto *ewald = std::get_if<Ewald>(&layer)) ewald->weights[0] = NAN;
  EXPECT_THROW(energy_of(*make_kokkos(model, exact()), random_structure(2, 7), model.reach()), EvaluationError);
}

TEST(EwaldOfSystem, has_no_energy_moments) {
  KokkosOptions options = exact();
  options.directional = options.energy_moments = true;
  EXPECT_THROW(make_kokkos(ewald_cases()[0].model(), options), std::invalid_argument);
}

}    // namespace

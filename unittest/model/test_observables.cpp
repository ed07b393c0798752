// SPDX-License-Identifier: MIT
// Charges, dipoles and polarizabilities of atoms, and the energy of dipoles in a field, on CPUs.
#include "unittest/support/observables.h"

#include "kokkos/plan/evaluation_plan.h"
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/kept_directions.h"
#include "unittest/support/make_kokkos.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace equi {
namespace testing {
namespace {

constexpr std::array<double, 3> FIELD = {0.3, -0.2, 0.5};
// Sums of some hundred products of numbers of order one to ten.
constexpr double SAME = 1e-11;
const KokkosOptions EXACT = {Precision::double_, true};

class Observables : public ::testing::TestWithParam<TinyCase> {
 protected:
  Model all_ = observed_model(GetParam()), observed_ = all_.for_observables();
  Structure structure_ = random_structure(all_.num_species(), 7);
  std::vector<double> numbers(const Structure &s, const KokkosOptions &options = EXACT) const {
    return observables_of(*make_kokkos(observed_, options), observed_, s.images(all_.reach()));
  }
};

// A rotation by an odd angle about an odd axis; with a sign, also an inversion.
Vector3 turned(const double *v, double sign = 1.0) {
  const double x = v[0], y = v[1], z = v[2], c = 0.6, s = 0.8;
  const double a = c * x - s * y, b = s * x + c * y;
  return {sign * (0.28 * a + 0.96 * z), sign * b, sign * (-0.96 * a + 0.28 * z)};
}

TEST_P(Observables, turn_with_the_atoms) {
  const bool has_parity = GetParam().options.parity;
  for (const double sign : {1.0, -1.0}) {
    if (sign < 0.0 && !has_parity) continue;
    Structure other = structure_;
    for (Vector3 &p : other.positions) p = turned(p.data(), sign);
    for (auto &row : other.cell) {
      const Vector3 r = turned(row, sign);
      std::copy(r.begin(), r.end(), row);
    }
    const std::vector<double> here = numbers(structure_), there = numbers(other);
    const int width = observed_.num_observable_numbers(), charge = observed_.observable_offset("charge"),
              dipole = observed_.observable_offset("dipole"), alpha = observed_.observable_offset("polarizability");
    ASSERT_EQ(width, 10);
    double largest = 0.0;
    for (int i = 0; i < structure_.size(); ++i) {
      const double *a = here.data() + width * i, *b = there.data() + width * i;
      EXPECT_NEAR(a[charge], b[charge], SAME);
      const Vector3 mu = turned(a + dipole, sign);
      for (int k = 0; k < 3; ++k) EXPECT_NEAR(mu[k], b[dipole + k], SAME);
      const std::array<double, 6> t = polarizability_tensor(a + alpha), u = polarizability_tensor(b + alpha);
      constexpr int AT[3][3] = {{0, 3, 4}, {3, 1, 5}, {4, 5, 2}};
      double rows[3][3];    // R t
      for (int c = 0; c < 3; ++c) {
        const double column[3] = {t[AT[0][c]], t[AT[1][c]], t[AT[2][c]]};
        const Vector3 v = turned(column);
        for (int k = 0; k < 3; ++k) rows[k][c] = v[k];
      }
      for (int k = 0; k < 3; ++k) {
        const Vector3 v = turned(rows[k]);
        for (int c = 0; c < 3; ++c) EXPECT_NEAR(v[c], u[AT[k][c]], SAME);
      }
      largest = std::max(largest, std::fabs(mu[0]) + std::fabs(t[3]));
    }
    EXPECT_GT(largest, 1e-2);
  }
}

TEST_P(Observables, do_not_depend_on_ranks_threads_and_kernels) {
  const std::vector<double> whole = numbers(structure_);
  const ImageStructure images = structure_.images(all_.reach());
  std::vector<int> rank_of_atom(structure_.size());
  for (int i = 0; i < structure_.size(); ++i) rank_of_atom[i] = i % 3 == 0 ? 0 : 2;    // rank 1 is empty
  const auto parts = split_structure(images, rank_of_atom, 3);
  RankGroup group(parts);
  std::vector<std::unique_ptr<Evaluator>> ranks;
  for (int r = 0; r < 3; ++r) ranks.push_back(make_kokkos(observed_, EXACT));
  const std::vector<double> split = observables_of_ranks(ranks, observed_, parts, structure_.size(), group);
  KokkosOptions generic = EXACT;
  generic.set = InstructionSet::generic;
  generic.folds = false;
  const std::vector<double> plain = numbers(structure_, generic), single = numbers(structure_, {Precision::mixed});
  for (size_t k = 0; k < whole.size(); ++k) {
    EXPECT_NEAR(split[k], whole[k], SAME);
    EXPECT_NEAR(plain[k], whole[k], SAME);
    EXPECT_NEAR(single[k], whole[k], 1e-4);
  }
  // A file with the layers of the energy computes the same, and its energy is that of a file without observables.
  EXPECT_EQ(observables_of(*make_kokkos(all_, EXACT), all_, images), whole);
  const Model without = all_.without_observables();
  EXPECT_LT(without.layers.size(), all_.layers.size());
  EXPECT_TRUE(without.observables().empty());
  const Evaluation a = evaluate_whole(*make_kokkos(all_, EXACT), images),
                   b = evaluate_whole(*make_kokkos(without, EXACT), images);
  expect_same(a, b, {1e-13}, "without observables");
  // Nothing is differentiated for observables alone.
  for (const Stage &stage : make_evaluation_plan(observed_, false).stages)
    for (const Step &step : stage.steps) EXPECT_EQ(step.adjoint, Step::Adjoint::none);
}

TEST_P(Observables, of_atoms_without_neighbors_have_no_direction) {
  const Structure alone = isolated_atoms(1);
  const std::vector<double> found = numbers(alone);
  const int dipole = observed_.observable_offset("dipole");
  for (int k = 0; k < 3; ++k) EXPECT_EQ(found[dipole + k], 0.0);
}

TEST_P(Observables, have_an_energy_in_a_field) {
  const Model bare = observed_model(GetParam(), false), in_field = bare.with_field(FIELD),
              dipole = bare.for_observables("dipole"), without = bare.without_observables();
  EXPECT_EQ(in_field.observables(), std::vector<std::string>{"dipole"});
  const ImageStructure images = structure_.images(all_.reach());
  const Evaluation e = evaluate_whole(*make_kokkos(in_field, EXACT), images),
                   e0 = evaluate_whole(*make_kokkos(without, EXACT), images);
  const std::vector<double> mu = observables_of(*make_kokkos(dipole, EXACT), dipole, images);
  double sum = 0.0, sum_of_magnitudes = 0.0;
  for (int i = 0; i < structure_.size(); ++i) {
    double of_atom = 0.0;
    for (int k = 0; k < 3; ++k) of_atom -= FIELD[k] * mu[3 * i + k];
    EXPECT_NEAR(e.atom_energy[i], e0.atom_energy[i] + of_atom, SAME) << "atom " << i;
    sum += of_atom;
    sum_of_magnitudes += std::fabs(of_atom);
  }
  EXPECT_GT(sum_of_magnitudes, NOTICEABLE);
  EXPECT_NEAR(e.energy, e0.energy + sum, SAME * structure_.size());

  // Forces and virial of finite differences.
  const auto energy_at = [&](const Structure &s) {
    return evaluate_whole(*make_kokkos(in_field, EXACT), s.images(all_.reach()), nullptr, Wanted::forces).energy;
  };
  constexpr double STEP = 1e-4;
  double largest = 1.0;
  for (const Vector3 &f : e.forces)
    for (const double c : f) largest = std::max(largest, std::fabs(c));
  for (const int i : {0, 5}) {
    for (int k = 0; k < 3; ++k) {
      double differences[2];
      for (const int n : {1, 2}) {
        Structure plus = structure_, minus = structure_;
        plus.positions[i][k] += n * STEP;
        minus.positions[i][k] -= n * STEP;
        differences[n - 1] = (energy_at(plus) - energy_at(minus)) / (2 * n * STEP);
      }
      EXPECT_NEAR(e.forces[i][k], -(4.0 * differences[0] - differences[1]) / 3.0, FINITE_DIFFERENCE * largest);
    }
  }
  Structure wide = structure_, narrow = structure_;
  for (const auto &[s, strain] : {std::pair<Structure *, double>{&wide, STEP}, {&narrow, -STEP}}) {
    for (Vector3 &p : s->positions) p[0] += strain * p[1];
    for (auto &row : s->cell) row[0] += strain * row[1];
  }
  // The virial is symmetrized, and in a field that of a shear is not symmetric.
  double sum_of_atoms = 0.0;
  for (const auto &virial : e.atom_virial) sum_of_atoms += virial[6];    // yx: position y, force x
  EXPECT_NEAR(sum_of_atoms, -(energy_at(wide) - energy_at(narrow)) / (2 * STEP), 1e-5 * largest * structure_.size());
}

TEST_P(Observables, in_a_field_are_the_same_on_ranks_and_in_float32) {
  const Model in_field = observed_model(GetParam(), false).with_field(FIELD);
  const ImageStructure images = structure_.images(all_.reach());
  const Evaluation whole = evaluate_whole(*make_kokkos(in_field, EXACT), images);
  std::vector<int> rank_of_atom(structure_.size());
  for (int i = 0; i < structure_.size(); ++i) rank_of_atom[i] = i % 2;
  const auto parts = split_structure(images, rank_of_atom, 2);
  RankGroup group(parts);
  std::vector<std::unique_ptr<Evaluator>> ranks;
  for (int r = 0; r < 2; ++r) ranks.push_back(make_kokkos(in_field, EXACT));
  expect_same(evaluate_ranks(ranks, parts, structure_.size(), group), whole, ROUNDING, "ranks");
  KokkosOptions deterministic = EXACT;
  deterministic.deterministic = true;
  expect_same(evaluate_whole(*make_kokkos(in_field, deterministic), images), whole, ROUNDING, "deterministic");
  expect_same(evaluate_whole(*make_kokkos(in_field, {Precision::mixed, true}), images), whole, {1e-5, 1e-5}, "float32");
}

TEST_P(Observables, in_a_field_have_second_derivatives) {
  const Model in_field = observed_model(GetParam(), false).with_field(FIELD);
  const std::vector<Vector3> direction = random_direction(structure_.size(), 11);
  KokkosOptions options = EXACT;
  options.directional = true;
  const auto make = [&](const Model &model, int kept) {
    KokkosOptions of_directions = options;
    of_directions.kept_directions = kept;
    return make_kokkos(model, of_directions);
  };
  const Evaluation tangents = evaluate_whole(*make(in_field, 0), structure_.images(in_field.reach()), &direction);
  const TangentErrors errors =
      largest_errors_by_differences(*make_kokkos(in_field, EXACT), in_field, structure_, direction, tangents);
  EXPECT_LT(errors.forces, FINITE_DIFFERENCE);
  EXPECT_LT(errors.virial, FINITE_DIFFERENCE);
  // A contraction of a feature that the dipole reads, too, keeps no values.
  const bool keeps = GetParam().options.contraction_degree == 0;
  expect_further_directions_get_the_same(make, in_field, keeps, 1e-11);
}

INSTANTIATE_TEST_SUITE_P(, Observables, ::testing::ValuesIn(observable_cases()),
                         [](const auto &info) { return info.param.name; });

TEST(ObservablesOfModels, in_a_field_need_a_dipole_of_atoms_alone) {
  const Model plain = make_tiny_model({}).model(), charged = observed_model(observable_cases()[0]);
  EXPECT_THROW(plain.with_field(FIELD), std::invalid_argument);
  EXPECT_THROW(charged.with_field(FIELD), std::invalid_argument);
  EXPECT_EQ(charged.observables(), (std::vector<std::string>{"charge", "dipole", "polarizability"}));
  EXPECT_EQ(charged.unit_of("dipole"), "Debye");
  EXPECT_EQ(plain.observable_offset("dipole"), -1);
}

// A model of dipoles alone has no readout, and its energy is zero.
TEST(ObservablesOfModels, may_be_all_that_a_model_has) {
  const TinyCase tiny = observable_cases()[0];
  ModelDocument d = with_observables(make_tiny_model(tiny.options));
  Json layers = Json::array();
  for (const Json &layer : d.document["layers"])
    if (layer["type"] != "readout" && layer["type"] != "scale_shift") layers.push_back(layer);
  d.document["layers"] = layers;
  for (const char *name : {"scale", "shift"}) d.tensors.erase(name);
  std::vector<std::string> unused;
  for (const auto &[name, tensor] : d.tensors)
    if (name.find("readout") != std::string::npos) unused.push_back(name);
  for (const std::string &name : unused) d.tensors.erase(name);
  const Model model = d.model(), step = model.without_observables();
  const ImageStructure images = random_structure(model.num_species(), 7).images(model.reach());
  for (const Model *one : {&model, &step}) {
    const Evaluation e = evaluate_whole(*make_kokkos(*one, EXACT), images);
    EXPECT_EQ(e.energy, 0.0);
    EXPECT_EQ(largest_force(e.forces), 0.0);
  }
  const Model all = observed_model(tiny).for_observables();
  EXPECT_EQ(observables_of(*make_kokkos(model, EXACT), model, images),
            observables_of(*make_kokkos(all, EXACT), all, images));
}

}    // namespace
}    // namespace testing
}    // namespace equi

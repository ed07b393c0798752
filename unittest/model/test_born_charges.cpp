// SPDX-License-Identifier: MIT
// Born charges by HostEvaluation: compared with differences of charges and dipoles, symmetries and splits among ranks.
// test_torch.cpp compares them with LibTorch.
#include "src/evaluation/born_charges.h"

#include "unittest/support/evaluator_laws.h"
#include "unittest/support/make_kokkos.h"
#include "unittest/support/observables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace equi {
namespace testing {
namespace {

const KokkosOptions EXACT = {Precision::double_, true};
// Rounding of sums of some thousand products of numbers of order one with distances of up to 30 Angstrom.
constexpr double SAME = 1e-10;
// Of Richardson's differences with steps of 1e-3 Angstrom, relative to the largest number.
constexpr double DIFFERENCE = 1e-8, STEP = 1e-3;

Structure cluster_of(Structure s) {
  for (bool &p : s.periodic) p = false;
  return s;
}

double largest_number(const BornCharges &found) {
  double largest = 0.0;
  for (const auto &z : found.born)
    for (const double x : z) largest = std::max(largest, std::fabs(x));
  return largest;
}

void expect_same_charges(const BornCharges &found, const BornCharges &expected, double tolerance) {
  ASSERT_EQ(found.born.size(), expected.born.size());
  for (size_t i = 0; i < expected.born.size(); ++i) {
    EXPECT_NEAR(found.charge[i], expected.charge[i], tolerance) << "atom " << i;
    for (int k = 0; k < 9; ++k) EXPECT_NEAR(found.born[i][k], expected.born[i][k], tolerance) << "atom " << i;
    for (int k = 0; k < 3; ++k)
      EXPECT_NEAR(found.charge_derivative[i][k], expected.charge_derivative[i][k], tolerance) << "atom " << i;
  }
}

// The derivatives of the numbers of all atoms by one coordinate, [atoms][numbers].
std::vector<double> differences(const Model &observed, const Structure &s, int atom, int axis) {
  const auto evaluator = make_kokkos(observed, EXACT);
  const auto at = [&](double step) {
    Structure moved = s;
    moved.positions[atom][axis] += step;
    return observables_of(*evaluator, observed, moved.images(observed.reach()));
  };
  const std::vector<double> p = at(STEP), m = at(-STEP), pp = at(2 * STEP), mm = at(-2 * STEP);
  std::vector<double> d(p.size());
  for (size_t k = 0; k < d.size(); ++k) d[k] = (8.0 * (p[k] - m[k]) - (pp[k] - mm[k])) / (12.0 * STEP);
  return d;
}

// Z_i of the definition with the vectors of nearest images, from differences.
std::array<double, 9> born_by_differences(const Model &observed, const Structure &s, int i, double box_edge,
                                          std::array<double, 3> &charge_derivative) {
  const int width = observed.num_observable_numbers(), charge = observed.observable_offset("charge"),
            dipole = observed.observable_offset("dipole");
  std::array<double, 9> born{};
  if (charge >= 0) {
    const std::vector<double> numbers =
        observables_of(*make_kokkos(observed, EXACT), observed, s.images(observed.reach()));
    for (int a = 0; a < 3; ++a) born[4 * a] = numbers[width * i + charge];
  }
  for (int b = 0; b < 3; ++b) {
    const std::vector<double> d = differences(observed, s, i, b);
    charge_derivative[b] = 0.0;
    for (int j = 0; j < s.size(); ++j)
      for (int a = 0; a < 3; ++a) {
        double distance = s.positions[j][a] - s.positions[i][a];
        if (box_edge > 0.0) distance -= box_edge * std::round(distance / box_edge);
        if (charge >= 0) {
          born[3 * a + b] += d[width * j + charge] * distance;
          charge_derivative[b] += a == 0 ? d[width * j + charge] : 0.0;
        }
        if (dipole >= 0) born[3 * a + b] += d[width * j + dipole + a];
      }
  }
  return born;
}

class BornChargesOfModels : public ::testing::TestWithParam<TinyCase> {
 protected:
  Model all_ = observed_model(GetParam()), observed_ = all_.for_observables(),
        derived_ = all_.for_observable_derivatives();
  Structure structure_ = random_structure(all_.num_species(), 7);
  BornCharges born(const Structure &s, bool neutral = false, const KokkosOptions &options = EXACT) const {
    return born_charges_of(make_kokkos(derived_, options), derived_, s, neutral);
  }
};

TEST_P(BornChargesOfModels, of_clusters_are_differences_of_dipoles) {
  for (const bool with_charge : {true, false}) {
    const Model all = observed_model(GetParam(), with_charge), derived = all.for_observable_derivatives();
    const Structure s = cluster_of(structure_);
    const BornCharges found = born_charges_of(make_kokkos(derived, EXACT), derived, s);
    const double largest = std::max(1.0, largest_number(found));
    EXPECT_GT(largest_number(found), 1e-2);
    for (const int i : {0, 5}) {
      std::array<double, 3> of_charge;
      const std::array<double, 9> expected = born_by_differences(all.for_observables(), s, i, 0.0, of_charge);
      for (int k = 0; k < 9; ++k) EXPECT_NEAR(found.born[i][k], expected[k], DIFFERENCE * largest) << with_charge;
      for (int k = 0; k < 3; ++k) EXPECT_NEAR(found.charge_derivative[i][k], of_charge[k], DIFFERENCE * largest);
    }
  }
}

// The cell is smaller than the cutoff's sphere: atoms are neighbors of their own images. In the supercell one atom
// moves, and its reach is less than half of the box.
TEST_P(BornChargesOfModels, of_small_cells_are_differences_in_a_supercell) {
  const double reach = all_.num_convolutions() * all_.cutoff;
  Structure small = random_structure(all_.num_species(), 3, 1);
  small.positions.push_back({1.4, 1.7, 1.6});
  small.species.push_back(1);
  const double edge = 3.2;
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b) small.cell[a][b] = a == b ? edge : 0.0;
  const BornCharges found = born(small);
  const int times = static_cast<int>(std::ceil(2.1 * reach / edge));
  Structure super = small;
  super.positions.clear();
  super.species.clear();
  for (int n = 0; n < times * times * times; ++n)
    for (int i = 0; i < small.size(); ++i) {
      Vector3 p = small.positions[i];
      const int at[3] = {n % times, n / times % times, n / (times * times)};
      for (int a = 0; a < 3; ++a) p[a] += at[a] * edge;
      super.positions.push_back(p);
      super.species.push_back(small.species[i]);
    }
  for (int a = 0; a < 3; ++a) super.cell[a][a] = times * edge;
  const double largest = std::max(1.0, largest_number(found));
  for (int i = 0; i < small.size(); ++i) {
    std::array<double, 3> of_charge;
    const std::array<double, 9> expected = born_by_differences(observed_, super, i, times * edge, of_charge);
    for (int k = 0; k < 9; ++k) EXPECT_NEAR(found.born[i][k], expected[k], DIFFERENCE * largest) << "atom " << i;
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(found.charge_derivative[i][k], of_charge[k], DIFFERENCE * largest);
  }
}

TEST_P(BornChargesOfModels, do_not_depend_on_the_cell_and_the_places_of_images) {
  const BornCharges expected = born(structure_);
  Structure twice = structure_, moved = structure_;
  for (int i = 0; i < structure_.size(); ++i) {
    Vector3 p = structure_.positions[i];
    for (int a = 0; a < 3; ++a) p[a] += structure_.cell[1][a];
    twice.positions.push_back(p);
    twice.species.push_back(structure_.species[i]);
    for (int a = 0; a < 3; ++a)
      moved.positions[i][a] += 40.0 + (i % 3 - 1) * structure_.cell[2][a] + (i % 2) * structure_.cell[0][a];
  }
  for (double &x : twice.cell[1]) x *= 2.0;
  expect_same_charges(born(moved), expected, SAME);
  BornCharges half = born(twice);
  for (int i = 0; i < structure_.size(); ++i)
    for (int k = 0; k < 9; ++k) EXPECT_NEAR(half.born[i][k], half.born[i + structure_.size()][k], SAME) << "atom " << i;
  half.charge.resize(structure_.size());
  half.born.resize(structure_.size());
  half.charge_derivative.resize(structure_.size());
  expect_same_charges(half, expected, SAME);
}

TEST_P(BornChargesOfModels, turn_with_the_atoms) {
  // A rotation by an odd angle about an odd axis.
  const double turn[3][3] = {{0.168, -0.224, 0.96}, {0.8, 0.6, 0.0}, {-0.576, 0.768, 0.28}};
  const auto turned = [&](const double *v) {
    Vector3 r{};
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b) r[a] += turn[a][b] * v[b];
    return r;
  };
  Structure other = structure_;
  for (Vector3 &p : other.positions) p = turned(p.data());
  for (auto &row : other.cell) {
    const Vector3 r = turned(row);
    std::copy(r.begin(), r.end(), row);
  }
  const BornCharges here = born(structure_), there = born(other);
  for (int i = 0; i < structure_.size(); ++i)
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b) {
        double expected = 0.0;
        for (int c = 0; c < 3; ++c)
          for (int d = 0; d < 3; ++d) expected += turn[a][c] * turn[b][d] * here.born[i][3 * c + d];
        EXPECT_NEAR(there.born[i][3 * a + b], expected, SAME) << "atom " << i;
      }
}

TEST_P(BornChargesOfModels, do_not_depend_on_ranks_and_kernels) {
  for (const bool periodic : {true, false}) {
    const Structure s = periodic ? structure_ : cluster_of(structure_);
    for (const bool neutral : {false, true}) {
      const BornCharges whole = born(s, neutral);
      KokkosOptions generic = EXACT;
      generic.set = InstructionSet::generic;
      generic.folds = false;
      generic.deterministic = true;
      expect_same_charges(born(s, neutral, generic), whole, SAME);
      for (const int num_ranks : {2, 3}) {
        std::vector<int> rank_of_atom(s.size());
        for (int i = 0; i < s.size(); ++i) rank_of_atom[i] = i % 3 == 0 ? 0 : num_ranks - 1;    // of 3, rank 1 is empty
        const auto parts = split_structure(s.images(all_.reach()), rank_of_atom, num_ranks);
        RankGroup group(parts);
        std::vector<std::unique_ptr<BornEvaluation>> ranks;
        for (int r = 0; r < num_ranks; ++r)
          ranks.push_back(std::make_unique<BornEvaluation>(make_kokkos(derived_, EXACT), derived_));
        expect_same_charges(born_charges_of_ranks(ranks, parts, s, neutral, group), whole, SAME);
        group.mute_reverse = true;
        const BornCharges muted = born_charges_of_ranks(ranks, parts, s, neutral, group);
        double change = 0.0;
        for (int i = 0; i < s.size(); ++i) change = std::max(change, std::fabs(muted.born[i][1] - whole.born[i][1]));
        EXPECT_GT(change, NOTICEABLE);
      }
    }
  }
}

TEST_P(BornChargesOfModels, of_a_cluster_obey_the_sum_rule) {
  const Structure s = cluster_of(structure_);
  const BornCharges found = born(s), neutral = born(s, true);
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b) {
      double sum = 0.0, expected = 0.0, of_neutral = 0.0;
      for (int i = 0; i < s.size(); ++i) {
        sum += found.born[i][3 * a + b];
        expected += (a == b ? found.charge[i] : 0.0) - s.positions[i][a] * found.charge_derivative[i][b];
        of_neutral += neutral.born[i][3 * a + b];
      }
      EXPECT_NEAR(sum, expected, SAME);
      EXPECT_NEAR(of_neutral, 0.0, SAME);
    }
}

// Born charges of the charges q_j - Q/N, from their differences.
TEST_P(BornChargesOfModels, of_a_neutral_cluster_are_differences) {
  const Structure s = cluster_of(structure_);
  const BornCharges neutral = born(s, true);
  const int width = observed_.num_observable_numbers(), charge = observed_.observable_offset("charge"),
            dipole = observed_.observable_offset("dipole");
  for (int b = 0; b < 3; ++b) {
    const std::vector<double> d = differences(observed_, s, 2, b);
    double mean = 0.0;
    for (int j = 0; j < s.size(); ++j) mean += d[width * j + charge] / s.size();
    for (int a = 0; a < 3; ++a) {
      double expected = a == b ? neutral.charge[2] : 0.0;
      for (int j = 0; j < s.size(); ++j)
        expected +=
            d[width * j + dipole + a] + (d[width * j + charge] - mean) * (s.positions[j][a] - s.positions[2][a]);
      EXPECT_NEAR(neutral.born[2][3 * a + b], expected, DIFFERENCE * std::max(1.0, largest_number(neutral)));
    }
  }
}

TEST_P(BornChargesOfModels, of_atoms_without_neighbors_are_their_charges) {
  const BornCharges found = born(isolated_atoms(1));
  for (int k = 0; k < 9; ++k) EXPECT_EQ(found.born[0][k], k % 4 == 0 ? found.charge[0] : 0.0);
}

INSTANTIATE_TEST_SUITE_P(, BornChargesOfModels, ::testing::ValuesIn(observable_cases()),
                         [](const auto &info) { return info.param.name; });

// Charges whose sums over all atoms are fixed, equally or by shares of the atoms.
TEST(BornChargesOfBalancedModels, are_exact_in_clusters_and_sum_to_the_charge) {
  for (const bool shares : {false, true}) {
    TinyCase tiny = observable_cases()[0];
    tiny.options.balanced_channels = 2;
    tiny.options.balance_shares = shares;
    const Model all = observed_model(tiny), observed = all.for_observables(),
                derived = all.for_observable_derivatives();
    ASSERT_TRUE(sums_over_atoms(derived.layers));
    Structure s = random_structure(all.num_species(), 7);
    const BornCharges periodic = born_charges_of(make_kokkos(derived, EXACT), derived, s);
    double sums[10] = {};
    for (int i = 0; i < s.size(); ++i) {
      sums[9] += periodic.charge[i];
      for (int k = 0; k < 9; ++k) sums[k] += periodic.born[i][k];
    }
    for (int k = 0; k < 9; ++k) EXPECT_NEAR(sums[k], k % 4 == 0 ? sums[9] : 0.0, SAME);

    s.periodic[2] = false;
    EXPECT_THROW(born_charges_of(make_kokkos(derived, EXACT), derived, s), std::invalid_argument);
    s = cluster_of(s);
    const BornCharges found = born_charges_of(make_kokkos(derived, EXACT), derived, s);
    std::array<double, 3> of_charge;
    const std::array<double, 9> expected = born_by_differences(observed, s, 3, 0.0, of_charge);
    for (int k = 0; k < 9; ++k) EXPECT_NEAR(found.born[3][k], expected[k], 10 * DIFFERENCE) << shares;
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(found.charge_derivative[3][k], of_charge[k], 10 * DIFFERENCE) << shares;
  }
}

TEST(BornChargesOfBalancedModels, need_charges_or_dipoles_in_float64) {
  EXPECT_THROW(make_tiny_model({}).model().for_observable_derivatives(), std::invalid_argument);
  const Model derived = observed_model(observable_cases()[0]).for_observable_derivatives();
  EXPECT_THROW(born_charges_of(make_kokkos(derived, {Precision::mixed}), derived, random_structure(2, 7)),
               std::logic_error);
}

}    // namespace
}    // namespace testing
}    // namespace equi

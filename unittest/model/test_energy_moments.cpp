// SPDX-License-Identifier: MIT
// EvaluationRequest::energy_moments, the part of the heat flux that is not convective.
#include "unittest/support/dot.h"
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/make_kokkos.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace {

using namespace equi;
using namespace equi::testing;

// Sums of some thousand products in float64, relative to the largest moment.
constexpr double SUM_ROUNDING = 1e-12;
// Central differences of the energies of atoms at the best of several steps, relative to the largest moment.
constexpr double DIFFERENCES = 1e-7;
// Steps of these differences. Displacements r_j v_j are some times larger than those along v.
constexpr double STEPS[] = {1e-3, 1e-4, 3e-5, 1e-5, 3e-6};
// Weights and slopes in float32 through three layers.
constexpr double FLOAT32_NETWORK = 3e-4;

KokkosOptions with_moments(KokkosOptions options) {
  options.directional = options.energy_moments = true;
  return options;
}

Vector3 sum(const std::vector<Vector3> &vectors) {
  Vector3 total{};
  for (const Vector3 &v : vectors)
    for (int c = 0; c < 3; ++c) total[c] += v[c];
  return total;
}

double largest(const Vector3 &v) {
  return std::max({std::fabs(v[0]), std::fabs(v[1]), std::fabs(v[2])});
}
double difference(const Vector3 &a, const Vector3 &b) {
  return largest({a[0] - b[0], a[1] - b[1], a[2] - b[2]});
}

std::vector<double> energies_at(Evaluator &evaluator, const Model &model, Structure structure,
                                const std::vector<Vector3> &shifts, double step) {
  for (int i = 0; i < structure.size(); ++i)
    for (int c = 0; c < 3; ++c) structure.positions[i][c] += step * shifts[i][c];
  return evaluate_whole(evaluator, structure.images(model.reach())).atom_energy;
}

// The moments sum over j of (r_i - r_j) (de_i/dr_j . v_j) of a structure without images, by central differences: e_i
// along v, and along the displacements r_j v_j, for each component of r_j.
std::vector<Vector3> moments_by_differences(Evaluator &evaluator, const Model &model, const Structure &structure,
                                            const std::vector<Vector3> &v, double step) {
  const int n = structure.size();
  const auto slope = [&](const std::vector<Vector3> &along) {
    const std::vector<double> up = energies_at(evaluator, model, structure, along, step),
                              down = energies_at(evaluator, model, structure, along, -step);
    std::vector<double> de(n);
    for (int i = 0; i < n; ++i) de[i] = (up[i] - down[i]) / (2 * step);
    return de;
  };
  Vector3 middle = sum(structure.positions);    // origin of the positions, so that displacements are small
  for (double &component : middle) component /= n;
  const std::vector<double> t = slope(v);
  std::vector<Vector3> moments(n);
  for (int c = 0; c < 3; ++c) {
    std::vector<Vector3> scaled = v;
    for (int j = 0; j < n; ++j)
      for (double &component : scaled[j]) component *= structure.positions[j][c] - middle[c];
    const std::vector<double> m = slope(scaled);
    for (int i = 0; i < n; ++i) moments[i][c] = (structure.positions[i][c] - middle[c]) * t[i] - m[i];
  }
  return moments;
}

class EnergyMoments : public ::testing::TestWithParam<std::tuple<bool, TinyCase>> {
 protected:
  EnergyMoments()
      : options{Precision::double_, std::get<0>(GetParam())},
        model(std::get<1>(GetParam()).model()),
        structure(random_structure(model.num_species(), 7)),
        velocity(random_direction(structure.size(), 11)) {}

  Evaluation along(const Structure &s, const std::vector<Vector3> &v) const {
    return evaluate_whole(*make_kokkos(model, with_moments(options)), s.images(model.reach()), &v,
                          Wanted::energy_moments);
  }

  const KokkosOptions options;
  const Model model;
  const Structure structure;
  const std::vector<Vector3> velocity;
};

TEST_P(EnergyMoments, energies_are_those_of_plain_numbers) {
  const Evaluation plain = evaluate_whole(*make_kokkos(model, options), structure.images(model.reach())),
                   e = along(structure, velocity);
  for (int i = 0; i < structure.size(); ++i) EXPECT_NEAR(e.atom_energy[i], plain.atom_energy[i], ROUNDING.absolute);
  EXPECT_NEAR(e.energy_tangent, -dot(plain.forces, velocity), 10 * ROUNDING.absolute * largest_force(plain.forces));
}

TEST_P(EnergyMoments, of_a_cluster_are_differences_of_the_energies_of_atoms) {
  Structure cluster = random_structure(model.num_species(), 5, 3);
  for (bool &p : cluster.periodic) p = false;
  const std::vector<Vector3> v = random_direction(cluster.size(), 2);
  const std::vector<Vector3> moments = along(cluster, v).energy_moments;
  const auto evaluator = make_kokkos(model, options);
  double least = INFINITY;
  for (const double step : STEPS)
    least = std::min(least, largest_difference(moments_by_differences(*evaluator, model, cluster, v, step), moments));
  ASSERT_GT(largest_force(moments), 1e-3);
  EXPECT_LT(least, DIFFERENCES * largest_force(moments));
}

// The whole flux of a cluster is d/dt of the sum of r_i e_i, plus the work of the forces at their positions.
TEST_P(EnergyMoments, with_the_convective_part_are_the_time_derivative_of_a_clusters_dipole_of_energy) {
  Structure cluster = random_structure(model.num_species(), 6, 3);
  for (bool &p : cluster.periodic) p = false;
  const std::vector<Vector3> v = random_direction(cluster.size(), 4);
  const auto evaluator = make_kokkos(model, options);
  const Evaluation now = evaluate_whole(*evaluator, cluster.images(model.reach()));
  Vector3 flux = sum(along(cluster, v).energy_moments);
  for (int i = 0; i < cluster.size(); ++i) {
    double work = 0.0;
    for (int c = 0; c < 3; ++c) work += now.forces[i][c] * v[i][c];
    for (int c = 0; c < 3; ++c) flux[c] += now.atom_energy[i] * v[i][c] - cluster.positions[i][c] * work;
  }
  double least = INFINITY;
  for (const double step : STEPS) {
    Vector3 rate{};
    for (const double h : {step, -step}) {
      const std::vector<double> e = energies_at(*evaluator, model, cluster, v, h);
      for (int i = 0; i < cluster.size(); ++i)
        for (int c = 0; c < 3; ++c) rate[c] += (cluster.positions[i][c] + h * v[i][c]) * e[i] / (2 * h);
    }
    least = std::min(least, difference(rate, flux));
  }
  EXPECT_LT(least, 10 * DIFFERENCES * largest(flux));
}

// The cell of the structure is smaller than twice the cutoff, that of the supercell not.
TEST_P(EnergyMoments, of_a_supercell_are_those_of_its_cells) {
  const Evaluation one = along(structure, velocity);
  Structure super = structure;
  std::vector<Vector3> v;
  super.positions.clear();
  super.species.clear();
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 2; ++b)
      for (int c = 0; c < 2; ++c)
        for (int i = 0; i < structure.size(); ++i) {
          Vector3 x = structure.positions[i];
          for (int k = 0; k < 3; ++k)
            x[k] += a * structure.cell[0][k] + b * structure.cell[1][k] + c * structure.cell[2][k];
          super.positions.push_back(x);
          super.species.push_back(structure.species[i]);
          v.push_back(velocity[i]);
        }
  for (auto &row : super.cell)
    for (double &c : row) c *= 2;
  const Evaluation all = along(super, v);
  const double allowed = 10 * SUM_ROUNDING * largest_force(one.energy_moments);
  for (int k = 0; k < super.size(); ++k)
    EXPECT_LT(difference(all.energy_moments[k], one.energy_moments[k % structure.size()]), allowed);
}

// A structure stays the same if an atom's position is replaced by that of one of its images.
TEST_P(EnergyMoments, do_not_depend_on_which_image_of_an_atom_is_named) {
  Structure moved = structure;
  for (int k = 0; k < 3; ++k) {
    moved.positions[1][k] += structure.cell[0][k];
    moved.positions[4][k] -= structure.cell[1][k] + 2 * structure.cell[2][k];
  }
  const Evaluation one = along(structure, velocity), other = along(moved, velocity);
  EXPECT_LT(largest_difference(other.energy_moments, one.energy_moments),
            100 * SUM_ROUNDING * largest_force(one.energy_moments));
}

// Periodic: the moment of one atom's velocity is the sum over its images of (r_i - r_j) de_i/dr_j. Differences of a
// large cluster, of as many copies of the cell as an energy can see, give it image by image.
using ExactEnergyMoments = EnergyMoments;
TEST_P(ExactEnergyMoments, of_a_periodic_structure_are_those_inside_a_large_cluster) {
  constexpr double CELL = 4.9;    // less than the distances between lattice planes
  const double farthest = model.cutoff * (num_exchanged_features(model) + 1);
  const int reach = static_cast<int>(std::ceil(farthest / CELL));
  Structure cluster = structure;
  cluster.positions.clear();
  cluster.species.clear();
  for (bool &p : cluster.periodic) p = false;
  std::vector<Vector3> v;
  const auto add_cell = [&](int a, int b, int c) {
    for (int i = 0; i < structure.size(); ++i) {
      Vector3 x = structure.positions[i];
      for (int k = 0; k < 3; ++k)
        x[k] += a * structure.cell[0][k] + b * structure.cell[1][k] + c * structure.cell[2][k];
      const auto is_seen = [&](const Vector3 &p) {
        return std::hypot(p[0] - x[0], p[1] - x[1], p[2] - x[2]) < farthest;
      };
      if (std::none_of(structure.positions.begin(), structure.positions.end(), is_seen)) continue;
      cluster.positions.push_back(x);
      cluster.species.push_back(structure.species[i]);
      v.push_back(velocity[i]);
    }
  };
  add_cell(0, 0, 0);
  for (int a = -reach; a <= reach; ++a)
    for (int b = -reach; b <= reach; ++b)
      for (int c = -reach; c <= reach; ++c)
        if (a || b || c) add_cell(a, b, c);
  const Evaluation inside = along(cluster, v), periodic = along(structure, velocity);
  for (int i = 0; i < structure.size(); ++i)
    EXPECT_LT(difference(inside.energy_moments[i], periodic.energy_moments[i]),
              10 * SUM_ROUNDING * largest_force(periodic.energy_moments));
}

TEST_P(EnergyMoments, ranks_agree_with_one_rank) {
  const ImageStructure images = structure.images(model.reach());
  const Evaluation whole = along(structure, velocity);
  const std::vector<std::vector<int>> splits = {{0, 1, 0, 1, 1, 0, 1, 0}, {3, 0, 1, 1, 3, 0, 3, 1}};
  for (const std::vector<int> &split : splits) {
    const int num_ranks = 1 + *std::max_element(split.begin(), split.end());
    const std::vector<RankPart> parts = split_structure(images, split, num_ranks);
    std::vector<std::unique_ptr<Evaluator>> evaluators;
    for (int r = 0; r < num_ranks; ++r) evaluators.push_back(make_kokkos(model, with_moments(options)));
    RankGroup group(parts);
    const Evaluation e = evaluate_ranks(evaluators, parts, structure.size(), group, &velocity, Wanted::energy_moments);
    for (const auto &error : e.errors) ASSERT_FALSE(error);
    EXPECT_LT(largest_difference(e.energy_moments, whole.energy_moments),
              SUM_ROUNDING * largest_force(whole.energy_moments));
    EXPECT_EQ(group.calls(0), num_exchanged_features(model));
    if (num_exchanged_features(model) == 0) continue;
    // Remote rows still hold the tangents of the previous evaluation; velocities must change for a fault to show.
    const std::vector<Vector3> other = random_direction(structure.size(), 12);
    group.mute_forward = true;
    const Evaluation broken =
        evaluate_ranks(evaluators, parts, structure.size(), group, &other, Wanted::energy_moments);
    EXPECT_GT(largest_difference(broken.energy_moments, along(structure, other).energy_moments), NOTICEABLE);
  }
}

TEST_P(EnergyMoments, at_rest_are_zero) {
  const std::vector<Vector3> rest(structure.size(), Vector3{});
  EXPECT_EQ(largest_force(along(structure, rest).energy_moments), 0.0);
}

// The sum over i and j of (r_i - r_j) de_i/dr_j . u is the virial times u.
TEST_P(EnergyMoments, of_a_translation_are_the_virial_times_the_velocity) {
  const Vector3 u{0.3, -0.7, 0.9};
  const Evaluation plain = evaluate_whole(*make_kokkos(model, options), structure.images(model.reach())),
                   e = along(structure, std::vector<Vector3>(structure.size(), u));
  std::array<double, 9> w{};    // of the whole
  for (const auto &of_atom : plain.atom_virial)
    for (int k = 0; k < 9; ++k) w[k] += of_atom[k];
  const double tensor[3][3] = {{w[0], w[3], w[4]}, {w[6], w[1], w[5]}, {w[7], w[8], w[2]}};
  Vector3 expected{};
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b) expected[a] += tensor[a][b] * u[b];
  EXPECT_LT(difference(sum(e.energy_moments), expected),
            100 * SUM_ROUNDING * structure.size() * std::max(1.0, largest(expected)));
}

TEST_P(EnergyMoments, mixed_precision_is_near_double) {
  KokkosOptions mixed = with_moments(options);
  mixed.precision = Precision::mixed;
  const Evaluation whole = along(structure, velocity),
                   e = evaluate_whole(*make_kokkos(model, mixed), structure.images(model.reach()), &velocity,
                                      Wanted::energy_moments);
  EXPECT_LT(largest_difference(e.energy_moments, whole.energy_moments),
            FLOAT32_NETWORK * std::max(1.0, largest_force(whole.energy_moments)));
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<bool, TinyCase>> &info) {
  return std::get<1>(info.param).name + (std::get<0>(info.param) ? "_exact" : "_table");
}

INSTANTIATE_TEST_SUITE_P(Tiny, EnergyMoments,
                         ::testing::Combine(::testing::Bool(), ::testing::ValuesIn(local_cases(all_cases()))), name_of);
INSTANTIATE_TEST_SUITE_P(Tiny, ExactEnergyMoments,
                         ::testing::Combine(::testing::Values(true), ::testing::ValuesIn(local_cases(all_cases()))),
                         name_of);

TEST(EnergyMomentsRequest, is_refused_where_energies_depend_on_atoms_at_any_distance) {
  KokkosOptions options;
  options.precision = Precision::double_;
  EXPECT_THROW(make_kokkos(case_named("balanced_channels").model(), with_moments(options)), std::invalid_argument);
  TinyModelOptions charges;
  charges.coulomb_cutoff = 6.0;
  charges.permittivity = 2.0;
  EXPECT_THROW(make_kokkos(make_tiny_model(charges).model(), with_moments(options)), std::invalid_argument);
}

TEST(EnergyMomentsRequest, is_refused_with_what_needs_a_backward_pass) {
  const Model model = all_cases()[0].model();
  const Structure structure = random_structure(model.num_species(), 7);
  const std::vector<Vector3> v = random_direction(structure.size(), 1);
  const auto images = structure.images(model.reach());
  EXPECT_THROW(evaluate_whole(*make_kokkos(model, with_moments({})), images, &v), std::logic_error);
  EXPECT_THROW(evaluate_whole(*make_kokkos(model), images, &v, Wanted::energy_moments), std::logic_error);
}

}    // namespace

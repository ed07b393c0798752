// SPDX-License-Identifier: MIT
// Harmonics of the kernels compared with those of src/, and the sums of derivatives from edges to forces and virials.
#include "kokkos/geometry/edges.h"
#include "kokkos/kernel_interface/harmonics.h"
#include "src/algebra/spherical_harmonics.h"
#include "unittest/support/instruction_sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace equi;
using equi::testing::available_sets;

using Vector3 = std::array<double, 3>;

// Recurrences lose a few digits per order; relative to sqrt(2l+1), which bounds values, and l sqrt(2l+1) for gradients.
template <class T>
constexpr double HARMONICS_ROUNDING = sizeof(T) == 4 ? 3e-6 : 5e-15;
// Sums over some hundred edges in float64.
constexpr double SUM_ROUNDING = 1e-12;
// Central differences of fourth order in float64.
constexpr double FINITE_DIFFERENCE = 1e-8;

constexpr int LMAX = 8;

std::vector<Vector3> directions() {
  // The poles and axes, where angles are not defined, and random ones.
  std::vector<Vector3> all = {{0, 1, 0}, {0, -1, 0}, {1, 0, 0}, {0, 0, -1}, {0.6, 0.8, 0}, {0, 0.28, -0.96}};
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (int n = 0; n < 50; ++n) {
    Vector3 v = {normal(random), normal(random), normal(random)};
    const double r = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (double &c : v) c /= r;
    all.push_back(v);
  }
  return all;
}

template <class G, class T>
void expect_reference_harmonics() {
  const HarmonicsNorms norms;
  for (const Vector3 &v : directions())
    for (int lmax = 0; lmax <= LMAX; ++lmax) {
      const int num_y = (lmax + 1) * (lmax + 1);
      std::vector<double> expected(num_y);
      spherical_harmonics(lmax, v.data(), expected.data(), nullptr);
      std::vector<T> y(num_y + 1, std::numeric_limits<T>::quiet_NaN());
      const G n[3] = {static_cast<G>(v[0]), static_cast<G>(v[1]), static_cast<G>(v[2])};
      evaluate_harmonics<G>(norms, lmax, n, y.data());
      ASSERT_TRUE(std::isnan(y[num_y]));
      for (int l = 0; l <= lmax; ++l)
        for (int k = l * l; k < (l + 1) * (l + 1); ++k)
          ASSERT_NEAR(y[k], expected[k],
                      (l + 1) * std::sqrt(2 * l + 1) * (HARMONICS_ROUNDING<T> + HARMONICS_ROUNDING<G>))
              << "l " << l << " component " << k - l * l - l;
    }
}

TEST(KernelHarmonics, values_are_those_of_the_reference) {
  expect_reference_harmonics<double, double>();
  expect_reference_harmonics<double, float>();
}

template <class G>
void expect_reference_gradient() {
  const HarmonicsNorms norms;
  constexpr int NUM_Y = (LMAX + 1) * (LMAX + 1);
  for (const Vector3 &v : directions()) {
    std::vector<double> values(NUM_Y), gradient(3 * NUM_Y);
    spherical_harmonics(LMAX, v.data(), values.data(), gradient.data());
    for (int l = 0; l <= LMAX; ++l)
      for (int k = l * l; k < (l + 1) * (l + 1); ++k) {
        std::vector<G> y_adj(NUM_Y, G(0));
        y_adj[0] = std::numeric_limits<G>::quiet_NaN();    // the slot of the distance is not a harmonic
        y_adj[k] = 1;
        if (k == 0) y_adj[0] = 5;
        const G n[3] = {static_cast<G>(v[0]), static_cast<G>(v[1]), static_cast<G>(v[2])};
        G g[3] = {0, 0, 0};
        harmonics_gradient<G>(norms, LMAX, n, y_adj.data(), g);
        const G along = g[0] * n[0] + g[1] * n[1] + g[2] * n[2];
        for (int c = 0; c < 3; ++c)
          ASSERT_NEAR(g[c] - along * n[c], gradient[3 * k + c],
                      (l + 1) * (l + 1) * std::sqrt(2 * l + 1) * 2 * HARMONICS_ROUNDING<G>)
              << "l " << l << " component " << k - l * l - l;
      }
  }
}

TEST(KernelHarmonics, tangential_gradient_is_that_of_the_reference) {
  expect_reference_gradient<double>();
  expect_reference_gradient<float>();
}

// ---- several edges at once
//
// The lanes have vectors of all kinds, among them one without a length and one that is not a number.
TEST(EdgeKernels, each_lane_gets_what_a_single_edge_does) {
  const HarmonicsNorms norms;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Vector3> vectors = directions();
  for (size_t n = 0; n < vectors.size(); ++n)
    for (double &c : vectors[n]) c *= 0.7 + 0.1 * static_cast<double>(n);
  vectors[3] = {0.0, 0.0, 0.0};
  vectors[12] = {1.0, nan, 0.5};
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  for (const InstructionSet set : available_sets()) {
    const EdgeKernels &kernels = edge_kernels(set);
    const int lanes = kernels.lanes;
    ASSERT_LE(lanes, MAX_EDGE_LANES);
    for (const int lmax : {0, 1, 2, 3, LMAX, HARMONICS_LMAX}) {
      const int num_y = (lmax + 1) * (lmax + 1);
      alignas(64) double vector[3 * MAX_EDGE_LANES], length[MAX_EDGE_LANES], unit[3 * MAX_EDGE_LANES],
          gradient[3 * MAX_EDGE_LANES];
      alignas(64) double y[MAX_HARMONICS * MAX_EDGE_LANES], y_adj[MAX_HARMONICS * MAX_EDGE_LANES];
      for (size_t first = 0; first + lanes <= vectors.size(); first += lanes) {
        for (int lane = 0; lane < lanes; ++lane)
          for (int k = 0; k < 3; ++k) vector[k * lanes + lane] = vectors[first + lane][k];
        for (int k = 0; k < num_y * lanes; ++k) y_adj[k] = normal(random);
        kernels.harmonics(norms, lmax, vector, length, unit, y);
        kernels.gradient(norms, lmax, length, unit, y_adj, gradient);
        for (int lane = 0; lane < lanes; ++lane) {
          double distance, u[3], expected[MAX_HARMONICS], force[3], of_y[MAX_HARMONICS], x[6] = {};
          std::copy_n(vectors[first + lane].data(), 3, x + 3);
          for (int k = 0; k < num_y; ++k) of_y[k] = y_adj[k * lanes + lane];
          const EdgeArrays<double> edge{lmax, &distance, u, expected, num_y, of_y, force};
          edge.set(norms, 0, x, nullptr, 0, 1);
          edge.set_force(norms, 0);
          if (std::isnan(distance)) {
            EXPECT_TRUE(std::isnan(length[lane]));
            continue;
          }
          EXPECT_NEAR(length[lane], distance, 1e-15 * distance);
          for (int k = 0; k < 3; ++k) EXPECT_NEAR(unit[k * lanes + lane], u[k], 1e-15);
          for (int k = 0; k < num_y; ++k) ASSERT_NEAR(y[k * lanes + lane], expected[k], 1e-12) << lmax << " " << k;
          const double largest = std::max({1.0, std::fabs(force[0]), std::fabs(force[1]), std::fabs(force[2])});
          for (int k = 0; k < 3; ++k)
            ASSERT_NEAR(gradient[k * lanes + lane], force[k], 1e-12 * largest) << lmax << " " << k;
        }
      }
    }
  }
}

TEST(EdgeKernels, sums_of_float32_are_added_in_float64) {
  for (const InstructionSet set : available_sets()) {
    std::vector<float> from;
    std::vector<double> to;
    for (int k = 0; k < 37; ++k) {
      from.push_back(0.1f * static_cast<float>(k));
      to.push_back(1e9 + k);
    }
    std::vector<double> sum = to;
    sum.push_back(5.0);
    edge_kernels(set).add_float32(37, from.data(), sum.data());
    for (int k = 0; k < 37; ++k) EXPECT_EQ(sum[k], to[k] + static_cast<double>(from[k]));
    EXPECT_EQ(sum[37], 5.0);
  }
}

// ---- edges: an energy sum over edges of f(r, Y) = sin(r) (1 + sum_k c_k Y_k)
constexpr double CUTOFF = 3.0;
constexpr int EDGE_LMAX = 3, EDGE_Y = (EDGE_LMAX + 1) * (EDGE_LMAX + 1);

double coefficient(int k) {
  return 0.3 * std::sin(1.0 + k);
}

double pair_energy(const double d[3]) {
  const double r = std::sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
  double y[EDGE_Y], sum = 1.0;
  spherical_harmonics(EDGE_LMAX, d, y, nullptr);
  for (int k = 1; k < EDGE_Y; ++k) sum += coefficient(k) * y[k];
  return std::sin(r) * sum;
}

struct Cluster {
  ImageStructure images;
  std::vector<Vector3> positions;    // of the real atoms
  double cell[3][3] = {{4.2, 0.3, 0.0}, {-0.5, 4.6, 0.2}, {0.1, 0.4, 5.0}};
};

// Candidates reach beyond the cutoff, as with a skin; the cell is smaller than twice the cutoff.
Cluster make_cluster() {
  Cluster c;
  std::mt19937 random(4);
  std::uniform_real_distribution<double> jitter(-0.3, 0.3);
  std::vector<int> species;
  for (int n = 0; n < 8; ++n) {
    c.positions.push_back(
        {(n & 1) * 2.1 + jitter(random), (n & 2) * 1.15 + jitter(random), (n & 4) * 0.62 + jitter(random)});
    species.push_back(n % 3);
  }
  const bool periodic[3] = {true, true, false};
  c.images = build_image_structure(c.positions, species, c.cell, periodic, CUTOFF + 0.7);
  return c;
}

// Brute force over the candidates. strain: positions (1 + strain) x.
double total_energy(const ImageStructure &s, const double strain[3][3]) {
  const Neighborhood &n = s.neighborhood;
  double energy = 0.0;
  for (int i = 0; i < n.num_receivers; ++i)
    for (int64_t c = n.first[i]; c < n.first[i + 1]; ++c) {
      double d[3], moved[3];
      for (int k = 0; k < 3; ++k) d[k] = s.positions[n.sender_atom[c]][k] - s.positions[n.receiver[i]][k];
      if (d[0] * d[0] + d[1] * d[1] + d[2] * d[2] >= CUTOFF * CUTOFF) continue;
      for (int a = 0; a < 3; ++a) moved[a] = d[a] + strain[a][0] * d[0] + strain[a][1] * d[1] + strain[a][2] * d[2];
      energy += pair_energy(moved);
    }
  return energy;
}

EvaluationRequest at(const std::vector<Vector3> &positions) {
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(positions.data());
  return request;
}

template <class T>
struct Sums {
  std::vector<Vector3> forces;
  std::vector<std::array<double, 9>> atom_virial;
  EvaluationResult result;
};

template <class T>
void set_all(Edges<T> &edges, const ImageStructure &s) {
  edges.set_neighborhood(s.neighborhood);
  edges.find(at(s.positions));
  edges.set(at(s.positions), 0, s.neighborhood.num_receivers);
}

// starts: the first receivers of parts whose edges are set one after the other.
template <class T>
Sums<T> add_up(const ImageStructure &s, bool virial, bool atom_virial, InstructionSet set = best_instruction_set(),
               std::vector<int> starts = {0}) {
  Edges<T> edges(EDGE_LMAX, CUTOFF, {}, {}, set);
  edges.set_neighborhood(s.neighborhood);
  Sums<T> sums;
  // Outputs are added to.
  sums.forces.assign(s.positions.size(), Vector3{1.0, 2.0, 3.0});
  sums.atom_virial.assign(s.positions.size(), std::array<double, 9>{});
  EvaluationRequest request = at(s.positions);
  request.forces = reinterpret_cast<double(*)[3]>(sums.forces.data());
  if (atom_virial) request.atom_virial = reinterpret_cast<double(*)[9]>(sums.atom_virial.data());
  request.virial = virial;
  edges.find(request);
  starts.push_back(s.neighborhood.num_receivers);
  for (size_t part = 0; part + 1 < starts.size(); ++part) {
    edges.set(request, starts[part], starts[part + 1]);
    for (int64_t e = edges.begin()[starts[part]]; e < edges.begin()[starts[part + 1]]; ++e) {
      const double r = edges.distance()[e];
      double sum = 1.0;
      for (int k = 1; k < EDGE_Y; ++k) {
        sum += coefficient(k) * edges.harmonics()[e * EDGE_Y + k];
        edges.adjoint()[e * EDGE_Y + k] = std::sin(r) * coefficient(k);
      }
      edges.adjoint()[e * EDGE_Y] = std::cos(r) * sum;
    }
    edges.finish_receivers(request);
  }
  edges.finish(request, sums.result);
  for (Vector3 &f : sums.forces)
    for (int k = 0; k < 3; ++k) f[k] -= k + 1.0;
  return sums;
}

template <class T>
void expect_brute_force_sums(double tolerance, InstructionSet set) {
  const Cluster c = make_cluster();
  const Sums<T> sums = add_up<T>(c.images, true, true, set);
  const double none[3][3] = {};
  const int num_atoms = static_cast<int>(c.positions.size());

  std::vector<Vector3> forces(num_atoms, Vector3{});
  for (size_t a = 0; a < sums.forces.size(); ++a)
    for (int k = 0; k < 3; ++k) forces[c.images.owner[a]][k] += sums.forces[a][k];
  double largest = 0.0;
  for (const Vector3 &f : forces)
    for (const double v : f) largest = std::max(largest, std::fabs(v));
  ASSERT_GT(largest, 0.1);
  for (int i = 0; i < num_atoms; ++i)
    for (int k = 0; k < 3; ++k) {
      const auto energy = [&](double step) {
        ImageStructure s = c.images;
        for (size_t a = 0; a < s.positions.size(); ++a)
          if (s.owner[a] == i) s.positions[a][k] += step;
        return total_energy(s, none);
      };
      const double h = 3e-4;
      const double wide = (energy(h) - energy(-h)) / (2 * h), narrow = (energy(h / 2) - energy(-h / 2)) / h;
      ASSERT_NEAR(forces[i][k], -(4 * narrow - wide) / 3, tolerance * largest) << "atom " << i;
    }

  // Virials: minus the strain derivative; the sum over atoms is the global one, before its symmetrization.
  const int axes[9][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}, {1, 0}, {2, 0}, {2, 1}};
  double sum[9] = {};
  for (const auto &v : sums.atom_virial)
    for (int n = 0; n < 9; ++n) sum[n] += v[n];
  double slopes[9];
  for (int n = 0; n < 9; ++n) {
    const auto energy = [&](double step) {
      double strain[3][3] = {};
      // g_b d_a: a moves along b by its component a.
      strain[axes[n][1]][axes[n][0]] = step;
      return total_energy(c.images, strain);
    };
    const double h = 3e-4;
    const double wide = (energy(h) - energy(-h)) / (2 * h), narrow = (energy(h / 2) - energy(-h / 2)) / h;
    slopes[n] = (4 * narrow - wide) / 3;
    EXPECT_NEAR(sum[n], -slopes[n], tolerance * 10 * largest) << "component " << n;
  }
  for (int n = 0; n < 6; ++n)
    EXPECT_NEAR(sums.result.virial[n], n < 3 ? -slopes[n] : -0.5 * (slopes[n] + slopes[n + 3]),
                tolerance * 10 * largest)
        << n;
  EXPECT_GT(std::fabs(slopes[3] - slopes[6]), 1e-3);    // this energy distinguishes the two
}

TEST(Edges, forces_and_virials_are_derivatives_of_a_brute_force_sum) {
  for (const InstructionSet set : available_sets()) {
    expect_brute_force_sums<double>(FINITE_DIFFERENCE, set);
    expect_brute_force_sums<float>(HARMONICS_ROUNDING<float>, set);
  }
}

TEST(Edges, outputs_that_are_not_asked_for_do_not_change_the_others) {
  const Cluster c = make_cluster();
  const auto all = add_up<double>(c.images, true, true), forces = add_up<double>(c.images, false, false),
             global = add_up<double>(c.images, true, false), atoms = add_up<double>(c.images, false, true);
  EXPECT_EQ(forces.forces, all.forces);
  EXPECT_EQ(global.forces, all.forces);
  EXPECT_EQ(atoms.atom_virial, all.atom_virial);
  for (int k = 0; k < 6; ++k) {
    EXPECT_EQ(global.result.virial[k], all.result.virial[k]);
    EXPECT_EQ(forces.result.virial[k], 0.0);
  }
  for (const auto &v : forces.atom_virial)
    for (const double x : v) EXPECT_EQ(x, 0.0);
}

TEST(Edges, half_of_a_pairs_virial_goes_to_each_atom) {
  const double cell[3][3] = {};
  const bool open[3] = {false, false, false};
  const std::vector<Vector3> two = {{0.1, 0.2, 0.3}, {1.0, -0.4, 1.7}};
  ImageStructure s = build_image_structure(two, {0, 0}, cell, open, CUTOFF);
  // One edge only: atom 1 sends to atom 0.
  Neighborhood &n = s.neighborhood;
  ASSERT_EQ(n.first[2], 2);
  n.first = {0, 1, 1};
  const auto sums = add_up<double>(s, true, true);
  for (int k = 0; k < 9; ++k) EXPECT_NEAR(sums.atom_virial[0][k], sums.atom_virial[1][k], SUM_ROUNDING);
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(sums.forces[0][k], -sums.forces[1][k], SUM_ROUNDING);
    EXPECT_NE(sums.forces[0][k], 0.0);
    // virial_kk = -d_k g_k with F_0 = g
    EXPECT_NEAR(sums.result.virial[k], -(two[1][k] - two[0][k]) * sums.forces[0][k], SUM_ROUNDING);
  }
}

// Parts of any size, also without receivers.
TEST(Edges, those_of_some_receivers_at_a_time_give_the_same_sums) {
  const Cluster c = make_cluster();
  const auto whole = add_up<double>(c.images, true, true);
  const auto whole_float = add_up<float>(c.images, true, true);
  for (const std::vector<int> &starts : {std::vector<int>{0, 1, 2, 5}, {0, 0, 4, 4}, {0, 7}}) {
    const auto parts = add_up<double>(c.images, true, true, best_instruction_set(), starts);
    const auto parts_float = add_up<float>(c.images, true, true, best_instruction_set(), starts);
    for (size_t a = 0; a < whole.forces.size(); ++a) {
      EXPECT_EQ(parts.forces[a], whole.forces[a]);
      EXPECT_EQ(parts.atom_virial[a], whole.atom_virial[a]);
      EXPECT_EQ(parts_float.forces[a], whole_float.forces[a]);
    }
    for (int k = 0; k < 6; ++k) EXPECT_EQ(parts.result.virial[k], whole.result.virial[k]);
  }
}

TEST(Edges, the_closest_pair_of_all_parts_is_named) {
  Cluster c = make_cluster();
  ImageStructure &s = c.images;
  s.positions[6] = s.positions[7];
  s.positions[6][0] += 0.75 * MIN_DISTANCE;
  s.positions[1] = s.positions[0];
  s.positions[1][1] += 0.25 * MIN_DISTANCE;
  Edges<float> edges(EDGE_LMAX, CUTOFF);
  edges.set_neighborhood(s.neighborhood);
  edges.find(at(s.positions));
  for (int i = 0; i < s.neighborhood.num_receivers; ++i) edges.set(at(s.positions), i, i + 1);
  EXPECT_EQ(edges.collision().atom_i + edges.collision().atom_j, 1);
  edges.find(at(s.positions));
  EXPECT_EQ(edges.collision().atom_i, -1);
}

TEST(Edges, pairs_within_the_cutoff_and_no_others_are_edges) {
  const Cluster c = make_cluster();
  const Neighborhood &n = c.images.neighborhood;
  Edges<double> edges(EDGE_LMAX, CUTOFF);
  set_all(edges, c.images);
  int64_t e = 0;
  for (int i = 0; i < n.num_receivers; ++i) {
    EXPECT_EQ(edges.begin()[i], e);
    for (int64_t k = n.first[i]; k < n.first[i + 1]; ++k) {
      const Vector3 &a = c.images.positions[n.receiver[i]], &b = c.images.positions[n.sender_atom[k]];
      const double r = std::sqrt(std::pow(b[0] - a[0], 2) + std::pow(b[1] - a[1], 2) + std::pow(b[2] - a[2], 2));
      if (r >= CUTOFF) {
        EXPECT_EQ(edges.edge_of_candidate(i, k), -1);
        continue;
      }
      ASSERT_EQ(edges.edge_of_candidate(i, k), e);
      EXPECT_NEAR(edges.distance()[e], r, SUM_ROUNDING);
      EXPECT_EQ(edges.sender_row()[e], n.sender_row[k]);
      EXPECT_EQ(edges.sender_species()[e], n.row_species[n.sender_row[k]]);
      ++e;
    }
  }
  EXPECT_EQ(edges.size(), e);
  EXPECT_LT(e, n.first[n.num_receivers]);    // there were candidates beyond
  EXPECT_EQ(edges.collision().atom_i, -1);

  // The transposed list holds every candidate once, at the row of its sender, in the order of receivers.
  std::vector<int> seen(n.first[n.num_receivers], 0);
  for (int row = 0; row < n.num_rows; ++row) {
    int before = -1;
    for (int64_t k = edges.transposed_begin()[row]; k < edges.transposed_begin()[row + 1]; ++k) {
      const int receiver = edges.transposed_receiver(k);
      EXPECT_GE(receiver, before);
      before = receiver;
      const int64_t edge = edges.transposed_edge(k);
      if (edge < 0) continue;
      EXPECT_EQ(edges.sender_row()[edge], row);
      EXPECT_GE(edge, edges.begin()[receiver]);
      EXPECT_LT(edge, edges.begin()[receiver + 1]);
      ++seen[edge];
    }
  }
  for (int64_t k = 0; k < e; ++k) EXPECT_EQ(seen[k], 1);
}

TEST(Edges, the_closest_pair_below_the_limit_is_named) {
  Cluster c = make_cluster();
  ImageStructure &s = c.images;
  s.positions[3] = s.positions[6];
  s.positions[3][1] += 0.25 * MIN_DISTANCE;
  s.positions[1] = s.positions[0];
  s.positions[1][0] += 0.75 * MIN_DISTANCE;
  Edges<float> edges(EDGE_LMAX, CUTOFF);
  set_all(edges, s);
  EXPECT_EQ(edges.collision().atom_i + edges.collision().atom_j, 9);
  EXPECT_NEAR(edges.collision().distance, 0.25 * MIN_DISTANCE, 1e-12);
}

}    // namespace

// SPDX-License-Identifier: MIT
// The Ewald sum of charges with a width, compared with direct sums, an Ewald sum of point charges, and differences.
#include "src/functions/ewald_function.h"
#include "unittest/support/plain_waves.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

using namespace equi;
using namespace equi::testing;

namespace {

constexpr double PI = 3.141592653589793, PREFACTOR = 180.9513;
// The oracles add up to 1e5 terms of about 1 eV in another order.
constexpr double ROUNDING = 1e-11;
// A central difference with this step has an error of about STEP^2, and rounding of 1e-14 / STEP.
constexpr double STEP = 1e-4, OF_DIFFERENCE = 2e-6;

struct System {
  CellMatrix cell;
  std::vector<Vector3> positions;
  std::vector<double> charges;
  int64_t size() const { return static_cast<int64_t>(charges.size()); }
};

const CellMatrix TRICLINIC = {{{5.1, 0.2, -0.3}, {1.3, 4.4, 0.5}, {-0.7, 0.9, 6.2}}};

System random_system(const CellMatrix &cell, int num, bool is_neutral, unsigned seed = 7) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  System s{cell, std::vector<Vector3>(num), std::vector<double>(num)};
  double total = 0.0;
  for (int i = 0; i < num; i++) {
    Vector3 at{};
    for (int d = 0; d < 3; d++) {
      const double along = 0.8 * uniform(random);    // some atoms are outside of the cell
      for (int a = 0; a < 3; a++) at[a] += along * cell[d][a];
    }
    s.positions[i] = at;
    total += s.charges[i] = 1.3 * uniform(random);
  }
  for (double &q : s.charges) q -= is_neutral ? total / num : 0.0;
  return s;
}

struct Result {
  double energy;
  std::vector<double> potentials, energies;
  std::vector<Vector3> gradients;
  std::array<double, 6> strain, strain_of_atoms;
};

// starts: first atoms of ranks, for their sums of structure factors
Result evaluate(const System &s, const EwaldFunction &f, const WaveVectors &waves, std::vector<int64_t> starts = {0}) {
  starts.push_back(s.size());
  RanksInTurn ranks;
  Result result{0.0, {}, {}, {}, {}, {}};
  for (const bool is_first : {true, false}) {
    if (!is_first) ranks.begin_second_time();
    for (std::size_t r = 0; r + 1 < starts.size(); r++) {
      ranks.begin_rank();
      const PlainSystem<double> own({s.positions.begin() + starts[r], s.positions.begin() + starts[r + 1]});
      const double *charges = s.charges.data() + starts[r];
      PlainMultipoles<double> sum = plain_multipoles<double>(f.of_multipoles(), 1, false, false, waves);
      std::vector<double> fields(sum.probe_stride() * own.count());
      sum.evaluate({}, own, own.count(), charges, fields.data(), ranks);
      sum.add_half({}, own, own.count(), charges, fields.data());
      if (is_first) continue;
      EXPECT_EQ(sum.num_atoms(), static_cast<double>(s.size()));
      for (int i = 0; i < own.count(); i++) {
        result.potentials.push_back(fields[sum.probe_stride() * i] - f.self() * charges[i]);
        result.energies.push_back(0.5 * charges[i] * result.potentials.back());
        result.energy += result.energies.back();
        result.gradients.push_back({own.gradient[3 * i], own.gradient[3 * i + 1], own.gradient[3 * i + 2]});
        for (int c = 0; c < SYMMETRIC; c++) result.strain_of_atoms[c] += own.atom_strains[SYMMETRIC * i + c];
      }
      for (int c = 0; c < SYMMETRIC; c++) result.strain[c] += own.strain[c];
    }
  }
  return result;
}
Result evaluate(const System &s, const EwaldFunction &f, double cutoff) {
  return evaluate(s, f, WaveVectors(s.cell, cutoff));
}

double distance(const Vector3 &a, const Vector3 &b, const CellMatrix &cell, int n1, int n2, int n3) {
  double square = 0.0;
  for (int x = 0; x < 3; x++) {
    const double d = a[x] - b[x] + n1 * cell[0][x] + n2 * cell[1][x] + n3 * cell[2][x];
    square += d * d;
  }
  return std::sqrt(square);
}

// F/(2V) sum exp(-width^2 k^2/2)/k^2 |S|^2 over all k of the sphere, without tables and halves
double direct_sum(const System &s, double width, double cutoff) {
  const CellMatrix dual = dual_basis(s.cell);
  double sum = 0.0;
  int most[3];
  for (int d = 0; d < 3; d++) most[d] = static_cast<int>(cutoff * distance(s.cell[d], {}, s.cell, 0, 0, 0) / (2 * PI));
  for (int n1 = -most[0]; n1 <= most[0]; n1++)
    for (int n2 = -most[1]; n2 <= most[1]; n2++)
      for (int n3 = -most[2]; n3 <= most[2]; n3++) {
        Vector3 k;
        for (int a = 0; a < 3; a++) k[a] = 2 * PI * (n1 * dual[0][a] + n2 * dual[1][a] + n3 * dual[2][a]);
        const double square = k[0] * k[0] + k[1] * k[1] + k[2] * k[2];
        if (square == 0.0 || square >= cutoff * cutoff) continue;
        std::complex<double> factor = 0.0;
        for (int64_t i = 0; i < s.size(); i++) {
          const Vector3 &r = s.positions[i];
          factor += s.charges[i] * std::polar(1.0, k[0] * r[0] + k[1] * r[1] + k[2] * r[2]);
        }
        sum += std::exp(-0.5 * width * width * square) / square * std::norm(factor);
      }
  return PREFACTOR / (2.0 * cell_volume(s.cell)) * sum;
}

// 1/2 F/(4 pi) sum of q q erfc(g r)/r over all pairs and images, without an atom and itself
double short_part(const System &s, double g, int images) {
  double sum = 0.0;
  for (int64_t i = 0; i < s.size(); i++)
    for (int64_t j = 0; j < s.size(); j++)
      for (int n1 = -images; n1 <= images; n1++)
        for (int n2 = -images; n2 <= images; n2++)
          for (int n3 = -images; n3 <= images; n3++) {
            if (i == j && n1 == 0 && n2 == 0 && n3 == 0) continue;
            const double r = distance(s.positions[i], s.positions[j], s.cell, n1, n2, n3);
            sum += s.charges[i] * s.charges[j] * std::erfc(g * r) / r;
          }
  return 0.5 * PREFACTOR / (4 * PI) * sum;
}

// An Ewald sum of point charges with a uniform background.
double point_charges(const System &s, double g, double cutoff, int images) {
  double squares = 0.0, total = 0.0;
  for (double q : s.charges) {
    squares += q * q;
    total += q;
  }
  return direct_sum(s, 1.0 / (std::sqrt(2.0) * g), cutoff) + short_part(s, g, images) -
         PREFACTOR / (4 * PI) * (g / std::sqrt(PI) * squares + PI * total * total / (2 * g * g * cell_volume(s.cell)));
}

System strained(System s, int a, int b, double by) {
  const auto deform = [&](Vector3 &v) {
    const Vector3 old = v;
    v[a] += 0.5 * by * old[b];
    v[b] += 0.5 * by * old[a];
  };
  for (Vector3 &v : s.cell) deform(v);
  for (Vector3 &v : s.positions) deform(v);
  return s;
}

const EwaldFunction FUNCTION{1.0, PREFACTOR, true};
constexpr double CUTOFF = 3.1;

}    // namespace

TEST(EwaldSum, is_the_point_charges_without_their_short_part) {
  for (bool is_neutral : {true, false})
    for (double sigma : {0.8, 1.1}) {
      const System s = random_system(TRICLINIC, 5, is_neutral);
      double total = 0.0;
      for (double q : s.charges) total += q;
      const double g = 1.0 / (std::sqrt(2.0) * sigma);
      const double expected = point_charges(s, 0.95, 11.5, 3) - short_part(s, g, 4) +
                              PREFACTOR * sigma * sigma * total * total / (4.0 * cell_volume(s.cell));
      const double cutoff = WaveVectors::converged_cutoff(sigma, 1e-18);
      EXPECT_NEAR(evaluate(s, {sigma, PREFACTOR, true}, cutoff).energy, expected, ROUNDING) << sigma << is_neutral;
    }
}

TEST(EwaldSum, is_the_direct_sum_in_any_cell) {
  const CellMatrix cells[] = {TRICLINIC,
                              {{{4.0, 0.0, 0.0}, {0.0, 4.0, 0.0}, {0.0, 0.0, 100.0}}},
                              {{{100.0, 0.0, 0.0}, {1.0, 4.0, 0.0}, {0.0, 2.0, 4.0}}},
                              {{{0.0, 7.0, 0.0}, {7.3, 0.0, 0.0}, {0.1, 0.0, 6.0}}},     // left-handed
                              {{{1.5, 0.0, 0.0}, {0.0, 1.6, 0.0}, {0.0, 0.0, 1.7}}}};    // without wave vectors
  for (const CellMatrix &cell : cells)
    for (int num : {1, 2, 33, 130}) {
      const System s = random_system(cell, num, false);
      const Result result = evaluate(s, {1.2, PREFACTOR, false}, CUTOFF);
      const double expected = direct_sum(s, 1.2, CUTOFF);
      EXPECT_NEAR(result.energy, expected, ROUNDING * (1.0 + expected)) << num;
      double sum = 0.0;
      for (double e : result.energies) sum += e;
      EXPECT_NEAR(sum, expected, ROUNDING * (1.0 + expected)) << num;
    }
}

TEST(EwaldSum, potentials_and_gradients_are_derivatives) {
  const System s = random_system(TRICLINIC, 6, false);
  const Result result = evaluate(s, FUNCTION, CUTOFF);
  for (int i = 0; i < 6; i++) {
    const auto difference = [&](auto &&change) {
      System more = s, less = s;
      change(more, STEP);
      change(less, -STEP);
      return (evaluate(more, FUNCTION, CUTOFF).energy - evaluate(less, FUNCTION, CUTOFF).energy) / (2.0 * STEP);
    };
    EXPECT_NEAR(difference([&](System &x, double h) { x.charges[i] += h; }), result.potentials[i], OF_DIFFERENCE);
    for (int a = 0; a < 3; a++)
      EXPECT_NEAR(difference([&](System &x, double h) { x.positions[i][a] += h; }), result.gradients[i][a],
                  OF_DIFFERENCE);
  }
}

TEST(EwaldSum, strain_is_the_derivative_with_kept_integers) {
  const System s = random_system(TRICLINIC, 6, false);
  const WaveVectors waves(s.cell, CUTOFF);
  const Result result = evaluate(s, FUNCTION, waves);
  constexpr int FIRST[6] = {0, 1, 2, 0, 0, 1}, SECOND[6] = {0, 1, 2, 1, 2, 2};
  for (int c = 0; c < 6; c++) {
    double energy[2];
    for (int side : {0, 1}) {
      const System moved = strained(s, FIRST[c], SECOND[c], side ? STEP : -STEP);
      WaveVectors kept = waves;
      kept.deform(moved.cell);
      energy[side] = evaluate(moved, FUNCTION, kept).energy;
    }
    EXPECT_NEAR((energy[1] - energy[0]) / (2.0 * STEP), result.strain[c], OF_DIFFERENCE) << c;
    EXPECT_NEAR(result.strain_of_atoms[c], result.strain[c], ROUNDING * 100.0) << c;
  }
}

// A smooth energy has second differences of the order of the squared step; a jump is as large as it is.
TEST(EwaldSum, kept_integers_make_the_energy_smooth) {
  const System s = random_system(TRICLINIC, 6, true);
  const WaveVectors first(s.cell, CUTOFF);
  std::vector<double> of_sphere, of_kept;
  int64_t changes = 0, count = first.count();
  for (int step = 0; step <= 200; step++) {
    const System moved = strained(s, 0, 0, 1e-4 * step);
    const WaveVectors sphere(moved.cell, CUTOFF);
    WaveVectors kept = first;
    kept.deform(moved.cell);
    of_sphere.push_back(evaluate(moved, FUNCTION, sphere).energy);
    of_kept.push_back(evaluate(moved, FUNCTION, kept).energy);
    changes += sphere.count() != count;
    count = sphere.count();
  }
  const auto largest = [](const std::vector<double> &energies) {
    double most = 0.0;
    for (std::size_t n = 1; n + 1 < energies.size(); n++)
      most = std::max(most, std::abs(energies[n - 1] - 2.0 * energies[n] + energies[n + 1]));
    return most;
  };
  EXPECT_GT(changes, 0);
  EXPECT_LT(largest(of_kept), 1e-6);
  EXPECT_GT(largest(of_sphere), 100.0 * largest(of_kept));
}

TEST(EwaldSum, supercell_has_a_multiple_of_the_energy) {
  const System s = random_system(TRICLINIC, 5, false);
  System large{s.cell, {}, {}};
  for (Vector3 &v : large.cell)
    for (double &x : v) x *= 2.0;
  for (int n = 0; n < 8; n++)
    for (int64_t i = 0; i < s.size(); i++) {
      Vector3 r = s.positions[i];
      for (int d = 0; d < 3; d++)
        for (int a = 0; a < 3 && (n >> d & 1); a++) r[a] += s.cell[d][a];
      large.positions.push_back(r);
      large.charges.push_back(s.charges[i]);
    }
  const Result one = evaluate(s, FUNCTION, CUTOFF), eight = evaluate(large, FUNCTION, CUTOFF);
  EXPECT_NEAR(eight.energy, 8.0 * one.energy, ROUNDING * 100.0);
  for (int64_t i = 0; i < large.size(); i++) EXPECT_NEAR(eight.potentials[i], one.potentials[i % 5], ROUNDING * 10.0);
}

TEST(EwaldSum, ranks_sum_structure_factors) {
  const System s = random_system(TRICLINIC, 13, false);
  const WaveVectors waves(s.cell, CUTOFF);
  const Result one = evaluate(s, FUNCTION, waves);
  for (const std::vector<int64_t> &starts : std::vector<std::vector<int64_t>>{{0, 6}, {0, 0, 9}, {0, 3, 3, 7, 13}}) {
    const Result result = evaluate(s, FUNCTION, waves, starts);
    EXPECT_NEAR(result.energy, one.energy, ROUNDING);
    for (int64_t i = 0; i < s.size(); i++) {
      EXPECT_NEAR(result.potentials[i], one.potentials[i], ROUNDING);
      for (int a = 0; a < 3; a++) EXPECT_NEAR(result.gradients[i][a], one.gradients[i][a], ROUNDING);
    }
  }
}

TEST(EwaldSum, does_not_depend_on_origin_or_orientation) {
  const System s = random_system(TRICLINIC, 6, false);
  const Result one = evaluate(s, FUNCTION, CUTOFF);
  System moved = s;
  for (Vector3 &r : moved.positions) r = {r[0] + 0.37, r[1] - 11.0, r[2] + 2.9};
  EXPECT_NEAR(evaluate(moved, FUNCTION, CUTOFF).energy, one.energy, ROUNDING);
  const double c = std::cos(0.7), n = std::sin(0.7);
  const auto turn = [&](const Vector3 &v) { return Vector3{c * v[0] - n * v[2], v[1], n * v[0] + c * v[2]}; };
  System turned = s;
  for (Vector3 &v : turned.cell) v = turn(v);
  for (Vector3 &v : turned.positions) v = turn(v);
  const Result result = evaluate(turned, FUNCTION, CUTOFF);
  EXPECT_NEAR(result.energy, one.energy, ROUNDING);
  for (int64_t i = 0; i < s.size(); i++) {
    const Vector3 expected = turn(one.gradients[i]);
    for (int a = 0; a < 3; a++) EXPECT_NEAR(result.gradients[i][a], expected[a], ROUNDING);
  }
}

TEST(EwaldSum, wave_vectors_on_the_surface_are_left_out_in_any_orientation) {
  // In this cube, 2 pi n / L is the cutoff for n = 6.
  constexpr double LENGTH = 12.0;
  const double c = std::cos(0.3), n = std::sin(0.3);
  const WaveVectors straight({{{LENGTH, 0, 0}, {0, LENGTH, 0}, {0, 0, LENGTH}}}, PI);
  const WaveVectors turned({{{LENGTH * c, LENGTH * n, 0}, {-LENGTH * n, LENGTH * c, 0}, {0, 0, LENGTH}}}, PI);
  int64_t expected = 0;
  for (int x = -6; x <= 6; x++)
    for (int y = -6; y <= 6; y++)
      for (int z = -6; z <= 6; z++) expected += x * x + y * y + z * z < 36;
  EXPECT_EQ(straight.count(), (expected - 1) / 2);
  EXPECT_EQ(turned.count(), straight.count());
}

TEST(EwaldSum, tangents_are_derivatives_of_all_results) {
  const System s = random_system(TRICLINIC, 5, false), direction = random_system(TRICLINIC, 5, false, 8);
  const WaveVectors waves(s.cell, CUTOFF);
  using D = Dual<double>;
  std::vector<std::array<D, 3>> positions(5);
  std::vector<D> charges(5);
  for (int i = 0; i < 5; i++) {
    charges[i] = {s.charges[i], direction.charges[i]};
    for (int a = 0; a < 3; a++) positions[i][a] = {s.positions[i][a], 0.3 * direction.positions[i][a]};
  }
  const PlainSystem<D> system(positions);
  PlainMultipoles<D> sum = plain_multipoles<D>(FUNCTION.of_multipoles(), 1, false, false, waves);
  std::vector<D> fields(5 * sum.probe_stride());
  NoExchange alone;
  sum.evaluate({}, system, 5, charges.data(), fields.data(), alone);
  sum.add_half({}, system, 5, charges.data(), fields.data());
  Result results[2];
  for (int side : {0, 1}) {
    System moved = s;
    const double h = side ? STEP : -STEP;
    for (int i = 0; i < 5; i++) {
      moved.charges[i] += h * direction.charges[i];
      for (int a = 0; a < 3; a++) moved.positions[i][a] += 0.3 * h * direction.positions[i][a];
    }
    results[side] = evaluate(moved, FUNCTION, waves);
  }
  const Result plain = evaluate(s, FUNCTION, waves);
  const auto compare = [&](double tangent, double more, double less) {
    EXPECT_NEAR(tangent, (more - less) / (2.0 * STEP), 1e-5 * (1.0 + std::abs(tangent)));
  };
  for (int i = 0; i < 5; i++) {
    const D potential = fields[i * sum.probe_stride()] - FUNCTION.self() * charges[i];
    EXPECT_NEAR(potential.value, plain.potentials[i], ROUNDING);
    compare(potential.tangent, results[1].potentials[i], results[0].potentials[i]);
    for (int a = 0; a < 3; a++)
      compare(system.gradient[3 * i + a].tangent, results[1].gradients[i][a], results[0].gradients[i][a]);
  }
  for (int c = 0; c < 6; c++) compare(system.strain[c].tangent, results[1].strain[c], results[0].strain[c]);
}

TEST(EwaldSum, refuses_cells_without_volume_and_too_many_wave_vectors) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(WaveVectors({{{1, 0, 0}, {2, 0, 0}, {0, 0, 1}}}, 3.0), std::invalid_argument);
  EXPECT_THROW(WaveVectors({{{nan, 0, 0}, {0, 1, 0}, {0, 0, 1}}}, 3.0), std::invalid_argument);
  EXPECT_THROW(WaveVectors(TRICLINIC, nan), std::invalid_argument);
  EXPECT_THROW(WaveVectors({{{1e4, 0, 0}, {0, 1e4, 0}, {0, 0, 1e4}}}, 3.0), std::invalid_argument);
}

TEST(EwaldSum, a_charge_that_is_not_a_number_reaches_all_results) {
  System s = random_system(TRICLINIC, 4, false);
  s.charges[2] = std::numeric_limits<double>::quiet_NaN();
  const Result result = evaluate(s, FUNCTION, CUTOFF);
  EXPECT_TRUE(std::isnan(result.energy));
  for (double p : result.potentials) EXPECT_TRUE(std::isnan(p));
}

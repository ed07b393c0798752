// SPDX-License-Identifier: MIT
// Sums of multipoles over wave vectors, compared with direct sums over the whole sphere and with differences.
#include "src/functions/multipole_sum.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

using namespace equi;

namespace {

constexpr double PI = 3.141592653589793, CUTOFF = 3.1;
constexpr int CHANNELS = 2;
// The oracle adds up some thousand terms of about 10 eV in another order.
constexpr double ROUNDING = 1e-10;
// A fourth-order difference of the best of several steps.
constexpr double DIFFERENCE = 1e-8;
constexpr int FIRST[6] = {0, 1, 2, 0, 0, 1}, SECOND[6] = {0, 1, 2, 1, 2, 2};

const MultipoleFunction FUNCTION{180.9513, 0.8, {0.7, 1.3, 1.9}};
const CellMatrix TRICLINIC = {{{5.1, 0.2, -0.3}, {1.3, 4.4, 0.5}, {-0.7, 0.9, 6.2}}};

struct System {
  CellMatrix cell = TRICLINIC;
  std::vector<Vector3> positions;
  std::vector<double> sources, probes;
};

System random_system(int count, unsigned seed = 3) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  System s;
  for (int i = 0; i < count; ++i)
    s.positions.push_back({3 * uniform(random), 3 * uniform(random), 3 * uniform(random)});
  const auto fill = [&](std::vector<double> &numbers, size_t size) {
    for (size_t n = 0; n < size; ++n) numbers.push_back(uniform(random));
  };
  fill(s.sources, static_cast<size_t>(4 * CHANNELS * count));
  fill(s.probes, static_cast<size_t>(4 * CHANNELS * count) * FUNCTION.widths.size());
  return s;
}

// L by its definition, over both wave vectors of each pair. triplets: integers of the wave vectors.
double direct_sum(const System &s, const std::vector<std::array<int, 3>> &triplets) {
  using Complex = std::complex<double>;
  const CellMatrix dual = dual_basis(s.cell);
  const int num_widths = static_cast<int>(FUNCTION.widths.size());
  double sum = 0.0;
  for (const auto &n : triplets)
    for (const int sign : {1, -1}) {
      Vector3 k{};
      for (int a = 0; a < 3; ++a)
        for (int d = 0; d < 3; ++d) k[a] += sign * 2 * PI * n[d] * dual[d][a];
      const double square = dot(k, k);
      for (int c = 0; c < CHANNELS; ++c) {
        Complex of_sources = 0.0, of_probes = 0.0;
        for (size_t i = 0; i < s.positions.size(); ++i) {
          const Complex wave = std::exp(Complex(0.0, dot(k, s.positions[i])));
          const auto moment = [&](const double *m) { return Complex(m[0], k[0] * m[1] + k[1] * m[2] + k[2] * m[3]); };
          of_sources += moment(&s.sources[4 * (CHANNELS * i + c)]) * wave;
          for (int w = 0; w < num_widths; ++w) {
            const double widths = FUNCTION.width * FUNCTION.width + FUNCTION.widths[w] * FUNCTION.widths[w];
            of_probes += std::exp(-0.5 * widths * square) / square *
                         moment(&s.probes[4 * ((CHANNELS * i + c) * num_widths + w)]) * wave;
          }
        }
        sum += FUNCTION.prefactor / cell_volume(s.cell) * std::real(std::conj(of_sources) * of_probes);
      }
    }
  return sum;
}

std::vector<std::array<int, 3>> triplets_of(const WaveVectors &waves) {
  std::vector<std::array<int, 3>> found;
  waves.for_each([&](int64_t, int n1, int n2, int n3) { found.push_back({n1, n2, n3}); });
  return found;
}

// A sum over all atoms, or over those of one rank.
struct Evaluated {
  using Sum = MultipoleSum<double>;
  WaveVectors waves;
  Sum sum;
  std::vector<double> of_sources, of_probes, source_factors, probe_factors;

  explicit Evaluated(const System &s) : waves(s.cell, CUTOFF), sum(FUNCTION, CHANNELS, waves) {
    const int64_t count = static_cast<int64_t>(s.positions.size());
    sum.set_count(count);
    sum.tabulate(0, count, s.positions.data());
    source_factors.resize(sum.num_factors());
    probe_factors.resize(sum.num_factors());
    sum.add_tiles(Sum::sources, 0, sum.num_tiles(), s.sources.data(), source_factors.data());
    sum.add_tiles(Sum::probes, 0, sum.num_tiles(), s.probes.data(), probe_factors.data());
    of_sources.resize(s.sources.size());
    of_probes.resize(s.probes.size());
    sum.gather(Sum::sources, 0, count, probe_factors.data(), of_sources.data());
    sum.gather(Sum::probes, 0, count, source_factors.data(), of_probes.data());
  }
};

double product(const std::vector<double> &a, const std::vector<double> &b) {
  double sum = 0.0;
  for (size_t n = 0; n < a.size(); ++n) sum += a[n] * b[n];
  return sum;
}

double best_error(const std::function<double(double)> &f, double expected) {
  double best = INFINITY;
  for (const double h : {4e-3, 2e-3, 1e-3})
    best = std::min(best, std::fabs((8 * (f(h / 2) - f(-h / 2)) - (f(h) - f(-h))) / (6 * h) - expected));
  return best;
}

TEST(MultipoleSum, is_the_direct_sum_from_either_side) {
  for (const int count : {1, 2, 7}) {
    const System s = random_system(count);
    const Evaluated e(s);
    const double direct = direct_sum(s, triplets_of(e.waves)), size = std::max(1.0, std::fabs(direct));
    EXPECT_NEAR(product(s.sources, e.of_sources), direct, ROUNDING * size);
    EXPECT_NEAR(product(s.probes, e.of_probes), direct, ROUNDING * size);
  }
}

TEST(MultipoleSum, gathers_derivatives_of_all_multipoles) {
  System s = random_system(3);
  const Evaluated e(s);
  const auto triplets = triplets_of(e.waves);
  for (size_t n = 0; n < s.sources.size(); ++n) {
    System one = s;
    std::fill(one.sources.begin(), one.sources.end(), 0.0);
    one.sources[n] = 1.0;
    EXPECT_NEAR(direct_sum(one, triplets), e.of_sources[n], ROUNDING * 100) << n;
  }
}

TEST(MultipoleSum, gradients_and_strains_are_differences) {
  const System s = random_system(4);
  const Evaluated e(s);
  const auto triplets = triplets_of(e.waves);
  const int64_t count = 4;
  std::vector<Vector3> gradients(count), as_probes(count);
  std::vector<std::array<double, 6>> strains(count);
  e.sum.gather_gradient(Evaluated::Sum::sources, 0, count, s.sources.data(), e.probe_factors.data(), gradients.data());
  e.sum.gather_gradient(Evaluated::Sum::probes, 0, count, s.probes.data(), e.source_factors.data(), as_probes.data());
  e.sum.gather_strain(0, count, s.probes.data(), e.source_factors.data(), strains.data());
  double size = 1.0;
  for (int64_t i = 0; i < count; ++i)
    for (int a = 0; a < 3; ++a) size = std::max(size, std::fabs(gradients[i][a] += as_probes[i][a]));
  for (int64_t i = 0; i < count; ++i)
    for (int a = 0; a < 3; ++a) {
      const auto moved = [&](double h) {
        System other = s;
        other.positions[i][a] += h;
        return direct_sum(other, triplets);
      };
      EXPECT_LE(best_error(moved, gradients[i][a]), DIFFERENCE * size) << i << a;
    }
  for (int c = 0; c < 6; ++c) {
    const int a = FIRST[c], b = SECOND[c];
    double expected = 0.0;
    for (const auto &strain : strains) expected += strain[c];
    const auto subtract = [&](const std::vector<double> &m, const std::vector<double> &d) {
      for (size_t n = 0; n < m.size(); n += 4)
        expected -= 0.5 * (d[n + 1 + a] * m[n + 1 + b] + d[n + 1 + b] * m[n + 1 + a]);
    };
    subtract(s.sources, e.of_sources);
    subtract(s.probes, e.of_probes);
    const auto strained = [&](double h) {
      System other = s;
      const auto strain = [&](Vector3 &v) {
        const double x = v[a], y = v[b];
        v[a] += 0.5 * h * y;
        v[b] += 0.5 * h * x;
      };
      for (Vector3 &r : other.positions) strain(r);
      for (Vector3 &v : other.cell) strain(v);
      return direct_sum(other, triplets);
    };
    EXPECT_LE(best_error(strained, expected), DIFFERENCE * size * 10) << c;
  }
}

TEST(MultipoleSum, factors_of_ranks_add_up) {
  const System s = random_system(5);
  System first = s, second = s;
  const size_t numbers = 4 * CHANNELS, probes = numbers * FUNCTION.widths.size();
  first.positions.resize(2);
  first.sources.resize(2 * numbers);
  first.probes.resize(2 * probes);
  second.positions.erase(second.positions.begin(), second.positions.begin() + 2);
  second.sources.erase(second.sources.begin(), second.sources.begin() + 2 * numbers);
  second.probes.erase(second.probes.begin(), second.probes.begin() + 2 * probes);
  const Evaluated whole(s), a(first), b(second), none(System{});
  ASSERT_EQ(none.source_factors.size(), whole.source_factors.size());
  for (size_t n = 0; n < whole.source_factors.size(); ++n) {
    EXPECT_EQ(none.source_factors[n], 0.0);
    EXPECT_NEAR(a.source_factors[n] + b.source_factors[n], whole.source_factors[n], ROUNDING);
    EXPECT_NEAR(a.probe_factors[n] + b.probe_factors[n], whole.probe_factors[n], ROUNDING * 100);
  }
}

}    // namespace

// SPDX-License-Identifier: MIT
// Sums of multipoles over wave vectors, compared with direct sums over the whole sphere and with differences.
#include "unittest/support/plain_waves.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

using namespace equi;
using namespace equi::testing;

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

NoExchange alone;

// A sum over all atoms, or the part of a rank.
struct Evaluated {
  WaveVectors waves;
  PlainSystem<double> system;
  std::vector<double> of_sources, of_probes;    // derivatives by all multipoles

  explicit Evaluated(const System &s, GhostExchange &exchange = alone) : waves(s.cell, CUTOFF), system(s.positions) {
    PlainMultipoles<double> sum = plain_multipoles<double>(FUNCTION, CHANNELS, true, true, waves);
    const int count = system.count(), columns = sum.num_columns();
    std::vector<double> probe_fields(count * columns * sum.probe_stride()),
        source_fields(count * CHANNELS * sum.source_stride());
    sum.evaluate({}, system, count, s.sources.data(), probe_fields.data(), exchange);
    sum.evaluate_adjoint({}, system, count, s.sources.data(), probe_fields.data(), s.probes.data(),
                         source_fields.data(), exchange);
    for (int k = 0; k < count * columns; ++k)
      for (int n = 0; n < 4; ++n) of_probes.push_back(probe_fields[k * sum.probe_stride() + n]);
    for (int k = 0; k < count * CHANNELS; ++k)
      for (int n = 0; n < 4; ++n) of_sources.push_back(source_fields[k * sum.source_stride() + n]);
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
  double size = 1.0;
  for (const double x : e.system.gradient) size = std::max(size, std::fabs(x));
  for (int i = 0; i < e.system.count(); ++i)
    for (int a = 0; a < 3; ++a) {
      const auto moved = [&](double h) {
        System other = s;
        other.positions[i][a] += h;
        return direct_sum(other, triplets);
      };
      EXPECT_LE(best_error(moved, e.system.gradient[3 * i + a]), DIFFERENCE * size) << i << a;
    }
  for (int c = 0; c < 6; ++c) {
    const int a = FIRST[c], b = SECOND[c];
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
    EXPECT_LE(best_error(strained, e.system.strain[c]), DIFFERENCE * size * 10) << c;
    double of_atoms = 0.0;
    for (int i = 0; i < e.system.count(); ++i) of_atoms += e.system.atom_strains[SYMMETRIC * i + c];
    EXPECT_NEAR(of_atoms, e.system.strain[c], ROUNDING * size * 100) << c;
  }
}

TEST(MultipoleSum, ranks_agree_with_one) {
  const System s = random_system(5);
  const Evaluated whole(s);
  const std::vector<int> starts = {0, 2, 2, 5};    // the second rank has no atoms
  const int numbers = 4 * CHANNELS, probes = numbers * static_cast<int>(FUNCTION.widths.size());
  RanksInTurn ranks;
  std::array<double, SYMMETRIC> strain{};
  for (const bool is_first : {true, false}) {
    if (!is_first) ranks.begin_second_time();
    for (size_t r = 0; r + 1 < starts.size(); ++r) {
      const int begin = starts[r], end = starts[r + 1];
      const System own{s.cell,
                       {s.positions.begin() + begin, s.positions.begin() + end},
                       {s.sources.begin() + numbers * begin, s.sources.begin() + numbers * end},
                       {s.probes.begin() + probes * begin, s.probes.begin() + probes * end}};
      ranks.begin_rank();
      const Evaluated e(own, ranks);
      if (is_first) continue;
      const auto compare = [&](const std::vector<double> &found, const std::vector<double> &expected, int width) {
        for (size_t n = 0; n < found.size(); ++n)
          EXPECT_NEAR(found[n], expected[begin * width + n], ROUNDING * 100) << r << ", " << n;
      };
      compare(e.of_sources, whole.of_sources, numbers);
      compare(e.of_probes, whole.of_probes, probes);
      compare(e.system.gradient, whole.system.gradient, 3);
      compare(e.system.atom_strains, whole.system.atom_strains, SYMMETRIC);
      for (int c = 0; c < SYMMETRIC; ++c) strain[c] += e.system.strain[c];
    }
  }
  for (int c = 0; c < SYMMETRIC; ++c) EXPECT_NEAR(strain[c], whole.system.strain[c], ROUNDING * 100);
}

}    // namespace

// SPDX-License-Identifier: MIT
// The repulsion of pairs compared with its formula and finite differences.
#include "src/layers/pair_repulsion.h"

#include <gtest/gtest.h>
#include <array>
#include <cmath>

using namespace equi;

namespace {

// The universal potential for hydrogen (0) and oxygen (1), in a common matrix of both orders.
PairRepulsion universal() {
  PairRepulsion r;
  const double z[2] = {1.0, 8.0}, radius[2] = {0.31, 0.66};
  r.prefactor = r.length = r.cutoff = Matrix{2, 2, {}};
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      r.prefactor.data.push_back(0.5 * 14.3996 * z[i] * z[j]);
      r.length.data.push_back(0.4543 * 0.529 / (std::pow(z[i], 0.3) + std::pow(z[j], 0.3)));
      r.cutoff.data.push_back(radius[i] + radius[j]);
    }
  r.p = 5.0;
  r.coefficients = {0.1818, 0.5099, 0.2802, 0.02817};
  r.exponents = {3.2, 0.9423, 0.4028, 0.2016};
  return r;
}

}    // namespace

TEST(PairRepulsion, is_its_formula) {
  PairRepulsion repulsion = universal();
  // Not symmetric, to distinguish the two species.
  repulsion.prefactor.data[1] *= 3.0;
  repulsion.length.data[1] *= 1.5;
  repulsion.cutoff.data[1] *= 1.2;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      for (double r : {0.1, 0.3, 0.6}) {
        const double x = r / repulsion.length(i, j), u = r / repulsion.cutoff(i, j);
        const double phi = 0.1818 * std::exp(-3.2 * x) + 0.5099 * std::exp(-0.9423 * x) +
                           0.2802 * std::exp(-0.4028 * x) + 0.02817 * std::exp(-0.2016 * x);
        const double f = 1 - 21 * std::pow(u, 5) + 35 * std::pow(u, 6) - 15 * std::pow(u, 7);
        // The terms of f cancel near the cutoff: rounding is relative to the factor of f.
        const double bare = repulsion.prefactor(i, j) / r * phi;
        EXPECT_NEAR(repulsion.energy(i, j, r, nullptr), bare * f, 1e-13 * bare) << i << j << r;
      }
}

TEST(PairRepulsion, derivative_is_the_limit_of_differences) {
  const PairRepulsion repulsion = universal();
  for (double r : {0.2, 0.5, 0.9, 1.2}) {
    double slope;
    const double value = repulsion.energy(1, 1, r, &slope);
    EXPECT_EQ(value, repulsion.energy(1, 1, r, nullptr));
    double error[2];
    const double steps[2] = {1e-3, 1e-4};
    for (int s = 0; s < 2; ++s) {
      const double high = repulsion.energy(1, 1, r + steps[s], nullptr),
                   low = repulsion.energy(1, 1, r - steps[s], nullptr);
      error[s] = std::fabs((high - low) / (2 * steps[s]) - slope);
    }
    EXPECT_NEAR(error[0] / error[1], 100.0, 10.0) << r;
    EXPECT_LT(error[1], 1e-5 * std::fabs(slope)) << r;
  }
}

TEST(PairRepulsion, ends_smoothly_at_the_cutoff) {
  const PairRepulsion repulsion = universal();
  const double end = repulsion.cutoff(1, 0);
  double slope;
  EXPECT_NEAR(repulsion.energy(1, 0, end * (1.0 - 1e-9), &slope), 0.0, 1e-12);
  EXPECT_NEAR(slope, 0.0, 1e-10);
  for (double r : {end, end + 1e-9, 5.0}) {
    slope = 1.0;
    EXPECT_EQ(repulsion.energy(1, 0, r, &slope), 0.0);
    EXPECT_EQ(slope, 0.0);
  }
}

TEST(PairRepulsion, is_multiplied_by_its_switch) {
  PairRepulsion bare = universal(), switched = universal();
  bare.p = switched.p = 0.0;    // the cosine
  switched.on = 0.1;
  switched.off = 0.9;
  for (double r : {0.05, 0.2, 0.5, 0.85, 0.95, 1.2}) {
    const double c = (r - 0.1) / 0.8, inner = c < 1.0 ? std::exp(-1.0 / (1.0 - c)) : 0.0;
    const double w = inner / (inner + (c > 0.0 ? std::exp(-1.0 / c) : 0.0) + 1e-12);
    const double x = r / bare.length(1, 1), end = 1.32;
    const double phi = 0.1818 * std::exp(-3.2 * x) + 0.5099 * std::exp(-0.9423 * x) + 0.2802 * std::exp(-0.4028 * x) +
                       0.02817 * std::exp(-0.2016 * x);
    const double energy = bare.energy(1, 1, r, nullptr);
    EXPECT_NEAR(energy, bare.prefactor(1, 1) / r * phi * 0.5 * (1.0 + std::cos(std::acos(-1.0) * r / end)), 1e-10);
    double slope, second;
    EXPECT_NEAR(switched.energy(1, 1, r, &slope, &second), w * energy, 1e-12 * energy) << r;
    const auto differences = [&](double h) {
      double high, low;
      const double above = switched.energy(1, 1, r + h, &high), below = switched.energy(1, 1, r - h, &low);
      return std::array<double, 2>{(above - below) / (2 * h), (high - low) / (2 * h)};
    };
    const auto half = differences(0.5e-4), whole = differences(1e-4);
    EXPECT_NEAR((4.0 * half[0] - whole[0]) / 3.0, slope, 1e-7 * energy / r) << r;
    EXPECT_NEAR((4.0 * half[1] - whole[1]) / 3.0, second, 1e-6 * energy / (r * r)) << r;
  }
}

// SPDX-License-Identifier: MIT
// Gaunt products compared with means over the sphere.
#include "src/algebra/gaunt_product.h"

#include "src/algebra/coupling.h"
#include "src/algebra/spherical_harmonics.h"
#include "unittest/support/random_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace equi;
using equi::testing::random_numbers;

constexpr int LMAX = 8, SIZE = (LMAX + 1) * (LMAX + 1);
constexpr double TOLERANCE = 1e-13;    // sums of some hundred points

// Points with weights of sum 1. Means of products of three harmonics up to LMAX are exact with them: Gauss's nodes for
// the polar axis, found by Newton's method, times equal angles.
struct Point {
  double weight;
  std::vector<double> harmonics;    // [SIZE]
};

std::vector<Point> points_on_sphere() {
  constexpr int DEGREE = 3 * LMAX, NODES = DEGREE / 2 + 1, ANGLES = DEGREE + 1;
  const double pi = std::acos(-1.0);
  std::vector<Point> points;
  for (int k = 0; k < NODES; ++k) {
    double y = std::cos(pi * (k + 0.75) / (NODES + 0.5)), slope = 1.0;
    for (int step = 0; step < 8; ++step) {
      double last = 1.0, p = y;
      for (int n = 2; n <= NODES; ++n) {
        const double next = ((2 * n - 1) * y * p - (n - 1) * last) / n;
        last = p;
        p = next;
      }
      slope = NODES * (y * p - last) / (y * y - 1.0);
      y -= p / slope;
    }
    for (int j = 0; j < ANGLES; ++j) {
      const double angle = 2.0 * pi * j / ANGLES, r = std::sqrt(1.0 - y * y);
      const double vec[3] = {r * std::sin(angle), y, r * std::cos(angle)};
      points.push_back({1.0 / ((1.0 - y * y) * slope * slope * ANGLES), std::vector<double>(SIZE)});
      spherical_harmonics(LMAX, vec, points.back().harmonics.data(), nullptr);
    }
  }
  return points;
}

TEST(GauntProduct, scales_couplings_to_means_over_the_sphere) {
  const std::vector<Point> points = points_on_sphere();
  double weights = 0.0;
  for (const Point &p : points) weights += p.weight;
  EXPECT_NEAR(weights, 1.0, TOLERANCE);
  for (int l1 = 0; l1 <= LMAX; ++l1)
    for (int l2 = 0; l2 <= LMAX; ++l2)
      for (int l3 = std::abs(l1 - l2); l3 <= std::min(LMAX, l1 + l2); ++l3) {
        const int d1 = 2 * l1 + 1, d2 = 2 * l2 + 1, d3 = 2 * l3 + 1;
        std::vector<double> mean(static_cast<size_t>(d1) * d2 * d3, 0.0);
        for (const Point &p : points)
          for (int a = 0, k = 0; a < d1; ++a)
            for (int b = 0; b < d2; ++b) {
              const double ab = p.weight * p.harmonics[l1 * l1 + a] * p.harmonics[l2 * l2 + b];
              for (int c = 0; c < d3; ++c) mean[k++] += ab * p.harmonics[l3 * l3 + c];
            }
        const std::vector<double> w = coupling(l1, l2, l3);
        const double scale = gaunt_scale(l1, l2, l3);
        EXPECT_EQ(scale == 0.0, (l1 + l2 + l3) % 2 == 1);
        for (size_t k = 0; k < mean.size(); ++k) ASSERT_NEAR(scale * w[k], mean[k], TOLERANCE);
      }
}

struct Example {
  Irreps in, out;
  std::vector<int> first, second;

  ChannelwiseProduct product() const { return gaunt_product(in, {first, second}, out); }
};

// Two functions, a square, functions that share a block, only one order, all blocks even; in no order.
std::vector<Example> examples() {
  return {{Irreps::parse("5x0e+5x1o+5x2e+5x3o+5x0e+5x1o+5x2e"),
           Irreps::parse("5x0e+5x1o+5x2e+5x3o+5x4e+5x5o"),
           {0, 1, 2, 3},
           {4, 5, 6}},
          {Irreps::parse("13x2e+13x0e+13x1o"), Irreps::parse("13x4e+13x0e+13x2e"), {0, 1, 2}, {0, 1, 2}},
          {Irreps::parse("1x0e+1x1e+1x2e"), Irreps::parse("1x1e+1x0e"), {0, 2}, {2, 1}},
          {Irreps::parse("33x8e+33x7o"), Irreps::parse("33x1o+33x7o"), {0}, {1}}};
}

TEST(GauntProduct, is_the_projection_of_a_product_of_functions) {
  const std::vector<Point> points = points_on_sphere();
  for (const Example &e : examples()) {
    const ChannelwiseProduct product = e.product();
    product.validate();
    const std::vector<double> x = random_numbers(e.in.dim(), 1);
    std::vector<double> out(e.out.dim(), 0.0), expected(e.out.dim(), 0.0);
    product.forward(x.data(), out.data());
    for (int u = 0; u < e.in[0].mul; ++u)
      for (const Point &p : points) {
        const auto value = [&](const std::vector<int> &blocks) {
          double sum = 0.0;
          for (const int b : blocks)
            for (int m = 0, l = e.in[b].irrep.l; m <= 2 * l; ++m)
              sum += x[e.in.offset(b) + u * (2 * l + 1) + m] * p.harmonics[l * l + m];
          return sum;
        };
        const double fg = p.weight * value(e.first) * value(e.second);
        for (int b = 0; b < e.out.size(); ++b)
          for (int m = 0, l = e.out[b].irrep.l; m <= 2 * l; ++m)
            expected[e.out.offset(b) + u * (2 * l + 1) + m] += fg * p.harmonics[l * l + m];
      }
    double largest = 0.0;
    for (const double v : expected) largest = std::fmax(largest, std::fabs(v));
    for (size_t k = 0; k < out.size(); ++k) EXPECT_NEAR(out[k], expected[k], TOLERANCE * largest);
  }
}

TEST(GauntProduct, refuses_functions_that_do_not_fit) {
  const auto refused = [](const std::string &in, const std::vector<int> &first, const std::vector<int> &second,
                          const std::string &out, const std::string &part) {
    try {
      gaunt_product(Irreps::parse(in), {first, second}, Irreps::parse(out));
      FAIL() << "not refused: " << part;
    } catch (const std::invalid_argument &e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused("5x0e+5x1o+5x1o", {0, 1, 2}, {0}, "5x0e", "the first function, found two of order 1");
  refused("5x0e+5x1o+5x1o", {0, 1}, {1, 2}, "5x0e", "the second function, found two of order 1");
  refused("5x0e+5x1o", {0, 1}, {0, 1}, "5x0e+5x1o+5x0e", "the output, found two of order 0");
  refused("5x0e+5x1o", {0, 1}, {0, 1}, "5x0e+5x1e", "expected an output block of the parity that 1x0e+1x1o make");
  refused("5x0e+5x1o", {0}, {1}, "5x0e", "an order of the output");
}

}    // namespace

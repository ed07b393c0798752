// SPDX-License-Identifier: MIT
// The mathematics of commands with second derivatives: duals, networks over them, translations of crystals,
// eigenvalues.
#include "src/functions/activation.h"
#include "src/hessian/conjugate_directions.h"
#include "src/hessian/lattice_translations.h"
#include "src/hessian/lowest_eigenpairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace {

using namespace equi;

TEST(Dual, activations_have_the_derivatives_of_the_core) {
  for (const Activation a : {Activation::identity, Activation::silu, Activation::tanh, Activation::sigmoid,
                             Activation::relu, Activation::abs, Activation::ssp, Activation::mish, Activation::gelu})
    for (const double x : {-3.1, -0.4, 0.3, 2.7}) {
      double d[3];
      activation_derivatives(a, x, 2, d);
      constexpr double ALONG = 1.7;
      const auto found = activate(a, Dual<double>(x, ALONG));
      EXPECT_NEAR(found.value.value, d[0], 1e-14) << activation_name(a) << x;
      EXPECT_NEAR(found.value.tangent, d[1] * ALONG, 1e-14) << activation_name(a) << x;
      EXPECT_NEAR(found.derivative.value, d[1], 1e-14) << activation_name(a) << x;
      EXPECT_NEAR(found.derivative.tangent, d[2] * ALONG, 1e-13) << activation_name(a) << x;
    }
}

TEST(Dual, quotients_and_roots_are_differentiated) {
  const Dual<double> a(1.3, 0.7), b(-0.6, 1.1);
  constexpr double H = 1e-6;
  const auto slope = [&](const auto &f) {
    return (f(1.3 + H * 0.7, -0.6 + H * 1.1) - f(1.3 - H * 0.7, -0.6 - H * 1.1)) / (2 * H);
  };
  EXPECT_NEAR((a / b).tangent, slope([](double x, double y) { return x / y; }), 1e-8);
  EXPECT_NEAR(sqrt(a).tangent, slope([](double x, double) { return std::sqrt(x); }), 1e-8);
  EXPECT_EQ(sqrt(Dual<double>(0.0, 0.0)).tangent, 0.0);
}

TEST(Dual, networks_give_the_derivative_of_their_gradient) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  Network n;
  n.activation = Activation::silu;
  n.activation_scale = 1.3;
  for (const auto &[rows, cols] : {std::pair{5, 13}, {13, 4}, {4, 1}}) {
    n.weights.push_back({rows, cols, std::vector<double>(static_cast<size_t>(rows) * cols)});
    for (double &w : n.weights.back().data) w = normal(random);
    n.biases.emplace_back(cols == 4 ? 0 : cols, 0.2);
  }
  const NetworkGradient network(n);
  std::vector<double> x(10), gradient(10), scratch(2 * network.scratch_size(1));    // values, then tangents
  for (double &c : x) c = normal(random);
  double parts[2];
  network.evaluate<Dual<double>>(1, x.data(), parts, gradient.data(), scratch.data());
  const Dual<double> value(parts[0], parts[1]);
  const auto at = [&](double h, std::vector<double> &g) {
    std::vector<double> moved(5);
    for (int k = 0; k < 5; ++k) moved[k] = x[k] + h * x[5 + k];
    g.resize(5);
    return n.value_and_gradient(moved.data(), g.data());
  };
  std::vector<double> here, up, down;
  constexpr double H = 1e-5;
  EXPECT_NEAR(value.value, at(0.0, here), 1e-14 * std::fabs(value.value));
  const double high = at(H, up), low = at(-H, down);
  EXPECT_NEAR(value.tangent, (high - low) / (2 * H), 1e-7);
  for (int k = 0; k < 5; ++k) {
    EXPECT_NEAR(gradient[k], here[k], 1e-13) << k;
    EXPECT_NEAR(gradient[5 + k], (up[k] - down[k]) / (2 * H), 1e-7) << k;
  }
}

// ---- translations ----

struct Crystal {
  std::vector<std::array<double, 3>> fractional;
  std::vector<int> kind;
};
constexpr double CELL[3][3] = {{9.0, 0.0, 0.0}, {0.5, 6.0, 0.0}, {0.0, -0.4, 7.0}};
constexpr bool PERIODIC[3] = {true, true, true};

// 3 x 2 x 1 cells of two atoms, shuffled.
Crystal crystal() {
  Crystal c;
  for (int n : {4, 0, 5, 2, 1, 3})
    for (int kind : {0, 1}) {
      c.fractional.push_back({(n % 3 + 0.3 * kind - 0.1) / 3, (n / 3 + 0.2) / 2, 0.95 * kind});    // also below zero
      c.kind.push_back(kind);
    }
  return c;
}

TEST(Translations, of_a_crystal_are_those_of_its_cells) {
  const Crystal c = crystal();
  const Translations t = find_translations(c.fractional, c.kind, CELL, PERIODIC, 1e-8);
  EXPECT_EQ(t.count(), 6);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(t.orbit(i), c.kind[i]);
  const std::vector<int> from = t.preimages(0, 6);
  EXPECT_EQ(from[6], 0);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(c.kind[from[i]], c.kind[i]);
  std::vector<int> sorted = from;
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < 12; ++i) EXPECT_EQ(sorted[i], i);
  EXPECT_THROW(t.preimages(0, 1), std::logic_error);
}

TEST(Translations, a_moved_atom_or_another_kind_ends_them) {
  Crystal moved = crystal(), other = crystal();
  moved.fractional[3][1] += 1e-6;
  EXPECT_EQ(find_translations(moved.fractional, moved.kind, CELL, PERIODIC, 1e-8).count(), 1);
  EXPECT_EQ(find_translations(moved.fractional, moved.kind, CELL, PERIODIC, 1e-4).count(), 6);
  // Along two vectors of a skew cell, whose lengths alone do not determine the distance.
  Crystal skew = crystal();
  skew.fractional[3][0] += 1e-6;
  skew.fractional[3][1] -= 1e-6;
  EXPECT_EQ(find_translations(skew.fractional, skew.kind, CELL, PERIODIC, 1e-8).count(), 1);
  other.kind[5] = 2;
  EXPECT_EQ(find_translations(other.fractional, other.kind, CELL, PERIODIC, 1e-8).count(), 1);
  const bool open[3] = {true, false, true};
  const Crystal c = crystal();
  EXPECT_EQ(find_translations(c.fractional, c.kind, CELL, open, 1e-8).count(), 3);
  // The same crystal with its two cells along the third vector.
  Crystal turned = c;
  for (auto &place : turned.fractional) std::swap(place[1], place[2]);
  const bool other_open[3] = {true, true, false};
  EXPECT_EQ(find_translations(turned.fractional, turned.kind, CELL, open, 1e-8).count(), 6);
  EXPECT_EQ(find_translations(turned.fractional, turned.kind, CELL, other_open, 1e-8).count(), 3);
  EXPECT_EQ(find_translations({}, {}, CELL, PERIODIC, 1e-8).count(), 1);
}

// ---- eigenvalues ----

// Diagonal in a random orthogonal basis: a product of reflections.
struct KnownMatrix {
  std::vector<double> values;
  std::vector<std::vector<double>> mirrors;

  explicit KnownMatrix(std::vector<double> values) : values(std::move(values)) {
    std::mt19937 random(2);
    std::normal_distribution<double> normal;
    for (int k = 0; k < 3; ++k) {
      mirrors.emplace_back(this->values.size());
      double square = 0.0;
      for (double &c : mirrors.back()) {
        c = normal(random);
        square += c * c;
      }
      for (double &c : mirrors.back()) c /= std::sqrt(square);
    }
  }
  void reflect(const std::vector<double> &m, std::vector<double> &x) const {
    double dot = 0.0;
    for (size_t i = 0; i < x.size(); ++i) dot += m[i] * x[i];
    for (size_t i = 0; i < x.size(); ++i) x[i] -= 2.0 * dot * m[i];
  }
  SymmetricOperator as_operator() const {
    return {[this](const std::vector<double> &v, std::vector<double> &w) {
              w = v;
              for (auto m = mirrors.begin(); m != mirrors.end(); ++m) reflect(*m, w);
              for (size_t i = 0; i < w.size(); ++i) w[i] *= values[i];
              for (auto m = mirrors.rbegin(); m != mirrors.rend(); ++m) reflect(*m, w);
            },
            [](std::vector<double> &) {}};
  }
};

std::vector<std::vector<double>> noise(int count, size_t size) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> start(count, std::vector<double>(size));
  for (auto &x : start)
    for (double &c : x) c = normal(random);
  return start;
}

TEST(LowestEigenpairs, finds_equal_and_negative_values) {
  std::vector<double> values = {-1.0, 0.0, 0.0, 0.0, 0.5, 0.5};
  for (int k = 0; k < 194; ++k) values.push_back(0.8 + 0.05 * k);
  std::shuffle(values.begin(), values.end(), std::mt19937(1));
  const KnownMatrix a(values);
  std::sort(values.begin(), values.end());
  EigenOptions options;
  options.count = 7;
  int rounds = 0;
  const Eigenpairs found =
      lowest_eigenpairs(a.as_operator(), noise(9, values.size()), options, [&](int, int) { ++rounds; });
  ASSERT_TRUE(found.converged);
  EXPECT_GT(rounds, 1);
  ASSERT_EQ(found.values.size(), 7u);
  for (int k = 0; k < 7; ++k) {
    EXPECT_NEAR(found.values[k], values[k], 1e-8) << k;
    std::vector<double> w;
    a.as_operator().multiply(found.vectors[k], w);
    double residual = 0.0, square = 0.0;
    for (size_t i = 0; i < w.size(); ++i) {
      residual += std::pow(w[i] - found.values[k] * found.vectors[k][i], 2);
      square += found.vectors[k][i] * found.vectors[k][i];
    }
    EXPECT_NEAR(square, 1.0, 1e-10);
    EXPECT_LT(std::sqrt(residual), 2e-8 * 10.5) << k;
  }
}

// Like translations in a dynamical matrix, above the negative eigenvalues of a saddle point.
TEST(LowestEigenpairs, known_eigenvectors_do_not_hide_lower_ones) {
  constexpr int SIZE = 90, NUM_KNOWN = 3;
  std::vector<double> values(SIZE, 0.0);
  for (int k = NUM_KNOWN; k < SIZE; ++k) values[k] = 0.5 + 0.1 * k;
  for (const int num_negative : {0, 1, 5}) {
    for (int k = 0; k < num_negative; ++k) values[SIZE - 1 - k] = -0.4 + 0.05 * k;
    const KnownMatrix a(values);
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    for (const int count : {1, 2, 3, 4}) {
      EigenOptions options;
      options.count = count;
      options.num_known = NUM_KNOWN;
      std::vector<std::vector<double>> start = noise(count + NUM_KNOWN + 5, SIZE);
      for (int k = 0; k < NUM_KNOWN; ++k) {
        start[k].assign(SIZE, 0.0);
        start[k][k] = 1.0;
        for (auto m = a.mirrors.rbegin(); m != a.mirrors.rend(); ++m) a.reflect(*m, start[k]);
      }
      const Eigenpairs found = lowest_eigenpairs(a.as_operator(), start, options, [&](int, int) {});
      EXPECT_TRUE(found.converged);
      ASSERT_EQ(found.values.size(), static_cast<size_t>(count));
      for (int k = 0; k < count; ++k) EXPECT_NEAR(found.values[k], sorted[k], 1e-7) << num_negative << " " << count;
    }
  }
}

TEST(LowestEigenpairs, small_matrices_are_exhausted_and_products_are_limited) {
  const KnownMatrix small({3.0, 1.0, 2.0});
  EigenOptions options;
  options.count = 3;
  const Eigenpairs all = lowest_eigenpairs(small.as_operator(), noise(5, 3), options, [](int, int) {});
  EXPECT_TRUE(all.converged);
  EXPECT_EQ(all.products, 3);
  for (int k = 0; k < 3; ++k) EXPECT_NEAR(all.values[k], k + 1.0, 1e-12);

  std::vector<double> many(300);
  for (int k = 0; k < 300; ++k) many[k] = k;
  const KnownMatrix large(many);
  options.max_products = 20;
  const Eigenpairs few = lowest_eigenpairs(large.as_operator(), noise(5, 300), options, [](int, int) {});
  EXPECT_FALSE(few.converged);
  EXPECT_LE(few.products, 20 + 5);
}

// ---- linear equations ----

TEST(ConjugateDirections, solve_for_several_right_sides_beside_directions_without_curvature) {
  constexpr int SIZE = 33, FLAT = 3, RIGHT_SIDES = 6;
  std::vector<double> values(SIZE, 0.0);
  for (int k = FLAT; k < SIZE; ++k) values[k] = std::pow(1000.0, double(k) / SIZE);
  const KnownMatrix matrix(values);
  const SymmetricOperator a = matrix.as_operator();
  std::vector<std::vector<double>> right(RIGHT_SIDES, std::vector<double>(SIZE));
  const std::vector<std::vector<double>> x = noise(RIGHT_SIDES, SIZE);
  for (int k = 0; k < RIGHT_SIDES; ++k) a.multiply(x[k], right[k]);
  constexpr double ALLOWED = 1e-8;
  const LinearSolutions found = solve_by_conjugate_directions(a, right, ALLOWED, 1000);
  EXPECT_TRUE(found.converged);
  EXPECT_TRUE(found.positive);
  EXPECT_LE(found.residual, ALLOWED);
  EXPECT_LE(found.products, SIZE - FLAT);    // each direction serves all right sides
  std::vector<double> product(SIZE);
  for (int k = 0; k < RIGHT_SIDES; ++k) {
    a.multiply(found.x[k], product);
    for (int i = 0; i < SIZE; ++i) EXPECT_NEAR(product[i], right[k][i], 2 * ALLOWED);
  }
}

TEST(ConjugateDirections, say_when_they_stop_early) {
  std::vector<double> values(13), opposite(13);
  for (int k = 0; k < 13; ++k) opposite[k] = -(values[k] = 1.0 + k);
  const KnownMatrix positive(values), negative(opposite);
  const std::vector<std::vector<double>> right = noise(1, 13), zero(2, std::vector<double>(13, 0.0));
  const LinearSolutions few = solve_by_conjugate_directions(positive.as_operator(), right, 1e-10, 4);
  EXPECT_FALSE(few.converged);
  EXPECT_TRUE(few.positive);
  EXPECT_EQ(few.products, 4);
  EXPECT_GT(few.residual, 1e-10);
  const LinearSolutions none = solve_by_conjugate_directions(negative.as_operator(), right, 1e-10, 100);
  EXPECT_FALSE(none.positive);
  EXPECT_FALSE(none.converged);
  const LinearSolutions nothing = solve_by_conjugate_directions(positive.as_operator(), zero, 1e-10, 100);
  EXPECT_TRUE(nothing.converged);
  EXPECT_EQ(nothing.products, 0);
}

}    // namespace

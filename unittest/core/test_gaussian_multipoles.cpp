// SPDX-License-Identifier: MIT
// Interactions of Gaussian multipoles: compared with integrals over Gaussian functions, differences and limits.
#include "src/functions/gaussian_multipoles.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <vector>

using namespace equi;

namespace {

constexpr double PI = 3.141592653589793, WIDTH = 1.3, OFFSET = 0.1, SOFTENING = 1e-3;
using Pair = GaussianPair<double>;
using Vector = Pair::Vector;
using Matrix = Pair::Matrix;

// Short distances, usual ones, and one beyond the overlap.
const std::vector<Vector> VECTORS = {{0.01, -0.02, 0.015}, {0.4, -0.3, 0.5}, {1.1, 2.0, -0.7}, {-4.0, 5.5, 3.0}};

// The integral of f from 0 to 1, by Simpson's rule.
double integral(const std::function<double(double)> &f) {
  constexpr int STEPS = 4000;
  double sum = f(0.0) + f(1.0);
  for (int n = 1; n < STEPS; ++n) sum += (n % 2 ? 4.0 : 2.0) * f(static_cast<double>(n) / STEPS);
  return sum / (3.0 * STEPS);
}

TEST(BoysFunctions, are_integrals) {
  for (const double y : {0.0, 1e-6, 0.3, 1.7, 4.99, 5.01, 9.0, 30.0, 200.0}) {
    const BoysFunctions f = boys_functions(y);
    for (int n = 0; n < 5; ++n) {
      const double expected = integral([&](double t) { return std::pow(t, 2 * n) * std::exp(-y * t * t); });
      EXPECT_NEAR(f[n], expected, 1e-12 * std::max(expected, 1e-2)) << "n = " << n << ", y = " << y;
    }
  }
}

TEST(BoysFunctions, beyond_the_overlap_are_powers) {
  const BoysFunctions f = boys_functions(900.0);
  double expected = 0.5 * std::sqrt(PI / 900.0);
  for (int n = 0; n < 5; ++n) {
    EXPECT_NEAR(f[n], expected, 1e-15 * expected) << n;
    expected *= (2 * n + 1) / 1800.0;
  }
}

double error_function_quotient(const Vector &x) {
  const double r = std::sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
  return std::erf(0.5 * r / WIDTH) / r;
}

TEST(GaussianPair, charges_interact_by_the_error_function) {
  for (const Vector &x : VECTORS) {
    const double r = std::sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]), expected = error_function_quotient(x);
    for (const bool has_vectors : {false, true}) {
      EXPECT_NEAR(Pair(OpenSum::exact, WIDTH, OFFSET, SOFTENING, has_vectors).matrix(x)[0][0], expected, 1e-14);
      EXPECT_NEAR(Pair(OpenSum::framework, WIDTH, OFFSET, SOFTENING, has_vectors).matrix(x)[0][0],
                  expected * r / (r + SOFTENING), 1e-14);
    }
  }
}

// Fourth-order differences in each coordinate of probe and source.
TEST(GaussianPair, exact_dipoles_are_derivatives) {
  constexpr double H = 1e-2;
  const Pair pair(OpenSum::exact, WIDTH, OFFSET, SOFTENING, true);
  const auto slope = [](const std::function<double(double)> &f) {
    return (8 * (f(0.5 * H) - f(-0.5 * H)) - (f(H) - f(-H))) / (6 * H);
  };
  for (const Vector &x : VECTORS) {
    const Matrix m = pair.matrix(x);
    const auto moved = [&](int axis, double step, Vector from) {
      from[axis] += step;
      return from;
    };
    for (int a = 0; a < 3; ++a) {
      const double of_probe = slope([&](double h) { return error_function_quotient(moved(a, h, x)); });
      EXPECT_NEAR(m[1 + a][0], of_probe, 1e-8);
      EXPECT_NEAR(m[0][1 + a], -of_probe, 1e-8);
      for (int b = 0; b < 3; ++b) {
        const double both = slope([&](double h) {
          return slope([&](double k) { return error_function_quotient(moved(b, -k, moved(a, h, x))); });
        });
        EXPECT_NEAR(m[1 + a][1 + b], both, 1e-8) << a << b;
      }
    }
  }
}

// The potential of charges at four places, at four places.
TEST(GaussianPair, of_the_framework_is_that_of_displaced_charges) {
  const Pair pair(OpenSum::framework, WIDTH, OFFSET, SOFTENING, true);
  const std::array<double, 4> source = {0.7, -0.3, 0.5, 0.2}, probe = {-0.4, 0.9, 0.1, -0.6};
  const auto charges = [](const std::array<double, 4> &m) {
    std::array<double, 4> c = {m[0], m[1] / OFFSET, m[2] / OFFSET, m[3] / OFFSET};
    for (int a = 1; a < 4; ++a) c[0] -= c[a];
    return c;
  };
  for (const Vector &x : VECTORS) {
    double expected = 0.0, found = 0.0, size = 0.0;
    for (int p = 0; p < 4; ++p)
      for (int s = 0; s < 4; ++s) {
        Vector y = x;
        if (p > 0) y[p - 1] += OFFSET;
        if (s > 0) y[s - 1] -= OFFSET;
        const double r = std::sqrt(y[0] * y[0] + y[1] * y[1] + y[2] * y[2]);
        const double term = charges(probe)[p] * charges(source)[s] * std::erf(0.5 * r / WIDTH) / (r + SOFTENING);
        expected += term;
        size += std::fabs(term);
        found += probe[p] * source[s] * pair.matrix(x)[p][s];
      }
    EXPECT_NEAR(found, expected, 1e-14 * size);
  }
}

TEST(GaussianPair, short_displacements_are_exact) {
  for (const Vector &x : VECTORS) {
    if (&x == &VECTORS.front()) continue;    // closer than the displacement
    const Matrix exact = Pair(OpenSum::exact, WIDTH, OFFSET, 0.0, true).matrix(x);
    double last = 0.0;
    for (const double h : {1e-2, 1e-3}) {
      const Matrix m = Pair(OpenSum::framework, WIDTH, h, 0.0, true).matrix(x);
      double most = 0.0;
      for (int p = 0; p < 4; ++p)
        for (int s = 0; s < 4; ++s) most = std::max(most, std::fabs(m[p][s] - exact[p][s]));
      if (last > 0.0) {
        EXPECT_NEAR(most / last, 0.1, 0.03);
      }
      last = most;
    }
  }
}

Matrix some_factors() {
  Matrix factors;
  for (int p = 0; p < 4; ++p)
    for (int s = 0; s < 4; ++s) factors[p][s] = std::sin(1.0 + 3.0 * p + 1.7 * s);
  return factors;
}

template <class T>
T weighted(const typename GaussianPair<T>::Matrix &m, const typename GaussianPair<T>::Matrix &factors, int places) {
  T sum(0.0);
  for (int p = 0; p < places; ++p)
    for (int s = 0; s < places; ++s) sum += m[p][s] * factors[p][s];
  return sum;
}

TEST(GaussianPair, gradient_is_the_derivative_of_the_matrix) {
  const Matrix factors = some_factors();
  for (const OpenSum sum : {OpenSum::framework, OpenSum::exact})
    for (const bool has_vectors : {false, true}) {
      const Pair pair(sum, WIDTH, OFFSET, SOFTENING, has_vectors);
      for (const Vector &x : VECTORS) {
        if (sum == OpenSum::framework && &x == &VECTORS.front()) continue;    // the softening bends within the steps
        const Vector found = pair.gradient(x, factors);
        for (int a = 0; a < 3; ++a) {
          double best = INFINITY;
          for (const double h : {4e-3, 2e-3, 1e-3}) {
            const auto at = [&](double step) {
              Vector y = x;
              y[a] += step;
              return weighted<double>(pair.matrix(y), factors, has_vectors ? 4 : 1);
            };
            const double slope = (8 * (at(0.5 * h) - at(-0.5 * h)) - (at(h) - at(-h))) / (6 * h);
            best = std::min(best, std::fabs(slope - found[a]));
          }
          EXPECT_LE(best, 1e-8) << a;
        }
      }
    }
}

TEST(GaussianPair, tangents_are_derivatives_along_a_direction) {
  using DualPair = GaussianPair<Dual<double>>;
  const Matrix factors = some_factors();
  DualPair::Matrix constants;
  for (int p = 0; p < 4; ++p)
    for (int s = 0; s < 4; ++s) constants[p][s] = factors[p][s];
  const Vector along = {0.4, -0.9, 0.3};
  for (const OpenSum sum : {OpenSum::framework, OpenSum::exact}) {
    const Pair pair(sum, WIDTH, OFFSET, SOFTENING, true);
    const DualPair duals(sum, WIDTH, OFFSET, SOFTENING, true);
    for (const Vector &x : VECTORS) {
      if (sum == OpenSum::framework && &x == &VECTORS.front()) continue;
      DualPair::Vector moving;
      for (int a = 0; a < 3; ++a) moving[a] = {x[a], along[a]};
      const auto gradient = duals.gradient(moving, constants);
      const Vector values = pair.gradient(x, factors);
      double expected = 0.0;
      for (int a = 0; a < 3; ++a) expected += values[a] * along[a];
      EXPECT_NEAR(weighted<Dual<double>>(duals.matrix(moving), constants, 4).tangent, expected, 1e-9);
      for (int a = 0; a < 3; ++a) {
        EXPECT_NEAR(gradient[a].value, values[a], 1e-12 * std::max(1.0, std::fabs(values[a])));
        double best = INFINITY;
        for (const double h : {4e-3, 2e-3, 1e-3}) {
          const auto at = [&](double step) {
            Vector y = x;
            for (int b = 0; b < 3; ++b) y[b] += step * along[b];
            return pair.gradient(y, factors)[a];
          };
          best = std::min(
              best, std::fabs((8 * (at(0.5 * h) - at(-0.5 * h)) - (at(h) - at(-h))) / (6 * h) - gradient[a].tangent));
        }
        EXPECT_LE(best, 1e-6);
      }
    }
  }
}

}    // namespace

// Radial basis, radial functions and their tables.
#include "radial_function.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace equi;

namespace {

RadialBasis basis(RadialBasis::Cutoff kind) {
  RadialBasis b;
  b.cutoff_kind = kind;
  b.cutoff = 5.0;
  b.r_on = 4.5;
  b.p = 6.0;
  b.prefactor = 0.4;
  for (int n = 1; n <= 6; ++n) b.wave_numbers.push_back(n * M_PI / 5.0 * 1.01);
  return b;
}

RadialFunction random_function(RadialBasis::Cutoff kind, std::vector<int> powers = {}) {
  std::mt19937 random(4);
  std::normal_distribution<double> normal;
  RadialFunction f;
  f.basis = basis(kind);
  int rows = f.basis.size();
  for (int cols : {12, 12, 21}) {
    Matrix m{rows, cols, {}};
    for (int i = 0; i < rows * cols; ++i) m.data.push_back(normal(random) / std::sqrt(rows));
    f.network.weights.push_back(m);
    rows = cols;
  }
  f.network.activation = Activation::silu;
  f.network.activation_scale = 1.68;
  f.r_power = std::move(powers);
  return f;
}

constexpr RadialBasis::Cutoff KINDS[] = {RadialBasis::Cutoff::polynomial, RadialBasis::Cutoff::xplor};

// Largest |central difference of derivative q - derivative q+1| over q < 3 of a function's rows of n numbers.
double difference_error(const std::function<void(double, double *)> &f, int n, double r, double h) {
  std::vector<double> exact(4 * n), high(4 * n), low(4 * n);
  f(r, exact.data());
  f(r + h, high.data());
  f(r - h, low.data());
  double error = 0.0;
  for (int k = 0; k < 3 * n; ++k) error = std::fmax(error, std::fabs((high[k] - low[k]) / (2 * h) - exact[k + n]));
  return error;
}

struct TableErrors {
  double value = 0.0, derivative = 0.0;
};

// Largest errors on random distances in [low, high), relative to the largest magnitudes there and beyond.
TableErrors sampled_errors(const RadialTable &t, const RadialFunction &f, double low, double high) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> distance(low, f.basis.cutoff);
  const int n = f.num_outputs();
  std::vector<double> exact(2 * n);
  TableErrors error, largest;
  for (int sample = 0; sample < 20000; ++sample) {
    const double r = distance(random);
    f.derivatives(r, 1, 1, exact.data());
    double c[6], d[6];
    int row;
    t.coefficients(r, row, c, d);
    for (int j = 0; j < n; ++j) {
      double value = 0.0, derivative = 0.0;
      for (int k = 0; k <= t.degree; ++k) {
        value += c[k] * t.rows[static_cast<size_t>(row + k) * n + j];
        derivative += d[k] * t.rows[static_cast<size_t>(row + k) * n + j];
      }
      largest.value = std::max(largest.value, std::fabs(exact[j]));
      largest.derivative = std::max(largest.derivative, std::fabs(exact[n + j]));
      if (r >= high) continue;
      error.value = std::max(error.value, std::fabs(value - exact[j]));
      error.derivative = std::max(error.derivative, std::fabs(derivative - exact[n + j]));
    }
  }
  return {error.value / largest.value, error.derivative / largest.derivative};
}

}    // namespace

TEST(RadialBasis, is_its_formula) {
  double out[6];
  for (double r : {0.05, 0.9, 3.3, 4.8}) {
    RadialBasis b = basis(RadialBasis::Cutoff::polynomial);
    b.p = 5.5;
    b.derivatives(r, 0, 1, out);
    const double u = r / 5.0, p = 5.5;
    const double polynomial = 1 - (p + 1) * (p + 2) / 2 * std::pow(u, p) + p * (p + 2) * std::pow(u, p + 1) -
                              p * (p + 1) / 2 * std::pow(u, p + 2);
    for (int n = 0; n < 6; ++n) EXPECT_NEAR(out[n], 0.4 * std::sin(b.wave_numbers[n] * r) / r * polynomial, 1e-14);

    b = basis(RadialBasis::Cutoff::xplor);
    b.derivatives(r, 0, 1, out);
    const double on = 4.5 * 4.5, s = r * r;
    const double xplor = r < 4.5 ? 1.0 : std::pow(25 - s, 2) * (25 + 2 * s - 3 * on) / std::pow(25 - on, 3);
    for (int n = 0; n < 6; ++n) EXPECT_NEAR(out[n], 0.4 * std::sin(b.wave_numbers[n] * r) / r * xplor, 1e-14);
  }
}

TEST(RadialBasis, derivatives_are_limits_of_differences) {
  for (RadialBasis::Cutoff kind : KINDS) {
    const RadialBasis b = basis(kind);
    const auto f = [&](double r, double *out) { b.derivatives(r, 3, 1, out); };
    // Below, around and above k r = 1, where series and recurrence meet, and in the range of the cutoff function.
    for (double r : {0.02, 0.26, 0.27, 0.8, 1.6, 3.1, 4.7, 4.95}) {
      EXPECT_LT(difference_error(f, b.size(), r, 1e-3), 2e-2) << r;
      EXPECT_LT(difference_error(f, b.size(), r, 1e-4), 2e-4) << r;
    }
  }
}

TEST(RadialBasis, is_finite_and_even_at_zero) {
  for (RadialBasis::Cutoff kind : KINDS) {
    const RadialBasis b = basis(kind);
    double out[24];
    b.derivatives(0.0, 3, 1, out);
    for (int n = 0; n < 6; ++n) {
      const double k = b.wave_numbers[n];
      EXPECT_NEAR(out[n], 0.4 * k, 1e-15);
      EXPECT_EQ(out[6 + n], 0.0);
      EXPECT_NEAR(out[12 + n], -0.4 * k * k * k / 3.0, 1e-13);
      EXPECT_EQ(out[18 + n], 0.0);
    }
  }
}

// The second derivative of XPLOR jumps where it sets in; `side` tells the two branches apart.
TEST(RadialBasis, side_chooses_the_branch_at_a_kink) {
  const RadialBasis b = basis(RadialBasis::Cutoff::xplor);
  ASSERT_EQ(b.kinks(), std::vector<double>{4.5});
  EXPECT_TRUE(basis(RadialBasis::Cutoff::polynomial).kinks().empty());
  double below[18], above[18], near_below[18], near_above[18];
  b.derivatives(4.5, 2, -1, below);
  b.derivatives(4.5, 2, 1, above);
  b.derivatives(4.5 - 1e-9, 2, 1, near_below);
  b.derivatives(4.5 + 1e-9, 2, -1, near_above);
  for (int i = 0; i < 18; ++i) {
    EXPECT_NEAR(below[i], near_below[i], 1e-6);
    EXPECT_NEAR(above[i], near_above[i], 1e-6);
  }
  for (int n = 0; n < 6; ++n) {
    EXPECT_NEAR(below[n], above[n], 1e-14);
    EXPECT_NEAR(below[6 + n], above[6 + n], 1e-13);
  }
  EXPECT_GT(std::fabs(below[12] - above[12]), 0.1);
}

TEST(RadialFunction, derivatives_are_limits_of_differences) {
  std::vector<int> powers(21, 0);
  for (int j = 7; j < 21; ++j) powers[j] = j / 7;
  for (RadialBasis::Cutoff kind : KINDS)
    for (const std::vector<int> &p : {std::vector<int>(), powers}) {
      const RadialFunction f = random_function(kind, p);
      const auto all = [&](double r, double *out) { f.derivatives(r, 3, 1, out); };
      for (double r : {0.7, 2.2, 4.8}) {
        const double coarse = difference_error(all, 21, r, 2e-3), fine = difference_error(all, 21, r, 2e-4);
        EXPECT_LT(fine, 1e-3) << r;
        EXPECT_NEAR(coarse / fine, 100.0, 10.0) << r;
      }
    }
}

TEST(RadialFunction, powers_multiply_columns) {
  std::vector<int> powers(21, 0);
  powers[3] = 2;
  const RadialFunction plain = random_function(KINDS[0]), with = random_function(KINDS[0], powers);
  double a[21], b[21];
  plain.derivatives(1.7, 0, 1, a);
  with.derivatives(1.7, 0, 1, b);
  for (int j = 0; j < 21; ++j) EXPECT_NEAR(b[j], j == 3 ? 1.7 * 1.7 * a[j] : a[j], 1e-14);
  std::vector<double> at_zero(4 * 21);
  with.derivatives(0.0, 3, 1, at_zero.data());
  for (double v : at_zero) EXPECT_TRUE(std::isfinite(v));
}

TEST(RadialTable, reaches_its_tolerance_and_tells_the_truth) {
  struct Case {
    int degree;
    double tolerance;
  };
  for (RadialBasis::Cutoff kind : KINDS)
    for (Case c : {Case{3, 1e-4}, {3, 1e-6}, {5, 1e-6}, {5, 1e-10}}) {
      const RadialFunction f = random_function(kind);
      const RadialTable t = RadialTable::build(f, c.degree, c.tolerance);
      EXPECT_LE(t.value_error, c.tolerance);
      EXPECT_LE(t.derivative_error, c.tolerance);
      const TableErrors far = sampled_errors(t, f, 1.0, 5.0), near = sampled_errors(t, f, 0.0, 1.0);
      const double value = std::max(far.value, near.value), derivative = std::max(far.derivative, near.derivative);
      EXPECT_LT(value, 2.0 * t.value_error) << c.degree << " " << c.tolerance;
      EXPECT_GT(value, 0.5 * t.value_error);
      EXPECT_LT(derivative, 2.0 * t.derivative_error) << c.degree << " " << c.tolerance;
      EXPECT_GT(derivative, 0.5 * t.derivative_error);
      // Not far more knots than needed.
      EXPECT_GT(std::max(t.value_error, t.derivative_error), 0.1 * c.tolerance);
    }
}

// Derivative errors fall as h^degree: value errors as h^(degree + 1).
TEST(RadialTable, converges_with_its_order) {
  for (RadialBasis::Cutoff kind : KINDS)
    for (int degree : {3, 5}) {
      const RadialFunction f = random_function(kind);
      // The law holds once bins resolve the function, for the higher degree at smaller errors.
      const double first = degree == 3 ? 1e-5 : 1e-7;
      const RadialTable coarse = RadialTable::build(f, degree, first),
                        fine = RadialTable::build(f, degree, 1e-3 * first);
      const double knots = std::log(static_cast<double>(fine.num_knots) / coarse.num_knots);
      const double derivative = std::log(coarse.derivative_error / fine.derivative_error) / knots;
      const double value = std::log(coarse.value_error / fine.value_error) / knots;
      EXPECT_NEAR(derivative, degree, 0.4);
      EXPECT_NEAR(value, degree + 1, 0.6);
    }
}

TEST(RadialTable, has_a_knot_from_both_sides_at_the_kink) {
  const RadialFunction f = random_function(RadialBasis::Cutoff::xplor);
  const RadialTable t = RadialTable::build(f, 5, 1e-8);
  const auto last = t.pieces.back(), before = t.pieces[t.pieces.size() - 2];
  EXPECT_EQ(last.r_begin, 4.5);
  EXPECT_EQ(before.r_end, 4.5);
  EXPECT_EQ(last.r_end, 5.0);
  const int n = t.num_columns;
  const double *above = t.rows.data() + static_cast<size_t>(last.first_knot) * 3 * n;
  const double *below = above - 3 * n;    // the knot before belongs to the piece below
  double jump = 0.0;
  std::vector<double> exact_below(3 * n), exact_above(3 * n);
  f.derivatives(4.5, 2, -1, exact_below.data());
  f.derivatives(4.5, 2, 1, exact_above.data());
  for (int j = 0; j < n; ++j) {
    EXPECT_NEAR(below[j], above[j], 1e-13);
    EXPECT_NEAR(below[n + j] / before.spacing, above[n + j] / last.spacing, 1e-11);
    EXPECT_NEAR(below[2 * n + j] * 2 / (before.spacing * before.spacing), exact_below[2 * n + j], 1e-9);
    EXPECT_NEAR(above[2 * n + j] * 2 / (last.spacing * last.spacing), exact_above[2 * n + j], 1e-9);
    jump = std::max(jump, std::fabs(exact_below[2 * n + j] - exact_above[2 * n + j]));
  }
  EXPECT_GT(jump, 1e-2);    // without the knot there would be nothing to resolve
}

// A table that does not know of the kink needs far more knots, because its error falls only as h there.
TEST(RadialTable, needs_the_knot_at_the_kink) {
  const RadialFunction f = random_function(RadialBasis::Cutoff::xplor);
  const RadialTable t = RadialTable::build(f, 3, 1e-6);
  RadialTable merged = t;    // the two outer pieces replaced by one of the finer spacing, off the kink
  const auto outer = t.pieces.back();
  const auto inner = t.pieces[t.pieces.size() - 2];
  merged.pieces.pop_back();
  auto &piece = merged.pieces.back();
  piece.r_end = outer.r_end;
  piece.num_bins = static_cast<int>((outer.r_end - inner.r_begin) / std::min(inner.spacing, outer.spacing)) + 7;
  piece.spacing = (piece.r_end - piece.r_begin) / piece.num_bins;
  merged.num_knots = piece.first_knot + piece.num_bins + 1;
  merged.rows.resize(static_cast<size_t>(merged.num_knots) * 2 * t.num_columns);
  for (int k = 0; k <= piece.num_bins; ++k) {
    double *rows = merged.rows.data() + static_cast<size_t>(piece.first_knot + k) * 2 * t.num_columns;
    f.derivatives(std::min(piece.r_begin + k * piece.spacing, 5.0), 1, 1, rows);
    for (int j = 0; j < t.num_columns; ++j) rows[t.num_columns + j] *= piece.spacing;
  }
  EXPECT_GT(sampled_errors(merged, f, 1.0, 5.0).derivative, 50.0 * sampled_errors(t, f, 1.0, 5.0).derivative);
}

TEST(RadialTable, is_the_function_at_knots_and_continuous_between_bins) {
  const RadialFunction f = random_function(RadialBasis::Cutoff::xplor);
  for (int degree : {3, 5}) {
    const RadialTable t = RadialTable::build(f, degree, 1e-6);
    EXPECT_EQ(t.rows.size(), static_cast<size_t>(t.num_knots) * t.rows_per_knot() * t.num_columns);
    std::vector<double> exact(2 * t.num_columns);
    for (double r : {0.0, 1.0, 2.0, 4.5, 5.0, 1.0 - 1e-13, 4.5 - 1e-13}) {
      f.derivatives(r, 1, 1, exact.data());
      double c[6], d[6];
      int row;
      t.coefficients(r, row, c, d);
      ASSERT_LE(row + degree + 1, t.num_knots * t.rows_per_knot());
      for (int j = 0; j < t.num_columns; ++j) {
        double value = 0.0, derivative = 0.0;
        for (int k = 0; k <= degree; ++k) {
          value += c[k] * t.rows[static_cast<size_t>(row + k) * t.num_columns + j];
          derivative += d[k] * t.rows[static_cast<size_t>(row + k) * t.num_columns + j];
        }
        EXPECT_NEAR(value, exact[j], 1e-11) << r;
        EXPECT_NEAR(derivative, exact[t.num_columns + j], 1e-9) << r;
      }
    }
  }
}

TEST(RadialTable, of_zero_functions_and_short_cutoffs) {
  RadialFunction f = random_function(KINDS[0]);
  for (double &v : f.network.weights.back().data) v = 0.0;
  const RadialTable t = RadialTable::build(f, 3, 1e-6);
  EXPECT_EQ(t.value_error, 0.0);
  EXPECT_EQ(t.derivative_error, 0.0);

  f = random_function(KINDS[0]);
  f.basis.cutoff = 1.2;
  const RadialTable s = RadialTable::build(f, 5, 1e-6);
  EXPECT_LE(s.derivative_error, 1e-6);
  EXPECT_EQ(s.pieces.back().r_end, 1.2);
}

TEST(RadialTable, refuses_what_it_cannot_reach) {
  RadialFunction f = random_function(KINDS[0]);
  EXPECT_THROW(RadialTable::build(f, 4, 1e-6), std::invalid_argument);
  EXPECT_THROW(RadialTable::build(f, 3, 0.0), std::invalid_argument);
  try {
    RadialTable::build(f, 3, 1e-15);
    FAIL();
  } catch (const std::runtime_error &e) {
    EXPECT_NE(std::string(e.what()).find("errors of value and derivative"), std::string::npos) << e.what();
  }
  f.network.weights.back().data[3] = std::nan("");
  EXPECT_THROW(RadialTable::build(f, 3, 1e-6), std::runtime_error);
}

// SPDX-License-Identifier: MIT
// Radial basis, radial functions and their tables.
#include "src/functions/radial_function.h"

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

constexpr RadialBasis::Cutoff KINDS[] = {RadialBasis::Cutoff::polynomial, RadialBasis::Cutoff::xplor,
                                         RadialBasis::Cutoff::cosine};

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

// ---- bases of other kinds, and of pairs of species ----

constexpr RadialBasis::Kind BASIS_KINDS[] = {RadialBasis::Kind::bessel,    RadialBasis::Kind::gaussian,
                                             RadialBasis::Kind::chebyshev, RadialBasis::Kind::exp_normal,
                                             RadialBasis::Kind::bernstein, RadialBasis::Kind::cosine_bump};
constexpr RadialBasis::Transform TRANSFORMS[] = {RadialBasis::Transform::none, RadialBasis::Transform::agnesi,
                                                 RadialBasis::Transform::soft};

// Whether the reader accepts them together. Functions that end at the cutoff have no transform.
bool has_transform(RadialBasis::Kind kind, RadialBasis::Transform transform) {
  return kind != RadialBasis::Kind::cosine_bump || transform == RadialBasis::Transform::none;
}

// A basis of six functions, with the constants of MACE.
RadialBasis other_basis(RadialBasis::Kind kind, RadialBasis::Transform transform) {
  RadialBasis b = basis(RadialBasis::Cutoff::polynomial);
  b.kind = kind;
  for (int n = 0; n < 6; ++n) b.centers.push_back(n * 0.9);
  b.width = 0.9;
  b.num_polynomials = 6;
  for (int n = 0; n < 6; ++n) b.exponentials.push_back(0.05 + 0.18 * n);
  for (int n = 0; n < 6; ++n) b.exponentials.push_back(3.0 + 1.5 * n);
  b.decay = 0.8;
  b.binomials = {1.0, 5.0, 10.0, 10.0, 5.0, 1.0};
  b.span = 4;
  b.transform = transform;
  b.r0 = 1.7;
  b.agnesi_q = 0.9183;
  b.agnesi_p = 4.5791;
  b.agnesi_a = 1.0805;
  b.soft_alpha = 4.0;
  return b;
}

double expected_transform(const RadialBasis &b, double r) {
  if (b.transform == RadialBasis::Transform::none) return b.stretch * r;
  if (b.transform == RadialBasis::Transform::agnesi) {
    const double u = r / b.r0;
    return 1 / (1 + b.agnesi_a * std::pow(u, b.agnesi_q) / (1 + std::pow(u, b.agnesi_q - b.agnesi_p)));
  }
  const double p0 = 3 * b.r0 / 4, p1 = 4 * b.r0 / 3;
  return p0 + (r - p0) * (1 + std::tanh(b.soft_alpha / (p1 - p0) * (r - (p0 + p1) / 2))) / 2;
}

double expected_cutoff(double u, double p) {
  return 1 - (p + 1) * (p + 2) / 2 * std::pow(u, p) + p * (p + 2) * std::pow(u, p + 1) -
         p * (p + 1) / 2 * std::pow(u, p + 2);
}

double expected_function(const RadialBasis &b, int n, double x) {
  if (b.kind == RadialBasis::Kind::bessel) return b.prefactor * std::sin(b.wave_numbers[n] * x) / x;
  if (b.kind == RadialBasis::Kind::gaussian) return std::exp(-std::pow((x - b.centers[n]) / b.width, 2) / 2);
  if (b.kind == RadialBasis::Kind::exp_normal)
    return std::exp(-b.exponentials[6 + n] * std::pow(std::exp(-0.8 * x) - b.exponentials[n], 2));
  if (b.kind == RadialBasis::Kind::bernstein) {
    const double z = std::exp(-b.decay * x);
    return std::exp(std::log(b.binomials[n]) + n * std::log(z) + (5 - n) * std::log(1 - z));
  }
  if (b.kind == RadialBasis::Kind::cosine_bump) {
    const double width = 5.0 / 6.0, place = x / (b.stretch * b.cutoff) - (n - 4) / 6.0;
    return std::pow((1 - std::cos(2 * M_PI * std::clamp(place, 0.0, width) / width)) / 2, 2);
  }
  return x <= 1 ? std::cos((n + 1) * std::acos(x)) : std::cosh((n + 1) * std::acosh(x));
}

Matrix random_matrix(int rows, int cols, unsigned seed, double low, double high) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> between(low, high);
  Matrix m{rows, cols, {}};
  for (int k = 0; k < rows * cols; ++k) m.data.push_back(between(random));
  return m;
}

// A function of pairs of three species: rows of two and three numbers after the basis.
RadialFunction function_of_pairs(bool has_biases, bool has_norms) {
  RadialFunction f = random_function(RadialBasis::Cutoff::polynomial);
  f.sender = random_matrix(3, 2, 21, -1.0, 1.0);
  f.receiver = random_matrix(3, 3, 22, -1.0, 1.0);
  f.network.weights.front() = random_matrix(11, 12, 23, -0.6, 0.6);
  if (has_biases)
    for (const Matrix &w : f.network.weights) f.network.biases.push_back(random_matrix(1, w.cols, 24, -0.3, 0.3).data);
  if (has_norms) {
    f.network.norms.resize(3);
    f.network.norms[0] = {random_matrix(1, 12, 25, 0.5, 1.5).data, random_matrix(1, 12, 26, -0.3, 0.3).data, 1e-3};
  }
  return f;
}

void expect_limits_of_differences(const RadialFunction &f, double r) {
  const auto all = [&](double at, double *out) { f.derivatives(at, 3, 1, out); };
  const double coarse = difference_error(all, f.num_outputs(), r, 2e-3),
               fine = difference_error(all, f.num_outputs(), r, 2e-4);
  EXPECT_LT(fine, 1e-3) << r;
  EXPECT_NEAR(coarse / fine, 100.0, 10.0) << r;
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
    double c[MAX_TABLE_DEGREE + 1], d[MAX_TABLE_DEGREE + 1];
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
    // Curvature of the cutoff function; that of the other cutoff functions is zero there.
    const double curvature = kind == RadialBasis::Cutoff::cosine ? -0.5 * M_PI * M_PI / 25.0 : 0.0;
    b.derivatives(0.0, 3, 1, out);
    for (int n = 0; n < 6; ++n) {
      const double k = b.wave_numbers[n];
      EXPECT_NEAR(out[n], 0.4 * k, 1e-15);
      EXPECT_EQ(out[6 + n], 0.0);
      EXPECT_NEAR(out[12 + n], 0.4 * k * (curvature - k * k / 3.0), 1e-13);
      EXPECT_EQ(out[18 + n], 0.0);
    }
  }
}

// The second derivative of XPLOR jumps where it sets in; `side` selects one of the two branches.
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

TEST(RadialBasis, of_each_kind_and_transform_is_its_formula) {
  for (RadialBasis::Kind kind : BASIS_KINDS)
    for (RadialBasis::Transform transform : TRANSFORMS)
      for (bool apply_cutoff : {true, false}) {
        RadialBasis b = other_basis(kind, transform);
        b.apply_cutoff = apply_cutoff;
        b.stretch = 1.2;
        ASSERT_EQ(b.size(), 6);
        for (double r : {0.05, 0.9, 1.7, 3.3, 4.8}) {
          double out[6];
          b.derivatives(r, 0, 1, out);
          const double x = expected_transform(b, r), f = apply_cutoff ? expected_cutoff(r / 5.0, 6.0) : 1.0;
          for (int n = 0; n < 6; ++n) {
            const double expected = expected_function(b, n, x) * f;
            EXPECT_NEAR(out[n], expected, 1e-13 * std::fmax(1.0, std::fabs(expected))) << r << " " << n;
          }
        }
      }
}

TEST(RadialBasis, derivatives_of_each_kind_and_transform_are_limits_of_differences) {
  for (RadialBasis::Kind kind : BASIS_KINDS)
    for (RadialBasis::Transform transform : TRANSFORMS) {
      if (!has_transform(kind, transform)) continue;
      RadialBasis b = other_basis(kind, transform);
      b.stretch = 0.2;    // polynomials of numbers up to one
      const auto f = [&](double r, double *out) { b.derivatives(r, 3, 1, out); };
      for (double r : {0.4, 1.3, 1.8, 3.1, 4.9}) {
        const double coarse = difference_error(f, 6, r, 2e-3), fine = difference_error(f, 6, r, 2e-4);
        double exact[24], largest = 1.0;
        f(r, exact);
        for (double v : exact) largest = std::fmax(largest, std::fabs(v));
        EXPECT_LT(fine, 1e-5 * largest) << r;
        EXPECT_NEAR(coarse / fine, 100.0, 15.0) << r;
      }
    }
}

// Tables begin there. The cases are: either of the two powers is larger, or they are equal.
TEST(RadialBasis, transforms_are_finite_at_zero) {
  for (RadialBasis::Kind kind : BASIS_KINDS)
    for (RadialBasis::Transform transform : TRANSFORMS)
      for (double p : {4.5791, 0.5, 0.9183}) {
        RadialBasis b = other_basis(kind, transform);
        b.agnesi_p = p;
        double out[24], near[6];
        for (double r : {0.0, 1e-300, 1e-12}) {
          b.derivatives(r, 3, 1, out);
          for (double v : out) EXPECT_TRUE(std::isfinite(v)) << r;
        }
        b.derivatives(0.0, 0, 1, out);
        b.derivatives(1e-15, 0, 1, near);
        for (int n = 0; n < 6; ++n) EXPECT_NEAR(out[n], near[n], 1e-6);
      }
}

TEST(RadialBasis, cutoff_function_stands_alone) {
  for (RadialBasis::Cutoff kind : KINDS) {
    const RadialBasis b = basis(kind);
    const auto f = [&](double r, double *out) { b.cutoff_function(r, 3, 1, out); };
    for (double r : {0.7, 3.1, 4.7}) EXPECT_LT(difference_error(f, 1, r, 1e-4), 1e-4) << r;
    double end[4];
    b.cutoff_function(5.0, 3, -1, end);
    for (int q = 0; q < 2; ++q) EXPECT_NEAR(end[q], 0.0, 1e-13) << q;
  }
  double one;
  basis(KINDS[0]).cutoff_function(3.0, 0, 1, &one);
  EXPECT_NEAR(one, expected_cutoff(0.6, 6.0), 1e-14);
  basis(RadialBasis::Cutoff::cosine).cutoff_function(3.0, 0, 1, &one);
  EXPECT_NEAR(one, 0.5 * (1.0 + std::cos(0.6 * M_PI)), 1e-14);
}

TEST(RadialBasis, of_a_pair_takes_its_cutoff) {
  RadialBasis all = other_basis(RadialBasis::Kind::bessel, RadialBasis::Transform::none);
  all.pair_cutoff = random_matrix(3, 3, 31, 3.0, 5.0);
  EXPECT_TRUE(all.depends_on_pair());
  const RadialBasis b = all.for_pair(2, 1);
  EXPECT_FALSE(b.depends_on_pair());
  EXPECT_EQ(b.cutoff, all.pair_cutoff(2, 1));
  double out[6];
  for (double u : {0.1, 0.5, 0.9}) {
    b.derivatives(u * b.cutoff, 0, 1, out);
    // A function of r / cutoffs.
    for (int n = 0; n < 6; ++n)
      EXPECT_NEAR(out[n], expected_function(all, n, 5.0 * u) * expected_cutoff(u, 6.0), 1e-14);
  }
  EXPECT_THROW(all.derivatives(1.0, 0, 1, out), std::logic_error);
  EXPECT_THROW(all.cutoff_function(1.0, 0, 1, out), std::logic_error);
}

TEST(RadialBasis, of_a_pair_takes_its_transform) {
  RadialBasis all = other_basis(RadialBasis::Kind::gaussian, RadialBasis::Transform::soft);
  all.pair_r0 = random_matrix(3, 3, 32, 1.0, 2.5);
  const RadialBasis b = all.for_pair(2, 1);
  EXPECT_FALSE(b.depends_on_pair());
  EXPECT_EQ(b.r0, all.pair_r0(2, 1));
  EXPECT_EQ(b.cutoff, 5.0);
  double out[6];
  EXPECT_THROW(all.derivatives(1.0, 0, 1, out), std::logic_error);
}

TEST(RadialFunction, of_a_pair_is_its_network_on_all_inputs) {
  for (bool has_biases : {false, true})
    for (bool has_norms : {false, true}) {
      const RadialFunction all = function_of_pairs(has_biases, has_norms);
      EXPECT_TRUE(all.depends_on_pair());
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) {
          const RadialFunction f = all.for_pair(i, j);
          EXPECT_FALSE(f.depends_on_pair());
          std::vector<double> in(11), expected(21), out(21);
          all.basis.derivatives(1.9, 0, 1, in.data());
          for (int k = 0; k < 2; ++k) in[6 + k] = all.sender(j, k);
          for (int k = 0; k < 3; ++k) in[8 + k] = all.receiver(i, k);
          all.network.derivatives(0, in.data(), expected.data());
          f.derivatives(1.9, 0, 1, out.data());
          for (int c = 0; c < 21; ++c) EXPECT_NEAR(out[c], expected[c], 1e-13) << i << j;
          expect_limits_of_differences(f, 1.9);
        }
      EXPECT_THROW(all.derivatives(1.9, 0, 1, std::vector<double>(21).data()), std::logic_error);
    }
  RadialFunction only_sender = function_of_pairs(true, false), only_receiver = only_sender;
  only_sender.receiver = only_receiver.sender = Matrix();
  EXPECT_TRUE(only_sender.depends_on_pair());
  EXPECT_TRUE(only_receiver.depends_on_pair());
}

// Output j of f at r is of(output j of plain, j, r) times the cutoff function; derivatives are limits of differences.
template <class Of>
void expect_outputs(const RadialFunction &f, const RadialFunction &plain, const Of &expected) {
  for (double r : {0.8, 2.3, 4.7}) {
    double w[21], out[21], cutoff;
    plain.derivatives(r, 0, 1, w);
    f.derivatives(r, 0, 1, out);
    f.basis.cutoff_function(r, 0, 1, &cutoff);
    for (int j = 0; j < 21; ++j) EXPECT_NEAR(out[j], expected(w[j], j, r) * cutoff, 1e-13);
    expect_limits_of_differences(f, r);
  }
}

// Large bases have narrow functions, nearly all of which vanish at a distance; only a few are evaluated.
TEST(RadialFunction, of_narrow_functions_leaves_out_zeros_alone) {
  constexpr double ROUNDING = 1e-14;
  constexpr int ORDER = 3, SIZE = 600;
  for (const bool is_shuffled : {false, true}) {
    RadialFunction f = random_function(RadialBasis::Cutoff::polynomial);
    f.basis.kind = RadialBasis::Kind::gaussian;
    f.basis.width = 2.0 * 5.0 / SIZE;
    for (int n = 0; n < SIZE; ++n) f.basis.centers.push_back(0.3 + 4.0 * n / SIZE);
    if (is_shuffled) std::shuffle(f.basis.centers.begin(), f.basis.centers.end(), std::mt19937(3));
    f.network.weights.front() = random_matrix(SIZE, 12, 23, -0.6, 0.6);
    const std::vector<double> at = {0.0, 0.31, 2.0, 2.01, 2.02, 4.29, 4.6, 5.0};    // the ends beyond all functions
    const int count = static_cast<int>(at.size()), n = f.num_outputs();
    std::vector<double> all(count * (ORDER + 1) * SIZE), expected(count * (ORDER + 1) * n), found(expected.size());
    for (int p = 0; p < count; ++p) f.basis.derivatives(at[p], ORDER, 1, &all[p * (ORDER + 1) * SIZE]);
    f.network.derivatives(count, ORDER, all.data(), expected.data());
    f.derivatives(count, at.data(), ORDER, 1, found.data());
    double largest[ORDER + 1] = {};
    const auto order_of = [&](size_t k) { return k / n % (ORDER + 1); };
    for (size_t k = 0; k < expected.size(); ++k)
      largest[order_of(k)] = std::max(largest[order_of(k)], std::fabs(expected[k]));
    for (size_t k = 0; k < expected.size(); ++k)
      EXPECT_LE(std::fabs(found[k] - expected[k]), ROUNDING * largest[order_of(k)]) << k;

    const auto size_at = [&](std::vector<double> r) {
      return f.basis.range_of_nonzero(static_cast<int>(r.size()), r.data()).size();
    };
    EXPECT_EQ(size_at({5.0}), 0);
    EXPECT_EQ(size_at({NAN}), SIZE);
    if (is_shuffled) continue;
    EXPECT_LT(size_at({2.0, 2.01, 2.02}), 70);
    EXPECT_EQ(size_at({2.0, 5.0}), size_at({2.0}));
  }
  EXPECT_EQ(basis(RadialBasis::Cutoff::cosine).range_of_nonzero(0, nullptr).size(), 6);
}

TEST(RadialFunction, outputs_are_squashed_cut_and_raised_in_this_order) {
  std::vector<int> powers(21, 0);
  powers[3] = 2;
  for (RadialBasis::Cutoff kind : KINDS) {
    const RadialFunction plain = random_function(kind);
    RadialFunction f = random_function(kind, powers);
    f.output = RadialFunction::Output::tanh_square;
    f.times_cutoff = true;
    expect_outputs(f, plain, [](double w, int j, double r) { return std::tanh(w * w) * (j == 3 ? r * r : 1.0); });
  }
}

TEST(RadialFunction, outputs_are_activated_before_they_are_cut) {
  for (RadialBasis::Cutoff kind : KINDS) {
    const RadialFunction plain = random_function(kind);
    RadialFunction f = plain;
    f.output = RadialFunction::Output::activated;
    f.times_cutoff = true;
    expect_outputs(f, plain, [](double w, int, double) { return 1.68 * w / (1.0 + std::exp(-w)); });
  }
}

// 21 numbers of a network: 10 values, 10 keys, and one that is left out.
TEST(RadialFunction, values_are_gated_by_normalized_products_of_keys_and_the_query) {
  constexpr int n = 10;
  const double scale = 0.7, epsilon = 1e-3;
  RadialFunction all = random_function(KINDS[0]);
  Matrix &last = all.network.weights.back(), kept{last.rows, 2 * n, {}};
  for (int i = 0; i < last.rows; ++i)
    for (int c = 0; c < 2 * n; ++c) kept.data.push_back(last(i, c));
  last = kept;
  const RadialFunction plain = all;
  // The last inputs of the receiver are the query, which no row of the first matrix reads.
  all.receiver = random_matrix(3, n, 38, -1.0, 1.0);
  Matrix &first = all.network.weights.front();
  first.rows += n;
  first.data.resize(static_cast<size_t>(first.rows) * first.cols, 0.0);
  all.gate =
      RadialGate{scale, {random_matrix(1, n, 39, 0.5, 1.5).data, random_matrix(1, n, 40, -0.5, 0.5).data, epsilon}, {}};
  EXPECT_EQ(all.num_outputs(), n);
  EXPECT_TRUE(all.depends_on_pair());
  for (int species = 0; species < 3; ++species) {
    const RadialFunction f = all.for_pair(species, 2 - species);
    EXPECT_FALSE(f.depends_on_pair());
    for (const double r : {0.8, 1.9, 3.3}) {
      double numbers[2 * n], out[4 * n], mean = 0.0, variance = 0.0, u[n];
      plain.derivatives(r, 0, 1, numbers);
      f.derivatives(r, 3, 1, out);
      for (int c = 0; c < n; ++c) u[c] = scale * all.receiver(species, c) * numbers[n + c];
      for (const double v : u) mean += v / n;
      for (const double v : u) variance += (v - mean) * (v - mean) / n;
      for (int c = 0; c < n; ++c) {
        const double y =
            all.gate->norm.weight[c] * (u[c] - mean) / std::sqrt(variance + epsilon) + all.gate->norm.bias[c];
        EXPECT_NEAR(out[c], numbers[c] / (1.0 + std::exp(-y)), 1e-13) << r;
      }
      // Each derivative is that of the one before it.
      const double h = 1e-4;
      double above[4 * n], below[4 * n];
      f.derivatives(r + h, 2, 1, above);
      f.derivatives(r - h, 2, 1, below);
      for (int c = 0; c < 3 * n; ++c)
        EXPECT_NEAR(out[n + c], (above[c] - below[c]) / (2.0 * h), 1e-4 * (1.0 + std::fabs(out[n + c])))
            << c << " " << r;
    }
  }
}

TEST(RadialFunction, outputs_are_multiplied_by_the_potential_of_the_charge_of_a_pair) {
  RadialFunction all = random_function(KINDS[0]);
  const RadialFunction plain = all;
  all.charge_potential = ChargePotential{random_matrix(3, 3, 41, 0.4, 2.0), 3.0, 0.0};
  EXPECT_TRUE(all.depends_on_pair());
  constexpr int n = 21;
  double w[n], out[4 * n], above[4 * n], below[4 * n];
  EXPECT_THROW(all.derivatives(1.9, 0, 1, out), std::logic_error);
  for (int species = 0; species < 3; ++species) {
    const RadialFunction f = all.for_pair(species, (species + 1) % 3);
    EXPECT_FALSE(f.depends_on_pair());
    for (const double r : {0.2, 0.8, 1.9, 3.3, 4.99}) {
      plain.derivatives(r, 0, 1, w);
      f.derivatives(r, 3, 1, out);
      const double u = r / plain.basis.cutoff, rest = 1.0 - u;
      const double factor = std::erf(r / all.charge_potential->widths(species, (species + 1) % 3)) / r *
                            (rest * rest * rest * (1.0 + 3.0 * u + 6.0 * u * u));
      for (int c = 0; c < n; ++c) EXPECT_NEAR(out[c], w[c] * factor, 1e-13 * (1.0 + std::fabs(out[c]))) << r;
      const double h = 1e-5;
      f.derivatives(r + h, 2, 1, above);
      f.derivatives(r - h, 2, 1, below);
      for (int c = 0; c < 3 * n; ++c)
        EXPECT_NEAR(out[n + c], (above[c] - below[c]) / (2.0 * h), 1e-5 * (1.0 + std::fabs(out[n + c])))
            << c << " " << r;
    }
  }
}

TEST(RadialFunction, of_a_pair_has_its_factor) {
  for (bool has_biases : {false, true}) {
    RadialFunction all = random_function(KINDS[0]);
    if (has_biases) all.network.biases = {{}, {}, random_matrix(1, 21, 35, -1.0, 1.0).data};
    const RadialFunction plain = all;
    all.receiver_factor = random_matrix(3, 21, 36, -1.0, 1.0);
    all.sender_factor = random_matrix(3, 21, 37, -1.0, 1.0);
    EXPECT_TRUE(all.depends_on_pair());
    double w[21], out[21];
    EXPECT_THROW(all.derivatives(1.9, 0, 1, out), std::logic_error);
    plain.derivatives(1.9, 0, 1, w);
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) {
        const RadialFunction f = all.for_pair(i, j);
        EXPECT_FALSE(f.depends_on_pair());
        f.derivatives(1.9, 0, 1, out);
        for (int c = 0; c < 21; ++c)
          EXPECT_NEAR(out[c], w[c] * (all.receiver_factor(i, c) + all.sender_factor(j, c)), 1e-13) << i << j;
      }
  }
}

TEST(RadialTable, of_a_pair_ends_at_its_cutoff) {
  RadialFunction f = function_of_pairs(true, true);
  f.basis.kind = RadialBasis::Kind::gaussian;
  f.basis.centers = {0.0, 1.0, 2.0, 3.0, 4.0, 5.0};
  f.basis.pair_cutoff = random_matrix(3, 3, 33, 3.0, 5.0);
  EXPECT_THROW(RadialTable::build(f, 3, 1e-6), std::logic_error);
  const RadialFunction pair = f.for_pair(1, 0);
  const RadialTable t = RadialTable::build(pair, 5, 1e-8);
  EXPECT_EQ(t.pieces.back().r_end, f.basis.pair_cutoff(1, 0));
  const TableErrors error = sampled_errors(t, pair, 0.0, pair.basis.cutoff);
  EXPECT_LT(error.value, 2e-8);
  EXPECT_LT(error.derivative, 2e-8);
}

TEST(RadialTable, of_a_density_behind_a_transform) {
  RadialFunction f = random_function(KINDS[0]);
  f.basis = other_basis(RadialBasis::Kind::bessel, RadialBasis::Transform::agnesi);
  f.basis.apply_cutoff = false;
  f.output = RadialFunction::Output::tanh_square;
  f.times_cutoff = true;
  const RadialTable t = RadialTable::build(f, 5, 1e-8);
  const TableErrors error = sampled_errors(t, f, 0.0, 5.0);
  EXPECT_LT(error.value, 2e-8);
  EXPECT_LT(error.derivative, 2e-8);
}

TEST(RadialFunction, derivatives_are_limits_of_differences) {
  std::vector<int> powers(21, 0);
  for (int j = 7; j < 21; ++j) powers[j] = j / 7;
  for (RadialBasis::Cutoff kind : KINDS)
    for (const std::vector<int> &p : {std::vector<int>(), powers}) {
      const RadialFunction f = random_function(kind, p);
      for (double r : {0.7, 2.2, 4.8}) expect_limits_of_differences(f, r);
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

// With random rows, which no smooth function has: the two forms of the polynomial, its value and slope at both knots,
// its second derivative there from degree 5 on, and the values between them.
TEST(Hermite, polynomials_have_the_numbers_of_their_rows) {
  constexpr double WIDTH = 0.3, ROUNDING = 1e-11;    // coefficients reach 1e4
  std::mt19937 random(5);
  std::uniform_real_distribution<double> between(-1.0, 1.0);
  for (const int degree : {3, 5, 7}) {
    double rows[MAX_TABLE_DEGREE + 1], powers[MAX_TABLE_DEGREE + 1];
    for (double &v : rows) v = between(random);
    hermite_powers(degree, rows, powers);
    const auto at = [&](double t, double *d) {    // value, first and half the second derivative
      const double from_middle = t - 0.5;
      d[0] = d[1] = d[2] = 0.0;
      for (int k = degree; k >= 0; --k) {
        d[2] = d[2] * from_middle + d[1];
        d[1] = d[1] * from_middle + d[0];
        d[0] = d[0] * from_middle + powers[k];
      }
    };
    double d[3], value[MAX_TABLE_DEGREE + 1], derivative[MAX_TABLE_DEGREE + 1];
    for (const double t : {0.0, 0.1, 0.37, 0.5, 0.77, 1.0}) {
      at(t, d);
      hermite(degree, t, WIDTH, value, derivative);
      double sum = 0.0, slope = 0.0;
      for (int k = 0; k <= degree; ++k) {
        sum += value[k] * rows[k];
        slope += derivative[k] * rows[k];
      }
      EXPECT_NEAR(sum, d[0], ROUNDING) << degree << " " << t;
      EXPECT_NEAR(slope * WIDTH, d[1], 10 * ROUNDING) << degree << " " << t;
    }
    const int of_knot = hermite_knot_rows(degree), inner = hermite_inner_rows(degree);
    for (const int end : {0, 1}) {
      at(end, d);
      for (int q = 0; q < of_knot; ++q)
        EXPECT_NEAR(d[q], rows[end * (of_knot + inner) + q], 100 * ROUNDING) << degree << " " << end << " " << q;
    }
    for (int i = 0; i < inner; ++i) {
      at(HERMITE_POINTS[i], d);
      EXPECT_NEAR(d[0], rows[of_knot + i], ROUNDING);
    }
  }
}

// Uses the values and derivatives of t^p, with t the distance from the first knot. These make errors fall with the
// degree.
TEST(Hermite, polynomials_of_its_degree_are_exact) {
  for (const int degree : {3, 5, 7})
    for (int p = 0; p <= degree; ++p) {
      const int of_knot = hermite_knot_rows(degree), inner = hermite_inner_rows(degree);
      double rows[MAX_TABLE_DEGREE + 1], powers[MAX_TABLE_DEGREE + 1];
      double binomial = 1.0;    // derivative q of t^p at 1, divided by q!
      for (int q = 0; q < of_knot; ++q) {
        rows[q] = p == q ? 1.0 : 0.0;
        rows[of_knot + inner + q] = binomial;
        binomial *= static_cast<double>(p - q) / (q + 1);
      }
      for (int i = 0; i < inner; ++i) rows[of_knot + i] = std::pow(HERMITE_POINTS[i], p);
      hermite_powers(degree, rows, powers);
      binomial = 1.0;    // p over k: t^p = sum_k (p over k) (1/2)^(p - k) (t - 1/2)^k
      for (int k = 0; k <= degree; ++k) {
        EXPECT_NEAR(powers[k], binomial * std::pow(0.5, p - k), 1e-9) << degree << " " << p;
        binomial *= static_cast<double>(p - k) / (k + 1);
      }
    }
}

TEST(RadialTable, reaches_its_tolerance_and_tells_the_truth) {
  struct Case {
    int degree;
    double tolerance;
  };
  for (RadialBasis::Cutoff kind : KINDS)
    for (Case c : {Case{3, 1e-4}, {3, 1e-6}, {5, 1e-6}, {5, 1e-10}, {7, 1e-8}, {7, 1e-11}}) {
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
      // Not many more knots than needed.
      EXPECT_GT(std::max(t.value_error, t.derivative_error), 0.1 * c.tolerance);
    }
}

// Derivative errors fall as h^degree: value errors as h^(degree + 1).
TEST(RadialTable, converges_with_its_order) {
  for (RadialBasis::Cutoff kind : KINDS)
    for (int degree : {3, 5, 7}) {
      const RadialFunction f = random_function(kind);
      // The law holds as soon as bins resolve the function, for the higher degree at smaller errors.
      const double first = degree == 3 ? 1e-5 : degree == 5 ? 1e-7 : 1e-9;
      const RadialTable coarse = RadialTable::build(f, degree, first),
                        fine = RadialTable::build(f, degree, 1e-3 * first);
      const double bins = std::log(static_cast<double>(fine.num_bins()) / coarse.num_bins());
      const double derivative = std::log(coarse.derivative_error / fine.derivative_error) / bins;
      const double value = std::log(coarse.value_error / fine.value_error) / bins;
      EXPECT_GT(derivative, degree - 0.4);
      EXPECT_GT(value, degree + 0.4);
      // The few bins of degree 7 are so wide that the errors still fall faster.
      if (degree == 7) continue;
      EXPECT_LT(derivative, degree + 0.4);
      EXPECT_LT(value, degree + 1.6);
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

// A table without a knot at the kink needs many more knots, because its error falls only as h there.
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
  piece.bins_per_length = 1.0 / piece.spacing;
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
  for (int degree : {3, 5, 7}) {
    const RadialTable t = RadialTable::build(f, degree, 1e-6);
    EXPECT_EQ(t.rows.size(), static_cast<size_t>(t.num_knots) * t.rows_per_knot() * t.num_columns);
    std::vector<double> exact(2 * t.num_columns);
    for (double r : {0.0, 1.0, 2.0, 4.5, 5.0, 1.0 - 1e-13, 4.5 - 1e-13}) {
      f.derivatives(r, 1, 1, exact.data());
      double c[MAX_TABLE_DEGREE + 1], d[MAX_TABLE_DEGREE + 1];
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

// The derivative of a constant is rounding, which no table has to reproduce.
TEST(RadialTable, of_constants) {
  RadialFunction f = random_function(KINDS[0]);
  for (double &v : f.network.weights[0].data) v = 0.0;
  f.network.biases = {std::vector<double>(12, 0.3)};
  for (int degree : {3, 5, 7}) {
    const RadialTable t = RadialTable::build(f, degree, 1e-10);
    EXPECT_LT(t.value_error, 1e-14);
    EXPECT_LT(t.derivative_error, 1e-12);
  }
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

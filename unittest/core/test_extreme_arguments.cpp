// SPDX-License-Identifier: MIT
// Functions at numbers for which exponentials, squares and reciprocals leave the range of a type, or differences lose
// their digits, compared with formulas in long double.
#include "src/functions/activation.h"
#include "src/functions/basis_functions.h"
#include "src/functions/coulomb_function.h"
#include "src/layers/pair_repulsion.h"
#include "unittest/support/extreme_activations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <type_traits>

namespace {

using namespace equi;
using namespace equi::testing;

// The error of a formula of some terms in float64, relative to the largest of its terms.
constexpr double FORMULA = 1e-13;

template <class R>
void expect_activations() {
  constexpr R ALONG = R(0.75);
  for (const Activation a : EXTREME_ACTIVATIONS)
    for (const double of_list : extreme_arguments()) {
      const R x = static_cast<R>(of_list);
      const std::string what = std::string(activation_name(a)) + (sizeof(R) == 4 ? ", float32" : ", float64");
      const ExactActivation exact = exact_activation(a, x);
      const auto plain = activate(a, x);
      const auto dual = activate(a, Dual<R>(x, ALONG));
      expect_digits(plain.value, exact.d[0], exact.terms[0], x, what);
      expect_digits(plain.derivative, exact.d[1], exact.terms[1], x, what + ", derivative");
      expect_digits(dual.value.value, exact.d[0], exact.terms[0], x, what + ", dual");
      expect_digits(dual.value.tangent, ALONG * exact.d[1], exact.terms[1], x, what + ", tangent");
      expect_digits(dual.derivative.value, exact.d[1], exact.terms[1], x, what + ", derivative of a dual");
      expect_digits(dual.derivative.tangent, ALONG * exact.d[2], exact.terms[2], x, what + ", second derivative");
      if constexpr (std::is_same_v<R, double>) {
        double d[3];
        activation_derivatives(a, x, 2, d);
        for (int k = 0; k < 3; ++k)
          expect_digits(d[k], exact.d[k], exact.terms[k], x, what + ", derivatives " + std::to_string(k));
      }
    }
}

TEST(ExtremeArguments, activations_have_their_digits) {
  expect_activations<double>();
  expect_activations<float>();
}

// Central differences of a function of long doubles; eight digits are right for numbers that are large at a distance of
// `size`.
template <class F>
void expect_jet(const Jet &found, const F &f, long double x, long double size, const std::string &what) {
  constexpr double DIFFERENCE = 1e-8;
  const long double h = 1e-4L * size;
  const auto first = [&](long double step) { return (f(x + step) - f(x - step)) / (2 * step); };
  const auto second = [&](long double step) { return (f(x + step) - 2 * f(x) + f(x - step)) / (step * step); };
  const long double exact[] = {f(x), (4 * first(h / 2) - first(h)) / 3, (4 * second(h / 2) - second(h)) / 3};
  long double tolerance = DIFFERENCE * std::fabs(f(x));
  for (int k = 0; k < 3; ++k, tolerance /= size)
    EXPECT_NEAR(found.d[k], static_cast<double>(exact[k]), static_cast<double>(tolerance))
        << what << ", derivative " << k << " at " << static_cast<double>(x);
}

TEST(ExtremeArguments, damped_charges_keep_their_digits_at_short_distances) {
  const CoulombFunction function{14.4, 2.0, 0.0, 0.0};
  const auto exact = [](long double r) {
    const long double s = r * r / 4;
    return s >= 1 ? 14.4L / r : -std::expm1(-s / (1 - s)) * 14.4L / r;
  };
  for (const double r : {0.1, 1.0, 1.9, 3.0})
    expect_jet(function(r), exact, r, std::fmin(r, std::fabs(2.0 - r)), "Coulomb");
  for (const double r : {1e-3, 3e-3, 1e-2}) {
    const Jet found = function(r);
    const double rr = r * r;
    EXPECT_NEAR(found.d[0] / (14.4 * r * (1.0 / 4 + rr / 32 + rr * rr / 384)), 1.0, FORMULA);
    EXPECT_NEAR(found.d[1] / (14.4 * (1.0 / 4 + 3 * rr / 32 + 5 * rr * rr / 384)), 1.0, FORMULA);
    EXPECT_NEAR(found.d[2] / (14.4 * r * (6.0 / 32 + 20 * rr / 384)), 1.0, 1e-7) << r;    // of terms like 1/r
  }
  // Around the end of the damping all derivatives of the damping function are 0.
  for (const double r : {1.998, 2.0 * (1.0 - 2e-6), 2.0 * (1.0 - 1e-9), 2.0, 2.0 * (1.0 + 1e-15)}) {
    const Jet found = function(r);
    EXPECT_DOUBLE_EQ(found.d[0], 14.4 / r);
    EXPECT_DOUBLE_EQ(found.d[1], -14.4 / (r * r));
    EXPECT_DOUBLE_EQ(found.d[2], 28.8 / (r * r * r));
  }
}

TEST(ExtremeArguments, quotients_of_jets_stay_in_range) {
  // x^n / (c + x^n) with numbers whose powers are infinite or 0.
  for (const double scale : {1e-150, 1e-90, 1.0, 1e90, 1e150}) {
    const Jet x = Jet::variable(1.7);
    const Jet found = scale * (x * x) / (scale * (x * x * x)), expected = 1.0 / x;
    for (int k = 0; k <= Jet::MAX_ORDER; ++k) EXPECT_NEAR(found.d[k], expected.d[k], 1e-13) << k << ", " << scale;
  }
}

TEST(ExtremeArguments, transforms_of_far_and_near_distances_are_their_formulas) {
  RadialBasis basis;
  basis.cutoff = 50.0;
  basis.transform = RadialBasis::Transform::agnesi;
  basis.agnesi_q = 0.9183;
  basis.agnesi_p = 4.5791;
  basis.agnesi_a = 1.0805;
  // Powers of up to 50000 and down to 1e-6.
  for (const double r0 : {1e-3, 0.3, 1e3}) {
    basis.r0 = r0;
    const auto exact = [&](long double r) {
      const long double u = r / r0;
      return 1 / (1 + 1.0805L * std::pow(u, 0.9183L) / (1 + std::pow(u, 0.9183L - 4.5791L)));
    };
    for (const double r : {1e-3, 0.1, 1.0, 49.0})
      for (const double power : {4.5791, 32.0}) {
        basis.agnesi_p = power;
        const Jet found = basis_functions(basis).transformed(Jet::variable(r));
        const auto screened_power = [&](long double x) {
          const long double u = x / r0;
          return 1 / (1 + 1.0805L * std::pow(u, 0.9183L) / (1 + std::pow(u, 0.9183L - power)));
        };
        EXPECT_NEAR(found.d[0], static_cast<double>(power == 32.0 ? screened_power(r) : exact(r)), 1e-14);
        const long double h = 1e-5L * r, slope = (screened_power(r + h) - screened_power(r - h)) / (2 * h);
        const double size = static_cast<double>(screened_power(r) / r);
        EXPECT_NEAR(found.d[1], static_cast<double>(slope), 1e-7 * size) << r0 << ", " << r;
        const long double curvature = (screened_power(r + h) - 2 * screened_power(r) + screened_power(r - h)) / (h * h);
        EXPECT_NEAR(found.d[2], static_cast<double>(curvature), 1e-5 * size / r) << r0 << ", " << r << ", " << power;
      }
  }
}

TEST(ExtremeArguments, bessel_functions_keep_their_digits_near_zero) {
  RadialBasis basis;
  basis.cutoff = 6.0;
  basis.cutoff_kind = RadialBasis::Cutoff::none;
  basis.wave_numbers = {0.5, 40.0, 160.0};
  for (const double r : {1e-12, 1e-6, 1e-3, 0.006, 0.0251, 0.1, 2.0}) {
    double found[3 * 3];
    basis.derivatives(r, 2, 1, found);
    for (int n = 0; n < 3; ++n) {
      // The series, or the quotient if that has all digits: relative to k^(order + 1).
      const long double k = basis.wave_numbers[n], x = k * static_cast<long double>(r);
      long double s[3] = {std::sin(x) / x, 0, 0};
      s[1] = (std::cos(x) - s[0]) / x;
      s[2] = (-std::sin(x) - 2 * s[1]) / x;
      if (x < 0.1L) {
        const long double xx = x * x;
        s[0] = 1 - xx / 6 + xx * xx / 120 - xx * xx * xx / 5040;
        s[1] = x * (-1.0L / 3 + xx / 30 - xx * xx / 840 + xx * xx * xx / 45360);
        s[2] = -1.0L / 3 + xx / 10 - xx * xx / 168 + xx * xx * xx / 6480;
      }
      for (int order = 0; order < 3; ++order)
        EXPECT_NEAR(found[order * 3 + n] / std::pow(static_cast<double>(k), order + 1), static_cast<double>(s[order]),
                    FORMULA)
            << "k r = " << static_cast<double>(x) << ", derivative " << order;
    }
  }
}

TEST(ExtremeArguments, narrow_and_steep_functions_end_in_zeros) {
  // As narrow and as steep as files allow: exponents far below those that float64 holds, at all distances.
  RadialBasis gaussian, peaks;
  gaussian.kind = RadialBasis::Kind::gaussian;
  gaussian.centers = {0.0, 3.0, 1e30};
  gaussian.width = 1e-3;
  peaks.kind = RadialBasis::Kind::exp_normal;
  peaks.exponentials = {0.0, 1e30, 1.0, 1e6, 1e6, 0.0};
  peaks.decay = 1000.0;
  for (RadialBasis *basis : {&gaussian, &peaks}) {
    basis->cutoff = 50.0;
    basis->r_on = 49.0;
    for (const double r : {0.0, 1e-3, 0.5, 2.9, 3.1, 49.999999, 50.0}) {
      double found[4 * 3];
      basis->derivatives(r, 3, -1, found);
      for (const double v : found) EXPECT_TRUE(std::isfinite(v)) << r;
    }
  }
}

TEST(ExtremeArguments, repulsion_is_its_formula_from_the_least_distance_on) {
  PairRepulsion repulsion;
  repulsion.prefactor = {1, 1, {14.4 * 92 * 92}};
  repulsion.length = {1, 1, {0.1}};
  repulsion.cutoff = {1, 1, {3.0}};
  repulsion.p = 6.0;
  repulsion.coefficients = {0.5, 0.3, 0.2};
  repulsion.exponents = {3.2, 0.2, 1000.0};    // the last one soon makes 0
  const auto exact = [](long double r) {
    const long double u = r / 3, x = r / 0.1L;
    const long double screening = 0.5L * std::exp(-3.2L * x) + 0.3L * std::exp(-0.2L * x) + 0.2L * std::exp(-1000 * x);
    return 14.4L * 92 * 92 / r * screening *
           (1 - 28 * std::pow(u, 6.0L) + 48 * std::pow(u, 7.0L) - 21 * std::pow(u, 8.0L));
  };
  for (const double r : {1e-3, 0.01, 0.2, 1.0, 2.5}) {
    Jet found;
    found.d[0] = repulsion.energy(0, 0, r, &found.d[1], &found.d[2]);
    expect_jet(found, exact, r, 0.1L * r, "repulsion");
  }
}

}    // namespace

// SPDX-License-Identifier: MIT
// Spherical harmonics compared with stored values of e3nn, and their laws.
#include "src/algebra/spherical_harmonics.h"

#include <gtest/gtest.h>
#include <cmath>

using namespace equi;

namespace {

constexpr int LMAX = 8, SIZE = (LMAX + 1) * (LMAX + 1);
constexpr double VECTOR[3] = {0.3, -1.1, 0.7};

// e3nn 0.6.0, Python, float64: v = torch.tensor([0.3, -1.1, 0.7], requires_grad=True)
//   y = o3.spherical_harmonics(list(range(5)), v, True, "component")
constexpr double E3NN_HARMONICS[25] = {1,
                                       0.3883786668018927,
                                       -1.42405511160694,
                                       0.9062168892044162,
                                       0.4543723478790823,
                                       -0.7140136895242724,
                                       1.149263988435646,
                                       -1.666031942223302,
                                       0.4327355694086498,
                                       0.3615845149681761,
                                       -0.9883871328030568,
                                       0.8646014533477788,
                                       -0.4131816976773524,
                                       2.017403391144817,
                                       -0.941321078860054,
                                       0.1345024524277757,
                                       0.2326475617710281,
                                       -0.8918611530935781,
                                       1.468472968463861,
                                       -0.7572352719216594,
                                       -0.4823351331107016,
                                       -1.766882301150539,
                                       1.398545684251296,
                                       -0.3317551149188672,
                                       -0.01135541670549065};
// (y * torch.cos(torch.arange(25) + 1.0)).sum().backward(); v.grad
constexpr double E3NN_GRADIENT[3] = {1.7671772532848946, -2.0719647089537876, -4.0133062226209075};

}    // namespace

TEST(SphericalHarmonics, agree_with_e3nn) {
  double y[25], gradient[75], sum[3] = {};
  spherical_harmonics(4, VECTOR, y, gradient);
  for (int i = 0; i < 25; ++i) {
    EXPECT_NEAR(y[i], E3NN_HARMONICS[i], 1e-14) << i;
    for (int d = 0; d < 3; ++d) sum[d] += std::cos(i + 1.0) * gradient[3 * i + d];
  }
  for (int d = 0; d < 3; ++d) EXPECT_NEAR(sum[d], E3NN_GRADIENT[d], 1e-13);
}

TEST(SphericalHarmonics, have_component_normalization) {
  double y[SIZE];
  for (double scale : {1.0, 1e-3, 50.0}) {
    const double v[3] = {scale * VECTOR[0], scale * VECTOR[1], scale * VECTOR[2]};
    spherical_harmonics(LMAX, v, y, nullptr);
    for (int l = 0; l <= LMAX; ++l) {
      double sum = 0.0;
      for (int m = 0; m <= 2 * l; ++m) sum += y[l * l + m] * y[l * l + m];
      EXPECT_NEAR(sum, 2 * l + 1, 1e-12);
    }
  }
}

TEST(SphericalHarmonics, of_the_axes_are_finite) {
  double y[SIZE], gradient[3 * SIZE];
  for (int d = 0; d < 3; ++d)
    for (double sign : {-1.0, 1.0}) {
      double v[3] = {};
      v[d] = 2.0 * sign;
      spherical_harmonics(LMAX, v, y, gradient);
      for (int m = 0; m < 3; ++m)
        EXPECT_NEAR(y[1 + m], m == d ? sign * std::sqrt(3.0) : 0.0, 1e-15);    // order x, y, z
      for (double value : y) EXPECT_TRUE(std::isfinite(value));
      for (double value : gradient) EXPECT_TRUE(std::isfinite(value));
    }
}

TEST(SphericalHarmonics, parity_is_minus_one_to_the_l) {
  double plus[SIZE], minus[SIZE];
  const double opposite[3] = {-VECTOR[0], -VECTOR[1], -VECTOR[2]};
  spherical_harmonics(LMAX, VECTOR, plus, nullptr);
  spherical_harmonics(LMAX, opposite, minus, nullptr);
  for (int l = 0; l <= LMAX; ++l)
    for (int m = 0; m <= 2 * l; ++m) EXPECT_EQ(minus[l * l + m], l % 2 ? -plus[l * l + m] : plus[l * l + m]);
}

TEST(SphericalHarmonics, gradient_is_the_limit_of_differences) {
  double y[SIZE], gradient[3 * SIZE], low[SIZE], high[SIZE];
  spherical_harmonics(LMAX, VECTOR, y, gradient);
  double error[2] = {};
  const double steps[2] = {1e-2, 1e-3};
  for (int s = 0; s < 2; ++s)
    for (int d = 0; d < 3; ++d) {
      double v[3] = {VECTOR[0], VECTOR[1], VECTOR[2]};
      v[d] += steps[s];
      spherical_harmonics(LMAX, v, high, nullptr);
      v[d] -= 2 * steps[s];
      spherical_harmonics(LMAX, v, low, nullptr);
      for (int i = 0; i < SIZE; ++i)
        error[s] = std::fmax(error[s], std::fabs((high[i] - low[i]) / (2 * steps[s]) - gradient[3 * i + d]));
    }
  EXPECT_LT(error[1], 3e-4);    // third derivatives of l = 8 are near 10^3
  EXPECT_NEAR(error[0] / error[1], 100.0, 10.0);
}

TEST(SphericalHarmonics, gradient_is_tangential) {
  double y[SIZE], gradient[3 * SIZE];
  spherical_harmonics(LMAX, VECTOR, y, gradient);
  for (int i = 0; i < SIZE; ++i)
    EXPECT_NEAR(gradient[3 * i] * VECTOR[0] + gradient[3 * i + 1] * VECTOR[1] + gradient[3 * i + 2] * VECTOR[2], 0.0,
                1e-13);
}

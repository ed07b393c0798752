// SPDX-License-Identifier: MIT
// Radial functions as sums of a few functions: compared with the function, at distances that were not used.
#include "src/functions/radial_expansion.h"
#include "unittest/support/wide_radial_function.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace equi;
using equi::testing::wide_radial_function;

namespace {

// The largest difference of all outputs and pairs, and of their derivatives, relative to the largest of the function.
struct Errors {
  double value = 0.0, derivative = 0.0;
};
Errors errors_of(const RadialFunction &f, const RadialExpansion &e, int num_species) {
  const int n = f.num_outputs(), few = e.coefficients.num_outputs();
  double largest[2] = {}, error[2] = {};
  for (int i = 0; i < num_species; ++i)
    for (int j = 0; j < num_species; ++j) {
      const bool by_pair = f.depends_on_pair();
      const RadialFunction all = by_pair ? f.for_pair(i, j) : f,
                           c = by_pair ? e.coefficients.for_pair(i, j) : e.coefficients;
      for (double r = 1.0137; r < all.basis.cutoff; r += 0.0293) {
        std::vector<double> exact(2 * n), of_few(2 * few);
        all.derivatives(r, 1, 1, exact.data());
        c.derivatives(r, 1, 1, of_few.data());
        for (int q = 0; q < 2; ++q)
          for (int k = 0; k < n; ++k) {
            double sum = 0.0;
            for (int m = 0; m < few; ++m) sum += of_few[q * few + m] * e.outputs(m, k);
            largest[q] = std::max(largest[q], std::fabs(exact[q * n + k]));
            error[q] = std::max(error[q], std::fabs(sum - exact[q * n + k]));
          }
      }
    }
  return {error[0] / largest[0], error[1] / largest[1]};
}

TEST(RadialExpansion, holds_its_tolerance_at_other_distances) {
  for (const int num_species : {1, 3})
    for (const bool times_cutoff : {false, true})
      for (const bool has_bias : {false, true}) {
        const RadialFunction f = wide_radial_function(num_species, times_cutoff, has_bias);
        int before = 0;
        for (const double tolerance : {1e-3, 1e-6, 1e-10}) {
          const std::optional<RadialExpansion> e = expand_radial(f, num_species, tolerance);
          ASSERT_TRUE(e);
          const int few = e->outputs.rows;
          EXPECT_GE(few, before);
          EXPECT_LE(few, f.network.weights.back().rows + has_bias);
          if (num_species == 1 && tolerance == 1e-3) {
            EXPECT_LT(few, f.network.weights.back().rows);
          }
          before = few;
          const Errors errors = errors_of(f, *e, num_species);
          // A vector's length exceeds its largest number at most by the square root of their number.
          EXPECT_LT(errors.value, tolerance * std::sqrt(f.num_outputs()));
          EXPECT_LT(errors.derivative, 10 * tolerance * std::sqrt(f.num_outputs()));
        }
      }
}

TEST(RadialExpansion, needs_no_more_functions_than_there_are) {
  // Three functions of only the distance make all outputs.
  RadialFunction f = wide_radial_function(1, false, false);
  f.sender = f.receiver = Matrix();
  f.network.weights = {f.network.weights.back()};
  f.network.norms.clear();
  f.network.biases.clear();
  f.basis.centers.resize(3);
  f.network.weights[0].rows = 3;
  f.network.weights[0].data.resize(static_cast<size_t>(3) * f.num_outputs());
  const std::optional<RadialExpansion> e = expand_radial(f, 1, 1e-12);
  ASSERT_TRUE(e);
  EXPECT_EQ(e->outputs.rows, 3);
  EXPECT_LT(errors_of(f, *e, 1).value, 1e-12);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      double sum = 0.0;
      for (int k = 0; k < f.num_outputs(); ++k) sum += e->outputs(i, k) * e->outputs(j, k);
      EXPECT_NEAR(sum, i == j, 1e-13) << "rows are orthonormal";
    }
}

TEST(RadialExpansion, is_refused_where_outputs_are_no_linear_map) {
  const RadialFunction f = wide_radial_function(2, false, true);
  ASSERT_TRUE(expand_radial(f, 2, 1e-6));
  RadialFunction other = f;
  other.output = RadialFunction::Output::activated;
  EXPECT_FALSE(expand_radial(other, 2, 1e-6));
  other = f;
  other.r_power.assign(f.num_outputs(), 1);
  EXPECT_FALSE(expand_radial(other, 2, 1e-6));
  other = f;
  other.gate.emplace();
  EXPECT_FALSE(expand_radial(other, 2, 1e-6));
  other = f;
  other.sender = Matrix();
  other.sender_block = 0;
  EXPECT_FALSE(expand_radial(other, 2, 1e-6));
  other = f;
  other.receiver_factor = other.sender_factor =
      Matrix{2, f.num_outputs(), std::vector<double>(2 * static_cast<size_t>(f.num_outputs()), 0.5)};
  EXPECT_FALSE(expand_radial(other, 2, 1e-6));
  other = f;
  std::fill(other.network.weights.back().data.begin(), other.network.weights.back().data.end(), 0.0);
  std::fill(other.network.biases.back().begin(), other.network.biases.back().end(), 0.0);
  EXPECT_FALSE(expand_radial(other, 2, 1e-6));
}

}    // namespace

// SPDX-License-Identifier: MIT
// NaN stays NaN in all functions of a distance: a broken position must show in the energy.
#include "src/functions/network.h"
#include "src/functions/radial_function.h"
#include "src/layers/pair_repulsion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace equi;

constexpr double NONE = std::numeric_limits<double>::quiet_NaN();

TEST(NotANumber, stays_none_through_derivatives_of_activations) {
  for (const Activation a : {Activation::silu, Activation::tanh, Activation::sigmoid, Activation::relu, Activation::abs,
                             Activation::ssp, Activation::mish, Activation::gelu, Activation::identity}) {
    double d[4];
    activation_derivatives(a, NONE, 3, d);
    EXPECT_TRUE(std::isnan(d[0])) << activation_name(a);
    if (a != Activation::identity) {
      EXPECT_TRUE(std::isnan(d[1])) << activation_name(a);
    }
    activation_derivatives(a, 0.0, 3, d);
    for (const double v : d) EXPECT_TRUE(std::isfinite(v)) << activation_name(a);
  }
}

RadialFunction radial_function() {
  RadialFunction f;
  f.basis.cutoff = 5.0;
  f.basis.r_on = 4.5;
  f.basis.wave_numbers = {0.6, 1.2, 1.8};
  f.basis.centers = {1.0, 2.0, 3.0};
  f.basis.num_polynomials = 3;
  f.basis.r0 = 1.7;
  f.basis.agnesi_q = 0.9183;
  f.basis.agnesi_p = 4.5791;
  f.basis.agnesi_a = 1.0805;
  f.basis.soft_alpha = 4.0;
  f.basis.exponentials = {0.2, 0.5, 0.8, 3.0, 4.0, 5.0};
  f.basis.binomials = {1.0, 2.0, 1.0};
  f.network.weights = {Matrix{3, 2, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}}, Matrix{2, 4, std::vector<double>(8, 0.3)}};
  return f;
}

TEST(NotANumber, stays_none_through_radial_functions) {
  int cases = 0;
  for (const auto kind : {RadialBasis::Kind::bessel, RadialBasis::Kind::gaussian, RadialBasis::Kind::chebyshev,
                          RadialBasis::Kind::exp_normal, RadialBasis::Kind::bernstein, RadialBasis::Kind::cosine_bump})
    for (const auto transform :
         {RadialBasis::Transform::none, RadialBasis::Transform::agnesi, RadialBasis::Transform::soft})
      for (const auto cutoff :
           {RadialBasis::Cutoff::polynomial, RadialBasis::Cutoff::xplor, RadialBasis::Cutoff::cosine})
        for (const bool late : {false, true})
          for (const auto activation : {Activation::silu, Activation::relu, Activation::abs}) {
            RadialFunction f = radial_function();
            f.basis.kind = kind;
            f.basis.transform = transform;
            f.basis.cutoff_kind = cutoff;
            f.basis.apply_cutoff = !late;
            f.times_cutoff = late;
            f.network.activation = activation;
            for (const int side : {-1, 1}) {
              double w[8], of_cutoff[2];
              f.derivatives(NONE, 1, side, w);
              for (const double v : w) EXPECT_TRUE(std::isnan(v)) << "case " << cases;
              f.basis.cutoff_function(NONE, 1, side, of_cutoff);
              for (const double v : of_cutoff) EXPECT_TRUE(std::isnan(v)) << "case " << cases;
            }
            ++cases;
          }
  EXPECT_EQ(cases, 6 * 3 * 3 * 2 * 3);
}

TEST(NotANumber, has_a_place_within_a_table_where_it_stays_none) {
  for (const int degree : {3, 5, 7}) {
    const RadialTable table = RadialTable::build(radial_function(), degree, 1e-4);
    for (const double r : {NONE, -NONE}) {
      const RadialTable::BinPosition found = table.bin_of(r);
      EXPECT_GE(found.bin, 0);
      EXPECT_LT(found.bin, table.num_bins());
      EXPECT_TRUE(std::isnan(found.fraction));
    }
    // Distances that no int holds use the last bin, like others beyond the cutoff.
    for (const double r : {5.0, 6.0, 1e300, std::numeric_limits<double>::infinity()})
      EXPECT_EQ(table.bin_of(r).bin, table.num_bins() - 1) << r;
    for (const double r : {0.0, -1.0, -1e300}) EXPECT_EQ(table.bin_of(r).bin, 0) << r;
  }
}

TEST(NotANumber, stays_none_through_repulsion) {
  PairRepulsion repulsion;
  for (Matrix *m : {&repulsion.prefactor, &repulsion.length, &repulsion.cutoff}) *m = Matrix{1, 1, {1.5}};
  repulsion.coefficients = {0.2, 0.5};
  repulsion.exponents = {3.2, 0.9};
  double first, second;
  EXPECT_TRUE(std::isnan(repulsion.energy(0, 0, NONE, &first, &second)));
  EXPECT_TRUE(std::isnan(first));
  EXPECT_TRUE(std::isnan(second));
  EXPECT_EQ(repulsion.energy(0, 0, 1.5, &first, &second), 0.0);
  EXPECT_EQ(first, 0.0);
  EXPECT_EQ(second, 0.0);
}

}    // namespace

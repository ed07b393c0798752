// SPDX-License-Identifier: MIT
// A radial function with many outputs, like those of SO(2) convolutions: a network of the distance and of rows of the
// two species.
#ifndef EQUI_TEST_WIDE_RADIAL_FUNCTION_H
#define EQUI_TEST_WIDE_RADIAL_FUNCTION_H

#include "src/functions/radial_function.h"

#include <cmath>
#include <random>

namespace equi {
namespace testing {

// With 90 outputs of 20 hidden activations.
inline RadialFunction wide_radial_function(int num_species, bool times_cutoff, bool has_bias) {
  std::mt19937 random(19);
  std::normal_distribution<double> normal;
  const auto numbers = [&](int count, double scale) {
    std::vector<double> v(count);
    for (double &x : v) x = scale * normal(random);
    return v;
  };
  const auto matrix = [&](int rows, int cols) { return Matrix{rows, cols, numbers(rows * cols, 1 / std::sqrt(rows))}; };
  RadialFunction f;
  f.basis.kind = RadialBasis::Kind::gaussian;
  f.basis.cutoff = 4.5;
  f.basis.apply_cutoff = false;
  f.basis.width = 0.8;
  for (int k = 0; k < 12; ++k) f.basis.centers.push_back(k * f.basis.cutoff / 11);
  f.sender = matrix(num_species, 4);
  f.receiver = matrix(num_species, 4);
  f.network.weights = {matrix(f.basis.size() + 8, 20), matrix(20, 20), matrix(20, 90)};
  f.network.activation = Activation::silu;
  f.network.biases = {numbers(20, 0.3), numbers(20, 0.3), has_bias ? numbers(90, 0.3) : std::vector<double>()};
  f.network.norms = {{numbers(20, 1.0), numbers(20, 0.1), 1e-5}, {}};
  f.times_cutoff = times_cutoff;
  return f;
}

}    // namespace testing
}    // namespace equi

#endif

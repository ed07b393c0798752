// SPDX-License-Identifier: MIT
// Each pair of species uses the function of a set that belongs to it.
#include "kokkos/geometry/radial_set.h"
#include "unittest/support/wide_radial_function.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

using namespace equi;
using equi::testing::wide_radial_function;

namespace {

constexpr int NUM_SPECIES = 3;

// Without rows of species, with other cutoffs for all undirected pairs.
RadialFunction function_of_cutoffs() {
  RadialFunction f = wide_radial_function(NUM_SPECIES, true, true);
  f.network.weights.front().rows = f.basis.size();
  f.network.weights.front().data.resize(static_cast<size_t>(f.basis.size()) * f.network.weights.front().cols);
  f.sender = f.receiver = {};
  f.basis.pair_cutoff = {NUM_SPECIES, NUM_SPECIES, {4.5, 4.1, 3.7, 4.1, 3.3, 2.9, 3.7, 2.9, 2.5}};
  return f;
}

void expect_functions_of_pairs(const RadialFunction &f, int expected_functions) {
  EvaluatorOptions options;
  options.radial_exact = true;
  const RadialSet set(f, NUM_SPECIES, options);
  EXPECT_EQ(set.num_functions(), expected_functions);
  const double r = 2.2;
  std::vector<double> found(f.num_outputs()), expected(f.num_outputs());
  for (int i = 0; i < NUM_SPECIES; ++i)
    for (int j = 0; j < NUM_SPECIES; ++j) {
      set.function(set.table_index(i, j)).derivatives(r, 0, 1, found.data());
      f.for_pair(i, j).derivatives(r, 0, 1, expected.data());
      EXPECT_EQ(found, expected) << i << ", " << j;
    }
}

TEST(RadialSet, pairs_and_their_reverses_share_a_function_of_cutoffs) {
  expect_functions_of_pairs(function_of_cutoffs(), 6);
}

TEST(RadialSet, functions_of_directed_pairs_are_their_own) {
  RadialFunction f = function_of_cutoffs();
  f.basis.pair_cutoff.data[1] = 4.2;
  expect_functions_of_pairs(f, 9);
  expect_functions_of_pairs(wide_radial_function(NUM_SPECIES, true, false), 9);
}

// Numbers beyond float32; exact functions in float64 need no tables.
TEST(RadialSet, tables_say_which_numbers_they_do_not_hold) {
  RadialFunction f = wide_radial_function(1, true, false);
  for (double &v : f.network.weights.back().data) v *= 1e37;
  EvaluatorOptions options;
  const auto message = [&] {
    try {
      const RadialSet set(f, 1, options);
    } catch (const std::runtime_error &e) {
      return std::string(e.what());
    }
    return std::string();
  };
  options.precision = Precision::mixed;
  EXPECT_NE(message().find("use precision double and radial exact"), std::string::npos) << message();
  options.precision = Precision::double_;
  EXPECT_NE(message().find("1e+36: use radial exact"), std::string::npos) << message();
  options.radial_exact = true;
  EXPECT_EQ(message(), "");
}

}    // namespace

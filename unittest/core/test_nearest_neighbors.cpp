// SPDX-License-Identifier: MIT
// The nearest of an atom's neighbors: compared with a sort, with distances that are equal, almost equal or not numbers.
#include "src/geometry/nearest_neighbors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

using namespace equi;

namespace {

// The remaining candidates; those with a negative square are not neighbors.
std::vector<int> left_of(const std::vector<double> &squares, const NearestNeighbors &nearest) {
  std::vector<bool> is_left(squares.size() + 3, true);
  // The remaining ones begin with the third.
  drop_far_neighbors(
      nearest, 3, 3 + static_cast<int64_t>(squares.size()), [&](int64_t c) { return squares[c - 3]; },
      [&](int64_t c) {
        EXPECT_TRUE(is_left[c]);
        is_left[c] = false;
      });
  std::vector<int> left;
  for (size_t c = 0; c < squares.size(); ++c)
    if (is_left[c + 3] && !(squares[c] < 0.0)) left.push_back(static_cast<int>(c));
  return left;
}

using Numbers = std::vector<int>;

TEST(NearestNeighbors, are_those_at_the_smallest_distances) {
  const std::vector<double> squares = {4.0, -1.0, 1.0, 9.0, 2.0, -1.0, 3.0};
  EXPECT_EQ(left_of(squares, {}), (Numbers{0, 2, 3, 4, 6}));
  EXPECT_EQ(left_of(squares, {5}), (Numbers{0, 2, 3, 4, 6}));
  EXPECT_EQ(left_of(squares, {4}), (Numbers{0, 2, 4, 6}));
  EXPECT_EQ(left_of(squares, {1}), (Numbers{2}));
  EXPECT_EQ(left_of({}, {1}), Numbers{});
  EXPECT_EQ(left_of({-1.0, -1.0}, {1}), Numbers{});
}

TEST(NearestNeighbors, of_equal_distances_are_the_first_or_all_within_the_tolerance) {
  const std::vector<double> squares = {2.0, 1.0, 2.0, 2.0, 2.005, 2.02, 5.0};
  EXPECT_EQ(left_of(squares, {3}), (Numbers{0, 1, 2}));
  EXPECT_EQ(left_of(squares, {4}), (Numbers{0, 1, 2, 3}));
  // The third neighbor but one is at 2; neighbors at up to 2.01 count.
  EXPECT_EQ(left_of(squares, {2, 0.01}), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(left_of(squares, {2, 0.0}), (Numbers{0, 1, 2, 3}));
  // Number six is at 2.02.
  EXPECT_EQ(left_of(squares, {5, 0.01}), (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(left_of(squares, {7, 0.01}), (Numbers{0, 1, 2, 3, 4, 5, 6}));
}

TEST(NearestNeighbors, distances_that_are_no_numbers_stay_to_be_reported) {
  EXPECT_EQ(left_of({1.0, NAN, 0.5, 2.0}, {2}), (Numbers{1, 2}));
  EXPECT_EQ(left_of({1.0, INFINITY, 0.5}, {2}), (Numbers{0, 2}));
}

}    // namespace

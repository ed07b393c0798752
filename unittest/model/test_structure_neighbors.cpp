// SPDX-License-Identifier: MIT
// The neighbor list of libequi.so, compared with the plain search over images.
#include "src/library/structure_neighbors.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <stdexcept>
#include <tuple>
#include <vector>

using namespace equi;

namespace {

using Positions = std::vector<std::array<double, 3>>;
// Receiver, sender, and the vector between them in units of 1e-6 Angstrom.
using Edge = std::tuple<int, int, long, long, long>;

std::vector<Edge> edges(const Neighborhood &n, const Positions &positions, double cutoff) {
  std::vector<Edge> found;
  for (int i = 0; i < n.num_receivers; ++i)
    for (int64_t c = n.first[i]; c < n.first[i + 1]; ++c) {
      double d[3], square = 0.0;
      for (int x = 0; x < 3; ++x) {
        d[x] = positions[n.sender_atom[c]][x] - positions[n.receiver[i]][x];
        square += d[x] * d[x];
      }
      if (square > cutoff * cutoff) continue;
      found.emplace_back(i, n.sender_row[c], std::lround(1e6 * d[0]), std::lround(1e6 * d[1]), std::lround(1e6 * d[2]));
    }
  std::sort(found.begin(), found.end());
  return found;
}

struct Random {
  std::mt19937 engine{7};
  double operator()(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine); }
};

PeriodicCell random_cell(Random &random, int k) {
  PeriodicCell cell;
  for (int a = 0; a < 3; ++a) {
    cell.periodic[a] = (k >> a) & 1;
    for (int d = 0; d < 3; ++d) cell.vectors[a][d] = random(-2.0, 2.0) + (a == d ? random(2.5, 7.0) : 0.0);
  }
  if (k & 8) std::swap(cell.vectors[0], cell.vectors[2]);    // left-handed
  return cell;
}

Positions random_positions(Random &random, int num_atoms) {
  Positions positions(num_atoms);
  for (auto &r : positions)
    for (double &x : r) x = random(-12.0, 12.0);
  return positions;
}

constexpr double CUTOFF = 4.3, SKIN = 1.0;

}    // namespace

TEST(StructureNeighbors, are_those_of_the_plain_search) {
  Random random;
  int num_edges = 0;
  for (int k = 0; k < 160; ++k) {
    const PeriodicCell cell = random_cell(random, k);
    const Positions positions = random_positions(random, 1 + k % 9);
    const std::vector<int> species(positions.size(), 0);
    StructureNeighbors neighbors(CUTOFF, k % 2 ? SKIN : 0.0);
    ASSERT_TRUE(neighbors.update(positions, species, cell, 0.0));
    const ImageStructure plain = build_image_structure(positions, species, cell.vectors, cell.periodic, CUTOFF);
    const auto found = edges(neighbors.neighborhood(), neighbors.positions(), CUTOFF);
    EXPECT_EQ(found, edges(plain.neighborhood, plain.positions, CUTOFF)) << k;
    num_edges += static_cast<int>(found.size());
  }
  EXPECT_GT(num_edges, 1000);
}

TEST(StructureNeighbors, are_kept_until_an_atom_moves_by_half_the_skin) {
  Random random;
  const PeriodicCell cell = random_cell(random, 7);
  const Positions start = random_positions(random, 6);
  const std::vector<int> species(6, 0);
  StructureNeighbors neighbors(CUTOFF, SKIN);
  EXPECT_TRUE(neighbors.update(start, species, cell, 0.0));
  Positions moved = start;
  for (auto &r : moved) r[1] += 0.49 * SKIN;
  EXPECT_FALSE(neighbors.update(moved, species, cell, 0.0));
  const ImageStructure plain = build_image_structure(moved, species, cell.vectors, cell.periodic, CUTOFF);
  EXPECT_EQ(edges(neighbors.neighborhood(), neighbors.positions(), CUTOFF),
            edges(plain.neighborhood, plain.positions, CUTOFF));
  moved[3][0] += 0.3 * SKIN;
  EXPECT_TRUE(neighbors.update(moved, species, cell, 0.0));
  PeriodicCell other = cell;
  other.vectors[0][0] += 1e-9;
  EXPECT_TRUE(neighbors.update(moved, species, other, 0.0));
  EXPECT_TRUE(neighbors.update(moved, std::vector<int>(6, 1), other, 0.0));
}

TEST(StructureNeighbors, refuse_what_has_none) {
  const Positions one{{0, 0, 0}};
  const auto update = [&](const Positions &positions, const PeriodicCell &cell, double memory) {
    StructureNeighbors neighbors(CUTOFF, SKIN);
    neighbors.update(positions, std::vector<int>(positions.size(), 0), cell, memory);
  };
  PeriodicCell cell{{{1, 0, 0}, {0, 1, 0}, {1, 1, 0}}, {true, true, true}};
  EXPECT_THROW(update(one, cell, 0.0), std::invalid_argument);
  cell.periodic[2] = false;
  EXPECT_NO_THROW(update(one, cell, 0.0));
  EXPECT_THROW(update(one, cell, 1000.0), std::invalid_argument);
  cell.vectors[0][0] = NAN;
  EXPECT_THROW(update(one, cell, 0.0), std::invalid_argument);
  EXPECT_THROW(update({{0, NAN, 0}}, {}, 0.0), std::invalid_argument);
  cell.vectors[0][0] = 1.0;
  EXPECT_THROW(update({{0, 0, 0}, {0, 1e10, 0}}, cell, 0.0), std::invalid_argument);
  EXPECT_NO_THROW(update({{0, 0, 0}, {0, 1e10, 0}}, {}, 0.0));
  // A sheet that is too wide for the cells of the search.
  const PeriodicCell sheet{{{1e5, 0, 0}, {0, 1e5, 0}, {0, 0, 1}}, {true, true, false}};
  EXPECT_THROW(update(one, sheet, 0.0), std::invalid_argument);
}

// SPDX-License-Identifier: MIT
// Images of periodic structures, compared with a plain sum over many images.
#include "src/geometry/neighbor_graph.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <tuple>
#include <vector>

using namespace equi;

namespace {

using Positions = std::vector<std::array<double, 3>>;

struct Example {
  const char *name;
  Positions positions;
  double cell[3][3];
  bool periodic[3];
  double cutoff;
  int reach;    // images per direction that the plain sum visits: more than enough
};

const std::vector<Example> &examples() {
  static const std::vector<Example> all = {
      {"crystal smaller than the cutoff",
       {{0, 0, 0}, {1.4, 1.4, 1.4}},
       {{2.8, 0, 0}, {0, 2.8, 0}, {0, 0, 2.8}},
       {true, true, true},
       5.0,
       4},
      {"one atom", {{0.3, 0.2, 0.1}}, {{2.5, 0, 0}, {0, 2.5, 0}, {0, 0, 2.5}}, {true, true, true}, 6.1, 5},
      {"strongly triclinic",
       {{0, 0, 0}, {0.5, 1.1, 0.9}},
       {{3, 0, 0}, {2.6, 1.5, 0}, {-2.4, 1.3, 2.2}},
       {true, true, true},
       4.5,
       12},
      {"left-handed cell",
       {{0, 0, 0}, {0.5, 1.1, 0.9}},
       {{0, 3, 0}, {3, 0.4, 0}, {0, 0.2, 3.3}},
       {true, true, true},
       4.5,
       5},
      {"atoms outside the cell",
       {{-7.1, 9.3, 0.2}, {4.4, -3.3, 15.0}},
       {{4, 0, 0}, {1, 4, 0}, {0, 0, 4}},
       {true, true, true},
       4.2,
       14},
      {"slab",
       {{0, 0, 0}, {1.0, 1.2, 2.0}, {0.2, 0.1, -9.0}},
       {{3, 0, 0.5}, {1, 3, 0}, {0, 0, 20}},
       {true, true, false},
       5.0,
       8},
      {"slab across the second vector",
       {{0, 0, 0}, {1.0, 1.2, 2.0}, {0.2, -9.0, 0.1}},
       {{3, 0, 0.5}, {0, 20, 0}, {1, 0, 3}},
       {true, false, true},
       5.0,
       8},
      {"wire along the third vector",
       {{0, 0, 0}, {1.0, 1.2, 0.7}},
       {{1, 9, 0}, {8, 0, 1}, {0.3, 0.4, 2.1}},
       {false, false, true},
       5.0,
       8},
      {"wire along the second vector",
       {{0, 0, 0}, {1.0, 0.2, 2.0}},
       {{0, 0, 0}, {1, 2.5, 0.3}, {0, 0, 0}},
       {false, true, false},
       5.0,
       8},
      {"molecule",
       {{0, 0, 0}, {1, 0, 0}, {0, 4.5, 0}, {0, 0, 30}},
       {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
       {false, false, false},
       4.6,
       1}};
  return all;
}

// An edge by the owner of its sender and its vector, rounded for sorting.
using Edge = std::tuple<int, int, long, long, long>;

Edge edge(int i, int j, const std::array<double, 3> &from, const double *to) {
  return {i, j, std::lround((to[0] - from[0]) * 1e6), std::lround((to[1] - from[1]) * 1e6),
          std::lround((to[2] - from[2]) * 1e6)};
}

std::vector<Edge> plain_edges(const Example &x) {
  std::vector<Edge> edges;
  int reach[3];
  for (int k = 0; k < 3; ++k) reach[k] = x.periodic[k] ? x.reach : 0;
  const int n = static_cast<int>(x.positions.size());
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      for (int a = -reach[0]; a <= reach[0]; ++a)
        for (int b = -reach[1]; b <= reach[1]; ++b)
          for (int c = -reach[2]; c <= reach[2]; ++c) {
            if (i == j && a == 0 && b == 0 && c == 0) continue;
            double to[3], r2 = 0.0;
            for (int d = 0; d < 3; ++d) {
              to[d] = x.positions[j][d] + a * x.cell[0][d] + b * x.cell[1][d] + c * x.cell[2][d];
              r2 += (to[d] - x.positions[i][d]) * (to[d] - x.positions[i][d]);
            }
            if (r2 <= x.cutoff * x.cutoff) edges.push_back(edge(i, j, x.positions[i], to));
          }
  std::sort(edges.begin(), edges.end());
  return edges;
}

ImageStructure build(const Example &x) {
  return build_image_structure(x.positions, std::vector<int>(x.positions.size(), 0), x.cell, x.periodic, x.cutoff);
}

}    // namespace

TEST(ImageStructure, has_every_edge_once) {
  for (const Example &x : examples()) {
    const ImageStructure s = build(x);
    std::vector<Edge> edges;
    for (int i = 0; i < s.neighborhood.num_receivers; ++i)
      for (int64_t e = s.neighborhood.first[i]; e < s.neighborhood.first[i + 1]; ++e) {
        const int atom = s.neighborhood.sender_atom[e];
        edges.push_back(edge(i, s.owner[atom], s.positions[i], s.positions[atom].data()));
      }
    std::sort(edges.begin(), edges.end());
    EXPECT_EQ(edges, plain_edges(x)) << x.name;
    EXPECT_FALSE(edges.empty()) << x.name;
    EXPECT_EQ(edges.size(), s.neighborhood.sender_row.size()) << x.name;
  }
}

TEST(ImageStructure, rows_are_owners_and_images_are_unique) {
  for (const Example &x : examples()) {
    const ImageStructure s = build(x);
    const Neighborhood &n = s.neighborhood;
    const int num = static_cast<int>(x.positions.size());
    EXPECT_EQ(n.num_receivers, num);
    EXPECT_EQ(n.num_rows, num);
    EXPECT_EQ(n.num_atoms, static_cast<int>(s.positions.size()));
    ASSERT_EQ(s.owner.size(), s.positions.size());
    for (int i = 0; i < num; ++i) {
      EXPECT_EQ(n.receiver[i], i);
      EXPECT_EQ(s.owner[i], i);
      EXPECT_EQ(s.positions[i], x.positions[i]);
    }
    for (size_t e = 0; e < n.sender_atom.size(); ++e) EXPECT_EQ(n.sender_row[e], s.owner[n.sender_atom[e]]);
    for (size_t a = 0; a < s.positions.size(); ++a)
      for (size_t b = 0; b < a; ++b) {
        double r2 = 0.0;
        for (int d = 0; d < 3; ++d) r2 += std::pow(s.positions[a][d] - s.positions[b][d], 2);
        EXPECT_GT(r2, 1e-6) << x.name;
      }
  }
}

TEST(ImageStructure, counts_rock_salt_shells) {
  // 8-atom cell of lattice constant 5.64: shells of 6, 12 and 8 neighbors end at 4.884.
  const double a = 5.64;
  Positions positions;
  for (int k = 0; k < 8; ++k) positions.push_back({a / 2 * (k & 1), a / 2 * (k >> 1 & 1), a / 2 * (k >> 2)});
  const double cell[3][3] = {{a, 0, 0}, {0, a, 0}, {0, 0, a}};
  const bool periodic[3] = {true, true, true};
  const ImageStructure s = build_image_structure(positions, std::vector<int>(8, 0), cell, periodic, 5.0);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(s.neighborhood.first[i + 1] - s.neighborhood.first[i], 26);
}

TEST(ImageStructure, of_nothing_and_of_a_lonely_atom_has_no_edges) {
  const double cell[3][3] = {};
  const bool open[3] = {false, false, false};
  EXPECT_EQ(build_image_structure({}, {}, cell, open, 5.0).neighborhood.first, std::vector<int64_t>{0});
  const ImageStructure one = build_image_structure({{1, 2, 3}}, {1}, cell, open, 5.0);
  EXPECT_EQ(one.neighborhood.first, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(one.neighborhood.row_species, std::vector<int>{1});
}

TEST(ImageStructure, refuses_cells_that_do_not_span_space) {
  const bool periodic[3] = {true, true, true};
  const double flat[3][3] = {{3, 0, 0}, {0, 3, 0}, {3, 3, 0}}, zero[3][3] = {};
  EXPECT_THROW(build_image_structure({{0, 0, 0}}, {0}, flat, periodic, 5.0), std::invalid_argument);
  EXPECT_THROW(build_image_structure({{0, 0, 0}}, {0}, zero, periodic, 5.0), std::invalid_argument);
  const double good[3][3] = {{3, 0, 0}, {0, 3, 0}, {0, 0, 3}};
  EXPECT_THROW(build_image_structure({{0, 0, 0}}, {0, 1}, good, periodic, 5.0), std::invalid_argument);
}

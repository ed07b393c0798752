// SPDX-License-Identifier: MIT
// Schedules of convolution kernels compared with their couplings, and the text of one generated path group.
#include "src/algebra/coupling.h"
#include "src/generator/common_kernels.h"
#include "src/generator/device_generator.h"
#include "src/generator/generated_text.h"
#include "src/generator/kernel_generator.h"
#include "unittest/support/random_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

namespace {

using namespace equi;
using equi::testing::random_numbers;

constexpr double ROUNDING = 1e-13;

PathGroupShape complete_path_group(int l1, int lmax_edge, int lmax_out) {
  PathGroupShape shape;
  shape.l1 = l1;
  for (int l2 = 0; l2 <= lmax_edge; ++l2)
    for (int l3 = std::abs(l1 - l2); l3 <= std::min(l1 + l2, lmax_out); ++l3) shape.paths.push_back({l2, l3});
  return shape;
}

double value_of(const LinearForm &form, const double *input) {
  double sum = 0.0;
  for (const auto &t : form.terms) sum += t.coefficient * input[t.index];
  return sum;
}

TEST(KernelSchedule, entries_are_the_contracted_couplings) {
  for (int l1 = 0; l1 <= 4; ++l1) {
    const PathGroupShape shape = complete_path_group(l1, 4, 4);
    const PathGroupSchedule u = make_path_group_schedule(shape, AVX512_TARGET);
    std::vector<double> y = random_numbers(25, 1 + l1);
    y[0] = 1.0;    // the harmonic of order 0
    for (const PathSchedule &p : u.paths) {
      const int d1 = 2 * l1 + 1, d2 = 2 * p.l2 + 1, d3 = 2 * p.l3 + 1;
      const std::vector<double> g = random_numbers(d3, 7);
      std::vector<double> m(d1 * d3, 0.0), d(d1 * d2, 0.0);
      for (const CouplingEntry &c : coupling_entries(l1, p.l2, p.l3)) {
        m[c.m1 * d3 + c.m3] += c.value * y[p.l2 * p.l2 + c.m2];
        d[c.m1 * d2 + c.m2] += c.value * g[c.m3];
      }
      for (const auto &e : p.m)
        m[e.m1 * d3 + e.m3] -= p.scale * e.sign * (e.coupled < 0 ? 1.0 : value_of(u.coupled[e.coupled], y.data()));
      for (const auto &e : p.d_entries) d[e.m1 * d2 + e.m2] -= p.scale * e.sign * value_of(p.d[e.d], g.data());
      for (double rest : m) EXPECT_NEAR(rest, 0.0, ROUNDING) << l1 << p.l2 << p.l3;
      for (double rest : d) EXPECT_NEAR(rest, 0.0, ROUNDING) << l1 << p.l2 << p.l3;
    }
  }
}

// The usual counts for the main layer of SevenNet-0: couplings, entries of M and D, distinct D.
TEST(KernelSchedule, counts_of_common_paths) {
  struct Counts {
    int couplings, m, d, distinct_d;
  };
  const std::map<std::string, Counts> expected = {
      {"000", {1, 1, 1, 1}},    {"011", {3, 3, 3, 3}},    {"022", {5, 5, 5, 5}},     {"101", {3, 3, 3, 3}},
      {"110", {3, 3, 3, 1}},    {"111", {6, 6, 6, 3}},    {"112", {11, 11, 9, 6}},   {"121", {11, 9, 11, 6}},
      {"122", {16, 14, 14, 9}}, {"202", {5, 5, 5, 5}},    {"220", {5, 5, 5, 1}},     {"211", {11, 11, 11, 6}},
      {"212", {16, 16, 14, 9}}, {"221", {16, 14, 16, 6}}, {"222", {25, 23, 23, 10}},
  };
  int found = 0;
  for (int l1 = 0; l1 <= 2; ++l1)
    for (const PathSchedule &p : make_path_group_schedule(complete_path_group(l1, 2, 2), AVX512_TARGET).paths) {
      const std::string name = std::to_string(l1) + std::to_string(p.l2) + std::to_string(p.l3);
      const Counts &c = expected.at(name);
      EXPECT_EQ(p.num_couplings, c.couplings) << name;
      EXPECT_EQ(static_cast<int>(p.m.size()), c.m) << name;
      EXPECT_EQ(static_cast<int>(p.d_entries.size()), c.d) << name;
      EXPECT_EQ(static_cast<int>(p.d.size()), c.distinct_d) << name;
      ++found;
    }
  EXPECT_EQ(found, 15);
}

TEST(KernelSchedule, groups_cover_the_paths_within_the_registers) {
  for (const KernelTarget &target : {AVX2_TARGET, AVX512_TARGET, NEON_TARGET})
    for (int l1 = 0; l1 <= 4; ++l1) {
      const PathGroupSchedule u = make_path_group_schedule(complete_path_group(l1, 4, 4), target);
      int next = 0;
      for (const auto &g : u.forward_runs) {
        EXPECT_EQ(g.first, next);
        EXPECT_GT(g.last, g.first);
        int accumulators = 0;
        for (int q = g.first; q < g.last; ++q) accumulators += 2 * u.paths[q].l3 + 1;
        EXPECT_LE(accumulators, 3 * target.registers / 4);
        next = g.last;
      }
      EXPECT_EQ(next, static_cast<int>(u.paths.size()));
    }
}

TEST(KernelSchedule, groups_of_a_gpu_fit_its_registers) {
  size_t most_runs = 0;
  for (const KernelTarget &target : {WARP32_TARGET, WAVE64_TARGET})
    for (const PathGroupShape &shape : common_path_groups()) {
      const PathGroupSchedule u = make_path_group_schedule(shape, target);
      const auto expect_cover = [&](const std::vector<PathGroupSchedule::Run> &runs, const auto &numbers) {
        int next = 0;
        for (const auto &g : runs) {
          EXPECT_EQ(g.first, next) << shape.key();
          EXPECT_GT(g.last, g.first) << shape.key();
          // A path is not divided: backward (2 3 3) alone has one number more than warp32 allots.
          if (g.last > g.first + 1) {
            EXPECT_LE(numbers(g), target.numbers()) << shape.key();
          }
          EXPECT_LE(numbers(g), target.numbers() + 1) << shape.key();
          if (g.last < static_cast<int>(u.paths.size())) {    // no shorter than necessary
            EXPECT_GT(numbers(PathGroupSchedule::Run{g.first, g.last + 1}), target.numbers()) << shape.key();
          }
          next = g.last;
        }
        EXPECT_EQ(next, static_cast<int>(u.paths.size())) << shape.key();
        most_runs = std::max(most_runs, runs.size());
      };
      expect_cover(u.forward_runs, [&](const auto &g) { return u.forward_numbers(g); });
      expect_cover(u.backward_runs, [&](const auto &g) { return u.backward_numbers(g); });
    }
  EXPECT_GT(most_runs, 1u);
  // By hand for paths (2 0 2) and (2 1 1): 5 + 3 accumulators, 5 numbers of the sender, 3 products, 4 coupled
  // harmonics; D of 5 and 6, the sums by distance and by three harmonics, the sender, 3 products.
  const PathGroupSchedule u = make_path_group_schedule(PathGroupShape{2, {{0, 2}, {1, 1}}}, WARP32_TARGET);
  EXPECT_EQ(u.forward_numbers(u.whole()), 20);
  EXPECT_EQ(u.backward_numbers(u.whole()), 23);
  EXPECT_EQ(u.harmonics(u.whole()), (std::vector<int>{1, 2, 3}));
}

TEST(KernelSchedule, a_path_group_lists_the_paths_of_its_block_in_order) {
  TensorProduct product;
  product.irreps_in = Irreps::parse("4x1o+2x0e");
  product.irreps_out = Irreps::parse("4x2o+2x1o+4x0e+4x1o");
  product.lmax_edge = 1;
  product.paths = {{0, 1, 0, 1.0}, {1, 1, 1, 1.0}, {0, 1, 2, 1.0}, {0, 0, 3, 1.0}};
  const std::vector<ProductPathGroup> path_groups = path_groups_of(product);
  ASSERT_EQ(path_groups.size(), 2u);
  EXPECT_EQ(path_groups[0].shape.key(), "1_01_10_12");
  EXPECT_EQ(path_groups[0].paths, (std::vector<int>{3, 2, 0}));
  EXPECT_EQ(path_groups[1].shape.key(), "0_11");
  EXPECT_EQ(path_groups[1].block, 1);
  EXPECT_EQ((PathGroupShape{10, {{0, 10}}}).key(), "");
}

TEST(KernelSchedule, a_uvw_path_is_a_path_group_by_itself) {
  TensorProduct product;
  product.irreps_in = Irreps::parse("4x1o+2x0e");
  product.irreps_out = Irreps::parse("3x1o+5x0e+4x1o");
  product.lmax_edge = 2;
  product.paths = {{0, 2, 0, 1.0, Connection::uvw},
                   {1, 1, 0, 1.0, Connection::uvw},
                   {0, 1, 1, 1.0, Connection::uvw},
                   {0, 0, 2, 1.0}};
  product.validate();
  std::vector<std::string> keys;
  for (const ProductPathGroup &path_group : path_groups_of(product)) keys.push_back(path_group.shape.key());
  EXPECT_EQ(keys, (std::vector<std::string>{"1_01", "uvw_1_21", "uvw_1_10", "uvw_0_11"}));
  const PathGroupShape shape{1, {{1, 2}}, Connection::uvw};
  // Registers: 5 accumulators each forward; backward 5 cotangents each, z and h of 5, and 5 more. A GPU processes as
  // many paths together as the table allows: 5 accumulators each, z of 5, the sender and the coupled harmonics; 5
  // cotangents each, h and dh of 5.
  for (const auto &[target, forward, backward] :
       {std::tuple(AVX512_TARGET, 4, 2), std::tuple(AVX2_TARGET, 2, 1), std::tuple(WARP32_TARGET, 4, 4)}) {
    const PathGroupSchedule u = make_path_group_schedule(shape, target);
    EXPECT_EQ(u.forward_outputs, forward) << target.name;
    EXPECT_EQ(u.backward_outputs, backward) << target.name;
  }
  const PathGroupSchedule gpu = make_path_group_schedule(shape, WARP32_TARGET);
  EXPECT_EQ(gpu.forward_numbers(gpu.whole()), 4 * 5 + 5 + 3 + 4);
  EXPECT_EQ(gpu.backward_numbers(gpu.whole()), 4 * 5 + 2 * 5 + 2);
  EXPECT_EQ(make_path_group_schedule({3, {{3, 3}}, Connection::uvw}, WARP32_TARGET).forward_outputs, 2);
  // By hand for (1 1 2), quintic: 11 entries of M; 5 multiply-adds for a weight, 5 for z. Backward 9 and as many again
  // for h and z g, and the sum of these; 11 entries of M, 9 products of D by 6 coupled harmonics.
  const PathGroupSchedule u = make_path_group_schedule(shape, AVX512_TARGET);
  EXPECT_EQ(u.forward_products(6, 7), 11 + 7 * 10);
  EXPECT_EQ(u.backward_products(6, 7) - u.backward_products(6, 0), 7 * (9 + 10 + 1));
}

TEST(KernelSchedule, refuses_a_path_that_violates_the_triangle_rule) {
  EXPECT_THROW(make_path_group_schedule(PathGroupShape{1, {{1, 3}}}, AVX2_TARGET), std::invalid_argument);
  EXPECT_THROW(make_path_group_schedule(PathGroupShape{2, {{1, 0}}}, AVX2_TARGET), std::invalid_argument);
}

TEST(KernelGenerator, common_path_groups_have_different_keys) {
  std::set<std::string> keys;
  for (const auto &path_groups : {common_path_groups(), common_uvw_paths()})
    for (const PathGroupShape &u : path_groups) {
      EXPECT_TRUE(keys.insert(u.key()).second) << u.key();
      EXPECT_TRUE(std::is_sorted(u.paths.begin(), u.paths.end())) << u.key();
    }
}

// The text that `equi_generate path_group avx2 1_10 FILE` writes. After a change of the generator, read the difference
// and write the file again.
TEST(KernelGenerator, writes_the_text_of_a_small_path_group) {
  std::ifstream file(EQUI_GOLDEN_DIR "/path_group_avx2_1_10.cpp.txt");
  ASSERT_TRUE(file);
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(generate_path_group(make_path_group_schedule(PathGroupShape{1, {{1, 0}}}, AVX2_TARGET), AVX2_TARGET),
            expected.str());
}

// As above for a GPU: `equi_generate path_group warp32 1_10 FILE`.
TEST(DeviceGenerator, writes_the_text_of_a_small_path_group) {
  std::ifstream file(EQUI_GOLDEN_DIR "/path_group_warp32_1_10.cpp.txt");
  ASSERT_TRUE(file);
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(generate_device_path_groups({{{PathGroupShape{1, {{1, 0}}}}}}, WARP32_TARGET), expected.str());
}

// Sums over the harmonics to l = 8 make lines of more than 400 characters.
TEST(KernelGenerator, no_line_is_cut) {
  const PathGroupShape shape = complete_path_group(0, 8, 8);
  for (const KernelTarget *target : {&AVX2_TARGET, &AVX512_TARGET, &NEON_TARGET, &WARP32_TARGET, &WAVE64_TARGET}) {
    std::istringstream lines(target->is_device()
                                 ? generate_device_path_groups({{{shape}}}, *target)
                                 : generate_path_group(make_path_group_schedule(shape, *target), *target));
    size_t longest = 0;
    for (std::string line; std::getline(lines, line);) {
      longest = std::max(longest, line.size());
      // Long lines are statements.
      EXPECT_TRUE(line.size() < 300 || line.back() == ';') << target->name << ": " << line;
    }
    if (!target->is_device()) {
      EXPECT_GT(longest, 400u);
    }
  }
  GeneratedText text;
  const std::string words(100000, 'x');
  text.line("%s %d;", words.c_str(), 7);
  EXPECT_EQ(text.str(), words + " 7;\n");
}

TEST(KernelSchedule, a_key_names_its_path_group) {
  for (const auto &path_groups : {common_path_groups(), common_uvw_paths()})
    for (const PathGroupShape &u : path_groups) {
      const PathGroupShape found = PathGroupShape::from_key(u.key());
      EXPECT_EQ(found.key(), u.key());
      EXPECT_EQ(found.paths, u.paths);
      EXPECT_EQ(found.l1, u.l1);
      EXPECT_EQ(found.is_uvw(), u.is_uvw());
    }
  for (const char *wrong : {"", "1", "1_", "1_1", "1_101", "x_10", "1_1x", "10_10", "uvw_1_10_11", "uvw_", "-1_10"})
    EXPECT_THROW(PathGroupShape::from_key(wrong), std::invalid_argument) << wrong;
}

}    // namespace

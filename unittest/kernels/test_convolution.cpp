// SPDX-License-Identifier: MIT
// The host's convolution kernels of every instruction set of this CPU: compared with the tensor product summed over
// edges, as adjoints of each other, and with finite differences.
#include "src/generator/common_kernels.h"
#include "unittest/support/dot.h"
#include "unittest/support/instruction_sets.h"
#include "unittest/support/kernel_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <tuple>

namespace {

using namespace equi;
using namespace equi::testing;

// Sums of up to 40 edges times some tens of products, relative to the largest number of the result.
template <class T>
constexpr double ROUNDING = sizeof(T) == 4 ? 1e-5 : 1e-13;
// Difference between a kernel's result and the reference, which does not round coefficients of split bins to float32.
template <class Case>
double difference_to_reference(const Case &c) {
  using T = std::decay_t<decltype(c.x[0])>;
  return coefficients_in<T>(c.constants.rows_per_bin()) > c.constants.rows_per_bin() ? SPLIT_TOLERANCE : ROUNDING<T>;
}
// Truncation and rounding of a fourth-order difference in float64, relative to the largest derivative.
constexpr double FINITE_DIFFERENCE = 1e-8;

template <class T>
Rows rows_of_edges(const AlignedVector<T> &packed, int num_y) {
  Rows rows;
  for (size_t e = 0; e < packed.size() / num_y; ++e)
    rows.emplace_back(packed.begin() + e * num_y, packed.begin() + (e + 1) * num_y);
  return rows;
}

template <class T>
bool same_bits(const AlignedVector<T> &a, const AlignedVector<T> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Calls check<T>(case, kernels, what, problem, rows per bin) for all problems, kinds of table and types.
class ConvolutionKernels : public ::testing::TestWithParam<std::tuple<InstructionSet, bool>> {
 protected:
  template <class F>
  void for_all(const F &check) {
    for_type<float>(check);
    for_type<double>(check);
  }
  template <class T, class F>
  void for_type(const F &check) {
    const auto [set, is_generated] = GetParam();
    const HostKernels<T> &kernels = host_kernels<T>(set);
    for (int problem = 0; problem < static_cast<int>(kernel_problems().size()); ++problem)
      for (const int rows : all_rows_per_bin<T>()) {
        const KernelCase<T> c(problem, rows, set, is_generated);
        const std::string what =
            c.p.name + ", " + std::to_string(rows) + " rows per bin, " + (sizeof(T) == 4 ? "float" : "double");
        check(c, kernels, what, reference_answer(problem, rows));
      }
  }
};

TEST_P(ConvolutionKernels, forward_is_the_sum_of_tensor_products) {
  for_all([](const auto &c, const auto &kernels, const std::string &what, const KernelAnswer &expected) {
    using T = std::decay_t<decltype(c.x[0])>;
    const auto out = c.forward(kernels);
    const Irreps &irreps = c.p.product().irreps_out;
    ASSERT_GT(largest(expected.out), 0.1) << what;
    expect_near_relative(unpack<T>(irreps, out, NUM_RECEIVERS), expected.out, difference_to_reference(c), what);
    EXPECT_EQ(padding<T>(irreps, out, NUM_RECEIVERS), 0.0) << what;
  });
}

TEST_P(ConvolutionKernels, backward_is_the_adjoint_of_the_tensor_product) {
  for_all([](const auto &c, const auto &kernels, const std::string &what, const KernelAnswer &expected) {
    using T = std::decay_t<decltype(c.x[0])>;
    auto x_adj = c.zero_x_adj();
    const auto y_adj = c.backward(kernels, &x_adj);
    const Irreps &irreps = c.p.product().irreps_in;
    const double difference = difference_to_reference(c);
    expect_near_relative(unpack<T>(irreps, x_adj, NUM_SENDERS), expected.x_adj, difference, what + ", x");
    EXPECT_EQ(padding<T>(irreps, x_adj, NUM_SENDERS), 0.0) << what;
    // Derivatives by harmonics and by distance differ in size.
    Rows y = rows_of_edges<T>(y_adj, c.p.num_y()), r(y.size()), expected_y = expected.y_adj, expected_r(y.size());
    for (size_t e = 0; e < y.size(); ++e) {
      r[e] = {y[e][0]};
      expected_r[e] = {expected_y[e][0]};
      y[e][0] = expected_y[e][0] = 0.0;
    }
    expect_near_relative(y, expected_y, difference, what + ", y");
    expect_near_relative(r, expected_r, difference, what + ", r");
    expect_near_relative(rows_of_edges<T>(c.backward(kernels, nullptr), c.p.num_y()),
                         rows_of_edges<T>(y_adj, c.p.num_y()), ROUNDING<T>, what + ", without x");
  });
}

TEST_P(ConvolutionKernels, derivative_by_distance_is_that_of_forward) {
  for_type<double>([](const auto &c, const auto &kernels, const std::string &what, const KernelAnswer &) {
    const Irreps &irreps = c.p.product().irreps_out;
    const Rows y_adj = rows_of_edges<double>(c.backward(kernels, nullptr), c.p.num_y());
    double most = 0.0;
    for (const auto &row : y_adj) most = std::max(most, std::fabs(row[0]));
    auto moved = c;
    const auto form = [&](int e, double step) {
      std::vector<double> r = c.p.distance;
      r[e] += step;
      moved.set_distances(r);
      return dot(unpack<double>(irreps, moved.forward(kernels), NUM_RECEIVERS), c.p.g);
    };
    for (int e = 0; e < c.p.num_edges(); e += 13) {
      double best = INFINITY;    // a knot may be within a step: the third derivative jumps there
      for (const double h : {1e-3, 3e-4, 1e-4}) {
        const double wide = (form(e, h) - form(e, -h)) / (2 * h), narrow = (form(e, h / 2) - form(e, -h / 2)) / h;
        best = std::min(best, std::fabs((4 * narrow - wide) / 3 - y_adj[e][0]));
      }
      ASSERT_LT(best, FINITE_DIFFERENCE * most) << what << ", edge " << e;
    }
  });
}

TEST_P(ConvolutionKernels, backward_gather_is_the_adjoint_of_forward) {
  for_all([](const auto &c, const auto &kernels, const std::string &what, const KernelAnswer &expected) {
    using T = std::decay_t<decltype(c.x[0])>;
    auto x_adj = c.zero_x_adj();
    c.backward_gather(kernels, x_adj);
    const Irreps &in = c.p.product().irreps_in, &out = c.p.product().irreps_out;
    const double right = dot(c.p.x, unpack<T>(in, x_adj, NUM_SENDERS));
    const double left = dot(c.p.g, unpack<T>(out, c.forward(kernels), NUM_RECEIVERS));
    // Thousands of terms of either sign: relative to the square root of the sum of their squares.
    double squares = 0.0;
    for (int i = 0; i < NUM_RECEIVERS; ++i)
      for (size_t k = 0; k < expected.out[i].size(); ++k) squares += std::pow(expected.out[i][k] * c.p.g[i][k], 2);
    EXPECT_NEAR(left, right, 10 * ROUNDING<T> * std::sqrt(squares)) << what;

    auto scattered = c.zero_x_adj();
    c.backward(kernels, &scattered);
    expect_near_relative(unpack<T>(in, x_adj, NUM_SENDERS), unpack<T>(in, scattered, NUM_SENDERS), ROUNDING<T>,
                         what + ", against scatter");
    EXPECT_EQ(padding<T>(in, x_adj, NUM_SENDERS), 0.0) << what;
  });
}

TEST_P(ConvolutionKernels, weights_of_edges_are_replaced_by_their_derivatives) {
  for_all([](const auto &c, const auto &kernels, const std::string &what, const KernelAnswer &) {
    using T = std::decay_t<decltype(c.x[0])>;
    // Once per problem; weights of uvw paths depend only on the distance.
    if (c.constants.rows_per_bin() != 2 || has_uvw(c.p)) return;
    const KernelAnswer &expected = reference_answer(static_cast<int>(&c.p - kernel_problems().data()), 1);
    for (const bool gathered : {false, true}) {
      const std::string how = what + (gathered ? ", gathered" : "");
      const KernelAnswer found = c.with_edge_weights(kernels, gathered);
      expect_near_relative(found.w_adj, expected.w_adj, ROUNDING<T>, how);
      // The weights are read before they are replaced.
      expect_near_relative(found.x_adj, expected.x_adj, ROUNDING<T>, how + ", x");
      if (gathered) continue;
      expect_near_relative(found.out, expected.out, ROUNDING<T>, how + ", out");
      expect_near_relative(found.y_adj, expected.y_adj, ROUNDING<T>, how + ", y");
    }
  });
}

TEST_P(ConvolutionKernels, backward_adds_to_x_adj) {
  for_all([](const auto &c, const auto &kernels, const std::string &what, const KernelAnswer &expected) {
    using T = std::decay_t<decltype(c.x[0])>;
    const Irreps &irreps = c.p.product().irreps_in;
    Rows sum = expected.x_adj;
    for (size_t r = 0; r < sum.size(); ++r)
      for (size_t k = 0; k < sum[r].size(); ++k) sum[r][k] += c.p.x[r][k];
    auto scattered = c.x, gathered = c.x;
    c.backward(kernels, &scattered);
    c.backward_gather(kernels, gathered);
    const double difference = difference_to_reference(c);
    expect_near_relative(unpack<T>(irreps, scattered, NUM_SENDERS), sum, difference, what + ", scatter");
    expect_near_relative(unpack<T>(irreps, gathered, NUM_SENDERS), sum, difference, what + ", gather");
  });
}

TEST_P(ConvolutionKernels, repeats_and_tiles_give_the_same_bits) {
  for_all([](const auto &c, const auto &kernels, const std::string &what, const KernelAnswer &) {
    using T = std::decay_t<decltype(c.x[0])>;
    const auto whole = c.forward(kernels);
    EXPECT_TRUE(same_bits<T>(whole, c.forward(kernels))) << what;
    auto x_adj = c.zero_x_adj(), again = c.zero_x_adj(), tiled_x = c.zero_x_adj();
    const auto y_adj = c.backward(kernels, &x_adj);
    EXPECT_TRUE(same_bits<T>(y_adj, c.backward(kernels, &again))) << what;
    EXPECT_TRUE(same_bits<T>(x_adj, again)) << what;

    AlignedVector<T> tiled_y;
    for (int first = 0; first < NUM_RECEIVERS; first += 2) {
      const int count = std::min(2, NUM_RECEIVERS - first);
      const auto tile = c.forward(kernels, first, count);
      // The tile's rows equal those of the whole; all others are unchanged.
      for (int g = 0; g < c.out.num_groups(); ++g)
        for (int r = 0; r < NUM_RECEIVERS; ++r)
          for (int k = 0; k < c.out.group(g).width(); ++k) {
            const size_t n =
                static_cast<size_t>(NUM_RECEIVERS) * c.out.group(g).offset + r * c.out.group(g).width() + k;
            if (r >= first && r < first + count)
              ASSERT_EQ(tile[n], whole[n]) << what;
            else
              ASSERT_TRUE(std::isnan(tile[n])) << what;
          }
      const auto y = c.backward(kernels, &tiled_x, first, count);
      tiled_y.insert(tiled_y.end(), y.begin(), y.end());
    }
    EXPECT_TRUE(same_bits<T>(y_adj, tiled_y)) << what;
    // uvw paths of one input block add to x_adj one after another in each tile.
    const Irreps &irreps = c.p.product().irreps_in;
    if (has_uvw(c.p))
      expect_near_relative(unpack<T>(irreps, tiled_x, NUM_SENDERS), unpack<T>(irreps, x_adj, NUM_SENDERS), ROUNDING<T>,
                           what);
    else
      EXPECT_TRUE(same_bits<T>(x_adj, tiled_x)) << what;

    auto gathered = c.zero_x_adj(), gathered_again = c.zero_x_adj();
    c.backward_gather(kernels, gathered);
    c.backward_gather(kernels, gathered_again);
    EXPECT_TRUE(same_bits<T>(gathered, gathered_again)) << what;
  });
}

// Each set with its generated kernels and without them; the baseline has none.
std::vector<std::tuple<InstructionSet, bool>> kinds_of_kernels() {
  std::vector<std::tuple<InstructionSet, bool>> kinds;
  for (const InstructionSet set : available_sets()) {
    kinds.emplace_back(set, false);
    if (set != InstructionSet::generic) kinds.emplace_back(set, true);
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Host, ConvolutionKernels, ::testing::ValuesIn(kinds_of_kernels()), [](const auto &info) {
  return std::string(instruction_set_name(std::get<0>(info.param))) +
         (std::get<1>(info.param) ? "_generated" : "_tables");
});

TEST(PathGroupLibrary, the_problems_meet_every_generated_path_group) {
  std::set<std::string> met, wanted;
  for (const KernelProblem &p : kernel_problems())
    for (const ProductPathGroup &path_group : path_groups_of(p.product())) met.insert(path_group.shape.key());
  for (const InstructionSet set : available_sets()) {
    const bool is_expected = set != InstructionSet::generic;
    const auto expect_kernels = [&](const PathGroupShape &path_group, const auto *of_float, const auto *of_double) {
      EXPECT_EQ(met.count(path_group.key()), 1u) << path_group.key();
      EXPECT_EQ(of_float != nullptr, is_expected) << path_group.key();
      EXPECT_EQ(of_double != nullptr, is_expected) << path_group.key();
    };
    for (const PathGroupShape &path_group : common_path_groups())
      expect_kernels(path_group, find_path_group_kernel<float>(set, path_group),
                     find_path_group_kernel<double>(set, path_group));
    for (const PathGroupShape &path_group : common_uvw_paths())
      expect_kernels(path_group, find_uvw_kernel<float>(set, path_group), find_uvw_kernel<double>(set, path_group));
  }
}

TEST(PathGroupLibrary, an_unknown_path_group_has_no_kernel) {
  EXPECT_EQ(find_path_group_kernel<float>(best_instruction_set(), PathGroupShape::from_key("9_99")), nullptr);
  EXPECT_EQ(find_uvw_kernel<float>(best_instruction_set(), PathGroupShape::from_key("uvw_9_99")), nullptr);
}

TEST(HostKernels, best_instruction_set_is_available) {
  EXPECT_TRUE(instruction_set_available(InstructionSet::generic));
  EXPECT_TRUE(instruction_set_available(best_instruction_set()));
  EXPECT_EQ(vector_set(available_sets().back()), vector_set(best_instruction_set()));
}

TEST(HostKernels, an_instruction_set_that_the_cpu_lacks_is_refused) {
  for (const InstructionSet set : INSTRUCTION_SETS)
    if (!instruction_set_available(set)) {
      EXPECT_THROW(host_kernels<float>(set), std::invalid_argument);
    } else {
      EXPECT_NO_THROW(host_kernels<float>(set));
    }
}

// With the rounding of their coefficients, of which there is none below SPLIT_TOLERANCE.
TEST(ConvolutionConstants, tables_of_float64_hold_their_tolerance) {
  const KernelProblem &p = kernel_problems()[0];
  const RadialFunction &f = p.convolution.radial;
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(1.0, f.basis.cutoff);
  std::vector<double> r(1000);
  for (double &d : r) d = uniform(random);
  const int count = static_cast<int>(r.size()), num_weights = f.num_outputs();
  for (const double tolerance : {1e-8, SPLIT_TOLERANCE, 1e-12}) {
    EvaluatorOptions options;
    options.precision = Precision::double_;
    options.radial_tolerance = tolerance;
    const ConvolutionConstants<double> constants(p.convolution, FeatureLayout(p.product().irreps_in),
                                                 FeatureLayout(p.product().irreps_out), 1, options);
    const int rows = constants.rows_per_bin();
    EXPECT_EQ(rows, tolerance < SPLIT_TOLERANCE ? SEPTIC_ROWS : SPLIT_ROWS);
    std::vector<int> table_row(count);
    std::vector<double> fraction(count), bins_per_length(count), exact(2 * num_weights);
    const RadialRows<double> found = constants.radial(r.data(), nullptr, count, 0, count, nullptr, table_row.data(),
                                                      fraction.data(), bins_per_length.data());
    double error[2] = {}, most[2] = {};    // of value and derivative
    for (int e = 0; e < count; ++e) {
      f.derivatives(r[e], 1, 1, exact.data());
      for (int c = 0; c < num_weights; ++c) {
        const WeightColumn &column = constants.tables().table_columns()[c];
        const double *bin = found.table + found.rows * column.first + table_row[e] * int64_t(column.stride);
        double w[2] = {};
        for (int n = SEPTIC_ROWS - 1; n >= 0; --n) {
          w[1] = w[1] * fraction[e] + w[0];
          w[0] = w[0] * fraction[e] + coefficient_of(bin, column, n, rows, constants.tables().layout());
        }
        w[1] *= bins_per_length[e];
        for (int d = 0; d < 2; ++d) {
          const double expected = exact[d * num_weights + c];
          error[d] = std::max(error[d], std::fabs(w[d] / column.scale - expected));
          most[d] = std::max(most[d], std::fabs(expected));
        }
      }
    }
    for (int d = 0; d < 2; ++d) EXPECT_LT(error[d], tolerance * most[d]) << "derivative " << d << ", " << tolerance;
  }
}

template <class T>
void expect_bins_of_tables(InstructionSet set, bool of_pairs) {
  constexpr int NUM_SPECIES = 2;
  Convolution convolution = kernel_problems()[0].convolution;
  // Tables with more and with fewer pieces.
  if (of_pairs) convolution.radial.basis.pair_cutoff = Matrix{NUM_SPECIES, NUM_SPECIES, {2.6, 4.0, 3.1, 1.2}};
  EvaluatorOptions options;
  options.precision = sizeof(T) == 4 ? Precision::mixed : Precision::double_;
  const ConvolutionConstants<T> constants(convolution, FeatureLayout(convolution.product.irreps_in),
                                          FeatureLayout(convolution.product.irreps_out), NUM_SPECIES, options,
                                          HOST_TABLE, set);
  const RadialSet &tables = constants.radial_set();
  ASSERT_EQ(tables.num_functions(), of_pairs ? 4 : 1);
  // Both sides of where pieces meet, distances beyond all pieces, and NaN.
  std::vector<double> distance = {0.0, 1.0, 2.0, 2.5, 1.0 - 1e-9, 2.0 - 1e-9, 2.0 + 1e-9, 4.0, 4.5, 1e30};
  for (int k = 0; k < 50; ++k) distance.push_back(0.03 + 0.083 * k);
  distance.insert(distance.begin() + 3, std::numeric_limits<double>::quiet_NaN());
  for (int count = static_cast<int>(distance.size()); count > 0; count -= 7) {
    std::vector<int> function(count), row(count + 1, -1);
    std::vector<T> fraction(count + 1, T(-7)), bins_per_length(count + 1, T(-7));
    for (int e = 0; e < count; ++e) function[e] = of_pairs ? (e * e) % 4 : 0;
    constants.radial(distance.data(), of_pairs ? function.data() : nullptr, count, 0, count, nullptr, row.data(),
                     fraction.data(), bins_per_length.data());
    for (int e = 0; e < count; ++e) {
      const RadialTable::BinPosition expected = tables.table(function[e]).bin_of(distance[e]);
      int bin = expected.bin;
      for (int k = 0; k < function[e]; ++k) bin += tables.table(k).num_bins();
      EXPECT_EQ(row[e], bin * constants.rows_per_bin()) << distance[e];
      EXPECT_EQ(bins_per_length[e], static_cast<T>(expected.bins_per_length));
      if (std::isnan(distance[e]))
        EXPECT_TRUE(std::isnan(fraction[e]));
      else
        EXPECT_NEAR(fraction[e], expected.fraction, 1e-7 * std::max(1.0, std::fabs(expected.fraction)));
    }
    EXPECT_EQ(row[count], -1);
    EXPECT_EQ(fraction[count], T(-7));
    EXPECT_EQ(bins_per_length[count], T(-7));
  }
}

TEST(ConvolutionConstants, kernels_find_the_bins_of_tables) {
  for (const InstructionSet set : available_sets())
    for (const bool of_pairs : {false, true}) {
      expect_bins_of_tables<float>(set, of_pairs);
      expect_bins_of_tables<double>(set, of_pairs);
    }
}

}    // namespace

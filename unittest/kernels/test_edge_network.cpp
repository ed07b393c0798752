// SPDX-License-Identifier: MIT
// Radial weights by a network on features of an edge's atoms: against the network edge by edge, and against
// differences; that of duals against differences of that of plain numbers.
#include "kokkos/host_kernels/kernel_library.h"
#include "kokkos/layers/convolution/convolution_op.h"
#include "unittest/support/edge_network_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace {

using namespace equi;
using namespace equi::testing;
using Problem = EdgeNetworkProblem;

constexpr int NUM_ROWS = Problem::NUM_ROWS, NUM_RECEIVERS = Problem::NUM_RECEIVERS, NUM_EDGES = Problem::NUM_EDGES;
// Networks of two layers, relative to the largest number of the result.
template <class T>
constexpr double ROUNDING = sizeof(T) == 4 ? 2e-5 : 1e-13;
// Truncation and rounding of a fourth-order difference in float64, relative to the largest derivative.
constexpr double FINITE_DIFFERENCE = 1e-8;
// Second derivatives by the network of duals in float32, relative to the largest number of the result.
constexpr double FLOAT32_DUALS = 1e-4;

// The problem in memory of the network's, of plain numbers or of duals.
template <class T>
struct Kernels {
  using R = Real<T>;

  explicit Kernels(const Problem &p)
      : p(p),
        op(*p.convolution, FeatureLayout(p.irreps(), PLANES<T>),
           FeatureLayout(p.convolution->product.irreps_out, PLANES<T>), p.model.num_species(), EvaluatorOptions()),
        x(pack_planes<R>(p.irreps(), IS_DUAL<T> ? std::vector<Rows>{p.x, p.x_tangent} : std::vector<Rows>{p.x})),
        scratch(nan_vector<R>(op.network()->scratch_size(NUM_EDGES) + 1)),
        weights(nan_vector<R>(op.network()->weights_size(NUM_EDGES) + 1)) {
    for (int e = 0; e < NUM_EDGES; ++e) distance.push_back(make_number<DoubleOf<T>>(p.r[e], p.r_tangent[e]));
  }

  NetworkEdges<T, DoubleOf<T>> edges() const {
    return {NUM_EDGES,         distance.data(), p.receiver_species.data(), p.sender_species.data(),
            p.receiver.data(), p.sender.data(), {x.data(), NUM_ROWS, 0}};
  }
  R &weight(int e, const EdgeColumn &c, int plane = 0) {
    return weights[(plane * NUM_EDGES + e) * op.view().weights_row + c.column];
  }
  void forward() { op.network()->forward(kernels, edges(), scratch.data(), weights.data()); }
  // Puts the adjoints of the weights in their place and goes backward.
  void backward(const NetworkAdjoints<T> &adjoints) {
    std::fill(weights.begin(), weights.end(), R(0));
    for (int plane = 0; plane < PLANES<T>; ++plane)
      for (int e = 0; e < NUM_EDGES; ++e)
        for (size_t c = 0; c < op.product().edge_columns().size(); ++c) {
          const EdgeColumn &column = op.product().edge_columns()[c];
          weight(e, column, plane) =
              static_cast<R>((plane == 0 ? p.weights_adj : p.weights_adj_tangent)[e][c] / column.scale);
        }
    op.network()->backward(kernels, edges(), scratch.data(), weights.data(), adjoints);
  }

  const Problem &p;
  ConvolutionOp<T> op;
  AlignedVector<R> x, scratch, weights;
  std::vector<DoubleOf<T>> distance;
  const HostKernels<T> &kernels = host_kernels<T>(best_instruction_set());
};

// All that a network gives, as rows: the weights, the adjoints of distances, of receivers' and of senders' features.
// Per plane.
struct Answer {
  Rows kinds[4];
};
template <class T>
std::vector<Answer> answer(const Problem &p) {
  using R = Real<T>;
  Kernels<T> k(p);
  std::vector<Answer> planes(PLANES<T>);
  k.forward();
  for (int plane = 0; plane < PLANES<T>; ++plane)
    for (int e = 0; e < NUM_EDGES; ++e) {
      planes[plane].kinds[0].emplace_back();
      for (const EdgeColumn &column : k.op.product().edge_columns())
        planes[plane].kinds[0].back().push_back(k.weight(e, column, plane) / column.scale);
    }
  std::vector<T> distance(NUM_EDGES, T(0));
  AlignedVector<R> of_receivers(k.x.size(), R(0)), of_senders(k.x.size(), R(0));
  k.backward({distance.data(),
              1,
              {of_receivers.data(), NUM_ROWS, 0},
              {of_senders.data(), NUM_ROWS, 0},
              p.receiver.data(),
              p.sender.data()});
  for (int plane = 0; plane < PLANES<T>; ++plane) {
    planes[plane].kinds[1].emplace_back();
    for (const T &d : distance) planes[plane].kinds[1].back().push_back(plane == 0 ? value_of(d) : tangent_of(d));
    planes[plane].kinds[2] = unpack_plane<R>(p.irreps(), of_receivers, NUM_ROWS, PLANES<T>, plane);
    planes[plane].kinds[3] = unpack_plane<R>(p.irreps(), of_senders, NUM_ROWS, PLANES<T>, plane);
  }
  return planes;
}

// relative: to the largest number of each kind.
void expect_same(const Answer &found, const Answer &expected, double relative, const std::string &what) {
  for (int kind = 0; kind < 4; ++kind)
    expect_near_relative(found.kinds[kind], expected.kinds[kind], relative, what + ", kind " + std::to_string(kind));
}

class EdgeNetworkTest : public ::testing::TestWithParam<TinyCase> {
 protected:
  EdgeNetworkTest() : p(GetParam()) {}

  template <class T>
  void expect_weights() {
    Kernels<T> k(p);
    k.forward();
    Rows expected;
    for (int e = 0; e < NUM_EDGES; ++e) expected.push_back(p.weights(e));
    ASSERT_GT(largest(expected), 0.1);
    for (int e = 0; e < NUM_EDGES; ++e)
      for (size_t c = 0; c < expected[e].size(); ++c) {
        const EdgeColumn &column = k.op.product().edge_columns()[c];
        T &w = k.weight(e, column);
        EXPECT_NEAR(w / column.scale, expected[e][c], ROUNDING<T> * largest(expected))
            << "edge " << e << ", weight " << c;
        w = 0;
      }
    EXPECT_TRUE(std::isnan(k.weights.back()));
    EXPECT_TRUE(std::isnan(k.scratch.back()));
    k.weights.pop_back();
    for (const T w : k.weights) EXPECT_EQ(w, T(0)) << "padding";
  }

  Problem p;
};

TEST_P(EdgeNetworkTest, forward_is_the_network_edge_by_edge) {
  expect_weights<double>();
  expect_weights<float>();
}

TEST_P(EdgeNetworkTest, backward_gives_the_derivatives_by_distances_and_features) {
  Kernels<double> k(p);
  k.forward();
  // All are added to: the distances' begin with ones, two numbers apart.
  std::vector<double> distance(2 * NUM_EDGES, 1.0);
  AlignedVector<double> of_receivers(k.x.size(), 0.0), of_senders(k.x.size(), 0.0);
  k.backward({distance.data(),
              2,
              {of_receivers.data(), NUM_ROWS, 0},
              {of_senders.data(), NUM_ROWS, 0},
              p.receiver.data(),
              p.sender.data()});

  std::vector<double> expected;
  for (double &r : p.r) expected.push_back(p.slope(r));
  ASSERT_GT(largest({expected}), 0.1);
  for (int e = 0; e < NUM_EDGES; ++e) {
    EXPECT_NEAR(distance[2 * e] - 1.0, expected[e], FINITE_DIFFERENCE * largest({expected})) << "edge " << e;
    EXPECT_EQ(distance[2 * e + 1], 1.0);
  }

  const Rows receivers = unpack<double>(p.irreps(), of_receivers, NUM_ROWS),
             senders = unpack<double>(p.irreps(), of_senders, NUM_ROWS);
  expected.clear();
  for (auto &row : p.x)
    for (double &v : row) expected.push_back(p.slope(v));
  ASSERT_GT(largest({expected}), 0.1);
  size_t n = 0;
  for (int row = 0; row < NUM_ROWS; ++row)
    for (size_t c = 0; c < p.x[row].size(); ++c, ++n) {
      const bool receives = row < NUM_RECEIVERS;
      EXPECT_NEAR((receives ? receivers : senders)[row][c], expected[n], FINITE_DIFFERENCE * largest({expected}));
      EXPECT_EQ((receives ? senders : receivers)[row][c], 0.0);
    }
}

TEST_P(EdgeNetworkTest, duals_give_the_derivatives_along_a_direction) {
  const std::vector<Answer> duals = answer<Dual<double>>(p);
  expect_same(duals[0], answer<double>(p)[0], ROUNDING<double>, "values");

  const auto at = [this](double step) {
    p.move(step);
    const Answer a = answer<double>(p)[0];
    p.move(-step);
    return a;
  };
  constexpr double STEP = 1e-3;
  const Answer wide[2] = {at(STEP), at(-STEP)}, narrow[2] = {at(0.5 * STEP), at(-0.5 * STEP)};
  Answer slope = wide[0];
  for (int kind = 0; kind < 4; ++kind)
    for (size_t row = 0; row < slope.kinds[kind].size(); ++row)
      for (size_t k = 0; k < slope.kinds[kind][row].size(); ++k) {
        const auto difference = [&](const Answer(&a)[2]) {
          return a[0].kinds[kind][row][k] - a[1].kinds[kind][row][k];
        };
        slope.kinds[kind][row][k] = (8 * difference(narrow) - difference(wide)) / (6 * STEP);
      }
  for (int kind = 0; kind < 2; ++kind) ASSERT_GT(largest(slope.kinds[kind]), 0.1);
  ASSERT_GT(largest(slope.kinds[2]) + largest(slope.kinds[3]), 0.1);
  expect_same(duals[1], slope, FINITE_DIFFERENCE, "tangents");

  const std::vector<Answer> in_float = answer<Dual<float>>(p);
  expect_same(in_float[0], duals[0], FLOAT32_DUALS, "values in float32");
  expect_same(in_float[1], duals[1], FLOAT32_DUALS, "tangents in float32");
}

TEST_P(EdgeNetworkTest, no_edges_are_no_work) {
  Kernels<double> k(p);
  NetworkEdges<double, double> none = k.edges();
  none.count = 0;
  k.op.network()->forward(k.kernels, none, k.scratch.data(), k.weights.data());
  k.op.network()->backward(k.kernels, none, k.scratch.data(), k.weights.data(),
                           {nullptr, 0, {nullptr, 0, 0}, {nullptr, 0, 0}, nullptr, nullptr});
  for (const double w : k.weights) EXPECT_TRUE(std::isnan(w));
}

INSTANTIATE_TEST_SUITE_P(, EdgeNetworkTest, ::testing::ValuesIn(network_cases()),
                         [](const auto &info) { return info.param.name; });

}    // namespace

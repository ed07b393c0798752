// SPDX-License-Identifier: MIT
// Radial weights by a network on features of an edge's atoms: compared with the network edge by edge, and with
// differences; those of duals with differences of those of plain numbers. Weights that depend only on the distance,
// from tables, are compared with the function and its derivatives.
#include "kokkos/kernel_libraries/kernel_library.h"
#include "kokkos/layers/convolution/convolution_constants.h"
#include "unittest/support/edge_network_problem.h"
#include "unittest/support/wide_radial_function.h"

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

// The problem in the network's memory, of plain numbers or of duals.
template <class T>
struct Kernels {
  using R = Real<T>;

  explicit Kernels(const Problem &p)
      : p(p),
        constants(*p.convolution, FeatureLayout(p.irreps(), PLANES<T>),
                  FeatureLayout(p.convolution->product.irreps_out, PLANES<T>), p.model.num_species(),
                  EvaluatorOptions()),
        x(pack_planes<R>(p.irreps(), IS_DUAL<T> ? std::vector<Rows>{p.x, p.x_tangent} : std::vector<Rows>{p.x})),
        scratch(nan_vector<R>(constants.network()->scratch_size(NUM_EDGES) + 1)),
        weights(nan_vector<R>(constants.network()->weights_size(NUM_EDGES) + 1)) {
    for (int e = 0; e < NUM_EDGES; ++e) distance.push_back(make_number<DoubleOf<T>>(p.r[e], p.r_tangent[e]));
  }

  NetworkEdges<T> edges() const {
    return {NUM_EDGES,         distance.data(), p.receiver_species.data(), p.sender_species.data(),
            p.receiver.data(), p.sender.data(), {x.data(), NUM_ROWS, 0}};
  }
  R &weight(int e, const EdgeColumn &c, int plane = 0) {
    return weights[(plane * NUM_EDGES + e) * constants.view().weights_row + c.column];
  }
  void forward() { constants.network()->forward(kernels, edges(), scratch.data(), weights.data()); }
  // Stores the adjoints of the weights in their place and runs backward.
  void backward(const NetworkAdjoints<T> &adjoints) {
    std::fill(weights.begin(), weights.end(), R(0));
    for (int plane = 0; plane < PLANES<T>; ++plane)
      for (int e = 0; e < NUM_EDGES; ++e)
        for (size_t c = 0; c < constants.tables().edge_columns().size(); ++c) {
          const EdgeColumn &column = constants.tables().edge_columns()[c];
          weight(e, column, plane) =
              static_cast<R>((plane == 0 ? p.weights_adj : p.weights_adj_tangent)[e][c] / column.scale);
        }
    constants.network()->backward(kernels, edges(), scratch.data(), weights.data(), adjoints);
  }

  const Problem &p;
  ConvolutionConstants<T> constants;
  AlignedVector<R> x, scratch, weights;
  std::vector<DoubleOf<T>> distance;
  const HostKernels<T> &kernels = host_kernels<T>(best_instruction_set());
};

// All results of a network, as rows: the weights, the adjoints of distances, of receivers' and of senders' features.
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
      for (const EdgeColumn &column : k.constants.tables().edge_columns())
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
        const EdgeColumn &column = k.constants.tables().edge_columns()[c];
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
  // All are added to existing numbers: those of the distances begin with ones, two numbers apart.
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
  constexpr double STEP = 2.5e-4;
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
  NetworkEdges<double> none = k.edges();
  none.count = 0;
  k.constants.network()->forward(k.kernels, none, k.scratch.data(), k.weights.data());
  k.constants.network()->backward(k.kernels, none, k.scratch.data(), k.weights.data(),
                                  {nullptr, 0, {nullptr, 0, 0}, {nullptr, 0, 0}, nullptr, nullptr});
  for (const double w : k.weights) EXPECT_TRUE(std::isnan(w));
}

// Edges of all pairs of three species, and a network whose weights are in rows with gaps.
template <class T>
struct NetworkOfDistance {
  using R = Real<T>;
  using D = DoubleOf<T>;
  static constexpr int NUM_SPECIES = 3, NUM_EDGES = 45;

  explicit NetworkOfDistance(const EvaluatorOptions &options, int num_windows = 1) {
    for (int k = 0; k < f.num_outputs(); ++k) columns.push_back({k < 40 ? k : k + 6, 1.0});
    network.emplace(EdgeNetwork<T>::for_distances(f, {}, NUM_SPECIES, columns, 96, options, num_windows));
    for (int e = 0; e < NUM_EDGES; ++e) {
      distance.push_back(make_number<D>(0.4 + 4.09 * e / NUM_EDGES, 0.3 + 0.1 * e));
      receiver.push_back(e % NUM_SPECIES);
      sender.push_back(e / 3 % NUM_SPECIES);
    }
  }
  // Expects weights, and the results of adjoints of one for the distances. relative: to the largest number; with second
  // derivatives `second`.
  void expect(double relative, double second) {
    const NetworkEdges<T> edges{NUM_EDGES, distance.data(), receiver.data(), sender.data(), nullptr, nullptr, {}};
    const HostKernels<T> &kernels = host_kernels<T>(best_instruction_set());
    AlignedVector<R> scratch = nan_vector<R>(network->scratch_size(NUM_EDGES) + 1),
                     weights = nan_vector<R>(network->weights_size(NUM_EDGES) + 1);
    network->forward(kernels, edges, scratch.data(), weights.data());
    const auto weight = [&](int e, int k, int plane) -> R & {
      return weights[(plane * NUM_EDGES + e) * 96 + columns[k].column];
    };
    const int n = f.num_outputs();
    Rows found[2], expected[2];
    for (int e = 0; e < NUM_EDGES; ++e) {
      std::vector<double> exact(3 * n);
      f.for_pair(receiver[e], sender[e]).derivatives(value_of(distance[e]), 2, 1, exact.data());
      for (int plane = 0; plane < PLANES<T>; ++plane) {
        found[plane].emplace_back();
        expected[plane].emplace_back();
        for (int k = 0; k < n; ++k) {
          found[plane].back().push_back(weight(e, k, plane));
          expected[plane].back().push_back(exact[plane * n + k] * (plane > 0 ? tangent_of(distance[e]) : 1.0));
        }
      }
    }
    for (int plane = 0; plane < PLANES<T>; ++plane)
      expect_near_relative(found[plane], expected[plane], relative, "weights, plane " + std::to_string(plane));
    EXPECT_TRUE(std::isnan(weights.back()));
    EXPECT_TRUE(std::isnan(scratch.back()));

    std::fill(weights.begin(), weights.end(), R(0));
    for (int e = 0; e < NUM_EDGES; ++e)
      for (int k = 0; k < n; ++k) weight(e, k, 0) = 1;
    std::vector<T> of_distance(2 * NUM_EDGES, T(1));
    network->backward(kernels, edges, scratch.data(), weights.data(),
                      {of_distance.data(), 2, {nullptr, 0, 0}, {nullptr, 0, 0}, nullptr, nullptr});
    Rows slopes[2] = {{{}}, {{}}}, expected_slopes[2] = {{{}}, {{}}};
    for (int e = 0; e < NUM_EDGES; ++e) {
      std::vector<double> exact(3 * n);
      f.for_pair(receiver[e], sender[e]).derivatives(value_of(distance[e]), 2, 1, exact.data());
      for (int plane = 0; plane < PLANES<T>; ++plane) {
        double sum = 0.0;
        for (int k = 0; k < n; ++k) sum += exact[(1 + plane) * n + k];
        expected_slopes[plane][0].push_back(sum * (plane > 0 ? tangent_of(distance[e]) : 1.0));
        slopes[plane][0].push_back(plane > 0 ? tangent_of(of_distance[2 * e]) : value_of(of_distance[2 * e]) - 1.0);
      }
    }
    expect_near_relative(slopes[0], expected_slopes[0], 10 * relative, "slopes");
    if (IS_DUAL<T>) expect_near_relative(slopes[1], expected_slopes[1], second, "tangents of slopes");
  }

  const RadialFunction f = wide_radial_function(NUM_SPECIES, true, true);
  std::vector<EdgeColumn> columns;
  std::optional<EdgeNetwork<T>> network;
  std::vector<D> distance;
  std::vector<int> receiver, sender;
};

TEST(EdgeNetworkOfDistance, agrees_with_the_function_from_tables_and_without) {
  EvaluatorOptions options;
  for (const bool is_exact : {false, true}) {
    options.radial_exact = is_exact;
    const auto expect = [&](auto &&network, double of_tables, double second, double exact) {
      EXPECT_EQ(network.network->describe() == "by their network", is_exact);
      network.expect(is_exact ? exact : of_tables, is_exact ? 10 * exact : second);
    };
    options.directional = false;
    options.precision = Precision::mixed;
    expect(NetworkOfDistance<float>(options), 5e-6, 0.0, 2e-5);
    options.precision = Precision::double_;
    expect(NetworkOfDistance<double>(options), 1e-9, 0.0, 1e-13);
    options.directional = true;
    expect(NetworkOfDistance<Dual<double>>(options), 1e-9, 1e-6, 1e-12);
    options.precision = Precision::mixed;
    expect(NetworkOfDistance<Dual<float>>(options), 2e-5, 2e-4, 1e-4);
  }
}

TEST(EdgeNetworkOfDistance, agrees_with_the_function_in_windows) {
  EvaluatorOptions options;
  for (const int num_windows : {2, 7}) {
    const auto expect = [&](auto &&network, double of_tables, double second) {
      EXPECT_EQ(network.network->num_windows(), num_windows);
      network.expect(of_tables, second);
    };
    options.directional = false;
    options.precision = Precision::mixed;
    expect(NetworkOfDistance<float>(options, num_windows), 5e-6, 0.0);
    options.precision = Precision::double_;
    expect(NetworkOfDistance<double>(options, num_windows), 1e-9, 0.0);
    options.directional = true;
    expect(NetworkOfDistance<Dual<double>>(options, num_windows), 1e-9, 1e-6);
    options.precision = Precision::mixed;
    expect(NetworkOfDistance<Dual<float>>(options, num_windows), 2e-5, 2e-4);
  }
}

TEST(EdgeNetworkOfDistance, finds_the_window_of_a_distance_for_each_pair) {
  EvaluatorOptions options;
  options.precision = Precision::double_;
  const NetworkOfDistance<double> problem(options, 5);
  for (int e = 0; e < problem.NUM_EDGES; ++e) {
    const int window = problem.network->window_of(problem.distance[e], problem.receiver[e], problem.sender[e]);
    // Windows end where bins do; they are some tenths of Angstrom wide.
    EXPECT_NEAR(window + 0.5, problem.distance[e] / problem.f.basis.cutoff * 5, 0.75) << problem.distance[e];
  }
}

TEST(EdgeNetworkOfDistance, keeps_the_network_of_many_pairs_or_functions_and_of_exact_ones) {
  const auto describe = [](int num_species, bool is_exact, int basis_size) {
    EvaluatorOptions options;
    options.radial_exact = is_exact;
    RadialFunction f = wide_radial_function(num_species, false, true);
    const int more = basis_size - f.basis.size();
    f.basis.centers.resize(basis_size, 1.0);
    Matrix &first = f.network.weights.front();
    first.rows += more;
    first.data.resize(static_cast<size_t>(first.rows) * first.cols, 0.01);
    std::vector<EdgeColumn> columns;
    for (int k = 0; k < f.num_outputs(); ++k) columns.push_back({k, 1.0});
    return EdgeNetwork<float>::for_distances(f, {}, num_species, columns, 96, options).describe();
  };
  EXPECT_EQ(describe(2, true, 12), "by their network");
  EXPECT_EQ(describe(6, false, 12), "by their network");
  EXPECT_NE(describe(5, false, 12).find("functions of the distance, 25 "), std::string::npos);
  EXPECT_NE(describe(2, false, 400).find("functions of the distance, 4 "), std::string::npos);
  EXPECT_EQ(describe(2, false, 401), "by their network");
}

INSTANTIATE_TEST_SUITE_P(, EdgeNetworkTest, ::testing::ValuesIn(network_cases()),
                         [](const auto &info) { return info.param.name; });

}    // namespace

// Radial weights by a network on features of an edge's atoms: against the network edge by edge, and against
// differences.
#include "convolution_op.h"
#include "kernel_library.h"
#include "model_cases.h"
#include "packed_feature.h"
#include "scalar_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace {

using namespace equi;
using namespace equi::testing;

constexpr int NUM_ROWS = 9, NUM_RECEIVERS = 4;    // rows of senders come after those of receivers
constexpr int NUM_EDGES = 37;
// Networks of two layers, relative to the largest number of the result.
template <class T>
constexpr double ROUNDING = sizeof(T) == 4 ? 2e-5 : 1e-13;
// Truncation and rounding of a fourth-order difference in float64, relative to the largest derivative.
constexpr double FINITE_DIFFERENCE = 1e-8;

std::vector<TinyCase> network_cases() {
  std::vector<TinyCase> cases;
  for (const TinyCase &c : family_cases())
    if (c.options.sender_scalars + c.options.receiver_scalars > 0) cases.push_back(c);
  return cases;
}

// A convolution of a tiny model and random edges.
struct Problem {
  explicit Problem(const TinyCase &tiny) : model(tiny.model()) {
    for (const Layer &layer : model.layers)
      if (const auto *c = std::get_if<Convolution>(&layer)) convolution = c;    // the last one
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> distance(0.8, 2.7);    // within the cutoff of each pair
    for (int row = 0; row < NUM_ROWS; ++row) {
      species.push_back(static_cast<int>(random() % model.num_species()));
      x.emplace_back();
      for (int k = 0; k < irreps().dim(); ++k) x.back().push_back(normal(random));
    }
    for (int e = 0; e < NUM_EDGES; ++e) {
      r.push_back(distance(random));
      receiver.push_back(static_cast<int>(random() % NUM_RECEIVERS));
      sender.push_back(NUM_RECEIVERS + static_cast<int>(random() % (NUM_ROWS - NUM_RECEIVERS)));
      receiver_species.push_back(species[receiver.back()]);
      sender_species.push_back(species[sender.back()]);
      weights_adj.emplace_back();
      for (int c = 0; c < convolution->radial.num_outputs(); ++c) weights_adj.back().push_back(normal(random));
    }
  }
  const Irreps &irreps() const { return convolution->product.irreps_in; }
  std::vector<double> weights(int e) const {
    return weights_of_features(convolution->radial, irreps(), r[e], receiver_species[e], sender_species[e],
                               x[receiver[e]], x[sender[e]]);
  }
  // The sum of weights times weights_adj.
  double form() const {
    double sum = 0.0;
    for (int e = 0; e < NUM_EDGES; ++e) {
      const std::vector<double> w = weights(e);
      for (size_t c = 0; c < w.size(); ++c) sum += w[c] * weights_adj[e][c];
    }
    return sum;
  }
  // The derivative of form() by a number of this problem.
  double slope(double &number) {
    const double at = number;
    const auto difference = [&](double h) {
      number = at + h;
      const double above = form();
      number = at - h;
      const double below = form();
      number = at;
      return (above - below) / (2 * h);
    };
    return (4 * difference(5e-4) - difference(1e-3)) / 3;
  }

  Model model;
  const Convolution *convolution = nullptr;
  std::vector<int> species, receiver, sender, receiver_species, sender_species;
  std::vector<double> r;
  Rows x, weights_adj;
};

template <class T>
struct Kernels {
  explicit Kernels(const Problem &p)
      : p(p),
        op(*p.convolution, FeatureLayout(p.irreps()), FeatureLayout(p.convolution->product.irreps_out),
           p.model.num_species(), EvaluatorOptions()),
        x(pack<T>(p.irreps(), p.x)),
        scratch(nan_vector<T>(op.network()->scratch_size(NUM_EDGES) + 1)),
        weights(nan_vector<T>(NUM_EDGES * op.plan().weights_row + 1)) {}

  NetworkEdges<T, double> edges() const {
    return {NUM_EDGES,         p.r.data(),      p.receiver_species.data(), p.sender_species.data(),
            p.receiver.data(), p.sender.data(), {x.data(), NUM_ROWS, 0}};
  }
  T &weight(int e, const EdgeColumn &c) { return weights[e * op.plan().weights_row + c.column]; }

  const Problem &p;
  ConvolutionOp<T> op;
  AlignedVector<T> x, scratch, weights;
  const HostKernels<T> &kernels = host_kernels<T>(best_instruction_set());
};

class EdgeNetworkTest : public ::testing::TestWithParam<TinyCase> {
 protected:
  EdgeNetworkTest() : p(GetParam()) {}

  template <class T>
  void expect_weights() {
    Kernels<T> k(p);
    k.op.network()->forward(k.kernels, k.edges(), k.scratch.data(), k.weights.data());
    double largest = 0.0;
    for (int e = 0; e < NUM_EDGES; ++e)
      for (const double w : p.weights(e)) largest = std::max(largest, std::fabs(w));
    ASSERT_GT(largest, 0.1);
    for (int e = 0; e < NUM_EDGES; ++e) {
      const std::vector<double> expected = p.weights(e);
      for (size_t c = 0; c < expected.size(); ++c) {
        const EdgeColumn &column = k.op.product().edge_columns()[c];
        T &w = k.weight(e, column);
        EXPECT_NEAR(w / column.scale, expected[c], ROUNDING<T> * largest) << "edge " << e << ", weight " << c;
        w = 0;
      }
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
  const EdgeNetwork<double> &network = *k.op.network();
  network.forward(k.kernels, k.edges(), k.scratch.data(), k.weights.data());
  std::fill(k.weights.begin(), k.weights.end(), 0.0);
  for (int e = 0; e < NUM_EDGES; ++e)
    for (size_t c = 0; c < k.op.product().edge_columns().size(); ++c) {
      const EdgeColumn &column = k.op.product().edge_columns()[c];
      k.weight(e, column) = p.weights_adj[e][c] / column.scale;
    }
  // All are added to: the distances' begin with ones, two numbers apart.
  std::vector<double> distance(2 * NUM_EDGES, 1.0);
  AlignedVector<double> of_receivers(k.x.size(), 0.0), of_senders(k.x.size(), 0.0);
  network.backward(k.kernels, k.edges(), k.scratch.data(), k.weights.data(),
                   {distance.data(),
                    2,
                    {of_receivers.data(), NUM_ROWS, 0},
                    {of_senders.data(), NUM_ROWS, 0},
                    p.receiver.data(),
                    p.sender.data()});

  std::vector<double> expected;
  for (double &r : p.r) expected.push_back(p.slope(r));
  const auto largest = [](const std::vector<double> &v) {
    double most = 0.0;
    for (const double d : v) most = std::max(most, std::fabs(d));
    return most;
  };
  ASSERT_GT(largest(expected), 0.1);
  for (int e = 0; e < NUM_EDGES; ++e) {
    EXPECT_NEAR(distance[2 * e] - 1.0, expected[e], FINITE_DIFFERENCE * largest(expected)) << "edge " << e;
    EXPECT_EQ(distance[2 * e + 1], 1.0);
  }

  const Rows receivers = unpack<double>(p.irreps(), of_receivers, NUM_ROWS),
             senders = unpack<double>(p.irreps(), of_senders, NUM_ROWS);
  expected.clear();
  for (auto &row : p.x)
    for (double &v : row) expected.push_back(p.slope(v));
  ASSERT_GT(largest(expected), 0.1);
  size_t n = 0;
  for (int row = 0; row < NUM_ROWS; ++row)
    for (size_t c = 0; c < p.x[row].size(); ++c, ++n) {
      const bool receives = row < NUM_RECEIVERS;
      EXPECT_NEAR((receives ? receivers : senders)[row][c], expected[n], FINITE_DIFFERENCE * largest(expected));
      EXPECT_EQ((receives ? senders : receivers)[row][c], 0.0);
    }
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

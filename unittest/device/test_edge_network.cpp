// SPDX-License-Identifier: MIT
// Radial weights by a network on features of an edge's atoms on a device, compared with those of the host. The calls
// are those of the receivers' pass and of the gather of senders, with atoms that have no edges and with positions that
// are not edges.
#include "kokkos/device_kernels/device_dense.h"
#include "kokkos/kernel_libraries/kernel_library.h"
#include "kokkos/layers/convolution/convolution_constants.h"
#include "kokkos/layers/edge_network/device_edge_network.h"
#include "unittest/support/edge_network_problem.h"

#include <gtest/gtest.h>

#include <numeric>

namespace {

using namespace equi;
using namespace equi::testing;
using Problem = EdgeNetworkProblem;

constexpr int NUM_ROWS = Problem::NUM_ROWS, NUM_RECEIVERS = Problem::NUM_RECEIVERS, NUM_EDGES = Problem::NUM_EDGES;
// Networks of two layers, relative to the largest number of the result.
template <class T>
constexpr double ROUNDING = sizeof(Real<T>) == 4 ? 1e-4 : 1e-12;
// Positions before and after those of the batch's edges; the host of a device counts them as edges.
constexpr int BEFORE = 3, BEHIND = 2;
constexpr int FIRST = 5;    // position that the batch begins with

// Weights, and adjoints of distances and of features, one row for each edge or atom; planes next to each other.
struct Answer {
  Rows weights, distances, receivers, senders;
};

// A row of the first numbers of all planes.
template <class T>
std::vector<double> planes_of(const Real<T> *first, int64_t plane, int64_t at) {
  std::vector<double> numbers;
  for (int p = 0; p < PLANES<T>; ++p) numbers.push_back(first[p * plane + at]);
  return numbers;
}

template <class T>
struct NetworkCase {
  using R = Real<T>;
  using G = DoubleOf<T>;

  explicit NetworkCase(const Problem &p)
      : p(p),
        in(p.irreps(), PLANES<T>),
        constants(*p.convolution, in, FeatureLayout(p.convolution->product.irreps_out, PLANES<T>),
                  p.model.num_species(), EvaluatorOptions()),
        x(pack_planes<R>(p.irreps(), IS_DUAL<T> ? std::vector<Rows>{p.x, p.x_tangent} : std::vector<Rows>{p.x})) {
    for (int e = 0; e < NUM_EDGES; ++e) distance.push_back(make_number<G>(p.r[e], p.r_tangent[e]));
  }

  int row() const { return static_cast<int>(constants.view().weights_row); }
  // The adjoints of weights in row `at` of a plane.
  void put_weights_adj(R *to, int e, int plane) const {
    std::fill_n(to, row(), R(0));
    for (size_t c = 0; c < constants.tables().edge_columns().size(); ++c) {
      const EdgeColumn &column = constants.tables().edge_columns()[c];
      to[column.column] = static_cast<R>((plane == 0 ? p.weights_adj : p.weights_adj_tangent)[e][c] / column.scale);
    }
  }
  void add_rows(const AlignedVector<R> &packed, Rows &rows) const {
    rows.resize(NUM_ROWS);
    for (int plane = 0; plane < PLANES<T>; ++plane) {
      const Rows of_plane = unpack_plane<R>(p.irreps(), packed, NUM_ROWS, PLANES<T>, plane);
      for (int r = 0; r < NUM_ROWS; ++r) rows[r].insert(rows[r].end(), of_plane[r].begin(), of_plane[r].end());
    }
  }

  Answer on_host() const {
    const HostKernels<T> &kernels = host_kernels<T>(best_instruction_set());
    AlignedVector<R> scratch(constants.network()->scratch_size(NUM_EDGES)),
        weights(constants.network()->weights_size(NUM_EDGES)), of_receivers(x.size(), R(0)), of_senders(x.size(), R(0));
    const NetworkEdges<T> edges{NUM_EDGES,         distance.data(), p.receiver_species.data(), p.sender_species.data(),
                                p.receiver.data(), p.sender.data(), {x.data(), NUM_ROWS, 0}};
    constants.network()->forward(kernels, edges, scratch.data(), weights.data());
    Answer answer;
    add_weights(weights, NUM_EDGES, 0, answer);
    for (int plane = 0; plane < PLANES<T>; ++plane)
      for (int e = 0; e < NUM_EDGES; ++e)
        put_weights_adj(weights.data() + static_cast<int64_t>(plane * NUM_EDGES + e) * row(), e, plane);
    std::vector<T> of_distances(NUM_EDGES, T(0));
    constants.network()->backward(kernels, edges, scratch.data(), weights.data(),
                                  {of_distances.data(),
                                   1,
                                   {of_receivers.data(), NUM_ROWS, 0},
                                   {of_senders.data(), NUM_ROWS, 0},
                                   p.receiver.data(),
                                   p.sender.data()});
    for (const T &d : of_distances) answer.distances.push_back({value_of(d), tangent_of(d)});
    add_rows(of_receivers, answer.receivers);
    add_rows(of_senders, answer.senders);
    return answer;
  }

  // Rows [edge] of the weights of positions `first` on, `rows` in a plane.
  void add_weights(const AlignedVector<R> &weights, int64_t rows, int first, Answer &answer,
                   const std::vector<int64_t> &edges = {}) const {
    answer.weights.resize(NUM_EDGES);
    for (int n = 0; n < NUM_EDGES; ++n)
      for (const EdgeColumn &column : constants.tables().edge_columns())
        for (const double w : planes_of<T>(weights.data(), rows * row(), (first + n) * row() + column.column))
          answer.weights[edges.empty() ? n : edges[n]].push_back(w);
  }

  // The atoms first_atom .. first_atom + num_atoms - 1 as receivers, or as senders, with all edges.
  void on_device(bool of_senders, Answer &answer) const {
    const std::vector<int> &own = of_senders ? p.sender : p.receiver, &other = of_senders ? p.receiver : p.sender;
    const int first_atom = of_senders ? NUM_RECEIVERS : 0, num_atoms = NUM_ROWS - first_atom;
    std::vector<int64_t> order(NUM_EDGES), begin{FIRST + BEFORE}, edge(FIRST + BEFORE, -1);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return own[a] < own[b]; });
    std::vector<int> other_row(FIRST + BEFORE, -1), pair;
    for (const int64_t e : order) {
      edge.push_back(e);
      other_row.push_back(other[e]);
    }
    for (int a = 0; a < num_atoms; ++a)
      begin.push_back(begin.back() + std::count(own.begin(), own.end(), first_atom + a));
    for (int e = 0; e < NUM_EDGES; ++e)
      pair.push_back(p.receiver_species[e] * p.model.num_species() + p.sender_species[e]);

    const DeviceExec exec;
    const DeviceDense dense(exec);
    DeviceBuffer<int64_t> d_begin, d_edge;
    DeviceBuffer<int> d_other, d_pair, own_row, far_row;
    DeviceBuffer<G> d_distance, distance_adj;
    DeviceBuffer<R> d_x, scratch, weights, weights_adj, x_adj;
    assign(exec, d_begin, begin);
    assign(exec, d_edge, edge);
    assign(exec, d_other, other_row);
    assign(exec, d_pair, pair);
    assign(exec, d_distance, distance);
    assign(exec, d_x, x);
    const int64_t count = BEFORE + NUM_EDGES + BEHIND;
    const DeviceBatchEdges batch{num_atoms, d_begin.data(), FIRST, count, d_edge.data(), d_other.data()};
    const FeatureRows<const R> rows{d_x.data(), NUM_ROWS, 0};
    const DeviceEdgeNetwork<T> network(exec, *constants.network());

    network.find_rows(exec, batch, d_pair.data(), {rows, false, of_senders, first_atom, 0}, own_row.reserve(count),
                      far_row.reserve(count));
    const DeviceNetworkEdges<T> edges{batch, d_distance.data(), d_pair.data(), own_row.data(), far_row.data(),
                                      rows,  of_senders};
    network.forward(exec, edges, scratch.reserve(network.scratch_size(count)),
                    weights.reserve(network.weights_size(count)));
    const int64_t size = network.weights_size(count), plane = network.weights_plane(count);
    AlignedVector<R> host_weights(size), adjoints = nan_vector<R>(size);
    copy_to_host(exec, host_weights.data(), weights.data(), size);
    add_weights(host_weights, plane / row(), BEFORE, answer, order);

    for (int p = 0; p < PLANES<T>; ++p)
      for (int n = 0; n < NUM_EDGES; ++n)
        put_weights_adj(adjoints.data() + p * plane + (BEFORE + n) * row(), static_cast<int>(order[n]), p);
    assign(exec, weights_adj, adjoints);
    network.backward(exec, count, scratch.data(), weights_adj.data());
    if (!of_senders) {
      assign(exec, distance_adj, std::vector<G>(2 * NUM_EDGES, G(1)));
      network.add_distance_adjoints(exec, batch, scratch.data(), distance_adj.data(), 2);
      std::vector<G> of_distances(2 * NUM_EDGES);
      copy_to_host(exec, of_distances.data(), distance_adj.data(), 2 * NUM_EDGES);
      for (int e = 0; e < NUM_EDGES; ++e) {
        const G d = of_distances[2 * e] - G(1), beside = of_distances[2 * e + 1] - G(1);
        answer.distances.push_back({value_of(d), tangent_of(d)});
        EXPECT_EQ(value_of(beside), 0.0);
      }
    }
    AlignedVector<R> of_atoms(x.size(), R(0));
    if (of_senders ? constants.network()->reads_sender() : constants.network()->reads_receiver()) {
      assign(exec, x_adj, of_atoms);
      network.add_atom_adjoints(exec, batch, of_senders, scratch.data(), {x_adj.data(), NUM_ROWS, first_atom});
      copy_to_host(exec, of_atoms.data(), x_adj.data(), static_cast<int64_t>(of_atoms.size()));
    }
    add_rows(of_atoms, of_senders ? answer.senders : answer.receivers);
  }

  const Problem &p;
  const FeatureLayout in;
  const ConvolutionConstants<T> constants;
  const AlignedVector<R> x;
  std::vector<G> distance;
};

class DeviceEdgeNetworkTest : public ::testing::TestWithParam<TinyCase> {
 protected:
  DeviceEdgeNetworkTest() : p(GetParam()) {}

  template <class T>
  void expect_as_on_host(const std::string &type) {
    const NetworkCase<T> c(p);
    const Answer host = c.on_host();
    Answer receivers, senders;
    c.on_device(false, receivers);
    c.on_device(true, senders);
    ASSERT_GT(largest(host.weights), 0.1);
    ASSERT_GT(largest(host.receivers) + largest(host.senders), 0.1);
    expect_near_relative(receivers.weights, host.weights, ROUNDING<T>, type + ", weights");
    expect_near_relative(senders.weights, host.weights, ROUNDING<T>, type + ", weights of senders");
    expect_near_relative(receivers.distances, host.distances, ROUNDING<T>, type + ", distances");
    expect_near_relative(receivers.receivers, host.receivers, ROUNDING<T>, type + ", receivers");
    expect_near_relative(senders.senders, host.senders, ROUNDING<T>, type + ", senders");
  }

  Problem p;
};

TEST_P(DeviceEdgeNetworkTest, agrees_with_the_host) {
  expect_as_on_host<double>("double");
  expect_as_on_host<float>("float");
}

TEST_P(DeviceEdgeNetworkTest, duals_agree_with_the_host) {
  expect_as_on_host<Dual<double>>("dual double");
  expect_as_on_host<Dual<float>>("dual float");
}

INSTANTIATE_TEST_SUITE_P(, DeviceEdgeNetworkTest, ::testing::ValuesIn(network_cases()),
                         [](const auto &info) { return info.param.name; });

}    // namespace

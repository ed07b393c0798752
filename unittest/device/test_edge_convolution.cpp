// SPDX-License-Identifier: MIT
// The convolution with weights of edges on a device, with generated kernels and with the generic one: compared with the
// host's and with the consequences of linearity for its derivatives, and to the last bit when repeated.
#include "kokkos/kernel_interface/device_path_group.h"
#include "kokkos/runtime/device_exec.h"
#include "kokkos/training/device_edge_convolution.h"
#include "src/generator/common_kernels.h"
#include "unittest/support/dot.h"
#include "unittest/support/taken_path_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <random>

namespace {

using namespace equi;
using equi::testing::dot;
using equi::testing::is_taken;

// Sums of some hundred products, relative to the largest number of the result.
template <class T>
constexpr double ROUNDING = sizeof(T) == 4 ? 1e-5 : 1e-13;

// "IN;EDGE;OUT;INSTRUCTIONS" of all paths that parity and lmax allow, outputs sorted as the frameworks do.
std::string product_text(const std::string &in, const std::string &edge, int lmax) {
  struct Path {
    int in, edge;
    IrrepBlock out;
  };
  const Irreps irreps_in = Irreps::parse(in), irreps_edge = Irreps::parse(edge);
  std::vector<Path> paths;
  for (int i = 0; i < irreps_in.size(); ++i)
    for (int k = 0; k < irreps_edge.size(); ++k) {
      const Irrep a = irreps_in[i].irrep, b = irreps_edge[k].irrep;
      for (int l = std::abs(a.l - b.l); l <= std::min(lmax, a.l + b.l); ++l)
        paths.push_back({i, k, {irreps_in[i].mul, {l, a.p * b.p}}});
    }
  std::vector<int> order(paths.size());
  for (size_t q = 0; q < paths.size(); ++q) order[q] = static_cast<int>(q);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const Irrep &p = paths[a].out.irrep, &q = paths[b].out.irrep;
    return p.l != q.l ? p.l < q.l : p.p < q.p;
  });
  std::vector<IrrepBlock> out;
  std::vector<int> place(paths.size());
  for (const int q : order) {
    place[q] = static_cast<int>(out.size());
    out.push_back(paths[q].out);
  }
  std::string instructions;
  for (size_t q = 0; q < paths.size(); ++q)
    instructions += (q ? "," : "") + std::to_string(paths[q].in) + " " + std::to_string(paths[q].edge) + " " +
                    std::to_string(place[q]) + " " + std::to_string(0.5 + 0.25 * static_cast<double>(q % 5));
  return in + ";" + edge + ";" + Irreps(out).to_string() + ";" + instructions;
}

struct Shape {
  const char *name, *in, *edge;
  int lmax;
};
// Multiplicities around the padding and the lanes; orders with generated kernels and without, and more paths of one
// block than a call accepts.
constexpr Shape SHAPES[] = {{"sevennet", "128x0e+64x1e+32x2e", "1x0e+1x1e+1x2e", 2},
                            {"odd", "13x0e+5x1o+33x1e+1x2e", "1x0e+1x1o+1x2e", 2},
                            {"l3", "33x0e+5x1o+3x2e+1x3o", "1x0e+1x1o+1x2e+1x3o", 3},
                            {"l4", "5x0e+33x4e+13x2e", "1x0e+1x1o+1x2e+1x3o+1x4e", 4},
                            {"many_paths", "5x4e", "1x0e+1x1o+1x2e+1x3o+1x4e", 6},
                            {"first_layer", "33x0e", "1x0e+1x1o+1x2e+1x3o", 3},
                            {"last_layer", "13x0e+5x1e+33x2e", "1x0e+1x1e+1x2e", 0},
                            {"orders_in_another_order", "5x1o+2x0e", "1x2e+1x0e+1x1o", 2},
                            {"a_missing_order", "5x1o+2x0e", "1x2e", 2}};

struct Graph {
  int edges, senders, receivers;
};
constexpr Graph USUAL{150, 11, 9};
// No edges, one node, several edges between the same nodes, nodes without edges.
constexpr Graph GRAPHS[] = {USUAL, {0, 3, 3}, {0, 1, 0}, {5, 1, 1}, {1, 2, 7}, {90, 40, 3}, {200, 3, 40}};

enum Quantity { X, Y, W, G };

// Random numbers and edges in no order. tangent: null for a tangent of zero.
template <class T>
struct Problem {
  OperatorProduct product;
  Graph graph;
  std::vector<int64_t> sender, receiver;
  std::vector<T> value[4], tangent[3];

  Problem(const Shape &shape, const Graph &graph, int seed = 1)
      : product(OperatorProduct::parse(product_text(shape.in, shape.edge, shape.lmax))), graph(graph) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (int q = 0; q < 4; ++q)
      for (int64_t n = 0; n < size(q); ++n) value[q].push_back(static_cast<T>(normal(random)));
    for (int q = 0; q < 3; ++q)
      for (int64_t n = 0; n < size(q); ++n) tangent[q].push_back(static_cast<T>(normal(random)));
    for (int e = 0; e < graph.edges; ++e) {
      sender.push_back(static_cast<int64_t>(random() % graph.senders));
      receiver.push_back(static_cast<int64_t>(random() % graph.receivers));
    }
  }
  int64_t size(int quantity) const {
    switch (quantity) {
      case X:
        return static_cast<int64_t>(graph.senders) * product.product.irreps_in.dim();
      case Y:
        return static_cast<int64_t>(graph.edges) * product.irreps_edge.dim();
      case W:
        return static_cast<int64_t>(graph.edges) * product.product.num_weights();
      default:
        return static_cast<int64_t>(graph.receivers) * product.product.irreps_out.dim();
    }
  }
  EdgeList edges() const { return {graph.edges, sender.data(), receiver.data(), graph.senders, graph.receivers}; }
  // Numbers of edges in the order of their nodes.
  static std::vector<int64_t> order(const std::vector<int64_t> &node) {
    std::vector<int64_t> edges(node.size());
    for (size_t e = 0; e < node.size(); ++e) edges[e] = static_cast<int64_t>(e);
    std::stable_sort(edges.begin(), edges.end(), [&](int64_t a, int64_t b) { return node[a] < node[b]; });
    return edges;
  }
};

// Results by Quantity, with G those of forward and double_backward.
template <class T>
using Answer = std::vector<T>[4];

// Which tangents are not null.
struct Tangents {
  bool x = true, y = true, w = true;
  bool has(int q) const { return q == X ? x : q == Y ? y : w; }
};
constexpr Tangents ALL_TANGENTS[] = {{true, true, true},   {true, false, false}, {false, true, false},
                                     {false, false, true}, {true, true, false},  {true, false, true},
                                     {false, true, true},  {false, false, false}};

void serial(int count, const std::function<void(int)> &f) {
  for (int part = 0; part < count; ++part) f(part);
}

template <class T>
struct HostCase {
  explicit HostCase(const Problem<T> &p) : p(p), convolution(p.product) {}
  void forward(Answer<T> &a) const {
    a[G].resize(p.size(G));
    convolution.forward(serial, 1, p.edges(), p.value[X].data(), p.value[Y].data(), p.value[W].data(), a[G].data());
  }
  void backward(Answer<T> &a) const {
    for (int q = 0; q < 3; ++q) a[q].resize(p.size(q));
    convolution.backward(serial, 1, p.edges(), p.value[X].data(), p.value[Y].data(), p.value[W].data(),
                         p.value[G].data(), a[X].data(), a[Y].data(), a[W].data());
  }
  void double_backward(const Tangents &t, Answer<T> &a) const {
    for (int q = 0; q < 4; ++q) a[q].resize(p.size(q));
    const auto operand = [&](int q) {
      return typename EdgeConvolution<T>::Operand{p.value[q].data(), t.has(q) ? p.tangent[q].data() : nullptr};
    };
    convolution.double_backward(serial, 1, p.edges(), operand(X), operand(Y), operand(W), p.value[G].data(),
                                a[G].data(), a[X].data(), a[Y].data(), a[W].data());
  }
  const Problem<T> &p;
  EdgeConvolution<T> convolution;
};

// Device memory between margins; all of it is NaN at first, and the margins must stay NaN.
class DeviceMemory {
 public:
  ~DeviceMemory() {
    std::vector<double> margin(MARGIN);
    for (size_t k = 0; k < blocks_.size(); ++k)
      for (const int64_t first : {int64_t(0), MARGIN + size_[k]}) {
        copy_to_host(exec_, margin.data(), blocks_[k].data() + first, MARGIN);
        for (const double v : margin) EXPECT_TRUE(std::isnan(v)) << "beyond a block";
      }
  }
  void *allocate(std::size_t bytes) {
    size_.push_back(static_cast<int64_t>((bytes + sizeof(double) - 1) / sizeof(double)));
    double *data = blocks_.emplace_back().reserve(size_.back() + 2 * MARGIN);
    device_fill(exec_, data, size_.back() + 2 * MARGIN, std::numeric_limits<double>::quiet_NaN());
    exec_.fence("equi: memory is ready for any stream");
    return data + MARGIN;
  }
  template <class U>
  U *copy(const std::vector<U> &from) {
    U *to = static_cast<U *>(allocate(from.size() * sizeof(U)));
    copy_to_device(exec_, to, from.data(), static_cast<int64_t>(from.size()));
    return to;
  }

 private:
  static constexpr int64_t MARGIN = 8;
  DeviceExec exec_;
  std::deque<DeviceBuffer<double>> blocks_;
  std::deque<int64_t> size_;
};

template <class T>
class DeviceCase {
 public:
  DeviceCase(const Problem<T> &p, bool is_generated)
      : p(p), convolution(p.product, is_generated), work{nullptr, [this](std::size_t n) {
                                                           return memory.allocate(n);
                                                         }} {
    edges = {{p.graph.edges, memory.copy(p.sender), memory.copy(p.receiver), p.graph.senders, p.graph.receivers},
             memory.copy(p.order(p.receiver)),
             memory.copy(p.order(p.sender))};
    for (int q = 0; q < 4; ++q) value[q] = memory.copy(p.value[q]);
    for (int q = 0; q < 3; ++q) tangent[q] = memory.copy(p.tangent[q]);
  }
  void forward(Answer<T> &a) {
    run(a, G, [&](T *const *to) { convolution.forward(work, edges, value[X], value[Y], value[W], to[G]); });
  }
  void backward(Answer<T> &a) {
    run(a, X, [&](T *const *to) {
      convolution.backward(work, edges, value[X], value[Y], value[W], value[G], to[X], to[Y], to[W]);
    });
  }
  void double_backward(const Tangents &t, Answer<T> &a) {
    run(a, X, [&](T *const *to) {
      const auto operand = [&](int q) {
        return typename EdgeConvolution<T>::Operand{value[q], t.has(q) ? tangent[q] : nullptr};
      };
      convolution.double_backward(work, edges, operand(X), operand(Y), operand(W), value[G], to[G], to[X], to[Y],
                                  to[W]);
    });
  }

  const Problem<T> &p;
  DeviceEdgeConvolution<T> convolution;
  DeviceMemory memory;
  DeviceWork work;
  DeviceEdgeList edges;

 private:
  template <class F>
  void run(Answer<T> &a, int first, const F &call) {
    T *to[4];
    for (int q = first; q < 4; ++q) to[q] = memory.copy(std::vector<T>(p.size(q), std::numeric_limits<T>::quiet_NaN()));
    call(to);
    Kokkos::fence("equi: results ready");
    for (int q = first; q < 4; ++q) {
      a[q].resize(p.size(q));
      copy_to_host(DeviceExec(), a[q].data(), to[q], p.size(q));
    }
  }
  T *value[4], *tangent[3];
};

template <class T>
void expect_near(const std::vector<T> &found, const std::vector<T> &expected, double relative,
                 const std::string &what) {
  double largest = 0.0;
  for (const T v : expected) largest = std::max(largest, std::fabs(static_cast<double>(v)));
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t k = 0; k < found.size(); ++k)
    ASSERT_NEAR(found[k], expected[k], relative * largest) << what << ", number " << k;
}

// is_generated: generated kernels where they exist, or else the generic one for all.
class DeviceEdges : public ::testing::TestWithParam<bool> {
 protected:
  // check(problem, what) for all shapes in the usual graph, and all graphs with an odd shape.
  template <class T, class F>
  void for_all(const F &check) {
    const std::string type = sizeof(T) == 4 ? ", float" : ", double";
    for (const Shape &shape : SHAPES) check(Problem<T>(shape, USUAL), shape.name + type);
    for (const Graph &graph : GRAPHS)
      check(Problem<T>(SHAPES[1], graph), std::to_string(graph.edges) + " edges, " + std::to_string(graph.senders) +
                                              " senders, " + std::to_string(graph.receivers) + " receivers" + type);
  }
  template <class T>
  void agrees_with_the_host() {
    for_all<T>([](const Problem<T> &p, const std::string &what) {
      const HostCase<T> host(p);
      DeviceCase<T> device(p, GetParam());
      Answer<T> found, expected;
      device.forward(found);
      host.forward(expected);
      expect_near(found[G], expected[G], ROUNDING<T>, what + ", forward");
      device.backward(found);
      host.backward(expected);
      for (int q = 0; q < 3; ++q)
        expect_near(found[q], expected[q], ROUNDING<T>, what + ", backward " + std::to_string(q));
      for (const Tangents &t : ALL_TANGENTS) {
        device.double_backward(t, found);
        host.double_backward(t, expected);
        for (int q = 0; q < 4; ++q)
          expect_near(found[q], expected[q], ROUNDING<T>,
                      what + ", double backward " + std::to_string(q) + ", tangents " + std::to_string(t.x) +
                          std::to_string(t.y) + std::to_string(t.w));
      }
    });
  }
};

TEST_P(DeviceEdges, all_passes_agree_with_the_host_in_double) {
  agrees_with_the_host<double>();
}

TEST_P(DeviceEdges, all_passes_agree_with_the_host_in_float) {
  agrees_with_the_host<float>();
}

// <g, F> = <x, dL/dx> = <y, dL/dy> = <w, dL/dw>.
TEST_P(DeviceEdges, the_form_is_linear_in_each_argument) {
  for_all<double>([](const Problem<double> &p, const std::string &what) {
    DeviceCase<double> device(p, GetParam());
    Answer<double> out, adjoint;
    device.forward(out);
    device.backward(adjoint);
    const double form = dot(out[G], p.value[G]), size = std::sqrt(dot(out[G], out[G]) * dot(p.value[G], p.value[G]));
    for (int q = 0; q < 3; ++q) EXPECT_NEAR(dot(adjoint[q], p.value[q]), form, ROUNDING<double> * size) << what << q;
  });
}

// Along (x', y', w') the forward and the backward pass are polynomials of third degree. Values at four points determine
// their derivatives up to rounding.
void expect_derivative_along(const Problem<double> &p, bool is_generated, const Tangents &t, const std::string &what) {
  DeviceCase<double> device(p, is_generated);
  Answer<double> found;
  device.double_backward(t, found);
  for (const double step : {0.5, 0.25}) {
    Answer<double> expected;
    for (int q = 0; q < 4; ++q) expected[q].assign(p.size(q), 0.0);
    for (const int k : {-2, -1, 1, 2}) {
      Problem<double> moved = p;
      for (int q = 0; q < 3; ++q)
        for (size_t n = 0; t.has(q) && n < moved.value[q].size(); ++n) moved.value[q][n] += k * step * p.tangent[q][n];
      const double factor = (k % 2 ? 8.0 : -1.0) * (k < 0 ? -1.0 : 1.0) / (12.0 * step);
      DeviceCase<double> there(moved, is_generated);
      Answer<double> values, out;
      there.backward(values);
      there.forward(out);
      for (int q = 0; q < 4; ++q)
        for (size_t n = 0; n < expected[q].size(); ++n) expected[q][n] += factor * (q == G ? out : values)[q][n];
    }
    for (int q = 0; q < 4; ++q)
      if (dot(found[q], found[q]) > 0.0)
        expect_near(found[q], expected[q], 1e-12, what + ", " + std::to_string(q));
      else    // depends on no tangent
        EXPECT_LT(std::sqrt(dot(expected[q], expected[q])), 1e-9) << what << ", " << q;
  }
}

TEST_P(DeviceEdges, double_backward_is_the_derivative_along_the_tangents) {
  for_all<double>([](const Problem<double> &p, const std::string &what) {
    if (p.product.product.num_weights() < 500) expect_derivative_along(p, GetParam(), {}, what);
  });
  for (const Tangents &t : ALL_TANGENTS)
    expect_derivative_along({SHAPES[1], USUAL}, GetParam(), t,
                            "tangents " + std::to_string(t.x) + std::to_string(t.y) + std::to_string(t.w));
}

TEST_P(DeviceEdges, repeats_give_the_same_bits) {
  const auto check = [](auto number) {
    using T = decltype(number);
    const Problem<T> p(SHAPES[1], USUAL);
    Answer<T> answers[2][3];
    for (auto &answer : answers) {
      DeviceCase<T> device(p, GetParam());
      device.forward(answer[0]);
      device.backward(answer[1]);
      device.double_backward({}, answer[2]);
    }
    for (int pass = 0; pass < 3; ++pass)
      for (int q = pass == 0 ? G : X; q < (pass == 1 ? G : 4); ++q) {
        const auto &a = answers[0][pass][q], &b = answers[1][pass][q];
        ASSERT_EQ(a.size(), b.size());
        EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(T)), 0) << pass << ", " << q;
      }
  };
  check(float());
  check(double());
}

TEST_P(DeviceEdges, a_row_that_is_not_there_is_named_as_by_the_host) {
  const auto message = [](const auto &call) -> std::string {
    try {
      call();
    } catch (const std::out_of_range &e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  Problem<float> p(SHAPES[1], USUAL);
  p.receiver[120] = -1;
  for (const auto &[e, row] : {std::pair<int, int>{70, USUAL.senders}, {20, -3}}) {
    p.sender[e] = row;
    DeviceCase<float> device(p, GetParam());
    Answer<float> a;
    const std::string expected = message([&] { HostCase<float>(p).forward(a); });
    EXPECT_NE(expected.find("edge " + std::to_string(e) + ": expected a sender"), std::string::npos) << expected;
    EXPECT_EQ(message([&] { device.forward(a); }), expected);
    EXPECT_EQ(message([&] { device.backward(a); }), expected);
    EXPECT_EQ(message([&] { device.double_backward({}, a); }), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(, DeviceEdges, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "generated" : "generic"; });

TEST(DeviceEdgePathGroups, every_path_group_of_the_build_has_kernels) {
  for (const PathGroupShape &path_group : common_path_groups()) {
    EXPECT_TRUE(is_taken(device_edge_kernels<float>(), path_group)) << path_group.key();
    EXPECT_TRUE(is_taken(device_edge_kernels<double>(), path_group)) << path_group.key();
  }
}

TEST(DeviceEdgePathGroups, the_generic_kernel_serves_what_has_no_generated_one) {
  const OperatorProduct product = OperatorProduct::parse(product_text(SHAPES[0].in, SHAPES[0].edge, SHAPES[0].lmax));
  EXPECT_EQ(DeviceEdgeConvolution<float>(product).num_generic_path_groups(), 0);
  EXPECT_EQ(DeviceEdgeConvolution<float>(product, false).num_generic_path_groups(), 3);
}

}    // namespace

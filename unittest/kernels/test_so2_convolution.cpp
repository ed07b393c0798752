// SPDX-License-Identifier: MIT
// Rotations into the frames of edges, and the products of SO(2) convolutions: by definition, by finite differences, and
// in frames that are turned about the edges.
#include "kokkos/geometry/rotations.h"
#include "kokkos/layers/so2_convolution/host_so2_convolution.h"
#include "unittest/support/model_cases.h"
#include "unittest/support/node_rows.h"
#include "unittest/support/scalar_model.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

using Frame = std::array<double, 9>;

// Some hundred products, up to order 8.
constexpr double RECURSION = 1e-13;
// Central differences of fourth order in float64.
constexpr double FINITE_DIFFERENCE = 1e-8;

Frame frame_of(const Vector3 &n) {
  Frame frame;
  Rotations::frame(n.data(), frame.data());
  return frame;
}

// t r
Frame product(const Frame &t, const Frame &r) {
  Frame p{};
  for (int a = 0; a < 3; a++)
    for (int b = 0; b < 3; b++)
      for (int c = 0; c < 3; c++) p[3 * a + b] += t[3 * a + c] * r[3 * c + b];
  return p;
}

// The rotation by an angle about axis k.
Frame turn(int k, double angle) {
  Frame t{1, 0, 0, 0, 1, 0, 0, 0, 1};
  const int a = (k + 1) % 3, b = (k + 2) % 3;
  t[4 * a] = t[4 * b] = std::cos(angle);
  t[3 * b + a] = std::sin(angle);
  t[3 * a + b] = -std::sin(angle);
  return t;
}

// Along every axis, within planes, at equal and at almost equal distances from the axes, and anywhere.
std::vector<Vector3> directions() {
  std::vector<Vector3> all;
  for (int k = 0; k < 3; k++)
    for (const double sign : {1.0, -1.0}) {
      Vector3 n{};
      n[k] = sign;
      all.push_back(n);
      n[(k + 1) % 3] = 1e-9;
      all.push_back(n);
      n[(k + 2) % 3] = sign;
      all.push_back(n);
    }
  all.push_back({1, 1, 1});
  all.push_back({-1, 1, 1 - 1e-12});
  Random random(3);
  for (int k = 0; k < 5; k++) all.push_back({random(), random(), random()});
  for (Vector3 &n : all) {
    const double length = std::sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    for (double &c : n) c /= length;
  }
  return all;
}

TEST(Rotations, frames_are_rotations_that_turn_the_edge_to_the_y_axis) {
  for (const Vector3 &n : directions()) {
    const Frame r = frame_of(n);
    for (int a = 0; a < 3; a++) {
      EXPECT_EQ(r[3 + a], n[a]);
      for (int b = 0; b < 3; b++) {
        double dot = 0.0;
        for (int k = 0; k < 3; k++) dot += r[3 * a + k] * r[3 * b + k];
        EXPECT_NEAR(dot, a == b, 1e-15);
      }
    }
    const double determinant =
        r[0] * (r[4] * r[8] - r[5] * r[7]) - r[1] * (r[3] * r[8] - r[5] * r[6]) + r[2] * (r[3] * r[7] - r[4] * r[6]);
    EXPECT_NEAR(determinant, 1.0, 1e-15);
  }
}

TEST(Rotations, recursion_equals_the_definition) {
  for (const int lmax : {0, 1, 2, 6, 8}) {
    const Rotations rotations(lmax);
    std::vector<double> d(rotations.size());
    for (const Vector3 &n : directions()) {
      const Frame r = product(turn(1, 0.9), frame_of(n));
      rotations.evaluate(r.data(), d.data());
      const double rows[3][3] = {{r[0], r[1], r[2]}, {r[3], r[4], r[5]}, {r[6], r[7], r[8]}};
      size_t at = 0;
      for (const std::vector<double> &expected : rotations_by_quadrature(lmax, rows))
        for (const double v : expected) ASSERT_NEAR(d[at++], v, RECURSION) << "l to " << lmax << ", number " << at;
      EXPECT_EQ(at, d.size());
    }
  }
}

TEST(Rotations, generators_are_derivatives) {
  const int lmax = 6;
  const Rotations rotations(lmax);
  const Frame r = frame_of(directions().back());
  const auto turned = [&](int k, double angle) {
    std::vector<double> d(rotations.size());
    rotations.evaluate(product(turn(k, angle), r).data(), d.data());
    return d;
  };
  for (const int mmax : {0, 2, lmax}) {
    const auto generators = Rotations::generators<double>(lmax, mmax);
    const std::vector<double> d = turned(0, 0.0);
    for (int k = 0; k < 3; k++) {
      const double h = 1e-3;
      const auto up = turned(k, h), down = turned(k, -h), far_up = turned(k, 2 * h), far_down = turned(k, -2 * h);
      for (int l = 0, first = 0; l <= lmax; first = rotations_size(l++)) {
        const int dim = 2 * l + 1;
        for (int m = -std::min(l, mmax); m <= std::min(l, mmax); m++)
          for (int n = 0; n < dim; n++) {
            double expected = 0.0;
            for (const auto &e : generators)
              if (e.k == k && e.l == l && e.m == m) expected += e.value * d[first + (l + e.n) * dim + n];
            const int at = first + (l + m) * dim + n;
            ASSERT_NEAR((8 * (up[at] - down[at]) - (far_up[at] - far_down[at])) / (12 * h), expected, 1e-8)
                << "axis " << k << ", l " << l << ", m " << m;
          }
      }
    }
  }
}

// ---- the convolution
// A layer of a tiny model with edges between some atoms, and all inputs of its convolution.
template <class R>
struct So2Problem {
  static constexpr int NUM_EDGES = 7, NUM_ATOMS = 4;
  Model model;
  const So2Convolution &layer;
  const Irreps in, out;
  FeatureLayout in_layout, out_layout;
  Rotations rotations;
  std::vector<int> sender{0, 1, 2, 3, 1, 0, 2}, receiver{1, 0, 0, 1, 3, 3, 3};
  std::vector<Frame> frames;
  Rows x, y_adj;
  std::vector<double> factors, cutoff;    // factors [edges][columns]

  explicit So2Problem(const std::string &name)
      : model(model_of(name)),
        layer(last_layer(model)),
        in(model.features[layer.input]),
        out(model.features[layer.output]),
        in_layout(in),
        out_layout(out),
        rotations(layer.lmax) {
    Random random(5);
    const std::vector<Vector3> all = directions();
    for (int e = 0; e < NUM_EDGES; e++) frames.push_back(frame_of(all[all.size() - 3 * e - 1]));
    x = random.rows(NUM_ATOMS, in.dim());
    y_adj = random.rows(NUM_ATOMS, out.dim());
    for (int k = 0; k < NUM_EDGES * num_columns(); k++) factors.push_back(random());
    for (int e = 0; e < NUM_EDGES; e++) cutoff.push_back(0.5 + 0.1 * random());
  }
  // Rows of x are larger than features of models, for which some of the linears have a gain.
  static Model model_of(const std::string &name) {
    TinyModelOptions options = case_named(name).options;
    options.so2_gain = 1.0;
    return make_tiny_model(options).model();
  }
  // Multiplies the scores of attention.
  void sharpen(double factor) {
    for (Layer &l : model.layers)
      if (auto *c = std::get_if<So2Convolution>(&l))
        for (double &v : c->attention.vector) v *= factor;
  }
  HostSo2Convolution<R> convolution(InstructionSet set = best_instruction_set()) const {
    return {set, layer, in_layout, out_layout};
  }
  int num_columns() const { return static_cast<int>(convolution().columns().size()); }
  static const So2Convolution &last_layer(const Model &model) {
    const So2Convolution *found = nullptr;
    for (const Layer &l : model.layers)
      if (const auto *c = std::get_if<So2Convolution>(&l)) found = c;
    return *found;
  }

  struct Result {
    Rows y, sender_adj, receiver_adj;
    AlignedVector<R> factors_adj;
    std::vector<R> cutoff_adj, torque;
    double energy = 0.0;    // y * y_adj
  };
  // has_values: backward uses the values that forward has stored. num_first: edges of a first call, to which the others
  // are added.
  Result evaluate(InstructionSet set, bool has_values = true, int num_first = NUM_EDGES) const {
    const HostSo2Convolution<R> convolution = this->convolution(set);
    const int columns = static_cast<int>(convolution.columns().size()), row = convolution.factors_row(),
              size = rotations.size();
    AlignedVector<R> d(NUM_EDGES * size), of_edges(NUM_EDGES * row, R(0)), f(cutoff.begin(), cutoff.end());
    for (int e = 0; e < NUM_EDGES; e++) {
      std::vector<double> of_edge(size);
      rotations.evaluate(frames[e].data(), of_edge.data());
      std::copy(of_edge.begin(), of_edge.end(), d.begin() + e * size);
      for (int k = 0; k < columns; k++)
        of_edges[e * row + convolution.columns()[k]] = static_cast<R>(factors[e * columns + k]);
    }
    PackedRows<R> px(in, x), py(out, Rows(NUM_ATOMS, std::vector<double>(out.dim(), 0.0))), pg(out, y_adj),
        sender_adj(in, Rows(NUM_ATOMS, std::vector<double>(in.dim(), 0.0))),
        receiver_adj(in, Rows(NUM_ATOMS, std::vector<double>(in.dim(), 0.0)));
    // Rows of x are counted from its first one.
    const FeatureRows<R> rows = px.rows();
    std::vector<int> from = sender, to = receiver;
    for (int e = 0; e < NUM_EDGES; e++) {
      from[e] += static_cast<int>(rows.first);
      to[e] += static_cast<int>(rows.first);
    }
    Result result;
    auto scratch = nan_vector<R>(convolution.scratch_size(NUM_EDGES, false)),
         values = nan_vector<R>(convolution.values_size(NUM_EDGES));
    auto largest = nan_vector<R>(NUM_ATOMS * convolution.heads()), sum = largest, dot = largest;
    const So2Softmax<R> softmax{largest.data(), sum.data(), dot.data()};
    convolution.begin(NUM_ATOMS, softmax);
    // Edges first .. first + count - 1.
    const auto part = [&](int first, int count) {
      return So2Edges<R>{count,
                         from.data() + first,
                         to.data() + first,
                         d.data() + first * size,
                         f.data() + first,
                         of_edges.data() + first * row,
                         rows};
    };
    const So2Edges<R> edges = part(0, NUM_EDGES);
    if (num_first == NUM_EDGES) {
      convolution.forward(edges, py.rows(), receiver.data(), softmax, scratch.data(), values.data());
    } else {
      convolution.forward(part(0, num_first), py.rows(), receiver.data(), softmax, scratch.data(), values.data());
      convolution.forward(part(num_first, NUM_EDGES - num_first), py.rows(), receiver.data() + num_first, softmax,
                          scratch.data(), values.data());
    }
    convolution.finish(NUM_ATOMS, py.rows(), softmax);
    result.y = py.values();
    EXPECT_EQ(py.padding(), 0.0);
    for (int a = 0; a < NUM_ATOMS; a++)
      for (int k = 0; k < out.dim(); k++) result.energy += result.y[a][k] * y_adj[a][k];

    result.factors_adj.resize(NUM_EDGES * row);
    result.cutoff_adj.resize(NUM_EDGES);
    result.torque.resize(3 * NUM_EDGES);
    scratch = nan_vector<R>(convolution.scratch_size(NUM_EDGES, true));
    if (!has_values) values = nan_vector<R>(values.size());
    convolution.begin_backward(NUM_ATOMS, py.rows(), pg.rows(), softmax);
    convolution.backward(edges, pg.rows(), receiver.data(), softmax, scratch.data(), values.data(), has_values,
                         {result.factors_adj.data(), result.cutoff_adj.data(), result.torque.data(), sender_adj.rows(),
                          receiver_adj.rows(), sender.data(), receiver.data()});
    result.sender_adj = sender_adj.values();
    result.receiver_adj = receiver_adj.values();
    return result;
  }
};

const char *const CASES[] = {"so2_biases_rows_of_species",
                             "so2_of_fewer_m",
                             "so2_of_scalars",
                             "so2_of_m_0",
                             "so2_of_order_4_and_all_m",
                             "so2_of_order_6",
                             "so2_with_products",
                             "so2_with_attention",
                             "so2_at_points_with_attention",
                             "so2_at_points_with_late_factors"};

template <class R>
class So2Rows : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(So2Rows, Types);

TYPED_TEST(So2Rows, frames_that_are_turned_about_the_edge_change_nothing) {
  using R = TypeParam;
  constexpr double ROUNDED = sizeof(R) == 4 ? 1e-4 : 1e-12;
  for (const char *name : CASES) {
    So2Problem<R> problem(name);
    if (problem.layer.depends_on_frame()) continue;
    const auto plain = problem.evaluate(best_instruction_set());
    double largest = 0.0;
    for (const R t : plain.torque) largest = std::max(largest, std::fabs(static_cast<double>(t)));
    for (int e = 0; e < problem.NUM_EDGES; e++) EXPECT_NEAR(plain.torque[3 * e + 1], 0.0, ROUNDED * largest) << name;
    for (int e = 0; e < problem.NUM_EDGES; e++) problem.frames[e] = product(turn(1, 1.0 + e), problem.frames[e]);
    const auto turned = problem.evaluate(best_instruction_set());
    expect_near(turned.y, plain.y, 10 * ROUNDED, name);
    expect_near(turned.sender_adj, plain.sender_adj, 10 * ROUNDED, name);
    expect_near(turned.receiver_adj, plain.receiver_adj, 10 * ROUNDED, name);
    for (size_t k = 0; k < plain.factors_adj.size(); k++)
      ASSERT_NEAR(turned.factors_adj[k], plain.factors_adj[k], 10 * ROUNDED) << name;
  }
}

TYPED_TEST(So2Rows, values_of_forward_and_those_that_backward_makes_are_the_same) {
  for (const char *name : CASES) {
    const So2Problem<TypeParam> problem(name);
    const auto kept = problem.evaluate(best_instruction_set()), made = problem.evaluate(best_instruction_set(), false);
    EXPECT_EQ(made.sender_adj, kept.sender_adj) << name;
    EXPECT_EQ(made.receiver_adj, kept.receiver_adj) << name;
    EXPECT_EQ(made.torque, kept.torque) << name;
    EXPECT_EQ(made.cutoff_adj, kept.cutoff_adj) << name;
  }
}

TYPED_TEST(So2Rows, instruction_sets_agree) {
  using R = TypeParam;
  constexpr double ROUNDED = sizeof(R) == 4 ? 1e-3 : 1e-11;
  for (const char *name : CASES) {
    const So2Problem<R> problem(name);
    const auto generic = problem.evaluate(InstructionSet::generic);
    for (const InstructionSet set : INSTRUCTION_SETS) {
      if (set == InstructionSet::generic || !instruction_set_available(set)) continue;
      const auto other = problem.evaluate(set);
      expect_near(other.y, generic.y, ROUNDED, name);
      expect_near(other.sender_adj, generic.sender_adj, ROUNDED, name);
      for (size_t k = 0; k < generic.torque.size(); k++)
        ASSERT_NEAR(other.torque[k], generic.torque[k], ROUNDED) << name;
    }
  }
}

// Sums over edges are multiplied by the effect of later edges on the largest score.
TYPED_TEST(So2Rows, edges_of_a_receiver_may_come_in_several_calls) {
  using R = TypeParam;
  constexpr double ROUNDED = sizeof(R) == 4 ? 1e-4 : 1e-12;
  for (const char *name : {"so2_with_attention", "so2_at_points_with_attention", "so2_of_m_0"})
    for (const double factor : {1.0, 30.0}) {
      So2Problem<R> problem(name);
      problem.sharpen(factor);
      const auto whole = problem.evaluate(best_instruction_set());
      for (const int num_first : {2, 5}) {
        const auto parts = problem.evaluate(best_instruction_set(), false, num_first);
        expect_near(parts.y, whole.y, ROUNDED, name);
        expect_near(parts.sender_adj, whole.sender_adj, factor * ROUNDED, name);
        expect_near(parts.receiver_adj, whole.receiver_adj, factor * ROUNDED, name);
      }
    }
}

// Then each head of a receiver uses only one edge. Two sums over the same edges differ by a common factor of the
// scores, and nothing overflows or vanishes.
TYPED_TEST(So2Rows, weights_of_attention_are_a_softmax_however_far_scores_are_apart) {
  using R = TypeParam;
  constexpr double ROUNDED = sizeof(R) == 4 ? 1e-4 : 1e-12;
  for (const char *name : {"so2_with_attention", "so2_at_points_with_attention"}) {
    So2Problem<R> sharp(name);
    // Receiver 3 has edges 4 to 6, and receiver 2 has none. Heads may use different edges.
    sharp.sharpen(3e4);
    const auto all = sharp.evaluate(best_instruction_set());
    std::vector<typename So2Problem<R>::Result> alone;
    for (int e = 4; e < 7; e++) {
      So2Problem<R> one = sharp;
      one.cutoff.assign(one.NUM_EDGES, 0.0);
      one.cutoff[e] = sharp.cutoff[e];
      alone.push_back(one.evaluate(best_instruction_set()));
    }
    const int channels = sharp.out[0].mul, of_head = channels / sharp.layer.attention.heads;
    for (int head = 0; head < sharp.layer.attention.heads; head++) {
      const auto difference = [&](const Rows &y) {
        double largest = 0.0;
        for (int l = 0; l <= sharp.layer.lmax; l++)
          for (int k = 0, dim = 2 * l + 1; k < of_head * dim; k++) {
            const int at = channels * l * l + head * of_head * dim + k;
            largest = std::fmax(largest, std::fabs(y[3][at] - all.y[3][at]));
          }
        return largest;
      };
      double least = INFINITY;
      for (const auto &one : alone) least = std::fmin(least, difference(one.y));
      EXPECT_LT(least, ROUNDED) << name << ", head " << head;
    }
    for (const double v : all.y[2]) EXPECT_EQ(v, 0.0) << name;
    for (const Rows *adjoints : {&all.sender_adj, &all.receiver_adj})
      for (const auto &row : *adjoints)
        for (const double v : row) EXPECT_TRUE(std::isfinite(v)) << name;
  }
}

// By each input of the convolution: some of its numbers, for all edges.
TEST(So2OpInFloat64, backward_is_the_derivative_of_forward) {
  for (const char *name : CASES) {
    So2Problem<double> problem(name);
    const auto result = problem.evaluate(best_instruction_set());
    const auto expect_slope = [&](double expected, const std::string &what, const auto &move) {
      const auto energy = [&](double step) {
        move(problem, step);
        const double moved = problem.evaluate(best_instruction_set()).energy;
        move(problem, -step);
        return moved;
      };
      const double h = 1e-3;
      const double slope = (8 * (energy(h) - energy(-h)) - (energy(2 * h) - energy(-2 * h))) / (12 * h);
      EXPECT_NEAR(slope, expected, FINITE_DIFFERENCE * std::max(1.0, std::fabs(result.energy))) << name << what;
    };
    const HostSo2Convolution<double> convolution = problem.convolution();
    const int columns = problem.num_columns(), row = convolution.factors_row();
    for (int e = 0; e < problem.NUM_EDGES; e++) {
      for (const int k : {0, columns / 2, columns - 1})
        expect_slope(result.factors_adj[e * row + convolution.columns()[k]], ", factor " + std::to_string(k),
                     [&](So2Problem<double> &p, double step) { p.factors[e * columns + k] += step; });
      expect_slope(result.cutoff_adj[e], ", cutoff", [&](So2Problem<double> &p, double step) { p.cutoff[e] += step; });
      for (int k = 0; k < 3; k++)
        expect_slope(result.torque[3 * e + k], ", torque " + std::to_string(k),
                     [&](So2Problem<double> &p, double step) { p.frames[e] = product(turn(k, step), p.frames[e]); });
    }
    for (int a = 0; a < problem.NUM_ATOMS; a++)
      for (const int k : {0, problem.in.dim() / 2, problem.in.dim() - 1})
        expect_slope(result.sender_adj[a][k] + result.receiver_adj[a][k], ", component " + std::to_string(k),
                     [&](So2Problem<double> &p, double step) { p.x[a][k] += step; });
  }
}

}    // namespace

// SPDX-License-Identifier: MIT
// Linear layers and gates on rows, compared with plain loops; backward passes as adjoints and by finite differences.
#include "kokkos/layers/gate/host_gate.h"
#include "kokkos/layers/linear/host_linear.h"

#include "src/functions/activation.h"
#include "unittest/support/dot.h"
#include "unittest/support/node_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <tuple>

namespace {

using namespace equi;
using namespace equi::testing;

// Central differences of fourth order in float64.
constexpr double FINITE_DIFFERENCE = 1e-9;

constexpr int NUM_ROWS = 11, NUM_SPECIES = 3;
// No atom has species 1, so an empty group of rows occurs.
constexpr int SPECIES[NUM_ROWS] = {2, 0, 0, 2, 2, 0, 2, 0, 0, 2, 0};

// ---- linear
struct LinearCase {
  Irreps in = Irreps::parse("5x0e+3x1o+17x1o+2x2e+4x0e+1x3o"), out = Irreps::parse("7x0e+18x1o+2x0e+3x2e+2x1e+1x1o");
  Linear linear{0, 1, false, false, {}, {}};

  // Blocks 2x1e of the output and 1x3o of the input have no partner; the pair (4x0e, 7x0e) is not connected.
  LinearCase(bool per_species, bool accumulate, bool biases, unsigned seed = 1) {
    Random random(seed);
    linear.per_species = per_species;
    linear.accumulate = accumulate;
    for (int i = 0; i < in.size(); ++i)
      for (int j = 0; j < out.size(); ++j) {
        if (in[i].irrep != out[j].irrep || (i == 4 && j == 0)) continue;
        LinearBlock block{i, j, {}};
        for (int s = 0; s < (per_species ? NUM_SPECIES : 1); ++s) {
          Matrix w{in[i].mul, out[j].mul, {}};
          for (int k = 0; k < w.rows * w.cols; ++k) w.data.push_back(random() / std::sqrt(w.rows));
          block.weight.push_back(w);
        }
        linear.blocks.push_back(block);
      }
    if (!biases) return;
    linear.bias.resize(out.size());
    for (int k = 0; k < 2; ++k) linear.bias[2].push_back(random());    // one of the two scalar blocks
  }

  Rows apply(const Rows &x, const Rows &before) const {
    Rows y = before;
    for (size_t r = 0; r < x.size(); ++r) {
      if (!linear.accumulate) std::fill(y[r].begin(), y[r].end(), 0.0);
      for (const LinearBlock &b : linear.blocks) {
        const Matrix &w = b.weight[linear.per_species ? SPECIES[r] : 0];
        const int dim = in[b.in].irrep.dim();
        for (int u = 0; u < w.rows; ++u)
          for (int v = 0; v < w.cols; ++v)
            for (int m = 0; m < dim; ++m)
              y[r][out.offset(b.out) + v * dim + m] += w(u, v) * x[r][in.offset(b.in) + u * dim + m];
      }
      for (size_t b = 0; b < linear.bias.size(); ++b)
        for (size_t u = 0; u < linear.bias[b].size(); ++u)
          y[r][out.offset(static_cast<int>(b)) + u] += linear.bias[b][u];
    }
    return y;
  }
};

struct SortedSpecies {
  std::vector<int> order, begin = {0};
  SortedSpecies() {
    for (int s = 0; s < NUM_SPECIES; ++s) {
      for (int r = 0; r < NUM_ROWS; ++r)
        if (SPECIES[r] == s) order.push_back(r);
      begin.push_back(static_cast<int>(order.size()));
    }
  }
  SpeciesOrder get() const { return {order.data(), begin.data()}; }
};

template <class T>
class LinearOpTest : public ::testing::Test {};

template <class T>
class GateOpTest : public ::testing::Test {};

using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LinearOpTest, Types);
TYPED_TEST_SUITE(GateOpTest, Types);

TYPED_TEST(LinearOpTest, forward_equals_plain_loops) {
  using T = TypeParam;
  const SortedSpecies species;
  for (const bool per_species : {false, true})
    for (const bool accumulate : {false, true})
      for (const bool biases : {false, true}) {
        const LinearCase c(per_species, accumulate, biases);
        Random random(3);
        const Rows x = random.rows(NUM_ROWS, c.in.dim()), before = random.rows(NUM_ROWS, c.out.dim());
        PackedRows<T> px(c.in, x);
        PackedRows<T> py = accumulate ? PackedRows<T>(c.out, before) : PackedRows<T>(c.out, size_t(NUM_ROWS));
        const HostLinear<T> linear(best_instruction_set(),
                                   LinearConstants(c.linear, px.layout(), py.layout(), NUM_SPECIES));
        auto scratch = nan_vector<T>(linear.scratch_size(NUM_ROWS));
        linear.forward(host_kernels<T>(best_instruction_set()), NUM_ROWS, px.rows(), py.rows(), species.get(),
                       scratch.data());
        const std::string what = std::string(per_species ? "per species " : "") + (accumulate ? "accumulated " : "") +
                                 (biases ? "biases" : "");
        expect_near(py.values(), c.apply(x, before), 10 * ROUNDING<T>, what);
        EXPECT_EQ(py.padding(), 0.0) << what;
      }
}

TYPED_TEST(LinearOpTest, backward_is_the_adjoint_of_forward) {
  using T = TypeParam;
  const SortedSpecies species;
  for (const bool per_species : {false, true})
    for (const bool add : {false, true}) {
      const LinearCase c(per_species, false, false);
      Random random(5);
      const Rows x = random.rows(NUM_ROWS, c.in.dim()), g = random.rows(NUM_ROWS, c.out.dim()),
                 before = random.rows(NUM_ROWS, c.in.dim());
      PackedRows<T> pg(c.out, g);
      PackedRows<T> px = add ? PackedRows<T>(c.in, before) : PackedRows<T>(c.in, size_t(NUM_ROWS));
      const HostLinear<T> linear(best_instruction_set(),
                                 LinearConstants(c.linear, px.layout(), pg.layout(), NUM_SPECIES));
      auto scratch = nan_vector<T>(linear.scratch_size(NUM_ROWS));
      linear.backward(host_kernels<T>(best_instruction_set()), NUM_ROWS, pg.rows(), px.rows(), add, species.get(),
                      scratch.data());
      Rows x_adj = px.values();
      EXPECT_EQ(px.padding(), 0.0);
      if (add)
        for (size_t r = 0; r < x_adj.size(); ++r)
          for (size_t k = 0; k < x_adj[r].size(); ++k) x_adj[r][k] -= before[r][k];
      EXPECT_NEAR(dot(x, x_adj), dot(g, c.apply(x, Rows(NUM_ROWS, std::vector<double>(c.out.dim(), 0.0)))),
                  200 * ROUNDING<T>)
          << (per_species ? "per species" : "shared") << (add ? ", added" : "");
      // Number by number: the adjoint of a unit input.
      for (int k = 0; k < c.in.dim(); k += 7) {
        Rows unit(NUM_ROWS, std::vector<double>(c.in.dim(), 0.0));
        unit[4][k] = 1.0;
        const Rows y = c.apply(unit, Rows(NUM_ROWS, std::vector<double>(c.out.dim(), 0.0)));
        EXPECT_NEAR(x_adj[4][k], dot(g, y), 20 * ROUNDING<T>) << k;
      }
    }
}

TYPED_TEST(LinearOpTest, no_rows_are_allowed) {
  using T = TypeParam;
  for (const bool per_species : {false, true}) {
    const LinearCase c(per_species, false, true);
    const FeatureLayout in(c.in), out(c.out);
    const HostLinear<T> linear(best_instruction_set(), LinearConstants(c.linear, in, out, NUM_SPECIES));
    const int begin[NUM_SPECIES + 1] = {};
    T nothing[1];
    linear.forward(host_kernels<T>(best_instruction_set()), 0, {nothing, 0, 0}, {nothing, 0, 0}, {nullptr, begin},
                   nothing);
    linear.backward(host_kernels<T>(best_instruction_set()), 0, {nothing, 0, 0}, {nothing, 0, 0}, false,
                    {nullptr, begin}, nothing);
  }
}

// ---- gate
struct GateCase {
  // Scalars of both parities, with gates after the even ones. No term reads channels 8.. of the even block and the
  // block 2x2e.
  Irreps in = Irreps::parse("2x0o+30x0e+3x1o+17x1o+2x2e"), out = Irreps::parse("3x0e+17x1o+2x0o+3x1o");
  Gate gate{0, 1, {}};

  explicit GateCase(Activation scalar, Activation gated) {
    gate.terms.push_back({0, 1, 0, -1, 0, scalar, 1.68});
    gate.terms.push_back({1, 3, 0, 1, 8, gated, 1.5});
    gate.terms.push_back({2, 0, 0, -1, 0, Activation::tanh, 1.59});
    gate.terms.push_back({3, 2, 0, 1, 3, gated, 0.7});
  }

  Rows apply(const Rows &z) const {
    Rows x(z.size(), std::vector<double>(out.dim(), 0.0));
    for (size_t r = 0; r < z.size(); ++r)
      for (const GateTerm &t : gate.terms) {
        const int dim = out[t.out].irrep.dim();
        for (int u = 0; u < out[t.out].mul; ++u) {
          const double *from = &z[r][in.offset(t.in) + (t.offset + u) * dim];
          double a;
          activation_derivatives(t.activation, t.gate_in < 0 ? *from : z[r][in.offset(t.gate_in) + t.gate_offset + u],
                                 0, &a);
          for (int m = 0; m < dim; ++m)
            x[r][out.offset(t.out) + u * dim + m] = t.scale * a * (t.gate_in < 0 ? 1.0 : from[m]);
        }
      }
    return x;
  }
};

constexpr Activation SMOOTH[] = {Activation::silu, Activation::tanh, Activation::sigmoid, Activation::ssp,
                                 Activation::identity};

std::vector<std::tuple<Activation, Activation, InstructionSet>> smooth_cases() {
  std::vector<std::tuple<Activation, Activation, InstructionSet>> cases;
  for (const Activation scalar : SMOOTH)
    for (const Activation gated : SMOOTH)
      for (const InstructionSet set : INSTRUCTION_SETS) cases.emplace_back(scalar, gated, set);
  return cases;
}

constexpr Activation ALL_ACTIVATIONS[] = {Activation::silu, Activation::tanh, Activation::sigmoid,
                                          Activation::relu, Activation::abs,  Activation::ssp,
                                          Activation::mish, Activation::gelu, Activation::identity};

TYPED_TEST(GateOpTest, forward_equals_plain_loops) {
  using T = TypeParam;
  for (const Activation scalar : ALL_ACTIVATIONS)
    for (const Activation gated : ALL_ACTIVATIONS) {
      const GateCase c(scalar, gated);
      const Rows z = Random(7).rows(NUM_ROWS, c.in.dim());
      PackedRows<T> pz(c.in, z), px(c.out, size_t(NUM_ROWS));
      const HostGate<T> gate(GateConstants(c.gate, pz.layout(), px.layout()));
      for (const InstructionSet set : INSTRUCTION_SETS) {
        if (!instruction_set_available(set)) continue;
        gate.forward(host_kernels<T>(set), NUM_ROWS, pz.rows(), px.rows());
        expect_near(px.values(), c.apply(z), 10 * ROUNDING<T>,
                    std::string(activation_name(scalar)) + " " + instruction_set_name(set));
        EXPECT_EQ(px.padding(), 0.0);
      }
    }
}

TYPED_TEST(GateOpTest, backward_is_the_derivative_of_forward) {
  using T = TypeParam;
  for (const auto &[scalar, gated, set] : smooth_cases()) {
    if (!instruction_set_available(set)) continue;
    const GateCase c(scalar, gated);
    Random random(9);
    const Rows z = random.rows(NUM_ROWS, c.in.dim()), g = random.rows(NUM_ROWS, c.out.dim());
    PackedRows<T> pz(c.in, z), pg(c.out, g);
    const HostGate<T> gate(GateConstants(c.gate, pz.layout(), pg.layout()));
    gate.backward(host_kernels<T>(set), NUM_ROWS, pz.rows(), pg.rows());
    const Rows z_adj = pz.values();
    EXPECT_EQ(pz.padding(), 0.0);
    const int row = 5;
    for (int k = 0; k < c.in.dim(); ++k) {
      const auto form = [&](double step) {
        Rows moved = {z[row]};
        moved[0][k] += step;
        return dot(c.apply(moved), Rows{g[row]});
      };
      double best = INFINITY;
      for (const double h : {3e-3, 1e-3, 3e-4}) {
        const double wide = (form(h) - form(-h)) / (2 * h), narrow = (form(h / 2) - form(-h / 2)) / h;
        best = std::min(best, std::fabs((4 * narrow - wide) / 3 - z_adj[row][k]));
      }
      ASSERT_LT(best, sizeof(T) == 4 ? 10 * ROUNDING<T> : FINITE_DIFFERENCE)
          << activation_name(scalar) << ", " << activation_name(gated) << ", number " << k;
    }
  }
}

// The values at which an exponential leaves the range of the type.
TYPED_TEST(GateOpTest, large_arguments_stay_finite) {
  using T = TypeParam;
  for (const Activation a : ALL_ACTIVATIONS)
    for (const double size : {1e2, 1e3, 1e4}) {
      const GateCase c(a, a);
      Rows z = Random(11).rows(NUM_ROWS, c.in.dim());
      for (auto &row : z)
        for (double &v : row) v *= size;
      const Rows g = Random(12).rows(NUM_ROWS, c.out.dim());
      PackedRows<T> pz(c.in, z), px(c.out, size_t(NUM_ROWS)), pg(c.out, g);
      const HostGate<T> gate(GateConstants(c.gate, pz.layout(), px.layout()));
      const HostKernels<T> &kernels = host_kernels<T>(best_instruction_set());
      gate.forward(kernels, NUM_ROWS, pz.rows(), px.rows());
      gate.backward(kernels, NUM_ROWS, pz.rows(), pg.rows());
      for (const Rows &rows : {px.values(), pz.values()})
        for (const auto &row : rows)
          for (const double v : row) ASSERT_TRUE(std::isfinite(v)) << activation_name(a) << " at " << size;
    }
}

}    // namespace

// SPDX-License-Identifier: MIT
// The symmetric contraction: by hand, compared with a dense formula, its derivatives and its behavior under O(3).
#include "src/algebra/spherical_harmonics.h"
#include "src/algebra/symmetric_contraction.h"
#include "unittest/support/contraction_builder.h"
#include "unittest/support/dot.h"
#include "unittest/support/random_numbers.h"

#include <gtest/gtest.h>
#include <cmath>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace equi;
using namespace equi::testing;

namespace {

constexpr int NUM_SPECIES = 2;

ContractionProduct example(const std::string &in, const std::string &out, int degree, int num_species = NUM_SPECIES) {
  std::mt19937 random(3);
  return random_contraction(Irreps::parse(in), Irreps::parse(out), degree, 4, num_species, random);
}

// Odd multiplicities, one channel, degrees up to the largest, input and output blocks in any order.
std::vector<ContractionProduct> examples() {
  return {example("5x0e+5x1o+5x2e", "5x1o+5x0e", 3), example("13x1e+13x0e", "13x0e+13x1e+13x2e", 2, 0),
          example("1x0e+1x1o", "1x0e+1x1o", 4), example("33x0e", "33x0e", 3)};
}

std::vector<double> forward(const ContractionProduct &p, int species, const std::vector<double> &x) {
  std::vector<double> out(p.irreps_out.dim(), 0.0);
  p.forward(species, x.data(), out.data());
  return out;
}

}    // namespace

TEST(SymmetricContraction, of_one_channel_is_its_polynomial) {
  ContractionProduct p;
  p.irreps_in = Irreps::parse("2x0e+2x1o");
  p.irreps_out = Irreps::parse("2x1o+2x0e");
  // Block 1, channel u: 5 s^2 weight_0 + (x y) weight_1; block 0, component 2: -2 s^3 z weight.
  p.terms = {{1, 2, 2, {{0, 0, {0, 0}, 5.0}, {0, 1, {1, 2}, 1.0}}, {Matrix{2, 2, {1.0, 2.0, 3.0, 4.0}}}},
             {0, 4, 1, {{2, 0, {0, 0, 0, 3}, -2.0}}, {Matrix{1, 2, {1.0, 10.0}}}}};
  p.validate();
  EXPECT_EQ(p.mul(), 2);
  EXPECT_EQ(p.num_components(), 4);
  // s of both channels, then (x, y, z) of the first and of the second.
  const std::vector<double> x = {2.0, 3.0, 0.1, 0.2, 0.3, 1.1, 1.2, 1.3};
  const std::vector<double> out = forward(p, 0, x);
  const std::vector<double> expected = {
      0, 0, -2.0 * 8 * 0.3, 0, 0, -2.0 * 27 * 1.3 * 10, 5 * 4.0 * 1 + 0.1 * 0.2 * 3, 5 * 9.0 * 2 + 1.1 * 1.2 * 4};
  for (size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(out[k], expected[k], 1e-13) << k;
}

TEST(SymmetricContraction, adds_to_its_results) {
  const ContractionProduct p = examples()[0];
  const std::vector<double> x = random_numbers(p.irreps_in.dim(), 5), once = forward(p, 1, x);
  std::vector<double> twice = once;
  p.forward(1, x.data(), twice.data());
  for (size_t k = 0; k < once.size(); ++k) EXPECT_NEAR(twice[k], 2 * once[k], 1e-12);
  std::vector<double> x_adj(x.size(), 0.0), more(x.size(), 7.0);
  p.backward(1, x.data(), once.data(), x_adj.data());
  p.backward(1, x.data(), once.data(), more.data());
  for (size_t k = 0; k < x.size(); ++k) EXPECT_NEAR(more[k], 7.0 + x_adj[k], 1e-12);
}

TEST(SymmetricContraction, takes_the_weights_of_the_species) {
  ContractionProduct p = examples()[0];
  const std::vector<double> x = random_numbers(p.irreps_in.dim(), 5), first = forward(p, 0, x),
                            second = forward(p, 1, x);
  EXPECT_GT(std::fabs(first[0] - second[0]), 1e-3);
  for (ContractionTerm &t : p.terms) std::swap(t.weight[0], t.weight[1]);
  EXPECT_EQ(forward(p, 0, x), second);
}

TEST(SymmetricContraction, terms_are_homogeneous_of_their_degree) {
  for (const ContractionProduct &p : examples())
    for (const ContractionTerm &term : p.terms) {
      ContractionProduct one = p;
      one.terms = {term};
      std::vector<double> x = random_numbers(p.irreps_in.dim(), 6);
      const std::vector<double> before = forward(one, 0, x);
      for (double &v : x) v *= -1.5;
      const std::vector<double> after = forward(one, 0, x);
      for (size_t k = 0; k < after.size(); ++k)
        EXPECT_NEAR(after[k], std::pow(-1.5, term.degree) * before[k], 1e-12 * std::fmax(1.0, std::fabs(after[k])));
    }
}

TEST(SymmetricContraction, backward_is_the_limit_of_differences) {
  for (const ContractionProduct &p : examples()) {
    const std::vector<double> x = random_numbers(p.irreps_in.dim(), 7), out_adj = random_numbers(p.irreps_out.dim(), 8);
    const std::vector<double> direction = random_numbers(p.irreps_in.dim(), 9);
    std::vector<double> x_adj(x.size(), 0.0);
    const int species = p.per_species ? 1 : 0;
    p.backward(species, x.data(), out_adj.data(), x_adj.data());
    const auto along = [&](double t) {
      std::vector<double> moved = x;
      for (size_t k = 0; k < x.size(); ++k) moved[k] += t * direction[k];
      return dot(forward(p, species, moved), out_adj);
    };
    // Polynomials of at most the fourth degree: Richardson's combination of two steps is exact up to rounding.
    const auto slope = [&](double h) { return (along(h) - along(-h)) / (2 * h); };
    const double exact = dot(x_adj, direction), found = (4 * slope(0.05) - slope(0.1)) / 3;
    EXPECT_NEAR(found, exact, 1e-11 * std::fmax(1.0, std::fabs(exact)));
    // And for each component alone.
    for (size_t k = 0; k < x.size(); k += 7) {
      const auto single = [&](double t) {
        std::vector<double> moved = x;
        moved[k] += t;
        return dot(forward(p, species, moved), out_adj);
      };
      const auto difference = [&](double h) { return (single(h) - single(-h)) / (2 * h); };
      EXPECT_NEAR((4 * difference(0.05) - difference(0.1)) / 3, x_adj[k], 1e-11 * std::fmax(1.0, std::fabs(exact)))
          << k;
    }
  }
}

// Features that are harmonics of a few vectors, so turning the vectors turns them.
TEST(SymmetricContraction, of_couplings_is_equivariant) {
  const double c = std::cos(0.7), s = std::sin(0.7), d = std::cos(1.1), t = std::sin(1.1);
  const double rotation[3][3] = {{c, 0, s}, {t * s, d, -t * c}, {-d * s, t, d * c}};
  for (const ContractionProduct &p : examples()) {
    const int mul = p.mul(), lmax = std::max(p.irreps_in.lmax(), p.irreps_out.lmax());
    for (const bool invert : {false, true}) {
      const auto turned = [&](const std::vector<double> &v) {
        std::vector<double> w(3);
        for (int a = 0; a < 3; ++a)
          for (int b = 0; b < 3; ++b) w[a] += rotation[a][b] * v[b];
        return w;
      };
      // Blocks sum_v |v| Y_l(v) over two vectors of each channel; an inversion multiplies a block by its parity.
      const auto features = [&](const Irreps &irreps, bool turn) {
        std::vector<double> x(irreps.dim(), 0.0), y((lmax + 1) * (lmax + 1));
        for (int u = 0; u < mul; ++u)
          for (unsigned n = 0; n < 2; ++n) {
            std::vector<double> v = random_numbers(3, 100 + 2 * u + n);
            const double size = std::sqrt(dot(v, v));
            if (turn) v = turned(v);
            spherical_harmonics(lmax, v.data(), y.data(), nullptr);
            for (int b = 0; b < irreps.size(); ++b) {
              const Irrep r = irreps[b].irrep;
              for (int m = 0; m < r.dim(); ++m)
                x[irreps.offset(b) + u * r.dim() + m] += size * y[r.l * r.l + m] * (turn && invert ? r.p : 1.0);
            }
          }
        return x;
      };
      // Products with harmonics of five more vectors, which span the components of l <= 2, are invariant.
      const std::vector<double> before = forward(p, 0, features(p.irreps_in, false)),
                                after = forward(p, 0, features(p.irreps_in, true));
      for (unsigned k = 0; k < 5; ++k)
        for (int b = 0; b < p.irreps_out.size(); ++b) {
          const Irrep r = p.irreps_out[b].irrep;
          std::vector<double> v = random_numbers(3, 300 + k), y((lmax + 1) * (lmax + 1)), z = y;
          spherical_harmonics(lmax, v.data(), y.data(), nullptr);
          spherical_harmonics(lmax, turned(v).data(), z.data(), nullptr);
          for (int u = 0; u < mul; ++u) {
            double a = 0.0, e = 0.0;
            for (int m = 0; m < r.dim(); ++m) {
              const int at = p.irreps_out.offset(b) + u * r.dim() + m;
              a += after[at] * z[r.l * r.l + m] * (invert ? r.p : 1.0);
              e += before[at] * y[r.l * r.l + m];
            }
            EXPECT_NEAR(a, e, 1e-11 * std::fmax(1.0, std::fabs(e)));
          }
        }
    }
  }
}

TEST(SymmetricContraction, refuses_terms_that_do_not_fit) {
  const auto expect = [](const std::function<void(ContractionProduct &)> &damage, const std::string &part) {
    ContractionProduct p = example("5x0e+5x1o", "5x0e+5x1o", 3);
    p.validate();
    damage(p);
    try {
      p.validate();
      ADD_FAILURE() << "accepted; expected a refusal with " << part;
    } catch (const std::invalid_argument &e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << part << " in: " << e.what();
    }
  };
  expect([](auto &p) { p.irreps_out = Irreps::parse("5x0e+4x1o"); }, "expected 5 channels");
  expect([](auto &p) { p.irreps_in = Irreps(); }, "without input");
  expect([](auto &p) { p.terms[2].out = 2; }, "term 2: expected an output block from 0 to 1");
  expect([](auto &p) { p.terms[2].degree = 5; }, "term 2: expected a degree from 1 to 4");
  expect([](auto &p) { p.terms[1] = p.terms[0]; }, "term 1: its output block");
  expect([](auto &p) { p.terms[2].num_paths = 0; }, "at least one path");
  expect([](auto &p) { p.terms[2].num_paths += 1; }, "term 2: expected weights [");
  expect([](auto &p) { p.terms[2].weight.clear(); }, "weights for each species, found 0");
  expect([](auto &p) { p.per_species = false; }, "one matrix of weights, found 2");
  expect([](auto &p) { p.terms[2].weight[1].cols = 4; }, "term 2: expected weights [");
  expect([](auto &p) { p.terms[2].weight[1].data.pop_back(); }, "term 2: expected weights [");
  expect([](auto &p) { p.terms[2].entries[1].component = 3; }, "entry 1: expected a component");
  expect([](auto &p) { p.terms[2].entries[1].component = -1; }, "entry 1: expected a component");
  expect([](auto &p) { p.terms[2].entries[1].path = p.terms[2].num_paths; }, "entry 1: expected a path");
  expect([](auto &p) { p.terms[2].entries[1].factor[1] = 4; }, "entry 1: expected a factor from 0 to 3");
  expect([](auto &p) { p.terms[2].entries[1].factor[0] = -1; }, "entry 1: expected a factor");
  expect([](auto &p) { p.terms[4].entries[0].factor = {2, 1, 3}; }, "ascending order");
  expect([](auto &p) { p.terms[2].entries[1].coefficient = std::nan(""); }, "finite coefficient");
}

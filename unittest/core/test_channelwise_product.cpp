// SPDX-License-Identifier: MIT
// Channelwise products: their plain loops compared with products of matrices, polynomials and differences.
#include "src/algebra/channelwise_product.h"
#include "unittest/support/dot.h"
#include "unittest/support/random_numbers.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace equi;
using equi::testing::dot;
using equi::testing::random_numbers;

Irreps blocks_of(const std::vector<Irrep> &irreps, int mul) {
  std::vector<IrrepBlock> blocks;
  for (const Irrep &r : irreps) blocks.push_back({mul, r});
  return Irreps(blocks);
}

// Products with repeated outputs, of a block and itself, with their factors in both orders, and of single blocks.
std::vector<ChannelwiseProduct> examples() {
  std::vector<ChannelwiseProduct> all;
  for (const int mul : {1, 5, 13, 33}) {
    ChannelwiseProduct p;
    p.irreps_in = blocks_of({{0, 1}, {1, -1}, {2, 1}, {1, -1}, {3, -1}}, mul);
    p.irreps_out = blocks_of({{1, -1}, {2, 1}, {0, 1}, {1, 1}}, mul);
    p.paths = {{0, 1, 0, 0.7}, {3, 0, 0, -1.1}, {1, -1, 0, 2.0}, {2, 4, 0, 0.3},  {4, 2, 0, -0.9}, {1, 1, 1, 0.4},
               {3, 1, 1, 1.3}, {2, 2, 1, -0.8}, {2, -1, 1, 0.6}, {0, -1, 2, 1.0}, {4, 4, 2, 0.5},  {1, 3, 3, -0.2}};
    all.push_back(p);
  }
  return all;
}

std::vector<double> forward(const ChannelwiseProduct &p, const std::vector<double> &x) {
  std::vector<double> out(p.irreps_out.dim(), 0.0);
  p.forward(x.data(), out.data());
  return out;
}

TEST(ChannelwiseProduct, equals_its_polynomials) {
  for (const ChannelwiseProduct &p : examples()) {
    p.validate();
    const ContractionProduct polynomials = p.polynomials();
    polynomials.validate();
    const std::vector<double> x = random_numbers(p.irreps_in.dim(), 1), g = random_numbers(p.irreps_out.dim(), 2);
    std::vector<double> out(g.size(), 0.0), x_adj(x.size(), 0.0), expected(x.size(), 0.0);
    polynomials.forward(0, x.data(), out.data());
    const std::vector<double> loops = forward(p, x);
    for (size_t k = 0; k < out.size(); ++k) EXPECT_NEAR(out[k], loops[k], 1e-13 * std::fmax(1.0, std::fabs(loops[k])));
    polynomials.backward(0, x.data(), g.data(), x_adj.data());
    p.backward(x.data(), g.data(), expected.data());
    for (size_t k = 0; k < x.size(); ++k)
      EXPECT_NEAR(x_adj[k], expected[k], 1e-13 * std::fmax(1.0, std::fabs(expected[k])));
  }
}

TEST(ChannelwiseProduct, backward_is_the_limit_of_differences) {
  for (const ChannelwiseProduct &p : examples()) {
    const std::vector<double> x = random_numbers(p.irreps_in.dim(), 3), g = random_numbers(p.irreps_out.dim(), 4);
    const std::vector<double> direction = random_numbers(p.irreps_in.dim(), 5);
    std::vector<double> x_adj(x.size(), 0.0);
    p.backward(x.data(), g.data(), x_adj.data());
    const auto along = [&](double t) {
      std::vector<double> moved = x;
      for (size_t k = 0; k < x.size(); ++k) moved[k] += t * direction[k];
      return dot(forward(p, moved), g);
    };
    // The product has the second degree, so the symmetric difference is exact up to rounding.
    const double exact = dot(x_adj, direction);
    EXPECT_NEAR((along(0.5) - along(-0.5)), exact, 1e-12 * std::fmax(1.0, std::fabs(exact)));
  }
}

using Matrix3 = std::array<std::array<double, 3>, 3>;

// An orthonormal basis of the matrices, in the order of 0e + 1o + 2e: multiples of the unit matrix, antisymmetric ones
// and symmetric ones without trace.
std::vector<Matrix3> basis_of_matrices() {
  std::vector<Matrix3> basis(9);
  for (int a = 0; a < 3; ++a) {
    const int b = (a + 1) % 3, c = (a + 2) % 3;
    basis[0][a][a] = 1.0 / std::sqrt(3.0);
    basis[1 + a][c][b] = 1.0 / std::sqrt(2.0);    // [e_a]x e_b = e_c
    basis[1 + a][b][c] = -1.0 / std::sqrt(2.0);
  }
  const auto symmetric = [&](int k, int a, int b) { basis[k][a][b] = basis[k][b][a] = 1.0 / std::sqrt(2.0); };
  symmetric(4, 0, 2);
  symmetric(5, 0, 1);
  symmetric(7, 1, 2);
  const double diagonal[2][3] = {{-1.0, 2.0, -1.0}, {-1.0, 0.0, 1.0}};
  for (int a = 0; a < 3; ++a) {
    basis[6][a][a] = diagonal[0][a] / std::sqrt(6.0);
    basis[8][a][a] = diagonal[1][a] / std::sqrt(2.0);
  }
  return basis;
}

// With these scales a product of two features 0e + 1o + 2e is the anticommutator of two matrices, as in TensorNet.
TEST(ChannelwiseProduct, makes_anticommutators_of_matrices) {
  constexpr int MUL = 5;
  ChannelwiseProduct p;
  p.irreps_in = blocks_of({{0, 1}, {1, -1}, {2, 1}, {0, 1}, {1, -1}, {2, 1}}, MUL);
  p.irreps_out = blocks_of({{0, 1}, {1, -1}, {2, 1}}, MUL);
  const double with_scalars = std::sqrt(20.0 / 3.0), five = std::sqrt(5.0);
  p.paths = {{0, 3, 0, 2.0 / std::sqrt(3.0)},
             {0, 4, 1, 2.0},
             {1, 3, 1, 2.0},
             {0, 5, 2, with_scalars},
             {2, 3, 2, with_scalars},
             {2, 5, 0, with_scalars},
             {1, 4, 0, -2.0},
             {1, 4, 2, five},
             {1, 5, 1, -five},
             {2, 4, 1, -five},
             {2, 5, 2, std::sqrt(35.0 / 3.0)}};
  const std::vector<Matrix3> basis = basis_of_matrices();
  const std::vector<double> x = random_numbers(p.irreps_in.dim(), 6), out = forward(p, x);
  for (int u = 0; u < MUL; ++u) {
    const auto matrix = [&](const std::vector<double> &feature, const Irreps &irreps, int first_block) {
      Matrix3 sum{};
      for (int l = 0; l < 3; ++l)
        for (int m = 0; m <= 2 * l; ++m)
          for (int a = 0; a < 3; ++a)
            for (int b = 0; b < 3; ++b)
              sum[a][b] += feature[irreps.offset(first_block + l) + u * (2 * l + 1) + m] * basis[l * l + m][a][b];
      return sum;
    };
    const Matrix3 y = matrix(x, p.irreps_in, 0), m = matrix(x, p.irreps_in, 3), found = matrix(out, p.irreps_out, 0);
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b) {
        double expected = 0.0;
        for (int c = 0; c < 3; ++c) expected += y[a][c] * m[c][b] + m[a][c] * y[c][b];
        EXPECT_NEAR(found[a][b], expected, 1e-13 * std::fmax(1.0, std::fabs(expected)));
      }
  }
}

TEST(ChannelwiseProduct, refuses_paths_that_do_not_fit) {
  const auto refused = [](const ChannelwiseProduct &p, const std::string &part) {
    try {
      p.validate();
      FAIL() << "not refused: " << part;
    } catch (const std::invalid_argument &e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  const ChannelwiseProduct good = examples()[1];
  const auto with_path = [&](const ChannelwisePath &path) {
    ChannelwiseProduct p = good;
    p.paths.push_back(path);
    return p;
  };
  refused(with_path({5, 0, 0, 1.0}), "path 12: expected an input block from 0 to 4, found 5");
  refused(with_path({0, 7, 0, 1.0}), "path 12: expected an input block from 0 to 4, found 7");
  refused(with_path({0, 1, -1, 1.0}), "path 12: expected an output block from 0 to 3, found -1");
  refused(with_path({0, 1, 1, 1.0}), "path 12: expected blocks that make 1x2e, found 1x0e and 1x1o");
  refused(with_path({1, 3, 0, 1.0}), "path 12: expected blocks that make 1x1o, found 1x1o and 1x1o");
  refused(with_path({2, -1, 0, 1.0}), "path 12: expected blocks that make 1x1o, found 1x2e");
  refused(with_path({0, 1, 0, NAN}), "path 12: expected a finite scale");
  ChannelwiseProduct p = good;
  p.irreps_out = Irreps::parse("5x1o+5x2e+4x0e+5x1e");
  refused(p, "expected 5 channels in each block, found 4x0e");
}

}    // namespace

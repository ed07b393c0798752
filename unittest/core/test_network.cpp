// SPDX-License-Identifier: MIT
// Activations and dense networks: values by another formula, derivatives by finite differences.
#include "src/functions/activation.h"
#include "src/functions/network.h"

#include <gtest/gtest.h>
#include <cmath>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace equi;

namespace {

constexpr Activation ALL[] = {Activation::identity, Activation::silu, Activation::tanh,
                              Activation::sigmoid,  Activation::relu, Activation::abs,
                              Activation::ssp,      Activation::mish, Activation::gelu};

Network random_network(const std::vector<int> &widths, Activation a, bool has_biases, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Network n;
  for (size_t k = 0; k + 1 < widths.size(); ++k) {
    Matrix m{widths[k], widths[k + 1], {}};
    for (int i = 0; i < m.rows * m.cols; ++i) m.data.push_back(normal(random) / std::sqrt(m.rows));
    n.weights.push_back(m);
    std::vector<double> bias;
    if (has_biases)
      for (int j = 0; j < m.cols; ++j) bias.push_back(0.3 * normal(random));
    n.biases.push_back(bias);
  }
  n.activation = a;
  n.activation_scale = 1.7;
  return n;
}

Network with_norms(Network n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  n.norms.resize(n.weights.size());
  for (size_t k = 0; k + 1 < n.weights.size(); ++k) {
    if (k == 1) continue;    // one layer without a norm
    for (int j = 0; j < n.weights[k].cols; ++j) {
      n.norms[k].weight.push_back(1.0 + 0.3 * normal(random));
      n.norms[k].bias.push_back(0.3 * normal(random));
    }
    n.norms[k].epsilon = 0.05;    // large enough to matter
  }
  return n;
}

// The definition, written out a second time.
std::vector<double> plain_value(const Network &n, std::vector<double> h) {
  for (size_t k = 0; k < n.weights.size(); ++k) {
    std::vector<double> z(n.weights[k].cols, 0.0);
    for (int j = 0; j < n.weights[k].cols; ++j) {
      for (int i = 0; i < n.weights[k].rows; ++i) z[j] += h[i] * n.weights[k](i, j);
      if (!n.biases[k].empty()) z[j] += n.biases[k][j];
    }
    if (k < n.norms.size() && !n.norms[k].weight.empty()) {
      // The variance by another formula, mean of squares minus square of the mean.
      double sum = 0.0, squares = 0.0;
      for (double v : z) {
        sum += v;
        squares += v * v;
      }
      const double mean = sum / z.size(), variance = squares / z.size() - mean * mean;
      for (size_t j = 0; j < z.size(); ++j)
        z[j] = n.norms[k].weight[j] * (z[j] - mean) / std::sqrt(variance + n.norms[k].epsilon) + n.norms[k].bias[j];
    }
    if (k + 1 < n.weights.size())
      for (double &v : z) {
        double d;
        activation_derivatives(n.activation, v, 0, &d);
        v = n.activation_scale * d;
      }
    h = z;
  }
  return h;
}

// A curve through the space of inputs, with its derivatives.
double curve(int input, double t, int q) {
  const double k = 0.7 + 0.3 * input;
  return std::pow(k, q) * std::sin(k * t + 0.5 * input + q * M_PI / 2);
}

std::vector<double> curve_inputs(int num, double t, int order) {
  std::vector<double> in;
  for (int q = 0; q <= order; ++q)
    for (int i = 0; i < num; ++i) in.push_back(curve(i, t, q));
  return in;
}

// Two steps of central differences against derivatives(), for a network of four inputs.
void expect_limits_of_differences(const Network &n) {
  const int m = n.num_outputs();
  const auto at = [&](double t) {
    std::vector<double> out(4 * m);
    n.derivatives(3, curve_inputs(4, t, 3).data(), out.data());
    return out;
  };
  const double t = 0.3;
  const std::vector<double> exact = at(t);
  double error[2] = {};
  const double steps[2] = {2e-2, 2e-3};
  for (int s = 0; s < 2; ++s) {
    const auto high = at(t + steps[s]), low = at(t - steps[s]);
    for (int k = 0; k < 3 * m; ++k)
      error[s] = std::fmax(error[s], std::fabs((high[k] - low[k]) / (2 * steps[s]) - exact[k + m]));
  }
  EXPECT_LT(error[1], 1e-4) << activation_name(n.activation);
  EXPECT_NEAR(error[0] / error[1], 100.0, 10.0) << activation_name(n.activation);
}

}    // namespace

TEST(Activation, names_and_values_agree) {
  for (Activation a : ALL) EXPECT_EQ(parse_activation(activation_name(a)), a);
  try {
    parse_activation("swish");
    FAIL();
  } catch (const std::invalid_argument &e) {
    EXPECT_NE(std::string(e.what()).find("swish"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("silu, tanh"), std::string::npos);
  }
}

TEST(Activation, values_are_their_formulas) {
  for (double x : {-3.0, -0.4, 0.0, 0.8, 5.0}) {
    const double expected[] = {x,
                               x / (1 + std::exp(-x)),
                               std::tanh(x),
                               1 / (1 + std::exp(-x)),
                               std::fmax(x, 0.0),
                               std::fabs(x),
                               std::log((1 + std::exp(x)) / 2),
                               x * std::tanh(std::log1p(std::exp(x))),
                               x * (1 + std::erf(x / std::sqrt(2.0))) / 2};
    for (size_t k = 0; k < std::size(ALL); ++k) {
      double d;
      activation_derivatives(ALL[k], x, 0, &d);
      EXPECT_NEAR(d, expected[k], 1e-14) << activation_name(ALL[k]) << x;
    }
  }
}

TEST(Activation, derivatives_are_limits_of_differences) {
  for (Activation a : ALL)
    for (double x : {-2.1, -0.3, 0.2, 1.7}) {
      double d[4], high[4], low[4];
      activation_derivatives(a, x, 3, d);
      for (double h : {1e-3, 1e-4}) {
        activation_derivatives(a, x + h, 3, high);
        activation_derivatives(a, x - h, 3, low);
        for (int q = 0; q < 3; ++q)
          EXPECT_NEAR((high[q] - low[q]) / (2 * h), d[q + 1], 5 * h * h + 1e-11) << activation_name(a) << x << q;
      }
    }
}

TEST(Activation, stays_finite_far_out) {
  for (Activation a : ALL)
    for (double x : {-800.0, -50.0, 50.0, 800.0}) {
      double d[4];
      activation_derivatives(a, x, 3, d);
      for (double v : d) EXPECT_TRUE(std::isfinite(v)) << activation_name(a) << x;
    }
}

TEST(Network, value_is_the_definition) {
  // Widths at and around the blocks of eight columns and four rows of the fast product.
  for (const std::vector<int> &widths :
       {std::vector<int>{4, 3}, {4, 8, 16}, {3, 13, 9, 33}, {1, 7, 1}, {8, 64, 64, 21}})
    for (bool has_extras : {false, true}) {
      Network n = random_network(widths, Activation::silu, has_extras, 5);
      if (has_extras) n = with_norms(n, 6);
      const std::vector<double> in = curve_inputs(n.num_inputs(), 0.4, 0), expected = plain_value(n, in);
      std::vector<double> out(n.num_outputs());
      n.derivatives(0, in.data(), out.data());
      for (int j = 0; j < n.num_outputs(); ++j) EXPECT_NEAR(out[j], expected[j], 1e-13);
    }
}

TEST(Network, derivatives_are_limits_of_differences) {
  for (Activation a : {Activation::silu, Activation::tanh, Activation::ssp})
    expect_limits_of_differences(random_network({4, 9, 6, 11}, a, true, 6));
}

TEST(Network, derivatives_with_norms_are_limits_of_differences) {
  expect_limits_of_differences(with_norms(random_network({4, 9, 6, 11}, Activation::silu, true, 6), 7));
  expect_limits_of_differences(with_norms(random_network({4, 33, 5, 13, 3}, Activation::tanh, false, 8), 9));
}

// A constant that is added to all components, and the width of their spread, do not matter.
TEST(Network, norms_forget_mean_and_spread) {
  Network n = random_network({3, 13, 2}, Activation::silu, true, 10);
  n = with_norms(n, 11);
  n.norms[0].epsilon = 0.0;
  Network other = n;
  for (double &v : other.weights[0].data) v *= 7.0;
  for (double &v : other.biases[0]) v = 7.0 * v - 5.0;
  const std::vector<double> in = curve_inputs(3, 0.4, 0);
  double a[2], b[2];
  n.derivatives(0, in.data(), a);
  other.derivatives(0, in.data(), b);
  for (int j = 0; j < 2; ++j) EXPECT_NEAR(a[j], b[j], 1e-13);
  n.norms.clear();
  n.derivatives(0, in.data(), b);
  EXPECT_GT(std::fabs(a[0] - b[0]), 1e-3);
}

TEST(Network, simplify_keeps_layers_with_norms) {
  const Network n = with_norms(random_network({6, 9, 5, 3}, Activation::identity, true, 9), 12);
  Network simple = n;
  simple.simplify();
  EXPECT_EQ(simple.weights.size(), 3u);
  // Empty norms of all layers mean no norms.
  simple.norms.assign(3, {});
  simple.simplify();
  EXPECT_EQ(simple.weights.size(), 1u);
}

TEST(Network, batches_and_lower_orders_agree_with_single_points) {
  const Network n = random_network({5, 10, 12, 19}, Activation::silu, true, 7);
  constexpr int COUNT = 7;
  for (int order = 0; order <= 3; ++order) {
    std::vector<double> in, out(COUNT * (order + 1) * 19), one(4 * 19);
    for (int p = 0; p < COUNT; ++p)
      for (double v : curve_inputs(5, 0.2 * p, order)) in.push_back(v);
    n.derivatives(COUNT, order, in.data(), out.data());
    for (int p = 0; p < COUNT; ++p) {
      n.derivatives(3, curve_inputs(5, 0.2 * p, 3).data(), one.data());
      for (int k = 0; k < (order + 1) * 19; ++k) EXPECT_NEAR(out[p * (order + 1) * 19 + k], one[k], 1e-13);
    }
  }
}

TEST(Network, gradient_is_the_limit_of_differences) {
  for (const std::vector<int> &widths : {std::vector<int>{6, 1}, {6, 7, 1}, {6, 9, 5, 1}}) {
    const Network n = random_network(widths, Activation::silu, true, 8);
    std::vector<double> in = curve_inputs(6, 0.9, 0), gradient(6);
    const double value = n.value_and_gradient(in.data(), gradient.data());
    EXPECT_NEAR(value, plain_value(n, in)[0], 1e-13);
    EXPECT_EQ(value, n.value_and_gradient(in.data(), nullptr));
    for (double h : {1e-3, 1e-4})
      for (int i = 0; i < 6; ++i) {
        std::vector<double> high = in, low = in;
        high[i] += h;
        low[i] -= h;
        const double difference =
            (n.value_and_gradient(high.data(), nullptr) - n.value_and_gradient(low.data(), nullptr)) / (2 * h);
        EXPECT_NEAR(difference, gradient[i], 10 * h * h + 1e-11);
      }
  }
}

// With and without tangents, for numbers of rows around the four that stay in registers.
TEST(NetworkGradient, rows_at_a_time_have_the_bits_of_one) {
  const NetworkGradient network(random_network({33, 13, 5, 1}, Activation::ssp, true, 4));
  const auto compare = [&](auto number, int planes) {
    using T = decltype(number);
    for (const int count : {1, 3, 4, 17}) {
      std::vector<double> in(count * planes * 33), values(count * planes), gradients(in.size()), one(33 * planes);
      for (size_t k = 0; k < in.size(); ++k) in[k] = std::sin(1.7 * k);
      std::vector<double> scratch(planes * network.scratch_size(count));
      network.evaluate<T>(count, in.data(), values.data(), gradients.data(), scratch.data());
      for (int r = 0; r < count; ++r) {
        double value[2];
        network.evaluate<T>(1, &in[r * one.size()], value, one.data(), scratch.data());
        for (int p = 0; p < planes; ++p) EXPECT_EQ(values[r * planes + p], value[p]) << count << " rows, row " << r;
        for (size_t k = 0; k < one.size(); ++k) EXPECT_EQ(gradients[r * one.size() + k], one[k]) << count;
      }
    }
  };
  compare(double(), 1);
  compare(Dual<double>(), 2);
}

TEST(Network, simplify_keeps_the_function) {
  for (bool has_biases : {false, true}) {
    const Network n = random_network({6, 9, 5, 3}, Activation::identity, has_biases, 9);
    Network simple = n;
    simple.simplify();
    ASSERT_EQ(simple.weights.size(), 1u);
    EXPECT_EQ(simple.biases[0].empty(), !has_biases);
    const std::vector<double> in = curve_inputs(6, 0.1, 0), expected = plain_value(n, in),
                              found = plain_value(simple, in);
    for (int j = 0; j < 3; ++j) EXPECT_NEAR(found[j], expected[j], 1e-13);
  }
  Network curved = random_network({6, 9, 1}, Activation::silu, false, 9);
  curved.simplify();
  EXPECT_EQ(curved.weights.size(), 2u);
}

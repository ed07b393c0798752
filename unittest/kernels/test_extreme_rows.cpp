// SPDX-License-Identifier: MIT
// Gates and norms of rows where exponentials, squares and reciprocals leave the range of float32, where channels are
// equal or zero, and with the least divisors that a file may have, against formulas in long double.
#include "kokkos/layer_interface/host_backend.h"
#include "kokkos/layers/edge_network/edge_network_row.h"
#include "kokkos/layers/gate/host_gate.h"
#include "kokkos/layers/layer_norm/layer_norm_layer.h"
#include "kokkos/layers/norm_scale/norm_scale_layer.h"
#include "kokkos/layers/spherical_norm/spherical_norm_layer.h"
#include "src/base/model_limits.h"
#include "unittest/support/extreme_rows.h"
#include "unittest/support/instruction_sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

template <class T>
class ExtremeRows : public ::testing::Test {};
using Types = ::testing::Types<float, double, Dual<float>, Dual<double>>;
TYPED_TEST_SUITE(ExtremeRows, Types);

// Row mathematics as a pass of passes_of_row().
template <class T, class Rows>
auto pass_of(const Rows &norm, const HostKernels<T> &kernels) {
  return [&](AlignedVector<Real<T>> &x, AlignedVector<Real<T>> &y, bool is_forward) {
    if (is_forward)
      norm.forward(kernels, 1, {x.data(), 1, 0}, {y.data(), 1, 0}, 0);
    else
      norm.backward(kernels, 1, {x.data(), 1, 0}, {y.data(), 1, 0}, 0);
  };
}

TYPED_TEST(ExtremeRows, gates_have_their_digits) {
  using T = TypeParam;
  for (const Activation a : EXTREME_ACTIVATIONS)
    for (const InstructionSet set : available_sets())
      expect_gate_has_its_digits<T>(a, std::string(activation_name(a)) + ", " + instruction_set_name(set),
                                    pass_of<T>(HostGate<T>(gate_of_scalars<T>(a)), host_kernels<T>(set)));
}

using Numbers = std::vector<long double>;

// Values of `norm` and their adjoints, with tangents, by central differences in long double. step: of an argument.
template <class Norm>
RowPasses exact_passes(const std::vector<double> (&x)[2], const std::vector<double> (&y_adj)[2], long double step,
                       const Norm &norm) {
  const size_t n = x[0].size();
  const auto at = [&](long double t) {
    Numbers moved(n);
    for (size_t k = 0; k < n; ++k) moved[k] = x[0][k] + t * x[1][k];
    return moved;
  };
  const auto adjoint = [&](long double t) {
    Numbers x_adj(n);
    for (size_t k = 0; k < n; ++k) {
      const auto form = [&](long double h) {
        Numbers moved = at(t);
        moved[k] += h;
        const Numbers y = norm(moved);
        long double sum = 0;
        for (size_t j = 0; j < n; ++j) sum += (y_adj[0][j] + t * y_adj[1][j]) * y[j];
        return sum;
      };
      const auto slope = [&](long double h) { return (form(h) - form(-h)) / (2 * h); };
      x_adj[k] = (4 * slope(step / 2) - slope(step)) / 3;
    }
    return x_adj;
  };
  RowPasses exact;
  // Tangents of x are about as large as the argument that a step is taken of.
  const long double h = 1e-3L;
  const Numbers y = norm(at(0)), high = norm(at(h)), low = norm(at(-h));
  const Numbers a = adjoint(0), a_high = adjoint(h), a_low = adjoint(-h);
  for (size_t k = 0; k < n; ++k) {
    exact.y[0].push_back(y[k]);
    exact.x_adj[0].push_back(a[k]);
    exact.y[1].push_back((high[k] - low[k]) / (2 * h));
    exact.x_adj[1].push_back((a_high[k] - a_low[k]) / (2 * h));
  }
  return exact;
}

// relative: to the largest number that a pass has for tangents of the size of the row.
template <class T>
void expect_passes(const RowPasses &found, const RowPasses &exact, const std::string &what) {
  constexpr double ROUNDING = sizeof(Real<T>) == 4 ? 2e-6 : 1e-10, DIFFERENCE = 1e-5, LEAST = 1e-37;
  const auto expect = [&](const std::vector<double>(&a)[2], const std::vector<double>(&b)[2], const char *kind) {
    double most = 0.0;
    for (int plane = 0; plane < 2; ++plane)
      for (const double v : b[plane]) most = std::max(most, std::fabs(v));
    for (int plane = 0; plane < PLANES<T>; ++plane)
      for (size_t k = 0; k < b[plane].size(); ++k)
        EXPECT_NEAR(a[plane][k], b[plane][k], (plane == 0 ? ROUNDING : 10 * ROUNDING + DIFFERENCE) * most + LEAST)
            << what << ", " << kind << ", plane " << plane << ", channel " << k;
  };
  expect(found.y, exact.y, "output");
  expect(found.x_adj, exact.x_adj, "adjoint");
}

// Rows as numbers of float32: of zeros, with equal channels, small and as large as `largest`.
std::vector<std::vector<double>> rows_up_to(double largest) {
  std::vector<std::vector<double>> rows = {{0, 0, 0, 0}, {3, 3, 3, 3}, {0, 0, 2, 0}};
  for (double size = 1e-30; size <= largest * 1.0001; size *= 1e5) {
    rows.emplace_back();
    for (const double v : {0.3, -1.0, 0.7, 0.45}) rows.back().push_back(static_cast<float>(v * size));
  }
  return rows;
}

// All rows through a norm and its formula. length(x): by which x has to change for y to change much.
template <class T, class Pass, class Norm, class Length>
void expect_norm(double up_to, const std::string &what, const Pass &pass, const Norm &norm, const Length &length) {
  for (const std::vector<double> &row : rows_up_to(up_to)) {
    const long double size = length(Numbers(row.begin(), row.end()));
    if (size < 1e-6 * largest({row})) continue;    // equal channels, of which differences would have no digits
    std::vector<double> x[2] = {row, {}}, y_adj[2] = {{1.0, 0.5, -2.0, 0.25}, {0.5, -1.0, 0.25, 2.0}};
    for (const double v : {0.25, -0.5, 0.125, 1.0}) x[1].push_back(static_cast<float>(v * static_cast<double>(size)));
    expect_passes<T>(passes_of_row<T>(x, y_adj, pass), exact_passes(x, y_adj, 1e-3L * size, norm),
                     what + ", first channel " + std::to_string(row[0]));
  }
}

long double mean_of(const Numbers &x) {
  long double sum = 0;
  for (const long double v : x) sum += v;
  return sum / x.size();
}
long double square_deviation(const Numbers &x, long double center) {
  long double sum = 0;
  for (const long double v : x) sum += (v - center) * (v - center);
  return sum / x.size();
}

// The float32 nearest below the limit would not be one that a file may have.
constexpr double EPSILONS[] = {1e-5, 1.001 * MIN_DIVISOR};
// Far beyond the numbers whose squares float32 holds.
constexpr double LARGEST = 1e25;

struct NormCase {
  double epsilon;
  long double deviation(const Numbers &x) const {
    return std::sqrt(square_deviation(x, mean_of(x)) + static_cast<long double>(epsilon));
  }
  Numbers operator()(const Numbers &x) const {
    Numbers y;
    for (size_t k = 0; k < x.size(); ++k) y.push_back((1.0L + 0.5L * k) * (x[k] - mean_of(x)) / deviation(x) + 0.25L);
    return y;
  }
  std::vector<double> weight(size_t n) const {
    std::vector<double> w;
    for (size_t k = 0; k < n; ++k) w.push_back(1.0 + 0.5 * k);
    return w;
  }
};

TYPED_TEST(ExtremeRows, layer_norms_have_their_digits) {
  using T = TypeParam;
  for (const double epsilon : EPSILONS) {
    const NormCase exact{epsilon};
    const LayerNorm layer{0, 1, exact.weight(4), std::vector<double>(4, 0.25), epsilon};
    const LayerNormRows<HostBackend<T>> norm(best_instruction_set(), layer, FeatureLayout(scalars(4), PLANES<T>));
    expect_norm<T>(LARGEST, "layer norm", pass_of<T>(norm, host_kernels<T>(best_instruction_set())), exact,
                   [&](const Numbers &x) { return exact.deviation(x); });
  }
}

TYPED_TEST(ExtremeRows, norms_of_edge_networks_have_their_digits) {
  using T = TypeParam;
  using R = Real<T>;
  for (const double epsilon : EPSILONS) {
    const NormCase exact{epsilon};
    std::vector<R> weight, bias(4, R(0.25));
    for (const double w : exact.weight(4)) weight.push_back(static_cast<R>(w));
    // Rows of planes with a pad between them.
    AlignedVector<R> normalized(PLANES<T> * CHANNEL_PAD), factor(PLANES<T>);
    const auto numbers = [](AlignedVector<R> &row, int distance) { return make_pointer<T>(row.data(), distance); };
    const auto pass = [&](AlignedVector<R> &x, AlignedVector<R> &y, bool is_forward) {
      if (is_forward) {
        y = x;
        NormalizeRow<T>{4,
                        nullptr,
                        weight.data(),
                        bias.data(),
                        epsilon,
                        numbers(y, CHANNEL_PAD),
                        numbers(normalized, CHANNEL_PAD),
                        numbers(factor, 1)}(0);
      } else {
        NormalizeAdjointRow<T>{4, weight.data(), numbers(normalized, CHANNEL_PAD), numbers(factor, 1),
                               numbers(y, CHANNEL_PAD)}(0);
        x = y;
      }
    };
    expect_norm<T>(LARGEST, "norm of a network", pass, exact, [&](const Numbers &x) { return exact.deviation(x); });
  }
}

TYPED_TEST(ExtremeRows, spherical_norms_have_their_digits) {
  using T = TypeParam;
  for (const double epsilon : EPSILONS)
    for (const bool center : {false, true}) {
      const auto length = [&](const Numbers &x) {
        return std::sqrt(square_deviation(x, center ? mean_of(x) : 0) + static_cast<long double>(epsilon));
      };
      const auto exact = [&](const Numbers &x) {
        Numbers y;
        for (const long double v : x) y.push_back(1.5L * (v - (center ? mean_of(x) : 0)) / length(x));
        return y;
      };
      const std::vector<double> weights(4, 0.25), scales(4, 1.5);
      const SphericalNorm layer{0, 1, {{{0}, {weights}, center}}, epsilon, {scales}, {}};
      const SphericalNormRows<HostBackend<T>> norm(best_instruction_set(), layer, scalars(4),
                                                   FeatureLayout(scalars(4), PLANES<T>));
      expect_norm<T>(LARGEST, "spherical norm", pass_of<T>(norm, host_kernels<T>(best_instruction_set())), exact,
                     length);
    }
}

// Each channel has a norm of its own, whose square the type of features must hold.
TYPED_TEST(ExtremeRows, scales_by_norms_have_their_digits) {
  using T = TypeParam;
  constexpr double LARGEST_SQUARE = 1e18;
  for (const double offset : {1.0, 1.001 * MIN_DIVISOR})
    for (const double factor : {1.0, 0.3}) {
      const NormScaleRows<HostBackend<T>> norm({0, 1, offset, factor}, FeatureLayout(scalars(4), PLANES<T>));
      const auto exact = [&](const Numbers &x) {
        Numbers y;
        for (const long double v : x) y.push_back(v / (offset + factor * v * v));
        return y;
      };
      const auto length = [&](const Numbers &x) {
        long double least = INFINITY;    // of a channel
        for (const long double v : x)
          least = std::min(least, std::sqrt(static_cast<long double>(offset)) + std::fabs(v));
        return 0.1L * least;
      };
      expect_norm<T>(LARGEST_SQUARE, "scale by norms", pass_of<T>(norm, host_kernels<T>(best_instruction_set())), exact,
                     length);
    }
}

}    // namespace

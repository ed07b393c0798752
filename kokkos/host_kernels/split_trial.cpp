// SPDX-License-Identifier: MIT
// Times the same product with both kernels, and compares both with float64.
#include "kokkos/host_kernels/split_trial.h"

#include "kokkos/host_kernels/packed_matrix.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace equi {

namespace {

constexpr int ROWS = 64, IN = 256, OUT = 256, TURNS = 5;

// The shortest time of f().
template <class F>
double shortest_time(const F &f) {
  double shortest = std::numeric_limits<double>::infinity();
  for (int turn = 0; turn < TURNS; turn++) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    shortest = std::min(shortest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return shortest;
}

}    // namespace

SplitTrial try_split_products(const SplitKernels &split, const HostKernels<float> &plain) {
  std::mt19937 engine(1);
  std::normal_distribution<double> random;
  Matrix m{IN, OUT, std::vector<double>(IN * OUT)};
  for (double &x : m.data) x = static_cast<float>(random(engine));
  AlignedVector<float> a(ROWS * IN), c(ROWS * OUT);
  for (float &x : a) x = static_cast<float>(random(engine));
  const AlignedVector<float> panels = packed<float>(m, plain.product_panel);
  const AlignedVector<BFloat16> parts = split_matrix(m);
  const auto largest_error = [&] {
    double largest = 0.0;
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < OUT; j++) {
        double sum = 0.0, size = 0.0;
        for (int k = 0; k < IN; k++) {
          const double term = static_cast<double>(a[i * IN + k]) * m(k, j);
          sum += term;
          size += std::abs(term);
        }
        const double error = std::abs(static_cast<double>(c[i * OUT + j]) - sum) / size;
        if (!(error <= largest)) largest = error;    // and not a number
      }
    return largest / std::numeric_limits<float>::epsilon();
  };
  SplitTrial trial{};
  trial.plain_seconds = shortest_time([&] {
    plain.product({ROWS, IN, OUT, panels.data(), a.data(), c.data(), IN, OUT, false});
  });
  trial.plain_error = largest_error();
  std::fill(c.begin(), c.end(), std::numeric_limits<float>::quiet_NaN());
  trial.seconds = shortest_time([&] {
    split.product({ROWS, IN, OUT, parts.data(), a.data(), c.data(), IN, OUT, false});
  });
  trial.error = largest_error();
  return trial;
}

}    // namespace equi

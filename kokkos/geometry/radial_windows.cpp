// SPDX-License-Identifier: MIT
// Finds the few functions that suffice in each window of distances.
#include "kokkos/geometry/radial_windows.h"

#include "src/functions/radial_expansion.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace equi {

namespace {

// The polynomials of one bin [coefficient][function].
struct Bin {
  double begin, width;
  std::vector<double> powers;
};

std::vector<Bin> bins_of(const RadialSet &set) {
  const int n = set.num_outputs(), coefficients = set.num_coefficients();
  std::vector<Bin> bins;
  for (int k = 0; k < set.num_functions(); k++) {
    const size_t first = bins.size();
    for (const RadialTable::Piece &piece : set.table(k).pieces)
      for (int b = 0; b < piece.num_bins; b++)
        bins.push_back({piece.r_begin + b * piece.spacing, piece.spacing,
                        std::vector<double>(static_cast<size_t>(coefficients) * n)});
    set.for_polynomials(k, [&](int bin, int column, const double *p) {
      for (int c = 0; c < coefficients; c++) bins[first + bin].powers[static_cast<size_t>(c) * n + column] = p[c];
    });
  }
  return bins;
}

double length(const double *v, int n) {
  double sum = 0.0;
  for (int k = 0; k < n; k++) sum += v[k] * v[k];
  return std::sqrt(sum);
}

}    // namespace

RadialWindows RadialWindows::divide(const RadialSet &set, int num_windows, double tolerance) {
  const int n = set.num_outputs(), coefficients = set.num_coefficients();
  const std::vector<Bin> bins = bins_of(set);
  double cutoff = 0.0, largest[2][2] = {};    // [for all distances][value, derivative]
  for (const Bin &b : bins) {
    cutoff = std::max(cutoff, b.begin + b.width);
    for (int of_all = b.begin < SHORT_DISTANCE ? 1 : 0; of_all < 2; of_all++)
      for (int d = 0; d < 2; d++)
        largest[of_all][d] =
            std::max(largest[of_all][d], length(&b.powers[static_cast<size_t>(d) * n], n) / (d > 0 ? b.width : 1.0));
  }
  RadialWindows windows;
  std::vector<std::vector<double>> samples(num_windows);
  for (const Bin &b : bins) {
    const int window = std::min(static_cast<int>((b.begin + 0.5 * b.width) / cutoff * num_windows), num_windows - 1);
    windows.of_bin.push_back(window);
    const double *const most = largest[b.begin < SHORT_DISTANCE ? 1 : 0];
    // Each coefficient is in units of its share of the allowed error.
    for (int c = 0; c < coefficients; c++) {
      const double of_value = most[0] > 0.0 ? 1.0 / most[0] : 0.0,
                   of_derivative = most[1] > 0.0 ? c / (b.width * most[1]) : 0.0,
                   factor = coefficients / tolerance * std::max(of_value, of_derivative);
      for (int k = 0; k < n; k++) samples[window].push_back(factor * b.powers[static_cast<size_t>(c) * n + k]);
    }
  }
  int most = 0;
  for (std::vector<double> &of_window : samples) {
    std::vector<double> rows = few_directions(std::move(of_window), n);
    windows.functions.push_back({static_cast<int>(rows.size()) / n, n, std::move(rows)});
    most = std::max(most, windows.functions.back().rows);
  }
  for (Matrix &m : windows.functions) {
    m.data.resize(static_cast<size_t>(most) * n, 0.0);
    m.rows = most;
  }
  return windows;
}

}    // namespace equi

// SPDX-License-Identifier: MIT
// Expands the radial functions of all pairs of species in a few common functions.
#include "src/functions/radial_expansion.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace equi {

namespace {

// Distances sampled for each pair: four per function of the basis, with a minimum per pair and a maximum for all pairs.
constexpr int LEAST_SAMPLES = 256, SAMPLES_PER_FUNCTION = 4, MOST_SAMPLES_OF_ALL = 20000;

// A sum waits for each of its terms, so several sums run at the same time.
constexpr int SIDE_BY_SIDE = 4, PARTS = 8;

double sum_of_products(const double *a, const double *b, int n) {
  double parts[PARTS] = {};
  int k = 0;
  for (; k + PARTS <= n; k += PARTS)
    for (int c = 0; c < PARTS; ++c) parts[c] += a[k + c] * b[k + c];
  for (; k < n; ++k) parts[0] += a[k] * b[k];
  return std::accumulate(parts, parts + PARTS, 0.0);
}

// Subtracts from COUNT vectors of n numbers their parts along a normalized one; left: the squares of their lengths.
template <int COUNT>
void take_along(double *vectors, const double *along, int n, double *left) {
  double part[COUNT] = {}, square[COUNT] = {};
  for (int j = 0; j < n; ++j)
    for (int c = 0; c < COUNT; ++c) part[c] += vectors[c * n + j] * along[j];
  for (int j = 0; j < n; ++j)
    for (int c = 0; c < COUNT; ++c) {
      double &v = vectors[c * n + j];
      v -= part[c] * along[j];
      square[c] += v * v;
    }
  std::copy_n(square, COUNT, left);
}

// Subtracts from v its parts along the rows of an orthonormal basis. Twice, because rounding leaves some after the
// first time.
void make_orthogonal(const std::vector<double> &basis, int n, double *v) {
  for (int turn = 0; turn < 2; ++turn)
    for (size_t first = 0; first < basis.size(); first += n) {
      const double along = sum_of_products(&basis[first], v, n);
      for (int k = 0; k < n; ++k) v[k] -= along * basis[first + k];
    }
}

void add_normalized(const double *v, int n, std::vector<double> &basis) {
  const double factor = 1.0 / std::sqrt(sum_of_products(v, v, n));
  for (int k = 0; k < n; ++k) basis.push_back(factor * v[k]);
}

// Orthonormal rows that span those of m.
std::vector<double> span_of_rows(const Matrix &m) {
  constexpr double ROUNDING = 1e-13;
  std::vector<double> basis, row(m.cols);
  for (int i = 0; i < m.rows; ++i) {
    const double *from = &m.data[static_cast<size_t>(i) * m.cols];
    std::copy_n(from, m.cols, row.begin());
    make_orthogonal(basis, m.cols, row.data());
    if (sum_of_products(row.data(), row.data(), m.cols) > ROUNDING * ROUNDING * sum_of_products(from, from, m.cols))
      add_normalized(row.data(), m.cols, basis);
  }
  return basis;
}

// The function with its outputs projected onto the orthonormal rows of `basis`.
RadialFunction projected(const RadialFunction &f, const std::vector<double> &basis) {
  const int n = f.num_outputs(), rows = static_cast<int>(basis.size()) / n;
  RadialFunction g = f;
  const auto project = [&](const double *from, double *to) {
    for (int k = 0; k < rows; ++k) to[k] = sum_of_products(from, &basis[static_cast<size_t>(k) * n], n);
  };
  Matrix &last = g.network.weights.back();
  last = {last.rows, rows, std::vector<double>(static_cast<size_t>(last.rows) * rows)};
  for (int i = 0; i < last.rows; ++i)
    project(&f.network.weights.back().data[static_cast<size_t>(i) * n], &last.data[static_cast<size_t>(i) * rows]);
  if (g.network.has_bias(g.network.weights.size() - 1)) {
    g.network.biases.back().resize(rows);
    project(f.network.biases.back().data(), g.network.biases.back().data());
  }
  return g;
}

// Divides each sample, a vector of n numbers, by the residual allowed for it.
void scale_to_tolerance(std::vector<double> &samples, int n, const std::vector<char> &is_short, double tolerance) {
  double largest[2] = {};
  for (size_t k = 0; k < is_short.size(); ++k) {
    const double square = sum_of_products(&samples[k * n], &samples[k * n], n);
    for (int of_all = is_short[k] ? 1 : 0; of_all < 2; ++of_all) largest[of_all] = std::max(largest[of_all], square);
  }
  for (size_t k = 0; k < is_short.size(); ++k) {
    const double most = tolerance * std::sqrt(largest[is_short[k] ? 1 : 0]);
    for (int j = 0; j < n && most > 0.0; ++j) samples[k * n + j] /= most;
  }
}

// Other orthonormal rows with the same span, of which none is longer along the samples than the others. The first
// direction contains most of every sample. Its rounding in float32 would be one common error of all outputs, while
// those of many rows average out.
std::vector<double> mixed(const std::vector<double> &basis, int n) {
  const int count = static_cast<int>(basis.size()) / n;
  std::vector<double> rows(basis.size(), 0.0);
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < count; ++j) {
      // A cosine transform, which is its own inverse.
      const double factor = std::sqrt(2.0 / count) * std::cos(M_PI * (i + 0.5) * (j + 0.5) / count);
      for (int k = 0; k < n; ++k)
        rows[static_cast<size_t>(i) * n + k] += factor * basis[static_cast<size_t>(j) * n + k];
    }
  return rows;
}

}    // namespace

std::vector<double> few_directions(std::vector<double> samples, int n) {
  const size_t count = samples.size() / n;
  const auto sample = [&](size_t k) { return &samples[k * n]; };
  std::vector<double> basis, v(n), left(count);
  for (size_t k = 0; k < count; ++k) left[k] = sum_of_products(sample(k), sample(k), n);
  // The sample with the largest remainder is the next direction.
  while (count > 0 && basis.size() < static_cast<size_t>(n) * n) {
    const size_t worst = std::max_element(left.begin(), left.end()) - left.begin();
    if (!(left[worst] > 1.0)) break;    // also if it is not a number
    std::copy_n(sample(worst), n, v.begin());
    make_orthogonal(basis, n, v.data());
    add_normalized(v.data(), n, basis);
    const double *const along = &basis[basis.size() - n];
    size_t k = 0;
    for (; k + SIDE_BY_SIDE <= count; k += SIDE_BY_SIDE) take_along<SIDE_BY_SIDE>(sample(k), along, n, &left[k]);
    for (; k < count; ++k) take_along<1>(sample(k), along, n, &left[k]);
  }
  return mixed(basis, n);
}

std::optional<RadialExpansion> expand_radial(const RadialFunction &f, int num_species, double tolerance) {
  if (f.reads_features() || f.has_pair_factor() || f.output != RadialFunction::Output::weights || f.gate ||
      f.charge_potential || !f.r_power.empty())
    return {};
  const int num_outputs = f.num_outputs();
  Matrix rows = f.network.weights.back();
  if (f.network.has_bias(f.network.weights.size() - 1)) {
    rows.data.insert(rows.data.end(), f.network.biases.back().begin(), f.network.biases.back().end());
    ++rows.rows;
  }
  // In the span of the last matrix's rows, vectors have the same length as those of all outputs, but fewer numbers.
  const std::vector<double> span = span_of_rows(rows);
  if (span.empty()) return {};
  const int n = static_cast<int>(span.size()) / num_outputs;
  const RadialFunction g = projected(f, span);
  std::vector<double> samples;
  std::vector<char> is_short;
  const int pairs = f.depends_on_pair() ? num_species * num_species : 1;
  const int count =
      std::min(std::max(LEAST_SAMPLES, SAMPLES_PER_FUNCTION * f.basis.size()), MOST_SAMPLES_OF_ALL / pairs);
  for (int pair = 0; pair < pairs; ++pair) {
    const RadialFunction of_pair = !f.depends_on_pair() ? g : g.for_pair(pair / num_species, pair % num_species);
    std::vector<double> r(count), values(static_cast<size_t>(count) * n);
    for (int k = 0; k < count; ++k) {
      r[k] = (k + 0.5) * of_pair.basis.cutoff / count;
      is_short.push_back(r[k] < SHORT_DISTANCE);
    }
    of_pair.derivatives(count, r.data(), 0, 1, values.data());
    samples.insert(samples.end(), values.begin(), values.end());
  }
  scale_to_tolerance(samples, n, is_short, tolerance);
  const std::vector<double> basis = few_directions(std::move(samples), n);
  const int few = static_cast<int>(basis.size()) / n;
  if (few == 0) return {};
  // V: the basis in terms of the outputs.
  RadialExpansion e;
  e.outputs = multiply({few, n, basis}, {n, num_outputs, span});
  e.coefficients = projected(f, e.outputs.data);
  return e;
}

}    // namespace equi

// SPDX-License-Identifier: MIT
// Builds tables of radial functions. The builder measures the error of a first, coarse table. From the order of
// convergence (value h^(d+1), derivative h^d, d the degree) it predicts how many bins each piece needs. Two or three
// rounds suffice.
#include "src/functions/radial_function.h"
#include "src/numbers/hermite.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>

namespace equi {

namespace {

constexpr int MAX_KNOTS = 20000;
constexpr int64_t MAX_TABLE_NUMBERS = int64_t(1) << 26;    // numbers of a table: with more columns it has fewer knots
constexpr int POINTS_AT_ONCE = 32;                         // their rows stay in the second-level cache
constexpr int NUM_SAMPLES = 3;

// Trained functions are steep and large below the distances of real bonds, where there is no training data. Separate
// pieces keep that region from determining the spacing everywhere, and its values from loosening the tolerance
// elsewhere. Measured on SevenNet-0 and l3i5: two to four times fewer knots. Further pieces beyond these would save a
// sixth of the rest. But errors of forces would grow two to eight times, because most bins are finer than the tolerance
// requires.
constexpr double MEDIUM_DISTANCE = 2.0;    // Angstrom; the shorter one is SHORT_DISTANCE
constexpr double SHORTEST_PIECE = 0.4;     // no such split closer to the next kink
// Bins of degree 7 are wider at the tolerances for which it is used.
constexpr double first_spacing(int degree) {
  return degree == 7 ? 0.12 : 0.08;
}
constexpr int min_bins(int degree) {
  return degree == 7 ? 6 : 8;
}

// Positions within a bin where the leading terms of the interpolation error are largest, of the value (the second) and
// the derivative (the two others). They are extrema of t^2 (1-t)^2, of t^3 (1-t)^3 and of its product with the
// distances from HERMITE_POINTS, and of their derivatives.
constexpr double SAMPLES_CUBIC[NUM_SAMPLES] = {0.21132486540518712, 0.5, 0.7886751345948129};
constexpr double SAMPLES_QUINTIC[NUM_SAMPLES] = {0.27639320225002103, 0.5, 0.7236067977499790};
constexpr double SAMPLES_SEPTIC[NUM_SAMPLES] = {0.13040924202178733, 0.2449598888357959, 0.3695907579782126};

const double *samples_of(int degree) {
  return degree == 3 ? SAMPLES_CUBIC : degree == 5 ? SAMPLES_QUINTIC : SAMPLES_SEPTIC;
}

// A piece for which the number of bins is searched.
struct Trial {
  double begin, end;
  int num_bins = 0;
  std::vector<double> rows;
  double value_error = 0.0, derivative_error = 0.0;    // absolute
  bool is_done = false, has_shrunk = false;

  double spacing() const { return (end - begin) / num_bins; }
  // The last knot is exactly the end, so only `side` chooses the one-sided branch at a kink.
  double knot(int k) const { return k == num_bins ? end : begin + k * spacing(); }
};

struct Magnitudes {
  double value = 0.0, derivative = 0.0;

  void include(const double *value_row, const double *derivative_row, int n, double r) {
    double a = 0.0, b = 0.0, sum = 0.0;
    for (int j = 0; j < n; ++j) {
      a = std::max(a, std::fabs(value_row[j]));
      b = std::max(b, std::fabs(derivative_row[j]));
      sum += std::fabs(value_row[j]) + std::fabs(derivative_row[j]);    // max() loses NaN, but a sum does not
    }
    if (!std::isfinite(sum))
      throw std::runtime_error("the radial function is not finite at a distance of " + std::to_string(r) + " Angstrom");
    include({a, b});
  }
  void include(const Magnitudes &other) {
    value = std::max(value, other.value);
    derivative = std::max(derivative, other.derivative);
  }
};

void fill_rows(const RadialFunction &f, int degree, const RadialTable::Loop &loop, Trial &trial, Magnitudes &largest) {
  const int of_knot = hermite_knot_rows(degree), inner = hermite_inner_rows(degree), per_knot = of_knot + inner;
  const int n = f.num_outputs();
  const double h = trial.spacing();
  trial.rows.resize(static_cast<size_t>(trial.num_bins + 1) * per_knot * n);
  const auto rows_of = [&](int knot) { return trial.rows.data() + static_cast<size_t>(knot) * per_knot * n; };
  // Knots at the two ends use the side inside the piece; the inner ones have no kink.
  const int num_inner = trial.num_bins - 1, num_batches = (num_inner + POINTS_AT_ONCE - 1) / POINTS_AT_ONCE;
  // Next the points between knots, in the order of their rows.
  const int num_points = trial.num_bins * inner, num_point_batches = (num_points + POINTS_AT_ONCE - 1) / POINTS_AT_ONCE;
  std::vector<Magnitudes> of_batch(num_batches + 2);
  loop(num_batches + 2 + num_point_batches, [&](int64_t batch) {
    double r[POINTS_AT_ONCE];
    if (batch >= num_batches + 2) {
      const int first = static_cast<int>(batch - num_batches - 2) * POINTS_AT_ONCE,
                count = std::min(POINTS_AT_ONCE, num_points - first);
      std::vector<double> values(static_cast<size_t>(count) * n);
      for (int p = 0; p < count; ++p) r[p] = trial.knot((first + p) / inner) + HERMITE_POINTS[(first + p) % inner] * h;
      f.derivatives(count, r, 0, 1, values.data());
      for (int p = 0; p < count; ++p)
        std::copy_n(values.data() + static_cast<size_t>(p) * n, n,
                    rows_of((first + p) / inner) + (of_knot + (first + p) % inner) * n);
      return;
    }
    int first = batch == 0 ? 0 : trial.num_bins, count = 1;
    if (batch > 0 && batch <= num_batches) {
      first = 1 + static_cast<int>(batch - 1) * POINTS_AT_ONCE;
      count = std::min(POINTS_AT_ONCE, trial.num_bins - first);
    }
    for (int p = 0; p < count; ++p) r[p] = trial.knot(first + p);
    // Without inner points the rows of knots are adjacent.
    std::vector<double> apart(inner > 0 ? static_cast<size_t>(count) * of_knot * n : 0);
    double *of_knots = inner > 0 ? apart.data() : rows_of(first);
    f.derivatives(count, r, of_knot - 1, first == trial.num_bins ? -1 : 1, of_knots);
    for (int p = 0; p < count; ++p) {
      double *knot_rows = rows_of(first + p);
      if (inner > 0) std::copy_n(of_knots + static_cast<size_t>(p) * of_knot * n, of_knot * n, knot_rows);
      of_batch[batch].include(knot_rows, knot_rows + n, n, r[p]);
      for (int j = n; j < 2 * n; ++j) knot_rows[j] *= h;
      for (int j = 2 * n; j < of_knot * n; ++j) knot_rows[j] *= 0.5 * h * h;
    }
  });
  for (const Magnitudes &m : of_batch) largest.include(m);
}

void measure(const RadialFunction &f, int degree, const RadialTable::Loop &loop, Trial &trial, Magnitudes &largest) {
  const int per_knot = hermite_knot_rows(degree) + hermite_inner_rows(degree), n = f.num_outputs();
  const double *samples = samples_of(degree);
  const double h = trial.spacing();
  const int total = trial.num_bins * NUM_SAMPLES, num_batches = (total + POINTS_AT_ONCE - 1) / POINTS_AT_ONCE;
  std::vector<Magnitudes> of_batch(num_batches), errors(num_batches);
  loop(num_batches, [&](int64_t batch) {
    const int first = static_cast<int>(batch) * POINTS_AT_ONCE, count = std::min(POINTS_AT_ONCE, total - first);
    double r[POINTS_AT_ONCE];
    std::vector<double> exact(static_cast<size_t>(count) * 2 * n), value(n), derivative(n);
    for (int p = 0; p < count; ++p) {
      const int bin = (first + p) / NUM_SAMPLES;
      r[p] = trial.knot(bin) + samples[(first + p) % NUM_SAMPLES] * h;
    }
    f.derivatives(count, r, 1, 1, exact.data());
    for (int p = 0; p < count; ++p) {
      const double *exact_value = exact.data() + static_cast<size_t>(p) * 2 * n, *exact_derivative = exact_value + n;
      of_batch[batch].include(exact_value, exact_derivative, n, r[p]);
      double c[MAX_TABLE_DEGREE + 1], d[MAX_TABLE_DEGREE + 1];
      hermite(degree, samples[(first + p) % NUM_SAMPLES], h, c, d);
      const double *rows = trial.rows.data() + static_cast<size_t>((first + p) / NUM_SAMPLES) * per_knot * n;
      for (int j = 0; j < n; ++j) {
        value[j] = -exact_value[j];
        derivative[j] = -exact_derivative[j];
      }
      for (int k = 0; k <= degree; ++k)
        for (int j = 0; j < n; ++j) {
          value[j] += c[k] * rows[static_cast<size_t>(k) * n + j];
          derivative[j] += d[k] * rows[static_cast<size_t>(k) * n + j];
        }
      errors[batch].include(value.data(), derivative.data(), n, r[p]);
    }
  });
  Magnitudes error;
  for (const Magnitudes &m : errors) error.include(m);
  for (const Magnitudes &m : of_batch) largest.include(m);
  trial.value_error = error.value;
  trial.derivative_error = error.derivative;
}

double relative(double error, double largest) {
  return error > 0.0 ? error / largest : 0.0;
}

// What errors of derivatives are relative to. Only functions without a zero may vary by less than their value over the
// cutoff; the derivative of a constant is nothing but rounding.
double derivative_unit(const Magnitudes &largest, double cutoff) {
  return std::max(largest.derivative, largest.value / cutoff);
}

}    // namespace

void RadialTable::coefficients(double r, int &row, double *value, double *derivative) const {
  const BinPosition found = this->bin_of(r);
  row = (found.bin + found.piece) * rows_per_knot();    // each piece has one more knot than bins
  hermite(degree, found.fraction + 0.5, pieces[found.piece].spacing, value, derivative);
}

RadialTable RadialTable::build(const RadialFunction &f, int degree, double tolerance, const Loop &loop) {
  if (degree != 3 && degree != 5 && degree != 7)
    throw std::invalid_argument("a radial table of degree " + std::to_string(degree) + "; 3, 5 and 7 are known");
  if (!(tolerance > 0.0)) throw std::invalid_argument("the tolerance of a radial table must be positive");

  std::vector<double> ends = f.basis.kinks();
  ends.push_back(f.basis.cutoff);
  for (double split : {SHORT_DISTANCE, MEDIUM_DISTANCE}) {
    bool is_far = true;
    for (double end : ends) is_far = is_far && (end < split - SHORTEST_PIECE || end > split + SHORTEST_PIECE);
    if (is_far && split < f.basis.cutoff) ends.push_back(split);
  }
  std::sort(ends.begin(), ends.end());

  const int64_t knot_numbers =
      static_cast<int64_t>(hermite_knot_rows(degree) + hermite_inner_rows(degree)) * f.num_outputs();
  const int most_knots = static_cast<int>(std::min<int64_t>(MAX_KNOTS, MAX_TABLE_NUMBERS / knot_numbers));
  const int fewest_bins = min_bins(degree);
  const int most_first_bins = std::max(fewest_bins, most_knots / (2 * static_cast<int>(ends.size())));
  std::vector<Trial> trials;
  double begin = 0.0;
  for (double end : ends) {
    Trial trial;
    trial.begin = begin;
    trial.end = end;
    const int first_bins = static_cast<int>(std::ceil((end - begin) / first_spacing(degree)));
    trial.num_bins = std::clamp(first_bins, fewest_bins, most_first_bins);
    trials.push_back(trial);
    begin = end;
  }

  // Errors below SHORT_DISTANCE are relative to the magnitudes at all distances, others to those beyond it.
  Magnitudes everywhere, beyond_short;
  const auto largest_for = [&](const Trial &t) -> Magnitudes & {
    return t.begin >= SHORT_DISTANCE ? beyond_short : everywhere;
  };
  const auto derivative_unit_for = [&](const Trial &t) { return derivative_unit(largest_for(t), f.basis.cutoff); };
  bool is_done = false;
  while (!is_done) {
    for (Trial &trial : trials) {
      if (trial.is_done) continue;
      fill_rows(f, degree, loop, trial, largest_for(trial));
      measure(f, degree, loop, trial, largest_for(trial));
    }
    everywhere.include(beyond_short);
    is_done = true;
    int num_knots = 0;
    for (Trial &trial : trials) {
      if (!trial.is_done) {
        // Factor by which the number of bins is too small (above 1) or larger than necessary.
        const double factor =
            std::max(std::pow(relative(trial.value_error, largest_for(trial).value) / tolerance, 1.0 / (degree + 1)),
                     std::pow(relative(trial.derivative_error, derivative_unit_for(trial)) / tolerance, 1.0 / degree));
        if (factor > 1.0) {
          // The law holds only when bins resolve the function, so steps are bounded to avoid overshooting.
          trial.num_bins = static_cast<int>(std::ceil(trial.num_bins * std::min(1.03 * factor, 4.0)));
          is_done = false;
        } else if (factor < 0.7 && trial.num_bins > fewest_bins && !trial.has_shrunk) {
          trial.num_bins =
              std::max(fewest_bins, static_cast<int>(std::ceil(trial.num_bins * std::max(1.03 * factor, 0.25))));
          trial.has_shrunk = true;
          is_done = false;
        } else {
          trial.is_done = true;
        }
      }
      num_knots += trial.num_bins + 1;
    }
    if (num_knots > most_knots) {
      double value = 0.0, derivative = 0.0;
      for (const Trial &trial : trials) {
        value = std::max(value, relative(trial.value_error, largest_for(trial).value));
        derivative = std::max(derivative, relative(trial.derivative_error, derivative_unit_for(trial)));
      }
      char text[400];
      std::snprintf(
          text, sizeof text,
          "a radial table of %d knots for %d weights does not reach the tolerance %g: errors of value and "
          "derivative were %.3g and %.3g before the last refinement; functions with kinks, as activations relu and abs "
          "make them, have no tables: use radial exact",
          most_knots, f.num_outputs(), tolerance, value, derivative);
      throw std::runtime_error(text);
    }
  }

  RadialTable table;
  table.degree = degree;
  table.num_columns = f.num_outputs();
  size_t size = 0;
  for (const Trial &trial : trials) size += trial.rows.size();
  table.rows.reserve(size);
  for (Trial &trial : trials) {
    table.pieces.push_back(
        {trial.begin, trial.end, trial.spacing(), 1.0 / trial.spacing(), table.num_knots, trial.num_bins});
    table.num_knots += trial.num_bins + 1;
    table.rows.insert(table.rows.end(), trial.rows.begin(), trial.rows.end());
    std::vector<double>().swap(trial.rows);
    table.value_error = std::max(table.value_error, relative(trial.value_error, largest_for(trial).value));
    table.derivative_error =
        std::max(table.derivative_error, relative(trial.derivative_error, derivative_unit_for(trial)));
  }
  return table;
}

}    // namespace equi

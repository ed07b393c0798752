// SPDX-License-Identifier: MIT
// Makes the tables of a layer's radial functions, and chooses their degree.
#include "kokkos/geometry/radial_set.h"

#include "kokkos/runtime/host_exec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <utility>

namespace equi {

bool is_symmetric(const Matrix &of_pairs) {
  for (int i = 0; i < of_pairs.rows; i++)
    for (int j = 0; j < i; j++)
      if (of_pairs(i, j) != of_pairs(j, i)) return false;
  return true;
}

double radial_tolerance(const EvaluatorOptions &options) {
  if (options.radial_tolerance > 0.0) return options.radial_tolerance;
  if (options.precision == Precision::double_) return 1e-10;
  return options.directional ? 1e-8 : 1e-6;
}

namespace {

// Coefficients of polynomials are some tens of times larger. float32 must hold them, because even in float64 the
// highest ones are float32 (SPLIT_ROWS).
constexpr double MAX_TABLE_NUMBER = 1e36;

void require_numbers_of_tables(const std::vector<RadialTable> &tables, const EvaluatorOptions &options) {
  double largest = 0.0;
  for (const RadialTable &table : tables)
    for (const double v : table.rows) largest = std::max(largest, std::fabs(v));
  if (largest <= MAX_TABLE_NUMBER) return;
  char text[200];
  std::snprintf(text, sizeof text,
                "a radial function has numbers up to %.3g, tables those up to %g: use %sradial exact", largest,
                MAX_TABLE_NUMBER, options.precision == Precision::double_ ? "" : "precision double and ");
  throw std::runtime_error(text);
}

}    // namespace

RadialSet::RadialSet(const RadialFunction &function, int num_species, const EvaluatorOptions &options)
    : num_species_(num_species) {
  if (!function.depends_on_pair()) {
    functions_.push_back(function);
  } else {
    // Without rows of the species, a pair and its reverse share a function.
    const bool symmetric = function.sender.data.empty() && function.receiver.data.empty() &&
                           !function.has_pair_factor() && is_symmetric(function.basis.pair_r0) &&
                           is_symmetric(function.basis.pair_cutoff) &&
                           (!function.charge_potential || is_symmetric(function.charge_potential->widths));
    of_pair_.resize(static_cast<size_t>(num_species) * num_species);
    for (int i = 0; i < num_species; i++)
      for (int j = 0; j < num_species; j++) {
        int &number = of_pair_[i * num_species + j];
        number = num_functions();
        if (symmetric && j < i)
          number = of_pair_[j * num_species + i];
        else
          functions_.push_back(function.for_pair(i, j));
      }
  }
  build_tables(options);
}

RadialSet::RadialSet(std::vector<RadialFunction> functions, std::vector<int> of_pair, int num_species,
                     const EvaluatorOptions &options)
    : num_species_(num_species), functions_(std::move(functions)), of_pair_(std::move(of_pair)) {
  build_tables(options);
}

void RadialSet::build_tables(const EvaluatorOptions &options) {
  if (options.radial_exact) return;

  // All degrees reach the tolerance. The smaller tables are chosen, because kernels read their rows more than
  // anything else. Second derivatives need tables with continuous ones: any degree but cubic.
  const double tolerance = radial_tolerance(options);
  const auto build = [&](int degree, double tolerance, std::vector<RadialTable> &tables) {
    tables.resize(functions_.size());
    const RadialTable::Loop side_by_side = [](int64_t n, const std::function<void(int64_t)> &f) {
      parallel_with_faults("equi:tables",
                           Kokkos::RangePolicy<HostExec, Kokkos::Schedule<Kokkos::Dynamic>>(0, n, Kokkos::ChunkSize(1)),
                           f);
    };
    // Threads share out the functions if these are many enough, else the parts of each.
    const bool by_function = num_functions() >= HostExec().concurrency();
    (by_function ? side_by_side : RadialTable::one_by_one)(num_functions(), [&](int64_t k) {
      tables[k] =
          RadialTable::build(functions_[k], degree, tolerance, by_function ? RadialTable::one_by_one : side_by_side);
    });
    int64_t num_coefficients = 0;
    for (const RadialTable &table : tables) num_coefficients += static_cast<int64_t>(degree + 1) * table.num_bins();
    return num_coefficients;
  };
  if (options.precision == Precision::double_) {
    build(7, tolerance, tables_);
    require_numbers_of_tables(tables_, options);
    return;
  }
  const int64_t quintic = build(5, tolerance, tables_);
  if (tolerance >= 1e-7 && !options.directional) {
    // The errors of loose cubic tables predict the size of the right ones. Usually quintic pieces are far better,
    // and then this saves more than half of the work.
    constexpr double LOOSER = 1e3, BY_FAR = 2.0;
    std::vector<RadialTable> cubic;
    build(3, LOOSER * tolerance, cubic);
    double foretold = 0.0;
    for (const RadialTable &t : cubic)
      foretold += 4.0 * t.num_bins() *
                  std::max(std::pow(t.value_error / tolerance, 0.25), std::cbrt(t.derivative_error / tolerance));
    if (foretold < BY_FAR * static_cast<double>(quintic) && build(3, tolerance, cubic) < quintic)
      tables_ = std::move(cubic);
  }
  require_numbers_of_tables(tables_, options);
}

void RadialSet::find_tables(std::vector<RadialTable::Piece> &pieces, std::vector<RadialFinder::Table> &tables) const {
  int bins = 0;
  for (const RadialTable &table : tables_) {
    tables.push_back({static_cast<int>(pieces.size()), static_cast<int>(table.pieces.size()), bins});
    pieces.insert(pieces.end(), table.pieces.begin(), table.pieces.end());
    bins += table.num_bins();
  }
}

void RadialSet::drop_rows() {
  for (RadialTable &t : tables_) std::vector<double>().swap(t.rows);
}

bool RadialSet::is_of_undirected_pairs() const {
  for (int i = 0; i < num_species_; i++)
    for (int j = 0; j < i; j++)
      if (table_index(i, j) != table_index(j, i)) return false;
  return true;
}

std::string RadialSet::describe() const {
  if (exact()) return "exact";
  int knots = 0;
  double value = 0.0, derivative = 0.0;
  for (const RadialTable &t : tables_) {
    knots += t.num_knots;
    value = std::max(value, t.value_error);
    derivative = std::max(derivative, t.derivative_error);
  }
  char text[200];
  const int number = tables_.front().degree;
  const char *degree = number == 3 ? "cubic" : number == 5 ? "quintic" : "septic";
  if (tables_.size() == 1)
    std::snprintf(text, sizeof text, "%s table with %d knots, error %.1e (value), %.1e (derivative)", degree, knots,
                  value, derivative);
  else
    std::snprintf(text, sizeof text,
                  "%zu %s tables of pairs of species with %d knots, error %.1e (value), %.1e (derivative)",
                  tables_.size(), degree, knots, value, derivative);
  return text;
}

}    // namespace equi

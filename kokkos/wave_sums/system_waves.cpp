// SPDX-License-Identifier: MIT
// Chooses the wave vectors of the present cell, and describes them.
#include "kokkos/wave_sums/system_waves.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace equi {

namespace {

WaveVectorSet set_of(const std::string &word) {
  return word == "frozen"      ? WaveVectorSet::frozen
         : word == "converged" ? WaveVectorSet::converged
                               : WaveVectorSet::sphere;
}

}    // namespace

SystemWaves::SystemWaves(double cutoff, double sigma, const std::string &of_file, WaveVectorSet wave_vectors)
    : cutoff_(cutoff), set_(wave_vectors == WaveVectorSet::of_file ? set_of(of_file) : wave_vectors) {
  if (set_ == WaveVectorSet::converged) cutoff_ = std::max(cutoff_, WaveVectors::converged_cutoff(sigma));
}

std::string SystemWaves::name() const {
  char text[100];
  std::snprintf(text, sizeof text, "wave vectors %.17g %d", cutoff_, static_cast<int>(set_));
  return text;
}

// The derivative of a sphere's energy ignores that wave vectors enter and leave it.
SystemWaves::Change SystemWaves::use(const CellMatrix &cell, const double (*direction)[3]) {
  check_cell(cell);
  CellMatrix moved{};
  for (int k = 0; direction && k < 3; k++)
    for (int a = 0; a < 3; a++) moved[k][a] = direction[k][a];
  const bool is_same = is_used_ && cell == cell_;
  if (is_same && moved == cell_direction_) return Change::none;
  Change change = Change::cell;
  if (!is_same) try {
      if (is_used_ && set_ == WaveVectorSet::frozen) {
        vectors_.deform(cell);
      } else {
        vectors_ = WaveVectors(cell, cutoff_);
        change = Change::integers;
      }
    } catch (const std::invalid_argument &fault) {
      throw EvaluationError(fault.what(), -1, -1, 0.0);
    }
  is_used_ = true;
  cell_ = cell;
  cell_direction_ = moved;
  return change;
}

WaveVectors::Extent SystemWaves::extent(const CellMatrix &cell) const {
  if (is_used_ && (set_ == WaveVectorSet::frozen || cell == cell_)) return vectors_.extent();
  if (cell == CellMatrix{}) return {};
  try {
    return WaveVectors::extent(cell, cutoff_);
  } catch (const std::invalid_argument &) {
    return {};
  }
}

std::string SystemWaves::describe(const char *sum, std::size_t bytes) const {
  if (!is_used_) return "";
  char text[400];
  const char *set = set_ == WaveVectorSet::frozen      ? ", whose integers stay when the cell changes"
                    : set_ == WaveVectorSet::converged ? ", converged"
                                                       : ", whose number jumps with a changing cell, and so does the "
                                                         "energy (keyword kspace: frozen or converged)";
  std::snprintf(text, sizeof text, "%s: %lld wave vectors within %.6g/Angstrom%s; %.3g MB per rank", sum,
                static_cast<long long>(vectors_.count()), cutoff_, set, 1e-6 * static_cast<double>(bytes));
  return text;
}

std::string SystemWaves::warning_of_charge(double total_charge, double num_atoms) {
  constexpr double NEUTRAL = 1e-6;    // a mean charge beyond rounding
  if (!(std::fabs(total_charge) > NEUTRAL * num_atoms)) return "";
  char text[200];
  std::snprintf(text, sizeof text,
                "\n  WARNING: the charges of all atoms sum to %.6g; a uniform background neutralizes the cell",
                total_charge);
  return text;
}

}    // namespace equi

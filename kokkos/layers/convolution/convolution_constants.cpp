// SPDX-License-Identifier: MIT
// Prepares a convolution for kernels: its tables, memory layout and radial functions.
#include "kokkos/layers/convolution/convolution_constants.h"

#include "src/base/owned_memory.h"
#include "src/numbers/number_types.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <type_traits>

namespace equi {

template <class T>
ConvolutionConstants<T>::ConvolutionConstants(const Convolution &convolution, const FeatureLayout &in,
                                              const FeatureLayout &out, int num_species,
                                              const EvaluatorOptions &options, const TableLayout &layout,
                                              InstructionSet set)
    : kernels_(host_kernels<T>(set)), tables_(convolution.product, in, out, layout), first_row_{0} {
  if (convolution.radial.reads_features()) {
    network_ = std::make_unique<EdgeNetwork<T>>(convolution.radial, in, num_species, tables_.edge_columns(),
                                                view().weights_row, set);
    return;
  }
  const double tolerance = radial_tolerance(options);
  const bool may_split = options.precision == Precision::double_ && tolerance >= SPLIT_TOLERANCE;
  is_split_ = may_split && layout.may_split && !options.radial_exact;
  EvaluatorOptions of_tables = options;    // with the same tables for layouts without splitting
  if (may_split) of_tables.radial_tolerance = (1.0 - SPLIT_SHARE) * tolerance;
  set_.emplace(convolution.radial, num_species, of_tables);
  if (exact()) return;
  if (!is_split_ && coefficients_in<T>(rows_per_bin()) != set_->num_coefficients())
    throw std::logic_error("quintic tables of float64, which kernels would take for split ones");
  for (int k = 0; k < set_->num_functions(); k++)
    first_row_.push_back(first_row_.back() + static_cast<int64_t>(set_->table(k).num_bins()) * rows_per_bin());
  R *rows = rows_.reserve(num_rows() * columns());
  std::fill(rows, rows + num_rows() * columns(), R(0));
  for (int k = 0; k < set_->num_functions(); k++)
    set_->for_polynomials(k, [&](int bin, int c, const double *powers) {
      const WeightColumn &to = tables_.table_columns()[c];
      R *first = rows + num_rows() * to.first + (first_row_[k] + bin * rows_per_bin()) * to.stride;
      for (int n = 0; n < set_->num_coefficients(); n++)
        set_coefficient(first, to, n, rows_per_bin(), layout, to.scale * powers[n]);
    });
  set_->drop_rows();
  set_pieces();
}

// Sets the data with which kernels find bins.
template <class T>
void ConvolutionConstants<T>::set_pieces() {
  int num_pieces = 0;
  for (int k = 0; k < set_->num_functions(); k++)
    num_pieces = std::max(num_pieces, static_cast<int>(set_->table(k).pieces.size()));
  const int64_t size = static_cast<int64_t>(set_->num_functions()) * num_pieces;
  piece_numbers_.assign(4 * size, 0.0);
  double *begin = piece_numbers_.data(), *bins_per_length = begin + size, *first_row = bins_per_length + size,
         *last_bin = first_row + size;
  std::fill_n(begin, size, std::numeric_limits<double>::infinity());
  for (int k = 0; k < set_->num_functions(); k++) {
    const std::vector<RadialTable::Piece> &pieces = set_->table(k).pieces;
    for (int p = 0; p < static_cast<int>(pieces.size()); p++) {
      const int64_t n = static_cast<int64_t>(k) * num_pieces + p;
      begin[n] = pieces[p].r_begin;
      bins_per_length[n] = pieces[p].bins_per_length;
      // Each piece has one knot more than bins.
      first_row[n] = static_cast<double>(first_row_[k] + (pieces[p].first_knot - p) * rows_per_bin());
      last_bin[n] = pieces[p].num_bins - 1;
    }
  }
  pieces_ = {num_pieces, rows_per_bin(), begin, bins_per_length, first_row, last_bin};
}

template <class T>
int ConvolutionConstants<T>::num_generic_path_groups() const {
  int n = 0;
  for (const ConvPathGroup<T> &path_group : tables_.path_groups())
    if (kernel_place<T>(rows_per_bin()) < 0 || path_group.is_generic()) n++;
  return n;
}

template <class T>
RadialRows<Real<T>> ConvolutionConstants<T>::radial(const D *r, const int *function, int64_t n, int64_t first,
                                                    int64_t total, R *scratch, int *table_row, T *fraction,
                                                    R *bins_per_length) const {
  if (exact()) {
    // Each edge has a bin of its own, with the distance in the middle: rows are Taylor coefficients.
    const int num_outputs = set_->num_outputs(), num_rows = rows_per_bin();
    std::vector<double> w(num_rows * num_outputs);
    for (int64_t e = 0; e < n; e++) {
      set_->function(function ? function[e] : 0).derivatives(value_of(r[e]), num_rows - 1, -1, w.data());
      const int64_t row = num_rows * (first + e);
      for (const ConvPathGroup<T> &path_group : tables_.path_groups()) {
        for (int64_t channel_block = 0; channel_block < path_group.channel_blocks; channel_block++)
          std::fill_n(scratch + num_rows * total * (path_group.first_column + channel_block * path_group.row) +
                          row * path_group.row,
                      num_rows * path_group.row, R(0));
      }
      for (int c = 0; c < num_outputs; c++) {
        const WeightColumn &to = tables_.table_columns()[c];
        R *f = scratch + num_rows * total * to.first + row * to.stride;
        for (int n = 0; n < num_rows; n++)
          set_coefficient(f, to, n, num_rows, tables_.layout(),
                          (n == 2 ? 0.5 : 1.0) * to.scale * w[n * num_outputs + c]);
      }
      table_row[e] = static_cast<int>(row);
      fraction[e] = make_number<T>(0, static_cast<R>(tangent_of(r[e])));
      bins_per_length[e] = 1;
    }
    return {scratch, num_rows * total};
  }
  if constexpr (std::is_same_v<T, R>) {
    kernels_.find_bins({pieces_, n, r, function, table_row, fraction, bins_per_length});
    return {rows_.data(), num_rows()};
  }
  for (int64_t e = 0; e < n; e++) {
    const int k = function ? function[e] : 0;
    const RadialTable::BinPosition found = set_->table(k).bin_of(value_of(r[e]));
    table_row[e] = static_cast<int>(first_row_[k]) + found.bin * rows_per_bin();
    bins_per_length[e] = static_cast<R>(found.bins_per_length);
    fraction[e] = make_number<T>(static_cast<R>(found.fraction), static_cast<R>(tangent_of(r[e])) * bins_per_length[e]);
  }
  return {rows_.data(), num_rows()};
}

template <class T>
bool ConvolutionConstants<T>::has_kernels_of_directions() const {
  const auto &path_groups = tables_.path_groups();
  return rows_per_bin() == FINE_ROWS<T> &&
         std::all_of(path_groups.begin(), path_groups.end(), [](const ConvPathGroup<T> &path_group) {
           return path_group.kernel && path_group.kernel->moving_forward;
         });
}

template <class T>
std::string ConvolutionConstants<T>::describe() const {
  std::string text = std::to_string(tables_.table_columns().size()) + " weights, ";
  if (network_) return text + "network on features of the atoms at each edge, no table";
  text += set_->describe();
  if (exact()) return text;
  char size[30];
  std::snprintf(size, sizeof size, ", %.1f MB", bytes_of(rows_) * 1e-6);
  return text + size;
}

EQUI_INSTANTIATE_NUMBERS(ConvolutionConstants)

}    // namespace equi

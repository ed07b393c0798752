// SPDX-License-Identifier: MIT
// One convolution of a model, prepared for kernels: couplings, memory layout and radial rows.
#ifndef EQUI_CONVOLUTION_CONSTANTS_H
#define EQUI_CONVOLUTION_CONSTANTS_H

#include "kokkos/geometry/radial_set.h"
#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/kernel_libraries/convolution_tables.h"
#include "kokkos/layers/edge_network/edge_network.h"
#include "kokkos/runtime/buffer.h"
#include "src/evaluation/evaluator.h"

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace equi {

// Tables of float64 with a finer tolerance are not split, and only generic kernels read them. Rounding coefficients
// to float32 uses at most this share of the tolerance, and less of a larger tolerance. Relative errors of 1e-11 to
// 3e-11 (derivatives) and 4e-13 (values) were measured on models of three families.
constexpr double SPLIT_TOLERANCE = 1e-10, SPLIT_SHARE = 0.3;

// Where edges read their radial weights: `rows` rows per channel block at `table` (PathGroupCall).
template <class T>
struct RadialRows {
  const T *table;
  int64_t rows;
};

// T: the type of features; table rows have the type Real<T>.
template <class T>
class ConvolutionConstants {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  ConvolutionConstants(const Convolution &convolution, const FeatureLayout &in, const FeatureLayout &out,
                       int num_species, const EvaluatorOptions &options, const TableLayout &layout = HOST_TABLE,
                       InstructionSet set = best_instruction_set());

  ConvolutionTables<T> &tables() { return tables_; }
  const ConvolutionTables<T> &tables() const { return tables_; }
  const ConvolutionView<T> &view() const { return tables_.view(); }
  int64_t columns() const { return tables_.columns(); }
  int rows_per_bin() const {
    return network_ ? 1 : exact() ? 1 + PLANES<T> : is_split_ ? SPLIT_ROWS : set_->num_coefficients();
  }
  // The network of a convolution whose radial network reads features. Its rows are the weights of edges, and the
  // radial functions below do not exist. Null for all other convolutions.
  const EdgeNetwork<T> *network() const { return network_.get(); }
  bool exact() const { return set_ && set_->exact(); }
  // The tables hold no polynomials; table_rows() returns them for all bins of all tables, num_rows() per channel
  // block.
  const RadialSet &radial_set() const { return *set_; }
  int64_t num_rows() const { return first_row_.back(); }
  const R *table_rows() const { return rows_.data(); }
  auto members() const { return std::tie(network_, piece_numbers_, rows_); }

  // Size of the scratch per edge that radial() needs.
  int64_t scratch_per_edge() const { return exact() ? rows_per_bin() * columns() : 0; }

  // Computes radial weights of edges first .. first + n - 1 of `total`, at distances r[0..n). function[0..n) are
  // their functions of radial_set(); null if all edges have the same. Sets table_row, value and derivative of
  // ConvEdges for these edges (the arrays begin with edge `first`). scratch holds total * scratch_per_edge()
  // numbers. It is the same for all edges and must live as long as the result is used.
  RadialRows<R> radial(const D *r, const int *function, int64_t n, int64_t first, int64_t total, R *scratch,
                       int *table_row, T *fraction, R *bins_per_length) const;

  // Number of path groups without a generated kernel for this table.
  int num_generic_path_groups() const;

  // Whether all path groups have kernels that accept several directions at a time.
  bool has_kernels_of_directions() const;

  // "960 weights, quintic table with 126 knots, error 4.1e-07 (value), 9.3e-07 (derivative), 2.9 MB"
  std::string describe() const;

 private:
  void set_pieces();

  const HostKernels<T> &kernels_;
  ConvolutionTables<T> tables_;
  std::optional<RadialSet> set_;
  std::unique_ptr<EdgeNetwork<T>> network_;
  bool is_split_ = false;
  std::vector<int64_t> first_row_;    // per table, and the total number
  std::vector<double> piece_numbers_;
  TablePieces pieces_ = {};
  Buffer<R> rows_;
};

}    // namespace equi

#endif

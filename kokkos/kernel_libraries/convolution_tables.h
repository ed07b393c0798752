// SPDX-License-Identifier: MIT
// The tensor product of a convolution as plain arrays for the host kernels: its path groups, paths and couplings,
// and the positions of its weights in tables.
#ifndef EQUI_CONVOLUTION_TABLES_H
#define EQUI_CONVOLUTION_TABLES_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/kernel_interface/feature_layout.h"
#include "src/algebra/tensor_product.h"
#include "src/generator/kernel_schedule.h"

#include <algorithm>
#include <deque>
#include <vector>

namespace equi {

// The layout of a bin's polynomial coefficients in a row of a channel block. They are stored in pieces of at most
// `piece` rows, in a piece weight by weight, with the coefficients of a weight adjacent.
struct TableLayout {
  int channels;    // channels in a block
  int piece;
  bool may_split;    // whether float64 bins of degree 7 may be split (SPLIT_ROWS)
};
// SIMD loads one coefficient of many channels.
constexpr TableLayout HOST_TABLE{CHANNEL_PAD, 1, true};

// The position of a weight of the model in a table with R rows per channel block. Coefficient n of a bin whose first
// row is `row` has number R * first + row * stride + coefficient(n), unless the bin is split.
struct WeightColumn {
  int64_t first;
  int stride, lane;
  double scale;    // constants of the path
  // rows: rows per bin.
  int64_t coefficient(int n, int rows, const TableLayout &layout) const {
    const int before = n / layout.piece * layout.piece, width = std::min(layout.piece, rows - before);
    return static_cast<int64_t>(before) * stride + lane * width + n - before;
  }
  // Coefficient n >= FLOAT64_COEFFICIENTS of a split bin, as a position among float32 numbers.
  int64_t upper_coefficient(int n) const {
    const int k = n - FLOAT64_COEFFICIENTS, first = lane / SPLIT_CHANNELS * SPLIT_CHANNELS;
    const int64_t row = (FLOAT64_COEFFICIENTS + k / 2) * static_cast<int64_t>(stride);
    return 2 * (row + first) + k % 2 * SPLIT_CHANNELS + lane - first;
  }
};

// Whether coefficient n of a bin with `rows` rows is float32 in a table of R.
template <class R>
bool is_rounded(int n, int rows, const TableLayout &layout) {
  return layout.may_split && coefficients_in<R>(rows) > rows && n >= FLOAT64_COEFFICIENTS;
}
// Coefficient n of the weight at `column`, in a bin with `rows` rows; bin: number R * first + row * stride of the
// table.
template <class R>
double coefficient_of(const R *bin, const WeightColumn &column, int n, int rows, const TableLayout &layout) {
  if (is_rounded<R>(n, rows, layout)) return reinterpret_cast<const float *>(bin)[column.upper_coefficient(n)];
  return bin[column.coefficient(n, rows, layout)];
}
template <class R>
void set_coefficient(R *bin, const WeightColumn &column, int n, int rows, const TableLayout &layout, double value) {
  if (is_rounded<R>(n, rows, layout))
    reinterpret_cast<float *>(bin)[column.upper_coefficient(n)] = static_cast<float>(value);
  else
    bin[column.coefficient(n, rows, layout)] = static_cast<R>(value);
}
// The position of the same weight among weights of edges.
struct EdgeColumn {
  int column;    // column in ConvolutionView::weights_row
  double scale;
};

// T: the type of features.
template <class T>
class ConvolutionTables {
  using R = Real<T>;

 public:
  ConvolutionTables(const TensorProduct &product, const FeatureLayout &in, const FeatureLayout &out,
                    const TableLayout &layout = HOST_TABLE);
  ConvolutionTables(const ConvolutionTables &) = delete;    // the view points into this object
  ConvolutionTables &operator=(const ConvolutionTables &) = delete;

  // Selects for each path group its generated kernel for an instruction set, if it exists and is_generated. Until
  // this call all are generic.
  void select_kernels(InstructionSet set, bool is_generated = true);

  const ConvolutionView<T> &view() const { return view_; }
  const std::vector<ConvPathGroup<T>> &path_groups() const { return path_groups_; }
  const std::vector<PathGroupSchedule> &schedules() const { return schedules_; }    // per path group
  const TableLayout &layout() const { return layout_; }
  int64_t columns() const { return columns_; }    // weights of a table, with padding
  // Per weight of the model. Weights of edges are for products whose paths are all uvu.
  const std::vector<WeightColumn> &table_columns() const { return table_column_; }
  const std::vector<EdgeColumn> &edge_columns() const { return edge_column_; }

 private:
  TableLayout layout_;
  int64_t columns_ = 0;
  std::vector<WeightColumn> table_column_;
  std::vector<EdgeColumn> edge_column_;
  std::vector<PathGroupSchedule> schedules_;
  ConvolutionView<T> view_{};
  std::vector<ConvPathGroup<T>> path_groups_;
  std::vector<ConvPath<T>> paths_;
  // The arrays that the view points to.
  std::deque<std::vector<KernelTerm<R>>> terms_;
  std::deque<std::vector<KernelEntry<R>>> entries_;
};

}    // namespace equi

#endif

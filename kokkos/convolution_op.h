// One convolution of a model, ready for the host kernels: couplings, memory layout and radial rows.
#ifndef EQUI_CONVOLUTION_OP_H
#define EQUI_CONVOLUTION_OP_H

#include "buffer.h"
#include "evaluator.h"
#include "feature_layout.h"
#include "host_kernels.h"

#include <string>
#include <vector>

namespace equi {

// T: the type of features and table rows.
template <class T>
class ConvolutionOp {
 public:
  ConvolutionOp(const Convolution &convolution, const FeatureLayout &in, const FeatureLayout &out,
                const EvaluatorOptions &options);

  const ConvPlan<T> &plan() const { return plan_; }
  int64_t columns() const { return columns_; }
  int rows_per_bin() const { return exact_ ? 2 : table_.degree + 1; }
  bool exact() const { return exact_; }
  const RadialTable &table() const {
    return table_;
  }    // without its rows, which are at table_rows() as [rows][columns()]
  const T *table_rows() const { return rows_.data(); }
  std::size_t bytes() const { return rows_.bytes(); }

  // Numbers of T that radial() needs as scratch per edge.
  int64_t scratch_per_edge() const { return exact_ ? 2 * columns_ : 0; }

  // Where edges at distances r[0..n) find their radial weights: sets table, table_row, value and derivative of
  // ConvEdges. scratch holds n * scratch_per_edge() numbers and must live as long as the result is used.
  template <class G>
  void radial(const G *r, int64_t n, T *scratch, const T *&table, int *table_row, T *value, T *derivative) const;

  // "960 weights, quintic table with 188 knots, error 4.1e-07 (value), 9.3e-07 (derivative), 2.2 MB"
  std::string describe() const;

 private:
  bool exact_;
  RadialFunction function_;
  RadialTable table_;    // without its rows, which are kept as T with padded columns
  Buffer<T> rows_;
  int64_t columns_ = 0;            // padded
  std::vector<int> column_map_;    // model column -> padded column
  std::vector<double> column_scale_;
  ConvPlan<T> plan_;
  std::vector<ConvUnit<T>> units_;
  std::vector<ConvPath<T>> paths_;
  std::vector<std::vector<CouplingTerm<T>>> terms_;
};

}    // namespace equi

#endif

#include "convolution_op.h"

#include "coupling.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace equi {

template <class T>
ConvolutionOp<T>::ConvolutionOp(const Convolution &convolution, const FeatureLayout &in, const FeatureLayout &out,
                                const EvaluatorOptions &options)
    : exact_(options.radial_exact), function_(convolution.radial) {
  const TensorProduct &product = convolution.product;

  // Paths ordered by input block, so that one pass over the edges of an atom reuses its senders' channels from cache.
  std::vector<int> order(product.paths.size());
  for (size_t q = 0; q < order.size(); q++) order[q] = static_cast<int>(q);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return product.paths[a].in < product.paths[b].in; });

  column_map_.resize(product.num_weights());
  column_scale_.resize(product.num_weights());
  plan_ = {};
  terms_.reserve(3 * order.size());
  int entries = 0;
  for (int q : order) {
    const TensorProductPath &p = product.paths[q];
    const IrrepBlock &bin = product.irreps_in[p.in], &bout = product.irreps_out[p.out];
    const int l1 = bin.irrep.l, l2 = p.l2, l3 = bout.irrep.l;
    const FeatureBlock &fin = in.block(p.in), &fout = out.block(p.out);
    const FeatureGroup &gin = in.group(fin.group), &gout = out.group(fout.group);
    if (units_.empty() || product.paths[order[paths_.size() - 1]].in != p.in)
      units_.push_back({l1, gin.offset, gin.width(), gin.channels, fin.channel, padded(bin.mul),
                        static_cast<int>(paths_.size()), 0});
    units_.back().num_paths++;

    // The path's constants go into the radial columns; for l2 = 0 also the single value 1/sqrt(2 l1+1) of the coupling.
    const double scale = l2 == 0 ? p.scale / std::sqrt(2.0 * l1 + 1.0) : p.scale;
    const int first = product.weight_offset(q);
    for (int u = 0; u < bin.mul; u++) {
      column_map_[first + u] = static_cast<int>(columns_) + u;
      column_scale_[first + u] = scale;
    }
    ConvPath<T> path{l1,
                     l2,
                     l3,
                     static_cast<int>(columns_),
                     gout.offset,
                     gout.width(),
                     gout.channels,
                     fout.channel,
                     entries,
                     nullptr,
                     nullptr,
                     nullptr,
                     0};
    columns_ += padded(bin.mul);
    const int d1 = 2 * l1 + 1, d2 = 2 * l2 + 1, d3 = 2 * l3 + 1;
    if (l2 > 0) {
      std::vector<CouplingTerm<T>> m, mt, d;
      for (const CouplingEntry &c : coupling_entries(l1, l2, l3)) {
        m.push_back({c.m1 * d3 + c.m3, l2 * l2 + c.m2, static_cast<T>(c.value)});
        mt.push_back({c.m3 * d1 + c.m1, l2 * l2 + c.m2, static_cast<T>(c.value)});
        d.push_back({c.m1 * d2 + c.m2, c.m3, static_cast<T>(c.value)});
      }
      path.num_terms = static_cast<int>(m.size());
      path.m_terms = terms_.emplace_back(std::move(m)).data();
      path.mt_terms = terms_.emplace_back(std::move(mt)).data();
      path.d_terms = terms_.emplace_back(std::move(d)).data();
      entries += d1 * d3;
    }
    plan_.max_d = std::max(plan_.max_d, d1 * d2);
    paths_.push_back(path);
  }
  plan_.units = units_.data();
  plan_.paths = paths_.data();
  plan_.num_units = static_cast<int>(units_.size());
  plan_.num_paths = static_cast<int>(paths_.size());
  plan_.num_y = (product.lmax_edge + 1) * (product.lmax_edge + 1);
  plan_.m_entries = entries;

  if (exact_) return;
  // Both degrees reach the tolerance; the smaller table wins, for its rows are what the kernels read most.
  const double tolerance = options.radial_tolerance > 0.0            ? options.radial_tolerance
                           : options.precision == Precision::double_ ? 1e-10
                                                                     : 1e-6;
  table_ = RadialTable::build(function_, 5, tolerance);
  if (tolerance >= 1e-7) {
    RadialTable cubic = RadialTable::build(function_, 3, tolerance);
    if (cubic.rows.size() < table_.rows.size()) table_ = std::move(cubic);
  }
  const int64_t num_rows = static_cast<int64_t>(table_.num_knots) * table_.rows_per_knot();
  T *rows = rows_.reserve(num_rows * columns_);
  std::fill(rows, rows + num_rows * columns_, T(0));
  for (int64_t row = 0; row < num_rows; row++)
    for (int c = 0; c < table_.num_columns; c++)
      rows[row * columns_ + column_map_[c]] =
          static_cast<T>(column_scale_[c] * table_.rows[row * table_.num_columns + c]);
  table_.rows.clear();
  table_.rows.shrink_to_fit();
}

template <class T>
template <class G>
void ConvolutionOp<T>::radial(const G *r, int64_t n, T *scratch, const T *&table, int *table_row, T *value,
                              T *derivative) const {
  if (exact_) {
    std::vector<double> w(2 * function_.num_outputs());
    for (int64_t e = 0; e < n; e++) {
      function_.derivatives(r[e], 1, -1, w.data());
      T *f = scratch + e * 2 * columns_;
      std::fill(f, f + 2 * columns_, T(0));
      for (int c = 0; c < function_.num_outputs(); c++) {
        f[column_map_[c]] = static_cast<T>(column_scale_[c] * w[c]);
        f[columns_ + column_map_[c]] = static_cast<T>(column_scale_[c] * w[function_.num_outputs() + c]);
      }
      table_row[e] = static_cast<int>(2 * e);
      value[2 * e] = derivative[2 * e + 1] = 1;
      value[2 * e + 1] = derivative[2 * e] = 0;
    }
    table = scratch;
    return;
  }
  const int rows = table_.degree + 1;
  for (int64_t e = 0; e < n; e++) {
    double v[6], d[6];
    table_.coefficients(r[e], table_row[e], v, d);
    for (int k = 0; k < rows; k++) {
      value[e * rows + k] = static_cast<T>(v[k]);
      derivative[e * rows + k] = static_cast<T>(d[k]);
    }
  }
  table = rows_.data();
}

template <class T>
std::string ConvolutionOp<T>::describe() const {
  char text[200];
  if (exact_)
    std::snprintf(text, sizeof text, "%d weights, exact", function_.num_outputs());
  else
    std::snprintf(text, sizeof text,
                  "%d weights, %s table with %d knots, error %.1e (value), %.1e (derivative), %.1f MB",
                  function_.num_outputs(), table_.degree == 3 ? "cubic" : "quintic", table_.num_knots,
                  table_.value_error, table_.derivative_error, rows_.bytes() * 1e-6);
  return text;
}

template class ConvolutionOp<float>;
template class ConvolutionOp<double>;
template void ConvolutionOp<float>::radial(const float *, int64_t, float *, const float *&, int *, float *,
                                           float *) const;
template void ConvolutionOp<float>::radial(const double *, int64_t, float *, const float *&, int *, float *,
                                           float *) const;
template void ConvolutionOp<double>::radial(const double *, int64_t, double *, const double *&, int *, double *,
                                            double *) const;

}    // namespace equi

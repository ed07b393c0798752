#include "convolution_op.h"

#include "kernel_library.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace equi {

template <class T>
ConvolutionOp<T>::ConvolutionOp(const Convolution &convolution, const FeatureLayout &in, const FeatureLayout &out,
                                int num_species, const EvaluatorOptions &options)
    : first_row_{0}, plan_{} {
  const TensorProduct &product = convolution.product;
  column_.resize(product.num_weights());
  plan_.max_uvw_l3 = -1;
  std::vector<bool> is_begun(product.irreps_out.size(), false);
  for (const ProductUnit &product_unit : units_of(product)) {
    const UnitShape &shape = product_unit.shape;
    const std::vector<int> &order = product_unit.paths;
    schedules_.push_back(make_unit_schedule(shape, AVX512_TARGET));    // the target matters to generated kernels alone
    const UnitSchedule &schedule = schedules_.back();

    const FeatureBlock &fin = in.block(product_unit.block);
    const FeatureGroup &gin = in.group(fin.group);
    const int mul = product.irreps_in[product_unit.block].mul, num_paths = static_cast<int>(order.size());
    ConvUnit<T> unit{};
    unit.l1 = shape.l1;
    unit.in_group = gin.offset;
    unit.in_width = gin.width();
    unit.in_channels = gin.channels;
    unit.in_channel = fin.channel;
    unit.channels = padded(mul);
    unit.first_path = static_cast<int>(paths_.size());
    unit.num_paths = num_paths;
    unit.first_column = columns_;
    unit.slabs = unit.channels / CHANNEL_PAD;
    unit.row = num_paths * CHANNEL_PAD;
    const int mul_out = product.irreps_out[product.paths[order[0]].out].mul,
              blocks = (mul_out + UVW_BLOCK - 1) / UVW_BLOCK;
    if (shape.is_uvw()) {
      unit.outputs = blocks * UVW_BLOCK;
      unit.slabs *= blocks;
      unit.row = UVW_BLOCK * CHANNEL_PAD;
    }
    unit.num_forms = static_cast<int>(schedule.forms.size());
    auto &form_terms = terms_.emplace_back();
    for (int f = 0; f < unit.num_forms; f++)
      for (const auto &t : schedule.forms[f].terms) form_terms.push_back({f, t.index, static_cast<R>(t.coefficient)});
    unit.form_terms = form_terms.data();
    unit.num_form_terms = static_cast<int>(form_terms.size());

    for (int k = 0; k < num_paths; k++) {
      const PathSchedule &p = schedule.paths[k];
      const TensorProductPath &path = product.paths[order[k]];
      // Constants of the path, the largest coupling among them, go into the radial weights.
      const int first = product.weight_offset(order[k]);
      const auto place = [&](int64_t slab, int lane) {
        return WeightColumn{columns_ + slab * unit.row, unit.row, lane, path.scale * p.scale};
      };
      for (int u = 0; u < mul; u++) {
        const int chunk = u / CHANNEL_PAD, lane = u % CHANNEL_PAD;
        if (!shape.is_uvw()) column_[first + u] = place(chunk, k * CHANNEL_PAD + lane);
        for (int w = 0; shape.is_uvw() && w < mul_out; w++)
          column_[first + u * mul_out + w] = place(chunk * blocks + w / UVW_BLOCK, w % UVW_BLOCK * CHANNEL_PAD + lane);
      }
      const FeatureBlock &fout = out.block(path.out);
      const FeatureGroup &gout = out.group(fout.group);
      auto &m = entries_.emplace_back(), &d_entries = entries_.emplace_back();
      auto &d_terms = terms_.emplace_back();
      for (const auto &e : p.m) m.push_back({e.m1, e.m3, e.form, static_cast<R>(e.sign)});
      for (const auto &e : p.d_entries) d_entries.push_back({e.m1, e.m2, e.d, static_cast<R>(e.sign)});
      for (size_t n = 0; n < p.d.size(); n++)
        for (const auto &t : p.d[n].terms)
          d_terms.push_back({static_cast<int>(n), t.index, static_cast<R>(t.coefficient)});
      paths_.push_back({p.l2, p.l3, gout.offset, gout.width(), gout.channels, fout.channel, m.data(), d_terms.data(),
                        d_entries.data(), static_cast<int>(m.size()), static_cast<int>(d_terms.size()),
                        static_cast<int>(d_entries.size()), static_cast<int>(p.d.size()), !is_begun[path.out]});
      is_begun[path.out] = true;
    }
    columns_ += static_cast<int64_t>(unit.slabs) * unit.row;
    if (shape.is_uvw()) {
      plan_.max_uvw_forms = std::max(plan_.max_uvw_forms, unit.num_forms);
      plan_.max_uvw_l3 = std::max(plan_.max_uvw_l3, schedule.paths[0].l3);
    } else {
      plan_.max_forms = std::max(plan_.max_forms, unit.num_forms);
      plan_.max_paths = std::max(plan_.max_paths, num_paths);
      plan_.max_d = std::max(plan_.max_d, static_cast<int64_t>(schedule.num_d()) * unit.channels);
    }
    units_.push_back(unit);
  }
  plan_.units = units_.data();
  plan_.paths = paths_.data();
  plan_.num_units = static_cast<int>(units_.size());
  plan_.num_paths = static_cast<int>(paths_.size());
  plan_.num_y = (product.lmax_edge + 1) * (product.lmax_edge + 1);

  if (convolution.radial.reads_features()) {
    if (IS_DUAL<T>)
      throw std::invalid_argument("second derivatives of radial networks on features of atoms are not known yet");
    network_ = std::make_unique<EdgeNetwork<R>>(convolution.radial, in, num_species, column_);
    return;
  }
  set_.emplace(convolution.radial, num_species, options);
  if (exact()) return;
  for (int k = 0; k < set_->num_functions(); k++)
    first_row_.push_back(first_row_.back() + static_cast<int64_t>(set_->table(k).num_bins()) * rows_per_bin());
  R *rows = rows_.reserve(num_rows() * columns_);
  std::fill(rows, rows + num_rows() * columns_, R(0));
  for (int k = 0; k < set_->num_functions(); k++)
    set_->for_polynomials(k, [&](int bin, int c, const double *powers) {
      const WeightColumn &to = column_[c];
      R *first = rows + num_rows() * to.first + (first_row_[k] + bin * rows_per_bin()) * to.stride + to.lane;
      for (int n = 0; n < rows_per_bin(); n++)
        first[static_cast<int64_t>(n) * to.stride] = static_cast<R>(to.scale * powers[n]);
    });
  set_->drop_rows();
}

template <class T>
void ConvolutionOp<T>::select_kernels(InstructionSet set, bool is_generated) {
  for (size_t u = 0; u < units_.size(); u++) {
    ConvUnit<T> &unit = units_[u];
    const std::string key = is_generated ? schedules_[u].shape.key() : "";
    unit.kernel = key.empty() || unit.is_uvw() ? nullptr : find_unit_kernel<T>(set, key);
    unit.uvw_kernel = key.empty() || !unit.is_uvw() ? nullptr : find_uvw_kernel<T>(set, key);
  }
}

template <class T>
int ConvolutionOp<T>::num_generic_units() const {
  int n = 0;
  if (network_) return n;    // it takes no others
  for (const ConvUnit<T> &unit : units_)
    if (exact() || unit.is_generic()) n++;
  return n;
}

template <class T>
template <class G>
RadialRows<Real<T>> ConvolutionOp<T>::radial(const G *r, const int *function, int64_t n, int64_t first, int64_t total,
                                             R *scratch, int *table_row, T *fraction, R *bins_per_length) const {
  if (exact()) {
    // A bin of its own, at whose beginning the distance lies: rows are Taylor coefficients.
    const int num_outputs = set_->num_outputs(), num_rows = rows_per_bin();
    std::vector<double> w(num_rows * num_outputs);
    for (int64_t e = 0; e < n; e++) {
      set_->function(function ? function[e] : 0).derivatives(value_of(r[e]), num_rows - 1, -1, w.data());
      const int64_t row = num_rows * (first + e);
      for (const ConvUnit<T> &unit : units_) {
        for (int64_t slab = 0; slab < unit.slabs; slab++)
          std::fill_n(scratch + num_rows * total * (unit.first_column + slab * unit.row) + row * unit.row,
                      num_rows * unit.row, R(0));
      }
      for (int c = 0; c < num_outputs; c++) {
        const WeightColumn &to = column_[c];
        R *f = scratch + num_rows * total * to.first + row * to.stride + to.lane;
        f[0] = static_cast<R>(to.scale * w[c]);
        f[to.stride] = static_cast<R>(to.scale * w[num_outputs + c]);
        if (num_rows > 2) f[2 * to.stride] = static_cast<R>(0.5 * to.scale * w[2 * num_outputs + c]);
      }
      table_row[e] = static_cast<int>(row);
      fraction[e] = make_number<T>(0, static_cast<R>(tangent_of(r[e])));
      bins_per_length[e] = 1;
    }
    return {scratch, num_rows * total};
  }
  for (int64_t e = 0; e < n; e++) {
    const int k = function ? function[e] : 0;
    const RadialTable::Place place = set_->table(k).place(value_of(r[e]));
    table_row[e] = static_cast<int>(first_row_[k]) + place.bin * rows_per_bin();
    bins_per_length[e] = static_cast<R>(1.0 / place.spacing);
    fraction[e] = make_number<T>(static_cast<R>(place.fraction), static_cast<R>(tangent_of(r[e])) * bins_per_length[e]);
  }
  return {rows_.data(), num_rows()};
}

template <class T>
std::string ConvolutionOp<T>::describe() const {
  std::string text = std::to_string(column_.size()) + " weights, ";
  if (network_) return text + "network on features of the atoms at each edge, no table";
  text += set_->describe();
  if (exact()) return text;
  char size[30];
  std::snprintf(size, sizeof size, ", %.1f MB", rows_.bytes() * 1e-6);
  return text + size;
}

#define EQUI_INSTANTIATE(T, G)                                                                                \
  template RadialRows<Real<T>> ConvolutionOp<T>::radial<G>(const G *, const int *, int64_t, int64_t, int64_t, \
                                                           Real<T> *, int *, T *, Real<T> *) const;

template class ConvolutionOp<float>;
template class ConvolutionOp<double>;
template class ConvolutionOp<Dual<float>>;
template class ConvolutionOp<Dual<double>>;
EQUI_INSTANTIATE(float, float)
EQUI_INSTANTIATE(float, double)
EQUI_INSTANTIATE(double, double)
EQUI_INSTANTIATE(Dual<float>, Dual<double>)
EQUI_INSTANTIATE(Dual<double>, Dual<double>)
#undef EQUI_INSTANTIATE

}    // namespace equi

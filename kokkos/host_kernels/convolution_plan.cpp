// SPDX-License-Identifier: MIT
#include "kokkos/host_kernels/convolution_plan.h"

#include "kokkos/host_kernels/kernel_library.h"
#include "src/numbers/number_types.h"

#include <algorithm>

namespace equi {

template <class T>
ConvolutionPlan<T>::ConvolutionPlan(const TensorProduct &product, const FeatureLayout &in, const FeatureLayout &out) {
  table_column_.resize(product.num_weights());
  edge_column_.resize(product.num_weights());
  std::vector<int> place_of_path;
  for (const TensorProductPath &path : product.paths) {
    place_of_path.push_back(static_cast<int>(plan_.weights_row));
    if (path.connection == Connection::uvu) plan_.weights_row += padded(product.irreps_in[path.in].mul);
  }
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
      const int first = static_cast<int>(product.weight_offset(order[k]));    // of a valid product
      const auto place = [&](int64_t slab, int lane) {
        return WeightColumn{columns_ + slab * unit.row, unit.row, lane, path.scale * p.scale};
      };
      for (int u = 0; u < mul; u++) {
        const int chunk = u / CHANNEL_PAD, lane = u % CHANNEL_PAD;
        if (!shape.is_uvw()) {
          table_column_[first + u] = place(chunk, k * CHANNEL_PAD + lane);
          edge_column_[first + u] = {place_of_path[order[k]] + u, path.scale * p.scale};
        }
        for (int w = 0; shape.is_uvw() && w < mul_out; w++)
          table_column_[first + u * mul_out + w] =
              place(chunk * blocks + w / UVW_BLOCK, w % UVW_BLOCK * CHANNEL_PAD + lane);
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
                        static_cast<int>(d_entries.size()), static_cast<int>(p.d.size()), !is_begun[path.out],
                        place_of_path[order[k]]});
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
      plan_.max_weights = std::max(plan_.max_weights, static_cast<int64_t>(num_paths) * unit.channels);
    }
    units_.push_back(unit);
  }
  plan_.units = units_.data();
  plan_.paths = paths_.data();
  plan_.num_units = static_cast<int>(units_.size());
  plan_.num_paths = static_cast<int>(paths_.size());
  plan_.num_y = (product.lmax_edge + 1) * (product.lmax_edge + 1);
}

template <class T>
void ConvolutionPlan<T>::select_kernels(InstructionSet set, bool is_generated) {
  for (size_t u = 0; u < units_.size(); u++) {
    ConvUnit<T> &unit = units_[u];
    const UnitShape &shape = schedules_[u].shape;
    unit.kernel = is_generated && !unit.is_uvw() ? find_unit_kernel<T>(set, shape) : nullptr;
    unit.uvw_kernel = is_generated && unit.is_uvw() ? find_uvw_kernel<T>(set, shape) : nullptr;
  }
}

EQUI_INSTANTIATE_NUMBERS(ConvolutionPlan)

}    // namespace equi

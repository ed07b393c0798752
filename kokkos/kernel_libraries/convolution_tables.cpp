// SPDX-License-Identifier: MIT
// Makes the path groups, paths and couplings of a convolution as plain arrays for the host kernels.
#include "kokkos/kernel_libraries/convolution_tables.h"

#include "kokkos/kernel_libraries/kernel_library.h"
#include "src/numbers/number_types.h"

#include <algorithm>

namespace equi {

template <class T>
ConvolutionTables<T>::ConvolutionTables(const TensorProduct &product, const FeatureLayout &in, const FeatureLayout &out,
                                        const TableLayout &layout)
    : layout_(layout) {
  table_column_.resize(product.num_weights());
  edge_column_.resize(product.num_weights());
  std::vector<int> column_of_path;
  for (const TensorProductPath &path : product.paths) {
    column_of_path.push_back(static_cast<int>(view_.weights_row));
    if (path.connection == Connection::uvu) view_.weights_row += padded(product.irreps_in[path.in].mul);
  }
  view_.max_uvw_l3 = -1;
  std::vector<bool> is_begun(product.irreps_out.size(), false);
  for (const ProductPathGroup &product_path_group : path_groups_of(product)) {
    const PathGroupShape &shape = product_path_group.shape;
    const std::vector<int> &order = product_path_group.paths;
    schedules_.push_back(
        make_path_group_schedule(shape, AVX512_TARGET));    // the target matters only to generated kernels
    const PathGroupSchedule &schedule = schedules_.back();

    const FeatureBlock &fin = in.block(product_path_group.block);
    const FeatureGroup &gin = in.group(fin.group);
    const int mul = product.irreps_in[product_path_group.block].mul, num_paths = static_cast<int>(order.size());
    ConvPathGroup<T> path_group{};
    path_group.l1 = shape.l1;
    path_group.in_group = gin.offset;
    path_group.in_width = gin.width();
    path_group.in_channels = gin.channels;
    path_group.in_channel = fin.channel;
    path_group.channels = padded(mul);
    path_group.first_path = static_cast<int>(paths_.size());
    path_group.num_paths = num_paths;
    path_group.first_column = columns_;
    path_group.channel_blocks = (path_group.channels + layout.channels - 1) / layout.channels;
    path_group.row = num_paths * layout.channels;
    const int mul_out = product.irreps_out[product.paths[order[0]].out].mul,
              blocks = (mul_out + UVW_BLOCK - 1) / UVW_BLOCK;
    if (shape.is_uvw()) {
      path_group.outputs = blocks * UVW_BLOCK;
      path_group.channel_blocks *= blocks;
      path_group.row = UVW_BLOCK * layout.channels;
    }
    path_group.num_coupled = static_cast<int>(schedule.coupled.size());
    auto &coupled_terms = terms_.emplace_back();
    for (int f = 0; f < path_group.num_coupled; f++)
      for (const auto &t : schedule.coupled[f].terms)
        coupled_terms.push_back({f, t.index, static_cast<R>(t.coefficient)});
    path_group.coupled_terms = coupled_terms.data();
    path_group.num_coupled_terms = static_cast<int>(coupled_terms.size());

    for (int k = 0; k < num_paths; k++) {
      const PathSchedule &p = schedule.paths[k];
      const TensorProductPath &path = product.paths[order[k]];
      // Constants of the path, including its largest coupling, become factors of the radial weights.
      const int first = static_cast<int>(product.weight_offset(order[k]));    // fits an int in a valid product
      const auto column = [&](int64_t channel_block, int lane) {
        return WeightColumn{columns_ + channel_block * path_group.row, path_group.row, lane, path.scale * p.scale};
      };
      for (int u = 0; u < mul; u++) {
        const int channel_block = u / layout.channels, lane = u % layout.channels;
        if (!shape.is_uvw()) {
          table_column_[first + u] = column(channel_block, k * layout.channels + lane);
          edge_column_[first + u] = {column_of_path[order[k]] + u, path.scale * p.scale};
        }
        for (int w = 0; shape.is_uvw() && w < mul_out; w++)
          table_column_[first + u * mul_out + w] =
              column(channel_block * blocks + w / UVW_BLOCK, w % UVW_BLOCK * layout.channels + lane);
      }
      const FeatureBlock &fout = out.block(path.out);
      const FeatureGroup &gout = out.group(fout.group);
      auto &m = entries_.emplace_back(), &d_entries = entries_.emplace_back();
      auto &d_terms = terms_.emplace_back();
      for (const auto &e : p.m) m.push_back({e.m1, e.m3, e.coupled, static_cast<R>(e.sign)});
      for (const auto &e : p.d_entries) d_entries.push_back({e.m1, e.m2, e.d, static_cast<R>(e.sign)});
      for (size_t n = 0; n < p.d.size(); n++)
        for (const auto &t : p.d[n].terms)
          d_terms.push_back({static_cast<int>(n), t.index, static_cast<R>(t.coefficient)});
      paths_.push_back({p.l2, p.l3, gout.offset, gout.width(), gout.channels, fout.channel, m.data(), d_terms.data(),
                        d_entries.data(), static_cast<int>(m.size()), static_cast<int>(d_terms.size()),
                        static_cast<int>(d_entries.size()), static_cast<int>(p.d.size()), !is_begun[path.out],
                        column_of_path[order[k]]});
      is_begun[path.out] = true;
    }
    columns_ += static_cast<int64_t>(path_group.channel_blocks) * path_group.row;
    if (shape.is_uvw()) {
      view_.max_uvw_coupled = std::max(view_.max_uvw_coupled, path_group.num_coupled);
      view_.max_uvw_l3 = std::max(view_.max_uvw_l3, schedule.paths[0].l3);
    } else {
      view_.max_coupled = std::max(view_.max_coupled, path_group.num_coupled);
      view_.max_paths = std::max(view_.max_paths, num_paths);
      view_.max_d = std::max(view_.max_d, static_cast<int64_t>(schedule.num_d()) * path_group.channels);
      view_.max_weights = std::max(view_.max_weights, static_cast<int64_t>(num_paths) * path_group.channels);
    }
    path_groups_.push_back(path_group);
  }
  view_.path_groups = path_groups_.data();
  view_.paths = paths_.data();
  view_.num_path_groups = static_cast<int>(path_groups_.size());
  view_.num_paths = static_cast<int>(paths_.size());
  view_.num_y = (product.lmax_edge + 1) * (product.lmax_edge + 1);
}

template <class T>
void ConvolutionTables<T>::select_kernels(InstructionSet set, bool is_generated) {
  for (size_t u = 0; u < path_groups_.size(); u++) {
    ConvPathGroup<T> &path_group = path_groups_[u];
    const PathGroupShape &shape = schedules_[u].shape;
    path_group.kernel = is_generated && !path_group.is_uvw() ? find_path_group_kernel<T>(set, shape) : nullptr;
    path_group.uvw_kernel = is_generated && path_group.is_uvw() ? find_uvw_kernel<T>(set, shape) : nullptr;
  }
}

EQUI_INSTANTIATE_NUMBERS(ConvolutionTables)

}    // namespace equi

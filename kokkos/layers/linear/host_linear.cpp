// SPDX-License-Identifier: MIT
#include "kokkos/layers/linear/host_linear.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace equi {

template <class T>
HostLinear<T>::HostLinear(const Linear &linear, const FeatureLayout &in, const FeatureLayout &out, int num_species,
                          InstructionSet set)
    : in_(in),
      out_(out),
      per_species_(linear.per_species),
      accumulate_(linear.accumulate),
      num_species_(linear.per_species ? num_species : 1) {
  std::map<std::pair<int, int>, size_t> product_of;    // groups of input and output
  std::vector<std::vector<Matrix>> matrices;           // of each product, one or one per species
  std::vector<bool> is_read(in.num_groups(), false), is_written(out.num_groups(), false);
  for (const LinearBlock &block : linear.blocks) {
    const FeatureBlock &bin = in.block(block.in), &bout = out.block(block.out);
    const FeatureGroup &gin = in.group(bin.group), &gout = out.group(bout.group);
    const auto [place, is_new] = product_of.try_emplace({bin.group, bout.group}, products_.size());
    if (is_new) products_.push_back({bin.group, bout.group, !is_read[bin.group], !is_written[bout.group], {}, {}});
    if (is_new) {
      is_read[bin.group] = is_written[bout.group] = true;
      matrices.emplace_back(
          num_species_,
          Matrix{gin.channels, gout.channels, std::vector<double>(static_cast<size_t>(gin.channels) * gout.channels)});
      scratch_row_ = std::max<int64_t>(scratch_row_, gin.width() + gout.width());
    }
    for (int s = 0; s < num_species_; s++) {
      const Matrix &w = block.weight[s];
      Matrix &m = matrices[place->second][s];
      for (int u = 0; u < w.rows; u++)
        for (int v = 0; v < w.cols; v++)
          m.data[static_cast<size_t>(bin.channel + u) * m.cols + bout.channel + v] = w(u, v);
    }
  }
  for (size_t k = 0; k < products_.size(); k++)
    for (const Matrix &m : matrices[k]) {
      products_[k].weight.emplace_back(m, set);
      products_[k].transposed.emplace_back(transpose(m), set);
    }
  for (int g = 0; g < in.num_groups(); g++)
    if (!is_read[g]) unread_.push_back(g);
  for (int g = 0; g < out.num_groups(); g++)
    if (!is_written[g]) unwritten_.push_back(g);
  bias_.resize(out.num_groups());
  for (size_t b = 0; b < linear.bias.size(); b++) {
    if (linear.bias[b].empty()) continue;
    const FeatureBlock &bout = out.block(static_cast<int>(b));
    bias_[bout.group].resize(out.group(bout.group).channels, T(0));
    for (int u = 0; u < bout.mul; u++) bias_[bout.group][bout.channel + u] = static_cast<T>(linear.bias[b][u]);
  }
}

template <class T>
void HostLinear<T>::apply(int64_t count, FeatureRows<const T> x, FeatureRows<T> y, bool transpose, bool add,
                          SpeciesOrder species, T *scratch, Planes planes) const {
  const FeatureLayout &xl = transpose ? out_ : in_, &yl = transpose ? in_ : out_;
  for (const Product &p : products_) {
    const int gx = transpose ? p.out : p.in, gy = transpose ? p.in : p.out;
    const FeatureGroup &xg = xl.group(gx), &yg = yl.group(gy);
    const bool written = add || !(transpose ? p.first_in : p.first_out);
    const std::vector<PackedMatrix<T>> &weight = transpose ? p.transposed : p.weight;
    const auto multiply = [&](int64_t n, const T *from, const PackedMatrix<T> &w, bool is_added, T *to) {
      if (xg.is_all(planes))
        w.multiply(n * xg.irrep.dim() * xg.planes, from, to, is_added);
      else
        for (int k = planes.begin; k < planes.end; k++)
          w.multiply(n * xg.irrep.dim(), from + k * xg.channels, to + k * yg.channels, is_added, xg.stride(),
                     yg.stride());
    };
    if (!per_species_) {
      multiply(count, x.group(xg), weight[0], written, y.group(yg));
    } else {
      // Rows of one species are brought together, multiplied, and taken back.
      T *xs = scratch, *ys = scratch + count * xg.width();
      for (int s = 0; s < num_species_; s++) {
        const int *rows = species.order + species.begin[s];
        const int n = species.begin[s + 1] - species.begin[s];
        if (n == 0) continue;
        for (int k = 0; k < n; k++)
          std::memcpy(xs + static_cast<int64_t>(k) * xg.width(),
                      x.group(xg) + static_cast<int64_t>(rows[k]) * xg.width(), sizeof(T) * xg.width());
        multiply(n, xs, weight[s], false, ys);
        for (int k = 0; k < n; k++) {
          T *to = y.group(yg) + static_cast<int64_t>(rows[k]) * yg.width();
          const T *from = ys + static_cast<int64_t>(k) * yg.width();
          yg.for_numbers(planes, [&](int first, int count) {
            for (int c = first; c < first + count; c++) to[c] = written ? to[c] + from[c] : from[c];
          });
        }
      }
    }
  }
  if (!add)
    for (int g : transpose ? unread_ : unwritten_) set_to_zero(y, yl.group(g), count, planes);
}

template <class T>
void HostLinear<T>::forward(int64_t count, FeatureRows<const T> x, FeatureRows<T> y, SpeciesOrder species, T *scratch,
                            Planes planes) const {
  apply(count, x, y, false, accumulate_, species, scratch, planes);
  if (planes.begin > 0) return;    // tangents have no bias
  for (int g = 0; g < out_.num_groups(); g++) {
    if (bias_[g].empty()) continue;
    const FeatureGroup &group = out_.group(g);
    T *rows = y.group(group);
    for (int64_t r = 0; r < count; r++)
      for (int u = 0; u < group.channels; u++) rows[r * group.width() + u] += bias_[g][u];
  }
}

template <class T>
void HostLinear<T>::backward(int64_t count, FeatureRows<const T> y_adj, FeatureRows<T> x_adj, bool add,
                             SpeciesOrder species, T *scratch, Planes planes) const {
  apply(count, y_adj, x_adj, true, add, species, scratch, planes);
}

template class HostLinear<float>;
template class HostLinear<double>;

}    // namespace equi

// SPDX-License-Identifier: MIT
// Arranges the matrices of a linear layer by groups of its input and output.
#include "kokkos/layers/linear/linear_constants.h"

#include <algorithm>
#include <map>
#include <utility>

namespace equi {

LinearConstants::LinearConstants(const Linear &linear, const FeatureLayout &in, const FeatureLayout &out,
                                 int num_species)
    : in(in),
      out(out),
      per_species(linear.per_species),
      accumulate(linear.accumulate),
      num_species(linear.per_species ? num_species : 1) {
  std::map<std::pair<int, int>, size_t> product_of;    // groups of input and output
  std::vector<bool> is_read(in.num_groups(), false), is_written(out.num_groups(), false);
  for (const LinearBlock &block : linear.blocks) {
    const FeatureBlock &bin = in.block(block.in), &bout = out.block(block.out);
    const FeatureGroup &gin = in.group(bin.group), &gout = out.group(bout.group);
    const auto [place, is_new] = product_of.try_emplace({bin.group, bout.group}, products.size());
    if (is_new) {
      const std::vector<double> zeros(static_cast<size_t>(gin.channels) * gout.channels);
      products.push_back({bin.group, bout.group, !is_read[bin.group], !is_written[bout.group],
                          std::vector<Matrix>(this->num_species, Matrix{gin.channels, gout.channels, zeros})});
      is_read[bin.group] = is_written[bout.group] = true;
      scratch_row = std::max<int64_t>(scratch_row, gin.width() + gout.width());
    }
    for (int s = 0; s < this->num_species; s++) {
      const Matrix &w = block.weight[s];
      Matrix &m = products[place->second].weight[s];
      for (int u = 0; u < w.rows; u++)
        for (int v = 0; v < w.cols; v++)
          m.data[static_cast<size_t>(bin.channel + u) * m.cols + bout.channel + v] = w(u, v);
    }
  }
  for (int g = 0; g < in.num_groups(); g++)
    if (!is_read[g]) unread.push_back(g);
  for (int g = 0; g < out.num_groups(); g++)
    if (!is_written[g]) unwritten.push_back(g);
  bias.resize(out.num_groups());
  for (size_t b = 0; b < linear.bias.size(); b++) {
    if (linear.bias[b].empty()) continue;
    const FeatureBlock &bout = out.block(static_cast<int>(b));
    bias[bout.group].resize(out.group(bout.group).channels, 0.0);
    std::copy_n(linear.bias[b].begin(), bout.mul, bias[bout.group].begin() + bout.channel);
  }
}

}    // namespace equi

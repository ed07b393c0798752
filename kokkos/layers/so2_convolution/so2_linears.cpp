// SPDX-License-Identifier: MIT
#include "kokkos/layers/so2_convolution/so2_linears.h"

#include <utility>

namespace equi {

So2Linears::So2Linears(const So2Convolution &layer, const FeatureLayout &in)
    : channels_in(in.group(0).channels), first{layer.lmax, layer.mmax, 2 * channels_in, 0} {
  const int mul = in.block(0).mul;
  for (int m = 0; m <= layer.mmax; m++)
    for (int l = m; l <= layer.lmax; l++, factors_row += first.channels)
      for (int side = 0; side < 2; side++)
        for (int u = 0; u < mul; u++) columns.push_back(factors_row + side * channels_in + u);
  for (const So2Linear &linear : layer.linears) linears.push_back(padded_linear(linear, layer.mmax));
}

So2PaddedLinear So2Linears::padded_linear(const So2Linear &linear, int mmax) const {
  const bool is_first = linears.empty();
  const So2Shape in = is_first ? first : linears.back().gated();
  const So2Shape out{in.lmax, mmax, padded(linear.channels_out), linear.num_gates(in.lmax)};
  So2PaddedLinear made{in,
                       out,
                       linear.channels_out,
                       {},
                       std::vector<double>(linear.bias.empty() ? 0 : out.width(0), 0.0),
                       linear.has_gate,
                       linear.scalar_activation,
                       linear.gate_activation};
  // The places of a matrix's rows and columns; the first linear has the channels of two atoms.
  const int atoms = is_first ? 2 : 1, mul_in = linear.channels_in / atoms;
  const auto row_of = [&](int k) {
    const int u = k % linear.channels_in;
    return k / linear.channels_in * in.channels + u / mul_in * channels_in + u % mul_in;
  };
  const auto column_of = [&](int k) { return k / linear.channels_out * out.channels + k % linear.channels_out; };
  for (int m = 0; m <= mmax; m++) {
    const int signs = m == 0 ? 1 : 2, rows = static_cast<int>(in.width(m)) / signs,
              cols = static_cast<int>(out.width(m)) / signs;
    made.weights.emplace_back();
    for (int k = 0; k < signs; k++) {
      const Matrix &from = linear.weights[m][k];
      Matrix wide{rows, cols, std::vector<double>(static_cast<size_t>(rows) * cols, 0.0)};
      for (int i = 0; i < from.rows; i++)
        for (int j = 0; j < from.cols; j++)
          wide.data[static_cast<size_t>(row_of(i)) * cols + column_of(j)] = from(i, j);
      made.weights.back()[k] = std::move(wide);
    }
  }
  for (size_t k = 0; k < linear.bias.size(); k++) made.bias[column_of(static_cast<int>(k))] = linear.bias[k];
  return made;
}

std::vector<EdgeColumn> network_columns(const std::vector<int> &columns) {
  std::vector<EdgeColumn> places;
  for (const int column : columns) places.push_back({column, 1.0});
  return places;
}

std::string describe_so2_convolution(const So2Convolution &layer) {
  return "SO(2) convolution: l to " + std::to_string(layer.lmax) + ", m to " + std::to_string(layer.mmax) + ", " +
         std::to_string(layer.radial.num_outputs()) + " radial factors by their network";
}

}    // namespace equi

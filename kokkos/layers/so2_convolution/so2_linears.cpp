// SPDX-License-Identifier: MIT
// Arranges the matrices, biases and radial factors of an SO(2) convolution's linears for kernels.
#include "kokkos/layers/so2_convolution/so2_linears.h"

#include <utility>

namespace equi {

namespace {

// The place of a column of a linear's matrix.
int column_of(const So2Linear &linear, int channels, int k) {
  const int u = k % linear.channels_out, of_factor = linear.channels_after();
  const bool is_second = u >= of_factor;
  return k / linear.channels_out * channels + (is_second ? channels / 2 + u - of_factor : u);
}

}    // namespace

So2Linears::So2Linears(const So2Convolution &layer, const FeatureLayout &in)
    : channels_in(in.group(0).channels), first{layer.lmax, layer.mmax, 2 * channels_in, 0} {
  for (const So2Linear &linear : layer.linears) linears.push_back(padded_linear(linear, layer.mmax));
  // The first linear reads the channels of two atoms.
  const bool is_first = layer.radial_linear == 0;
  const int channels = linears[layer.radial_linear].in.channels, sides = is_first ? 2 : 1,
            mul = layer.linears[layer.radial_linear].channels_in / sides;
  for (int m = 0; m <= layer.mmax; m++)
    for (int l = m; l <= layer.lmax; l++, factors_row += channels)
      for (int side = 0; side < sides; side++)
        for (int u = 0; u < mul; u++) columns.push_back(factors_row + side * channels_in + u);
  const So2Attention &attention = layer.attention;
  if (attention.heads == 0) return;
  head_size = layer.linears.back().channels_out / attention.heads;
  const So2Linear &scoring = layer.linears.front();
  for (int k = 0; k < attention.heads * attention.channels; k++)
    score_places.push_back(
        column_of(scoring, linears.front().out.channels, scoring.num_rows_before_scores() * scoring.channels_out + k));
}

So2PaddedLinear So2Linears::padded_linear(const So2Linear &linear, int mmax) const {
  const bool is_first = linears.empty();
  const So2Shape in = is_first ? first : linears.back().gated();
  const int channels = (linear.has_product() ? 2 : 1) * padded(linear.channels_after());
  const So2Shape out{in.lmax, mmax, channels, linear.num_gates(in.lmax)};
  So2PaddedLinear made{in,
                       out,
                       linear.channels_out,
                       {},
                       std::vector<double>(linear.bias.empty() ? 0 : out.width(0), 0.0),
                       linear.has_gate,
                       linear.has_product()  ? linear.product.scalars
                       : linear.has_points() ? linear.at_points.scalars
                                             : linear.scalar_activation,
                       linear.has_product() ? linear.product.gates : linear.gate_activation,
                       linear.product.terms,
                       linear.at_points};
  // The places of a matrix's rows and columns; the first linear reads the channels of two atoms.
  const int atoms = is_first ? 2 : 1, mul_in = linear.channels_in / atoms;
  const auto row_of = [&](int k) {
    const int u = k % linear.channels_in;
    return k / linear.channels_in * in.channels + u / mul_in * channels_in + u % mul_in;
  };
  for (int m = 0; m <= mmax; m++) {
    const int signs = m == 0 ? 1 : 2, rows = static_cast<int>(in.width(m)) / signs,
              cols = static_cast<int>(out.width(m)) / signs;
    made.weights.emplace_back();
    for (int k = 0; k < signs; k++) {
      const Matrix &from = linear.weights[m][k];
      Matrix wide{rows, cols, std::vector<double>(static_cast<size_t>(rows) * cols, 0.0)};
      for (int i = 0; i < from.rows; i++)
        for (int j = 0; j < from.cols; j++)
          wide.data[static_cast<size_t>(row_of(i)) * cols + column_of(linear, channels, j)] = from(i, j);
      made.weights.back()[k] = std::move(wide);
    }
  }
  for (size_t k = 0; k < linear.bias.size(); k++)
    made.bias[column_of(linear, channels, static_cast<int>(k))] = linear.bias[k];
  return made;
}

std::vector<EdgeColumn> network_columns(const std::vector<int> &columns) {
  std::vector<EdgeColumn> places;
  for (const int column : columns) places.push_back({column, 1.0});
  return places;
}

std::string describe_so2_convolution(const So2Convolution &layer, const std::string &factors) {
  std::string text = "SO(2) convolution: l to " + std::to_string(layer.lmax) + ", m to " + std::to_string(layer.mmax) +
                     ", " + std::to_string(layer.radial.num_outputs()) + " radial factors " + factors;
  for (const So2Linear &linear : layer.linears)
    if (linear.has_product())
      text += ", a product of functions by " + std::to_string(linear.product.terms.size()) + " terms";
    else if (linear.has_points())
      text += ", an activation at " + std::to_string(linear.at_points.to_points.rows) + " points";
  if (layer.attention.heads > 0) text += ", attention with " + std::to_string(layer.attention.heads) + " heads";
  return text;
}

}    // namespace equi

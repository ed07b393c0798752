// SPDX-License-Identifier: MIT
#include "src/layers/so2_convolution.h"

#include "src/base/model_limits.h"
#include "src/layers/layer_reader.h"

#include <string>
#include <vector>

namespace equi {

namespace {

// A block of so many channels for each l = 0 .. lmax in this order; others are refused.
void check_blocks(const JsonField &field, const Irreps &irreps, int lmax) {
  std::vector<IrrepBlock> blocks;
  for (int l = 0; l <= lmax; ++l) blocks.push_back({irreps[0].mul, {l, 1}});
  const Irreps expected(blocks);
  if (irreps != expected) field.fail(expected.to_string());
}

// Numbers of a matrix with padded channels, for which the evaluation has two copies.
int64_t laid_out(int64_t orders_in, int64_t orders_out, const So2Linear &linear) {
  const auto channels = [](int mul) { return padded_channels({mul, {0, 1}}); };
  return 2 * orders_in * channels(linear.channels_in) * orders_out * channels(linear.channels_out);
}

So2Linear read_linear(const JsonField &field, const So2Convolution &layer, int channels_in, TensorReader &tensors) {
  field.only_keys({"channels", "weights", "bias", "gate"});
  So2Linear linear{channels_in, field["channels"].integer(1, MAX_WIDTH), {}, {}, false, {}, {}};
  if (field.has("gate")) {
    const JsonField gate = field["gate"];
    gate.only_keys({"scalars", "gates"});
    linear.has_gate = true;
    linear.scalar_activation = read_activation(gate["scalars"]);
    linear.gate_activation = read_activation(gate["gates"]);
  }
  const JsonField weights = field["weights"];
  weights.size(layer.mmax + 1, "weights, one for each m from 0 to mmax");
  for (int m = 0; m <= layer.mmax; ++m) {
    const int orders = layer.lmax + 1 - m, orders_out = orders + (m == 0 ? linear.num_gates(layer.lmax) : 0);
    const int rows = orders * channels_in, cols = orders_out * linear.channels_out;
    linear.weights.emplace_back();
    std::array<Matrix, 2> &of_m = linear.weights.back();
    if (m == 0) {
      of_m[0] = tensors.matrix(weights[m], rows, cols);
    } else {
      const std::vector<double> both = tensors.values(weights[m], {2, rows, cols});
      const auto half = both.begin() + both.size() / 2;
      of_m = {Matrix{rows, cols, {both.begin(), half}}, Matrix{rows, cols, {half, both.end()}}};
    }
    tensors.lay_out(weights[m], (m == 0 ? 1 : 3) * laid_out(orders, orders_out, linear));
    if (m == 0 && field.has("bias")) linear.bias = tensors.values(field["bias"], {cols});
  }
  return linear;
}

}    // namespace

So2Convolution So2Convolution::read(const JsonField &layer, LayerReader &reader) {
  layer.only_keys({"type", "input", "irreps_in", "output", "irreps_out", "mmax", "radial", "linears"});
  So2Convolution c;
  c.input = reader.input(layer);
  c.output = reader.output(layer);
  const Irreps &in = reader.features()[c.input], &out = reader.features()[c.output];
  c.lmax = in.lmax();
  check_blocks(layer["irreps_in"], in, c.lmax);
  check_blocks(layer["irreps_out"], out, c.lmax);
  // Its linears mix what is even and odd under the inversion, and its torque becomes a gradient by harmonics of l = 1.
  if (reader.edge_parity) layer["type"].refuse("an SO(2) convolution needs \"edge_parity\": false");
  if (reader.lmax_edge < 1) layer["type"].refuse("an SO(2) convolution needs an \"lmax_edge\" of 1 or more");
  c.mmax = layer["mmax"].integer(0, c.lmax);

  const JsonField linears = layer["linears"];
  const size_t num = linears.size_between(1, MAX_MATRICES, "linears");
  int channels = 2 * in[0].mul;    // of sender and receiver
  int64_t num_factors = 0;
  for (int m = 0; m <= c.mmax; ++m) num_factors += int64_t(c.lmax + 1 - m) * channels;
  if (num_factors > MAX_WEIGHTS)
    layer["irreps_in"].fail("at most " + std::to_string(MAX_WEIGHTS) + " radial factors", std::to_string(num_factors));
  for (size_t k = 0; k < num; ++k) {
    c.linears.push_back(read_linear(linears[k], c, channels, reader.tensors));
    channels = c.linears.back().channels_out;
  }
  if (channels != out[0].mul)
    linears[num - 1]["channels"].fail(std::to_string(out[0].mul) + " channels, those of the output");
  reader.count_weights(layer["radial"], num_factors);
  c.radial = read_radial_function(layer["radial"], reader.basis, num_factors, reader.tensors);
  return c;
}

}    // namespace equi

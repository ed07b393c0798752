// SPDX-License-Identifier: MIT
// Reads the layer pair_attention and counts its operations.
#include "src/layers/pair_attention.h"

#include "src/base/model_limits.h"
#include "src/layers/layer_reader.h"

#include <string>
#include <vector>

namespace equi {

namespace {

constexpr int NUM_SCALAR_BLOCKS = 5;    // q, k, v, q' and k'

// A network at an input of zeros.
std::vector<double> value_at_zero(const Network &network) {
  const std::vector<double> zeros(network.num_inputs(), 0.0);
  std::vector<double> value(network.num_outputs());
  network.derivatives(0, zeros.data(), value.data());
  return value;
}

// Without tensors, differences are 0 and their networks are constants. The bias of the radial network includes them.
void add_to_bias(RadialFunction &radial, const std::vector<Network> &difference) {
  Network &network = radial.network;
  network.biases.resize(network.weights.size());
  std::vector<double> &bias = network.biases.back();
  bias.resize(network.num_outputs(), 0.0);
  size_t column = 0;
  for (const Network &n : difference)
    for (const double v : value_at_zero(n)) bias[column++] += v;
}

}    // namespace

const FieldSpecs &PairAttention::fields() {
  using namespace field;
  static const FieldSpecs fields =
      joined(input_and_output_fields(),
             {integer("heads", "number of heads", 1, MAX_WIDTH), number("scale", "factor of the weights of heads"),
              list("groups", "groups", 1, MAX_ATTENTION_GROUPS,
                   object("",
                          {integer("channels", "channels of its queries and keys", 1, MAX_WIDTH),
                           integer("l", "degree of the harmonics"), number("scale", "factor of the weights")},
                          ""),
                   "groups of the second queries and keys"),
              object("radial", radial_fields(/*has_input=*/false, /*may_activate_last=*/false),
                     "radial network with the factors of heads, then of groups"),
              optional(list("difference_networks", "networks", 2, 2, object("", network_fields(), ""),
                            "of differences of tensors, for heads and for groups"))});
  return fields;
}

PairAttention PairAttention::read(const JsonField &layer, LayerReader &reader) {
  PairAttention a;
  a.input = reader.input(layer);
  a.output = reader.output(layer);
  const Irreps &in = reader.features()[a.input], &out = reader.features()[a.output];
  const JsonField groups = layer["groups"];
  std::vector<IrrepBlock> tensors;
  for (size_t g = 0; g < groups.size(); ++g) {
    const JsonField group = groups[g];
    a.groups.push_back({group["channels"].integer(), group["l"].integer(0, reader.lmax_edge), group["scale"].number()});
    tensors.push_back({1, {a.groups.back().l, reader.edge_parity && a.groups.back().l % 2 ? -1 : 1}});
  }
  a.channels = out[0].mul;
  a.heads = layer["heads"].integer();
  a.scale = layer["scale"].number();
  if (a.channels % a.heads != 0)
    layer["heads"].fail("a divisor of the " + std::to_string(a.channels) + " channels of the first block", "another");

  const auto expect = [&](const char *key, const Irreps &found, std::vector<IrrepBlock> blocks, bool with_tensors) {
    if (with_tensors) blocks.insert(blocks.end(), tensors.begin(), tensors.end());
    if (found != Irreps(blocks)) layer[key].fail(Irreps(blocks).to_string(), found.to_string());
  };
  const IrrepBlock of_heads{a.channels, {0, 1}}, of_groups{a.group_channels(), {0, 1}};
  expect("irreps_out", out, {of_heads}, true);
  a.has_tensors = in.size() > NUM_SCALAR_BLOCKS;
  expect("irreps_in", in, {of_heads, of_heads, of_heads, of_groups, of_groups}, a.has_tensors);

  const int num_outputs = a.channels + a.group_channels();
  reader.count_weights(layer["radial"], num_outputs);
  a.radial = read_radial_function(layer["radial"], reader.basis, num_outputs, reader.tensors);
  if (!a.radial.times_cutoff) layer["radial"].fail("\"times_cutoff\": true", "none");
  if (layer.has("difference_networks")) {
    const JsonField networks = layer["difference_networks"];
    const int num_inputs = static_cast<int>(a.groups.size());
    a.difference = {read_network(networks[size_t{0}], num_inputs, a.channels, reader.tensors),
                    read_network(networks[size_t{1}], num_inputs, a.group_channels(), reader.tensors)};
  } else if (a.has_tensors) {
    layer["irreps_in"].fail("no tensors, or difference_networks that read them", "tensors");
  }
  if (a.has_tensors) return a;
  if (!a.difference.empty()) add_to_bias(a.radial, a.difference);
  a.difference.clear();
  return a;
}

// Per edge, forward: weights, their sums and the messages; differences and their networks. Backward: the adjoints of
// all.
LayerOperations PairAttention::operations(const OperationContext &context) const {
  const double heads_channels = channels, groups_channels = group_channels();
  const double columns = heads_channels + groups_channels;
  // From tables: multiply-adds of a polynomial; backward also those of its derivative, and a product.
  const double polynomial = 2.0 * (context.rows_per_bin - 1);
  Operations n = columns * Operations{polynomial, 2.0 * polynomial + 2.0};
  n = n + heads_channels * Operations{5.0, 11.0} + groups_channels * Operations{3.0, 7.0};
  double components = 0.0;
  for (const AttentionGroup &g : groups) components += 2.0 * g.l + 1.0;
  n = n + components * Operations{2.0, 4.0};
  if (has_tensors) n = n + components * Operations{3.0, 4.0} + columns * Operations{2.0, 2.0};
  for (const Network &network : difference) n = n + network_operations(network);
  return {{}, n};
}

}    // namespace equi

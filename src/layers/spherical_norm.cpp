// SPDX-License-Identifier: MIT
// Reads the layer spherical_norm and counts its operations.
#include "src/layers/spherical_norm.h"

#include "src/layers/layer_reader.h"

#include <algorithm>
#include <string>

namespace equi {

namespace {

bool is_scalar(const IrrepBlock &block) {
  return block.irrep == Irrep{0, 1};
}

// The weights of the channels of a block: a tensor, or one number for all.
std::vector<double> read_weights(const JsonField &field, int channels, TensorReader &tensors) {
  if (field.json().is_number()) return std::vector<double>(channels, field.number());
  std::vector<double> weights = tensors.values(field, {channels});
  for (const double weight : weights)
    if (weight < 0.0) field.fail("a tensor without negative numbers", text_of(weight));
  return weights;
}

// is_taken: for each block, whether a group contains it.
NormGroup read_group(const JsonField &g, const Irreps &irreps, std::vector<bool> &is_taken, TensorReader &tensors) {
  NormGroup group;
  const JsonField blocks = g["blocks"], weights = g["weights"];
  const size_t num = blocks.size();
  weights.size(num, "weights, one per block");
  bool has_scalars = false;
  for (size_t k = 0; k < num; ++k) {
    const int b = blocks[k].integer(0, irreps.size() - 1);
    if (is_taken[b]) blocks[k].fail("each block in one group", std::to_string(b) + " again");
    is_taken[b] = true;
    has_scalars = has_scalars || is_scalar(irreps[b]);
    group.blocks.push_back(b);
    group.weights.push_back(read_weights(weights[k], irreps[b].mul, tensors));
  }
  group.center = g["center"].boolean();
  if (group.center && !has_scalars) g["center"].fail("false where the group has no 0e block");
  return group;
}

// The factors of the channels of each block: a tensor for each, or a matrix where their numbers are equal.
std::vector<std::vector<double>> read_scale(const JsonField &field, const Irreps &irreps, TensorReader &tensors) {
  std::vector<std::vector<double>> scale;
  if (field.json().is_array()) {
    field.size(irreps.size(), "scales, one per block");
    for (int b = 0; b < irreps.size(); ++b) scale.push_back(tensors.values(field[b], {irreps[b].mul}));
    return scale;
  }
  const int channels = irreps[0].mul;
  const std::vector<double> all = tensors.values(field, {irreps.size(), channels});
  for (auto row = all.begin(); row != all.end(); row += channels) scale.emplace_back(row, row + channels);
  return scale;
}

bool has_one_value(const std::vector<double> &weights) {
  return std::equal(weights.begin() + 1, weights.end(), weights.begin());
}

}    // namespace

const FieldSpecs &SphericalNorm::fields() {
  using namespace field;
  static const FieldSpecs fields =
      joined(input_and_output_fields(),
             {list("groups", "groups", 1, MAX_BLOCKS,
                   object("",
                          {list("blocks", "blocks", 1, MAX_BLOCKS, integer("", ""), "numbers of the blocks"),
                           list("weights", "weights", 1, MAX_BLOCKS,
                                any_of("", {tensor("", "[mul]", ""), number("", "", 0.0)}, ""),
                                "weights of their squares, for each channel or one for all"),
                           boolean("center", "whether the mean of the channels is first taken from its 0e blocks")},
                          ""),
                   "blocks that are divided by one norm"),
              divisor("epsilon", "is added to the sum of squares"),
              any_of("scale",
                     {list("", "scales", 1, MAX_BLOCKS, tensor("", "[mul]", ""), ""), tensor("", "[blocks, mul]", "")},
                     "factors of the channels, by block where their numbers differ"),
              optional(tensor("bias", "[mul]", "what is added to the one 0e block"))});
  return fields;
}

SphericalNorm SphericalNorm::read(const JsonField &layer, LayerReader &reader) {
  SphericalNorm n;
  n.input = reader.input(layer);
  n.output = reader.output(layer);
  reader.check_irreps(layer["irreps_out"], n.input);
  reader.check_num_blocks(layer["irreps_in"], n.input, MAX_NORMALIZED_BLOCKS);
  const Irreps &irreps = reader.features()[n.input];
  std::vector<bool> is_taken(irreps.size(), false);
  const JsonField groups = layer["groups"];
  for (size_t k = 0; k < groups.size(); ++k)
    n.groups.push_back(read_group(groups[k], irreps, is_taken, reader.tensors));
  const auto missing = std::find(is_taken.begin(), is_taken.end(), false);
  if (missing != is_taken.end())
    groups.fail("each block in one group", "none with block " + std::to_string(missing - is_taken.begin()));
  n.epsilon = layer["epsilon"].number();
  const JsonField scale = layer["scale"];
  if (!scale.json().is_array()) reader.check_equal_channels(layer["irreps_in"], n.input);
  n.scale = read_scale(scale, irreps, reader.tensors);
  if (!layer.has("bias")) return n;
  if (std::count_if(irreps.begin(), irreps.end(), is_scalar) != 1)
    layer["bias"].fail("no bias unless the feature has one 0e block", "one");
  n.bias = reader.tensors.values(layer["bias"], {std::find_if(irreps.begin(), irreps.end(), is_scalar)->mul});
  return n;
}

LayerOperations SphericalNorm::operations(const OperationContext &context) const {
  const Irreps &in = context.features[input];
  const double n = in.dim(), num_biases = static_cast<double>(bias.size());
  Operations of_groups;
  for (const NormGroup &group : groups) {
    const double blocks = static_cast<double>(group.blocks.size());
    of_groups = of_groups + Operations{2.0 * blocks + 3.0, 2.0 * blocks + 5.0};
    for (size_t k = 0; k < group.blocks.size(); ++k) {
      const IrrepBlock &block = in[group.blocks[k]];
      if (group.center && block.irrep.l == 0) of_groups = of_groups + block.mul * Operations{2.0, 4.0};
      if (!has_one_value(group.weights[k])) of_groups = of_groups + block.dim() * Operations{1.0, 2.0};
    }
  }
  return {of_groups + Operations{4.0 * n + num_biases, 8.0 * n}, {}};
}

}    // namespace equi

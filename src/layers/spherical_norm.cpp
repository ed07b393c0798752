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

// is_taken: for each block, whether a group contains it.
NormGroup read_group(const JsonField &g, const Irreps &irreps, std::vector<bool> &is_taken) {
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
    group.weights.push_back(weights[k].number());
  }
  group.center = g["center"].boolean();
  if (group.center && !has_scalars) g["center"].fail("false where the group has no 0e block");
  return group;
}

}    // namespace

const FieldSpecs &SphericalNorm::fields() {
  using namespace field;
  static const FieldSpecs fields =
      joined(input_and_output_fields(),
             {list("groups", "groups", 1, MAX_BLOCKS,
                   object("",
                          {list("blocks", "blocks", 1, MAX_BLOCKS, integer("", ""), "numbers of the blocks"),
                           list("weights", "weights", 1, MAX_BLOCKS, number("", "", 0.0), "weights of their squares"),
                           boolean("center", "whether the mean of the channels is first taken from its 0e blocks")},
                          ""),
                   "blocks that are divided by one norm"),
              divisor("epsilon", "is added to the sum of squares"),
              tensor("scale", "[blocks, mul]", "factors of the channels"),
              optional(tensor("bias", "[mul]", "what is added to the one 0e block"))});
  return fields;
}

SphericalNorm SphericalNorm::read(const JsonField &layer, LayerReader &reader) {
  SphericalNorm n;
  n.input = reader.input(layer);
  n.output = reader.output(layer);
  reader.check_irreps(layer["irreps_out"], n.input);
  reader.check_equal_channels(layer["irreps_in"], n.input);
  reader.check_num_blocks(layer["irreps_in"], n.input, MAX_NORMALIZED_BLOCKS);
  const Irreps &irreps = reader.features()[n.input];
  std::vector<bool> is_taken(irreps.size(), false);
  const JsonField groups = layer["groups"];
  for (size_t k = 0; k < groups.size(); ++k) n.groups.push_back(read_group(groups[k], irreps, is_taken));
  const auto missing = std::find(is_taken.begin(), is_taken.end(), false);
  if (missing != is_taken.end())
    groups.fail("each block in one group", "none with block " + std::to_string(missing - is_taken.begin()));
  n.epsilon = layer["epsilon"].number();
  n.scale = reader.tensors.matrix(layer["scale"], irreps.size(), irreps[0].mul);
  if (!layer.has("bias")) return n;
  if (std::count_if(irreps.begin(), irreps.end(), is_scalar) != 1)
    layer["bias"].fail("no bias unless the feature has one 0e block", "one");
  n.bias = reader.tensors.values(layer["bias"], {irreps[0].mul});
  return n;
}

LayerOperations SphericalNorm::operations(const OperationContext &context) const {
  const Irreps &in = context.features[input];
  const double n = in.dim(), num_biases = static_cast<double>(bias.size());
  Operations of_groups;
  for (const NormGroup &group : groups) {
    const double blocks = static_cast<double>(group.blocks.size());
    of_groups = of_groups + Operations{2.0 * blocks + 3.0, 2.0 * blocks + 5.0};
    for (const int b : group.blocks)
      if (group.center && in[b].irrep.l == 0) of_groups = of_groups + in[b].mul * Operations{2.0, 4.0};
  }
  return {of_groups + Operations{4.0 * n + num_biases, 8.0 * n}, {}};
}

}    // namespace equi

// SPDX-License-Identifier: MIT
// Reads the layer channel_balance and counts its operations.
#include "src/layers/channel_balance.h"

#include "src/layers/layer_reader.h"

#include <cstdlib>
#include <string>

namespace equi {

const FieldSpecs &ChannelBalance::fields() {
  using namespace field;
  static const FieldSpecs fields = joined(
      input_and_output_fields(),
      {integer("block", "number of the 0e block that is balanced"),
       integer("first", "its first channel that is balanced"),
       tensor("target", "[n]", "sums of the balanced channels over all atoms"),
       optional(
           object("shares",
                  {integer("block", "number of the 0e block with the shares"), integer("first", "its first channel"),
                   required_unless("power", divisor("epsilon", "is added to the sum of squares")),
                   optional(integer("power", "the weights are the channels themselves, not their squares", 1, 1))},
                  "shares of the atoms; all atoms have the same share if it is absent")),
       optional(object(
           "hardness",
           {integer("block", "number of the 0e block with the hardnesses"), integer("first", "its first channel")},
           "hardnesses of the atoms, instead of shares: the channels become charges"))});
  return fields;
}

ChannelBalance ChannelBalance::read(const JsonField &layer, LayerReader &reader) {
  ChannelBalance b;
  b.input = reader.input_of_one(layer);
  b.output = reader.output_of_one(layer);
  reader.check_irreps(layer["irreps_out"], b.input);
  const Irreps irreps = reader.features()[b.input];
  b.block = read_scalar_block(layer["block"], irreps);
  const int channels = irreps[b.block].mul;
  b.first = layer["first"].integer(0, channels - 1);
  b.target = reader.tensors.values(layer["target"], {ANY_LENGTH});
  const int num = static_cast<int>(b.target.size());
  if (num == 0 || num > channels - b.first)
    layer["target"].fail("a number for each of 1 to " + std::to_string(channels - b.first) + " channels",
                         std::to_string(num) + " numbers");
  const bool has_hardness = layer.has("hardness");
  if (has_hardness && layer.has("shares")) layer["hardness"].fail("no hardness together with shares", "both");
  if (!has_hardness && !layer.has("shares")) return b;
  const JsonField shares = layer[has_hardness ? "hardness" : "shares"];
  b.share_block = read_scalar_block(shares["block"], irreps);
  b.share_first = shares["first"].integer(0, irreps[b.share_block].mul - 1);
  if (num > irreps[b.share_block].mul - b.share_first)
    shares["first"].fail("a channel with " + std::to_string(num - 1) + " more after it in its block");
  if (b.share_block == b.block && std::abs(b.share_first - b.first) < num)
    shares.fail("channels that are not balanced themselves");
  if (has_hardness)
    b.power = -1;
  else if (!shares.has("power"))
    b.epsilon = shares["epsilon"].number();
  else if (shares.has("epsilon"))
    shares["epsilon"].refuse("no epsilon beside power: the weights may have either sign");
  else
    b.power = 1;
  return b;
}

// Each pass needs a sum and a difference. Shares also need squares, or hardnesses their inverses, the sums of these and
// the adjoints of the channels of shares.
LayerOperations ChannelBalance::operations(const OperationContext &) const {
  const double n = static_cast<double>(target.size());
  return {has_shares() ? n * Operations{6.0, 8.0} : n * Operations{2.0, 2.0}, {}};
}

}    // namespace equi

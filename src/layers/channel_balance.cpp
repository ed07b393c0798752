// SPDX-License-Identifier: MIT
#include "src/layers/channel_balance.h"

#include "src/layers/layer_reader.h"

#include <cstdlib>
#include <string>

namespace equi {

ChannelBalance ChannelBalance::read(const JsonField &layer, LayerReader &reader) {
  layer.only_keys({"type", "input", "irreps_in", "output", "irreps_out", "block", "first", "target", "shares"});
  ChannelBalance b;
  b.input = reader.input_of_one(layer);
  b.output = reader.output_of_one(layer);
  reader.check_irreps(layer["irreps_out"], b.input);
  const Irreps irreps = reader.features()[b.input];
  b.block = read_scalar_block(layer["block"], irreps);
  const int channels = irreps[b.block].mul;
  b.first = layer["first"].integer(0, channels - 1);
  b.target = reader.tensors.values(layer["target"], {TensorReader::ANY});
  const int num = static_cast<int>(b.target.size());
  if (num == 0 || num > channels - b.first)
    layer["target"].fail("a number for each of 1 to " + std::to_string(channels - b.first) + " channels",
                         std::to_string(num) + " numbers");
  if (!layer.has("shares")) return b;
  const JsonField shares = layer["shares"];
  shares.only_keys({"block", "first", "epsilon"});
  b.share_block = read_scalar_block(shares["block"], irreps);
  b.share_first = shares["first"].integer(0, irreps[b.share_block].mul - 1);
  if (num > irreps[b.share_block].mul - b.share_first)
    shares["first"].fail("a channel with " + std::to_string(num - 1) + " more after it in its block");
  if (b.share_block == b.block && std::abs(b.share_first - b.first) < num)
    shares.fail("channels that are not balanced themselves");
  b.epsilon = shares["epsilon"].divisor();
  return b;
}

}    // namespace equi

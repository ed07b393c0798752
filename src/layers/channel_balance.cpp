// SPDX-License-Identifier: MIT
#include "src/layers/channel_balance.h"

#include "src/layers/layer_reader.h"

namespace equi {

ChannelBalance ChannelBalance::read(const JsonField &layer, LayerReader &reader) {
  layer.only_keys({"type", "input", "irreps_in", "output", "irreps_out", "block", "first", "target"});
  ChannelBalance b;
  b.input = reader.input_of_one(layer);
  b.output = reader.output_of_one(layer);
  reader.check_irreps(layer["irreps_out"], b.input);
  const Irreps irreps = reader.features()[b.input];
  b.block = layer["block"].integer(0, irreps.size() - 1);
  if (irreps[b.block].irrep != Irrep{0, 1}) layer["block"].fail("a 0e block");
  const int channels = irreps[b.block].mul;
  b.first = layer["first"].integer(0, channels - 1);
  b.target = reader.tensors.values(layer["target"], {TensorReader::ANY});
  if (b.target.empty() || static_cast<int>(b.target.size()) > channels - b.first)
    layer["target"].fail("a number for each of 1 to " + std::to_string(channels - b.first) + " channels",
                         std::to_string(b.target.size()) + " numbers");
  return b;
}

}    // namespace equi

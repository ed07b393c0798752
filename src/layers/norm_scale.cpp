// SPDX-License-Identifier: MIT
#include "src/layers/norm_scale.h"

#include "src/layers/layer_reader.h"

#include <string>

namespace equi {

NormScale NormScale::read(const JsonField &layer, LayerReader &reader) {
  layer.only_keys({"type", "input", "irreps_in", "output", "irreps_out", "offset", "factor"});
  NormScale n;
  n.input = reader.input(layer);
  n.output = reader.output(layer);
  reader.check_irreps(layer["irreps_out"], n.input);
  const Irreps &irreps = reader.features()[n.input];
  for (const IrrepBlock &block : irreps)
    if (block.mul != irreps[0].mul)
      layer["irreps_in"].fail("blocks of " + std::to_string(irreps[0].mul) + " channels, as the first one",
                              Irreps({block}).to_string());
  n.offset = layer["offset"].number();
  n.factor = layer["factor"].number();
  // A channel of zeros would be divided by zero, and a negative factor has a pole.
  if (!(n.offset > 0.0)) layer["offset"].fail("a positive number");
  if (!(n.factor >= 0.0)) layer["factor"].fail("no negative number");
  return n;
}

}    // namespace equi

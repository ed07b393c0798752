// SPDX-License-Identifier: MIT
#include "src/layers/norm_scale.h"

#include "src/layers/layer_reader.h"

namespace equi {

NormScale NormScale::read(const JsonField &layer, LayerReader &reader) {
  layer.only_keys({"type", "input", "irreps_in", "output", "irreps_out", "offset", "factor"});
  NormScale n;
  n.input = reader.input(layer);
  n.output = reader.output(layer);
  reader.check_irreps(layer["irreps_out"], n.input);
  reader.check_equal_channels(layer["irreps_in"], n.input);
  n.offset = layer["offset"].divisor();    // by which a channel of zeros is divided
  n.factor = layer["factor"].number();
  // A negative factor has a pole.
  if (!(n.factor >= 0.0)) layer["factor"].fail("no negative number");
  return n;
}

}    // namespace equi

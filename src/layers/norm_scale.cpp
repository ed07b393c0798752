// SPDX-License-Identifier: MIT
// Reads the layer norm_scale and counts its operations.
#include "src/layers/norm_scale.h"

#include "src/layers/layer_reader.h"

namespace equi {

const FieldSpecs &NormScale::fields() {
  using namespace field;
  // A channel of zeros is divided by the offset, and a negative factor would have a pole.
  static const FieldSpecs fields =
      joined(input_and_output_fields(),
             {divisor("offset", "divisor of a channel of zeros"), number("factor", "factor of the squared norm", 0.0)});
  return fields;
}

NormScale NormScale::read(const JsonField &layer, LayerReader &reader) {
  NormScale n;
  n.input = reader.input(layer);
  n.output = reader.output(layer);
  reader.check_irreps(layer["irreps_out"], n.input);
  reader.check_equal_channels(layer["irreps_in"], n.input);
  reader.check_num_blocks(layer["irreps_in"], n.input, MAX_NORMALIZED_BLOCKS);
  n.offset = layer["offset"].number();
  n.factor = layer["factor"].number();
  return n;
}

// The backward pass computes the squares again.
LayerOperations NormScale::operations(const OperationContext &context) const {
  const Irreps &in = context.features[input];
  const double n = in.dim(), mul = in[0].mul;
  return {{3.0 * n + 3.0 * mul, 7.0 * n + 6.0 * mul}, {}};
}

}    // namespace equi

// SPDX-License-Identifier: MIT
// Reads the layer layer_norm and counts its operations.
#include "src/layers/layer_norm.h"

#include "src/layers/layer_reader.h"

namespace equi {

const FieldSpecs &LayerNorm::fields() {
  using namespace field;
  static const FieldSpecs fields =
      joined(input_and_output_fields(),
             {tensor("weight", "[channels]", "factors of the channels"), tensor("bias", "[channels]", "what is added"),
              divisor("epsilon", "is added to the variance")});
  return fields;
}

LayerNorm LayerNorm::read(const JsonField &layer, LayerReader &reader) {
  LayerNorm n;
  n.input = reader.input(layer);
  n.output = reader.output(layer);
  reader.check_irreps(layer["irreps_out"], n.input);
  int64_t channels = 0;
  for (const IrrepBlock &block : reader.features()[n.input]) {
    if (block.irrep != Irrep{0, 1}) layer["irreps_in"].fail("0e blocks alone");
    channels += block.mul;
  }
  n.weight = reader.tensors.values(layer["weight"], {channels});
  n.bias = reader.tensors.values(layer["bias"], {channels});
  n.epsilon = layer["epsilon"].number();
  return n;
}

// Forward: mean, differences, squares, factors. Backward: two sums, and a difference of three terms.
LayerOperations LayerNorm::operations(const OperationContext &) const {
  const double n = static_cast<double>(weight.size());
  return {{7.0 * n + 4.0, 8.0 * n + 2.0}, {}};
}

}    // namespace equi

// SPDX-License-Identifier: MIT
// Reads the layer readout and counts its operations.
#include "src/layers/readout.h"

#include "src/layers/layer_reader.h"

#include <string>

namespace equi {

const FieldSpecs &Readout::fields() {
  using namespace field;
  static const FieldSpecs fields =
      joined(input_fields(), {integer("block", "number of the 0e block that is read"),
                              object("network", network_fields(), "network from the scalars to one number")});
  return fields;
}

Readout Readout::read(const JsonField &layer, LayerReader &reader) {
  Readout r;
  r.input = reader.input(layer);
  const Irreps &in = reader.features()[r.input];
  r.block = read_scalar_block(layer["block"], in);
  const JsonField network = layer["network"];
  r.network = read_network(network, in[r.block].mul, 1, reader.tensors);
  if (r.network.weights.size() > size_t(MAX_READOUT_MATRICES))
    network["weights"].fail(
        "at most " + std::to_string(MAX_READOUT_MATRICES) + " matrices with activations between them",
        std::to_string(r.network.weights.size()));
  return r;
}

LayerOperations Readout::operations(const OperationContext &) const {
  Network simplified = network;
  simplified.simplify();
  return {network_operations(simplified), {}};
}

}    // namespace equi

// SPDX-License-Identifier: MIT
// Reads the layer direct_forces and counts its operations.
#include "src/layers/direct_forces.h"

#include "src/layers/layer_reader.h"

namespace equi {

const FieldSpecs &DirectForces::fields() {
  using namespace field;
  static const FieldSpecs fields = joined(input_fields(), {integer("block", "number of the block with one vector"),
                                                           number("scale", "factor of the force, eV/Angstrom")});
  return fields;
}

DirectForces DirectForces::read(const JsonField &layer, LayerReader &reader) {
  DirectForces d;
  d.input = reader.input(layer);
  const Irreps &in = reader.features()[d.input];
  const JsonField block = layer["block"];
  d.block = block.integer(0, in.size() - 1);
  if (in[d.block].irrep.l != 1 || in[d.block].mul != 1)
    block.fail("a block of one vector, 1x1o or 1x1e", Irreps({in[d.block]}).to_string());
  d.scale = layer["scale"].number();
  return d;
}

LayerOperations DirectForces::operations(const OperationContext &) const {
  return {{3.0, 0.0}, {}};
}

}    // namespace equi

// SPDX-License-Identifier: MIT
// Reads the layer species_embedding and counts its operations.
#include "src/layers/species_embedding.h"

#include "src/layers/layer_reader.h"

namespace equi {

const FieldSpecs &SpeciesEmbedding::fields() {
  using namespace field;
  static const FieldSpecs fields = {
      text("output", "feature that is written"), irreps("irreps", "one block of scalars, 0e"),
      tensor("weight", "[species, mul]", "scalars of each species"), number("scale", "factor of the scalars")};
  return fields;
}

SpeciesEmbedding SpeciesEmbedding::read(const JsonField &layer, LayerReader &reader) {
  SpeciesEmbedding e;
  e.output = reader.output(layer, "irreps");
  const Irreps &out = reader.features()[e.output];
  if (out.size() != 1 || out[0].irrep != Irrep{0, 1}) layer["irreps"].fail("one block of 0e");
  e.weight = reader.tensors.matrix(layer["weight"], reader.tensors.num_species, out[0].mul, layer["scale"].number());
  return e;
}

LayerOperations SpeciesEmbedding::operations(const OperationContext &) const {
  return {};
}

}    // namespace equi

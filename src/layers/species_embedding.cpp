// SPDX-License-Identifier: MIT
#include "src/layers/species_embedding.h"

#include "src/layers/layer_reader.h"

namespace equi {

SpeciesEmbedding SpeciesEmbedding::read(const JsonField &layer, LayerReader &reader) {
  layer.only_keys({"type", "output", "irreps", "weight", "scale"});
  SpeciesEmbedding e;
  e.output = reader.output(layer, "irreps");
  const Irreps &out = reader.features()[e.output];
  if (out.size() != 1 || out[0].irrep != Irrep{0, 1}) layer["irreps"].fail("one block of 0e");
  e.weight = reader.tensors.matrix(layer["weight"], reader.tensors.num_species, out[0].mul, layer["scale"].number());
  return e;
}

}    // namespace equi

// SPDX-License-Identifier: MIT
// This layer writes a row of scalars for each species: the first feature of a model.
#ifndef EQUI_SPECIES_EMBEDDING_H
#define EQUI_SPECIES_EMBEDDING_H

#include "src/layers/layer.h"
#include "src/numbers/matrix.h"

namespace equi {

struct SpeciesEmbedding {
  static constexpr const char *TYPE = "species_embedding";

  int output;
  Matrix weight;    // [species, mul], scale folded in

  static const FieldSpecs &fields();
  static SpeciesEmbedding read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {-1, output}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const { return {}; }
  void restrict_to(const KeptSpecies &kept) { kept.rows(weight); }
};

}    // namespace equi

#endif

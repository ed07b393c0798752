// SPDX-License-Identifier: MIT
// Reads the layer scale_shift and counts its operations.
#include "src/layers/scale_shift.h"

#include "src/layers/layer_reader.h"

namespace equi {

const FieldSpecs &ScaleShift::fields() {
  using namespace field;
  static const FieldSpecs fields = {tensor("scale", "[species]", "factors of the energies"),
                                    tensor("shift", "[species]", "what is added to them, eV")};
  return fields;
}

ScaleShift ScaleShift::read(const JsonField &layer, LayerReader &reader) {
  ScaleShift s;
  s.scale = reader.tensors.values(layer["scale"], {reader.tensors.num_species});
  s.shift = reader.tensors.values(layer["shift"], {reader.tensors.num_species});
  return s;
}

void ScaleShift::restrict_to(const KeptSpecies &kept) {
  kept.each(scale);
  kept.each(shift);
}

LayerOperations ScaleShift::operations(const OperationContext &) const {
  return {{2.0, 0.0}, {}};
}

}    // namespace equi

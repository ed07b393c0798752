// SPDX-License-Identifier: MIT
// This layer mixes the channels of blocks of equal irreps, perhaps with a matrix per species of the atom.
#ifndef EQUI_LINEAR_H
#define EQUI_LINEAR_H

#include "src/layers/layer.h"
#include "src/numbers/matrix.h"

#include <vector>

namespace equi {

struct LinearBlock {
  int in, out;
  std::vector<Matrix> weight;    // one, or one per species; [mul_in, mul_out], scale folded in
};

struct Linear {
  static constexpr const char *TYPE = "linear";

  int input, output;
  bool per_species = false;
  bool accumulate = false;
  std::vector<LinearBlock> blocks;
  std::vector<std::vector<double>> bias;    // per output block: empty or [mul], scale folded in

  static const FieldSpecs &fields();
  static Linear read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, output}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.is_linear = t.is_cheap = true;
    return t;
  }
  void restrict_to(const KeptSpecies &kept);
};

}    // namespace equi

#endif

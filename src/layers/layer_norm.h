// SPDX-License-Identifier: MIT
// This layer normalizes the scalars of an atom by their mean and variance.
#ifndef EQUI_LAYER_NORM_H
#define EQUI_LAYER_NORM_H

#include "src/layers/layer.h"

#include <vector>

namespace equi {

// y = weight (x - mean) / sqrt(variance + epsilon) + bias over all n channels of a feature that has only 0e blocks.
struct LayerNorm {
  static constexpr const char *TYPE = "layer_norm";

  int input, output;
  std::vector<double> weight, bias;    // [n]
  double epsilon;

  static const FieldSpecs &fields();
  static LayerNorm read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, output, true}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.is_cheap = true;
    return t;
  }
  void restrict_to(const KeptSpecies &) {}
};

}    // namespace equi

#endif

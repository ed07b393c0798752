// SPDX-License-Identifier: MIT
// This layer computes polynomials of a feature, channel by channel.
#ifndef EQUI_LAYERS_SYMMETRIC_CONTRACTION_H
#define EQUI_LAYERS_SYMMETRIC_CONTRACTION_H

#include "src/algebra/symmetric_contraction.h"
#include "src/layers/layer.h"

namespace equi {

struct SymmetricContraction {
  static constexpr const char *TYPE = "symmetric_contraction";

  int input, output;
  ContractionProduct product;

  static const FieldSpecs &fields();
  static SymmetricContraction read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, output, true}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.needs_geometric_input = true;
    return t;
  }
  // The polynomials that the kernels of contractions evaluate.
  const ContractionProduct &polynomials() const { return product; }
  void restrict_to(const KeptSpecies &kept);
};

}    // namespace equi

#endif

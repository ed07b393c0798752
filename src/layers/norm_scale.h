// SPDX-License-Identifier: MIT
// Divides each channel of a feature by its squared norm plus a constant.
#ifndef EQUI_NORM_SCALE_H
#define EQUI_NORM_SCALE_H

#include "src/layers/layer.h"

namespace equi {

// y[u] = x[u] / (offset + factor |x[u]|^2). The square is summed over the components of channel u in all blocks, which
// have the same multiplicity.
struct NormScale {
  static constexpr const char *TYPE = "norm_scale";

  int input, output;
  double offset, factor;

  static const FieldSpecs &fields();
  static NormScale read(const JsonField &layer, LayerReader &reader);
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

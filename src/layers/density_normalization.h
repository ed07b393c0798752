// SPDX-License-Identifier: MIT
// This layer divides the feature of an atom by the density of its neighbors.
#ifndef EQUI_DENSITY_NORMALIZATION_H
#define EQUI_DENSITY_NORMALIZATION_H

#include "src/functions/radial_function.h"
#include "src/layers/layer.h"

namespace equi {

// y_i = x_i / (offset + factor sum_j density(r_ij))
struct DensityNormalization {
  static constexpr const char *TYPE = "density_normalization";

  int input, output;
  RadialFunction density;    // one output, of kind tanh_square
  double offset, factor;

  static const FieldSpecs &fields();
  static DensityNormalization read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, output, true}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.depends_on_edges = true;
    return t;
  }
  void restrict_to(const KeptSpecies &kept) { kept.radial(density); }
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Forces that a model computes from features, instead of differentiating its energy.
#ifndef EQUI_DIRECT_FORCES_H
#define EQUI_DIRECT_FORCES_H

#include "src/layers/layer.h"

namespace equi {

// The force on atom i is scale x_i in eV/Angstrom, where x is the only vector of a block. Energy is not conserved, and
// there is no virial.
struct DirectForces {
  static constexpr const char *TYPE = "direct_forces";

  int input, block;
  double scale;

  static const FieldSpecs &fields();
  static DirectForces read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, -1}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.gives_forces = t.is_single = t.needs_geometric_input = true;
    return t;
  }
  void restrict_to(const KeptSpecies &) {}
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// This layer scales the energies of atoms and adds a shift, both by species.
#ifndef EQUI_SCALE_SHIFT_H
#define EQUI_SCALE_SHIFT_H

#include "src/layers/layer.h"

#include <vector>

namespace equi {

struct ScaleShift {
  static constexpr const char *TYPE = "scale_shift";

  std::vector<double> scale, shift;    // [species], eV

  static const FieldSpecs &fields();
  static ScaleShift read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.scales_energies = true;
    return t;
  }
  void restrict_to(const KeptSpecies &kept);
};

}    // namespace equi

#endif

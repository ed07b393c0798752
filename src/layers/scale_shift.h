// SPDX-License-Identifier: MIT
// This layer scales the energies of atoms and adds a shift, both by species.
#ifndef EQUI_SCALE_SHIFT_H
#define EQUI_SCALE_SHIFT_H

#include "src/layers/layer.h"

#include <vector>

namespace equi {

struct ScaleShift {
  std::vector<double> scale, shift;    // [species], eV

  static ScaleShift read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {}; }
  void restrict_to(const KeptSpecies &kept);
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// This layer adds a network of the scalars of a block to the energies of atoms.
#ifndef EQUI_READOUT_H
#define EQUI_READOUT_H

#include "src/functions/network.h"
#include "src/layers/layer.h"

namespace equi {

struct Readout {
  static constexpr const char *TYPE = "readout";

  int input, block;
  Network network;

  static const FieldSpecs &fields();
  static Readout read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, -1}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.is_readout = t.needs_geometric_input = true;
    return t;
  }
  void restrict_to(const KeptSpecies &) {}
};

}    // namespace equi

#endif

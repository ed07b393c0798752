// SPDX-License-Identifier: MIT
// This layer activates scalars, and multiplies other blocks by activated scalars that gate them.
#ifndef EQUI_GATE_H
#define EQUI_GATE_H

#include "src/functions/network.h"
#include "src/layers/layer.h"

#include <vector>

namespace equi {

struct GateTerm {
  int out, in, offset;                  // output block, input block and first channel in it
  int gate_in = -1, gate_offset = 0;    // block and channel of the gate scalars; -1: a scalar term without gate
  Activation activation;
  double scale;
};

struct Gate {
  static constexpr const char *TYPE = "gate";

  int input, output;
  std::vector<GateTerm> terms;

  static const FieldSpecs &fields();
  static Gate read(const JsonField &layer, LayerReader &reader);
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

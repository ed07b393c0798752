// SPDX-License-Identifier: MIT
// This layer adds a network of the scalars of a block to the energies of atoms.
#ifndef EQUI_READOUT_H
#define EQUI_READOUT_H

#include "src/functions/network.h"
#include "src/layers/layer.h"

namespace equi {

struct Readout {
  int input, block;
  Network network;

  static Readout read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, -1}; }
  void restrict_to(const KeptSpecies &) {}
};

}    // namespace equi

#endif

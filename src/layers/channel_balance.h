// SPDX-License-Identifier: MIT
// This layer gives sums over all atoms of the system a fixed value.
#ifndef EQUI_CHANNEL_BALANCE_H
#define EQUI_CHANNEL_BALANCE_H

#include "src/layers/layer.h"

#include <vector>

namespace equi {

// y = x but for the channels `first`, `first` + 1, ... of one 0e block, one for each target: there
// y_i = x_i - (sum over the atoms j of x_j - target) / (number of atoms), so that the sum of y is the target. The atoms
// are those of all ranks that the model treats. In UMA 1.2 the channels stand for the charge of the system, and others
// for its spin.
struct ChannelBalance {
  int input, output;
  int block, first;
  std::vector<double> target;    // [channels]

  static ChannelBalance read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, output}; }
  void restrict_to(const KeptSpecies &) {}
};

}    // namespace equi

#endif

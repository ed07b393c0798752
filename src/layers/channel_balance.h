// SPDX-License-Identifier: MIT
// This layer gives sums over all atoms of the system a fixed value.
#ifndef EQUI_CHANNEL_BALANCE_H
#define EQUI_CHANNEL_BALANCE_H

#include "src/layers/layer.h"

#include <vector>

namespace equi {

// y = x but for the channels `first`, `first` + 1, ... of one 0e block, one for each target: there
// y_i = x_i - s_i (sum over the atoms j of x_j - target), so that the sum of y is the target (but for epsilon). Either
// all atoms have the same share s_i = 1 / (number of atoms), or s_i = f_i^2 / (sum over j of f_j^2 + epsilon) with
// other channels f of the same feature, one for each target. The atoms are those of all ranks that the model treats. In
// UMA 1.2 the channels stand for the charge of the system, and others for its spin; in TensorNet2 for charges of atoms.
struct ChannelBalance {
  static constexpr const char *TYPE = "channel_balance";

  int input, output;
  int block, first;
  std::vector<double> target;               // [channels]
  int share_block = -1, share_first = 0;    // of f; -1: all atoms have the same share
  double epsilon = 0.0;

  bool has_shares() const { return share_block >= 0; }

  static const FieldSpecs &fields();
  static ChannelBalance read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, output}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.sums_over_atoms = t.changes_in_place = t.tangents_need_values = true;
    t.needs_own_adjoint = has_shares();
    return t;
  }
  void restrict_to(const KeptSpecies &) {}
};

}    // namespace equi

#endif

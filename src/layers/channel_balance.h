// SPDX-License-Identifier: MIT
// This layer shifts channels so that their sums over all atoms of the system have fixed values.
#ifndef EQUI_CHANNEL_BALANCE_H
#define EQUI_CHANNEL_BALANCE_H

#include "src/layers/layer.h"

#include <vector>

namespace equi {

// y = x except for the channels `first`, `first` + 1, ... of one 0e block, one for each target. There y_i = x_i - s_i
// (sum over the atoms j of x_j - target), so the sum of y is the target (except for epsilon). Either all atoms have the
// same share s_i = 1 / (number of atoms), or s_i = w_i / (sum over j of w_j + epsilon) with w = f^2 or w = f. f are
// other channels of the same feature, one for each target. With hardness, x are electronegativities and f are the
// hardnesses of the atoms, and y are the charges with the sum `target` that minimize sum over i of (x_i y_i + f_i y_i^2
// / 2): the same with w = 1/f and -w x in the place of x. The sums run over the atoms of all ranks that the model
// treats. In UMA 1.2 the channels represent the charge of the system, and others its spin; in TensorNet2 and QET they
// represent charges of atoms.
struct ChannelBalance {
  static constexpr const char *TYPE = "channel_balance";

  int input, output;
  int block, first;
  std::vector<double> target;               // [channels]
  int share_block = -1, share_first = 0;    // block and channel of f; -1: all atoms have the same share
  double epsilon = 0.0;
  int power = 2;    // w = f^power: 2, 1, or -1 for hardnesses

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

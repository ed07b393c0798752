// SPDX-License-Identifier: MIT
// The terms of a gate in the memory layout of features, for both back ends.
#ifndef EQUI_GATE_CONSTANTS_H
#define EQUI_GATE_CONSTANTS_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "src/layers/gate.h"

#include <vector>

namespace equi {

// x = c a(z) for scalars, x[m] = z[m] c a(gate) for gated blocks.
struct GateConstants {
  // Throws std::invalid_argument if two terms read the same channel.
  GateConstants(const Gate &gate, const FeatureLayout &in, const FeatureLayout &out);

  struct Term {
    int in, out, gate;    // groups; gate = -1 for scalars
    int in_channel, out_channel, gate_channel, mul;
    Activation activation;
    double scale;
  };
  // Channels of the input that no term reads have a zero adjoint: [group, first, end).
  struct Unread {
    int group, first, end;
  };
  FeatureLayout in, out;
  std::vector<Term> terms;
  std::vector<Unread> unread;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Maps the terms of a gate to the memory layout of features, and checks that they read different channels.
#include "kokkos/layers/gate/gate_constants.h"

#include <stdexcept>

namespace equi {

GateConstants::GateConstants(const Gate &gate, const FeatureLayout &in, const FeatureLayout &out) : in(in), out(out) {
  std::vector<std::vector<bool>> read(in.num_groups());
  for (int g = 0; g < in.num_groups(); g++) read[g].resize(in.group(g).channels, false);
  for (const GateTerm &t : gate.terms) {
    const FeatureBlock &bin = in.block(t.in), &bout = out.block(t.out);
    Term term{bin.group, bout.group, -1, bin.channel + t.offset, bout.channel, 0, bout.mul, t.activation, t.scale};
    if (t.gate_in >= 0) {
      term.gate = in.block(t.gate_in).group;
      term.gate_channel = in.block(t.gate_in).channel + t.gate_offset;
    }
    // The backward pass replaces z by its adjoint in place, so each channel may have only one reader.
    auto mark = [&](int group, int channel) {
      if (read[group][channel]) throw std::invalid_argument("a gate reads a channel of its input twice");
      read[group][channel] = true;
    };
    for (int u = 0; u < term.mul; u++) {
      mark(term.in, term.in_channel + u);
      if (term.gate >= 0) mark(term.gate, term.gate_channel + u);
    }
    terms.push_back(term);
  }
  for (int g = 0; g < in.num_groups(); g++)
    for (int u = 0; u < in.group(g).channels; u++) {
      if (read[g][u]) continue;
      if (unread.empty() || unread.back().group != g || unread.back().end != u) unread.push_back({g, u, u});
      unread.back().end = u + 1;
    }
}

}    // namespace equi

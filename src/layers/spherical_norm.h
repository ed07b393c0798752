// SPDX-License-Identifier: MIT
// This layer normalizes the blocks of a feature by their root mean squares.
#ifndef EQUI_SPHERICAL_NORM_H
#define EQUI_SPHERICAL_NORM_H

#include "src/layers/layer.h"

#include <vector>

namespace equi {

// Blocks that are divided by the same norm: y_b[u] = scale_b[u] x_b[u] / sqrt(sum over these blocks and their channels
// of weight_b[u] |x_b[u]|^2 + epsilon), where |x_b[u]|^2 is summed over components.
struct NormGroup {
  std::vector<int> blocks;
  std::vector<std::vector<double>> weights;    // per block a weight per channel, not negative
  bool center;                                 // whether the mean of channels is first subtracted from its 0e blocks
};

// Each block belongs to one group.
struct SphericalNorm {
  static constexpr const char *TYPE = "spherical_norm";

  int input, output;
  std::vector<NormGroup> groups;
  double epsilon;
  std::vector<std::vector<double>> scale;    // per block a factor per channel
  std::vector<double> bias;                  // [channels], added to the only 0e block; or empty

  static const FieldSpecs &fields();
  static SphericalNorm read(const JsonField &layer, LayerReader &reader);
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

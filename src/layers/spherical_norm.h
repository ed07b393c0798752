// SPDX-License-Identifier: MIT
// This layer normalizes the blocks of a feature by their root mean squares.
#ifndef EQUI_SPHERICAL_NORM_H
#define EQUI_SPHERICAL_NORM_H

#include "src/layers/layer.h"

#include <vector>

namespace equi {

// Blocks that are divided by the same norm: y_b = scale_b x_b / sqrt(sum over these blocks of weight_b |x_b|^2 +
// epsilon), where |x_b|^2 is summed over components and channels.
struct NormGroup {
  std::vector<int> blocks;
  std::vector<double> weights;    // weight per block, not negative
  bool center;                    // whether the mean of channels is first subtracted from its 0e blocks
};

// All blocks have the same number of channels, and each belongs to one group.
struct SphericalNorm {
  static constexpr const char *TYPE = "spherical_norm";

  int input, output;
  std::vector<NormGroup> groups;
  double epsilon;
  Matrix scale;                // [blocks, channels]
  std::vector<double> bias;    // [channels], added to the only 0e block; or empty

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

// SPDX-License-Identifier: MIT
// Where the charges of a Coulomb layer are stored in rows of its feature, on either back end.
#ifndef EQUI_COULOMB_CHANNELS_H
#define EQUI_COULOMB_CHANNELS_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "src/layers/coulomb.h"

#include <cstddef>
#include <vector>

namespace equi {

// The channels of one block.
struct CoulombRun {
  FeatureGroup group;
  int first, channels;            // in the group
  std::vector<double> weights;    // [channels]
};

inline std::vector<CoulombRun> coulomb_channels(const Coulomb &layer, const FeatureLayout &layout) {
  std::vector<CoulombRun> runs;
  auto weight = layer.weights.begin();
  for (int b = 0; b < layout.num_blocks(); b++) {
    const auto &block = layout.block(b);
    runs.push_back({layout.group(block.group), block.channel, block.mul, {weight, weight + block.mul}});
    weight += block.mul;
  }
  return runs;
}

inline std::size_t bytes_of(const std::vector<CoulombRun> &runs) {
  std::size_t bytes = 0;
  for (const CoulombRun &run : runs) bytes += sizeof run + run.weights.size() * sizeof(double);
  return bytes;
}

}    // namespace equi

#endif

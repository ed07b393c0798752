// SPDX-License-Identifier: MIT
// The equivariant linear layer in the memory layout of features, for both back ends.
#ifndef EQUI_LINEAR_CONSTANTS_H
#define EQUI_LINEAR_CONSTANTS_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "src/layers/linear.h"
#include "src/numbers/matrix.h"

#include <cstdint>
#include <vector>

namespace equi {

// y = x W + b between groups of equal irreps. Each pair of groups has one matrix, padded with zeros, which all its
// blocks share.
struct LinearConstants {
  LinearConstants(const Linear &linear, const FeatureLayout &in, const FeatureLayout &out, int num_species);

  struct Product {
    int in, out;                   // groups
    bool first_in, first_out;      // no earlier product has this group on this side
    std::vector<Matrix> weight;    // one, or one per species: [channels in, channels out]
  };
  FeatureLayout in, out;
  bool per_species, accumulate;
  int num_species;            // number of matrices: 1 without per_species
  int64_t scratch_row = 0;    // scratch per row with per_species
  std::vector<Product> products;
  std::vector<int> unread, unwritten;       // groups of the input and of the output without a product
  std::vector<std::vector<double>> bias;    // per output group: empty or [channels]
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Polynomials of the channels of features, for both back ends: a symmetric contraction or a node product of a model.
// They have a tree with coefficients by species and channel block, or a grid.
#ifndef EQUI_CONTRACTION_CONSTANTS_H
#define EQUI_CONTRACTION_CONSTANTS_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "kokkos/runtime/buffer.h"
#include "src/generator/contraction_schedule.h"
#include "src/numbers/dual.h"

#include <string>
#include <tuple>
#include <vector>

namespace equi {

template <class T>
struct ContractionConstants {
  using R = Real<T>;
  // in: layouts of the features that are read; their consecutive blocks are those of the product's input. form: form
  // of a Gaunt product.
  ContractionConstants(const ContractionProduct &product, std::vector<FeatureLayout> in, const FeatureLayout &out,
                       int num_species, GauntForm form = GauntForm::faster);

  std::vector<FeatureLayout> in;
  FeatureLayout out;
  ContractionSchedule schedule;
  int channels;    // with padding
  // One vector, or one per species: [channel blocks][entries][CHANNEL_PAD]; or the table of a grid.
  std::vector<AlignedVector<R>> coefficients;

  int num_in() const;    // blocks
  bool per_species() const { return coefficients.size() > 1; }
  auto members() const { return std::tie(coefficients); }
  // "410 products to degree 3, 0.2 MB"; "a grid of 7 rings, 0.0 MB"
  std::string describe() const;
};

}    // namespace equi

#endif

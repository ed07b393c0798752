// SPDX-License-Identifier: MIT
// The coefficients of symmetric contractions and node products.
#include "kokkos/layers/contraction/contraction_constants.h"

#include "src/base/model_limits.h"
#include "src/base/owned_memory.h"
#include "src/numbers/number_types.h"

#include <cstdio>
#include <stdexcept>
#include <utility>

namespace equi {

template <class T>
ContractionConstants<T>::ContractionConstants(const ContractionProduct &product, std::vector<FeatureLayout> in,
                                              const FeatureLayout &out, int num_species, GauntForm form)
    : in(std::move(in)), out(out), schedule(make_contraction_schedule(product, form)), channels(padded(product.mul())) {
  if (num_in() > MAX_PRODUCT_BLOCKS || out.num_blocks() > MAX_PRODUCT_BLOCKS)
    throw std::invalid_argument("a contraction or a product of more than " + std::to_string(MAX_PRODUCT_BLOCKS) +
                                " blocks");

  if (schedule.grid) {
    const std::vector<double> &table = schedule.grid->table;
    coefficients.emplace_back(table.begin(), table.end());
    return;
  }
  const int num_entries = schedule.num_entries();
  for (int s = 0; s < (product.per_species ? num_species : 1); s++) {
    const std::vector<double> of_channels = contraction_coefficients(product, schedule, s);
    coefficients.emplace_back(static_cast<size_t>(channels) * num_entries, R(0));
    for (int u = 0; u < product.mul(); u++)
      for (int e = 0; e < num_entries; e++)
        coefficients.back()[(static_cast<size_t>(u / CHANNEL_PAD) * num_entries + e) * CHANNEL_PAD + u % CHANNEL_PAD] =
            static_cast<R>(of_channels[static_cast<size_t>(u) * num_entries + e]);
  }
}

template <class T>
int ContractionConstants<T>::num_in() const {
  int blocks = 0;
  for (const FeatureLayout &feature : in) blocks += feature.num_blocks();
  return blocks;
}

template <class T>
std::string ContractionConstants<T>::describe() const {
  char text[100];
  if (schedule.grid)
    std::snprintf(text, sizeof text, "a grid of %d rings, %.1f MB", schedule.grid->num_nodes(),
                  bytes_of(coefficients) * 1e-6);
  else
    std::snprintf(text, sizeof text, "%d products to degree %d, %.1f MB", schedule.num_entries(), schedule.degree,
                  bytes_of(coefficients) * 1e-6);
  return text;
}

EQUI_INSTANTIATE_NUMBERS(ContractionConstants)

}    // namespace equi

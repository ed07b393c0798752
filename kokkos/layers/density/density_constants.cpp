// SPDX-License-Identifier: MIT
// Tabulates the density of a normalization.
#include "kokkos/layers/density/density_constants.h"

namespace equi {

DensityConstants::DensityConstants(const DensityNormalization &layer, const FeatureLayout &layout, int num_species,
                                   const EvaluatorOptions &options)
    : layout(layout), offset(layer.offset), factor(layer.factor), radial_set(layer.density, num_species, options) {
  if (radial_set.exact()) return;
  for (int k = 0; k < radial_set.num_functions(); k++) {
    first_bin.push_back(static_cast<int64_t>(powers.size()) / radial_set.num_coefficients());
    radial_set.for_polynomials(
        k, [&](int, int, const double *bin) { powers.insert(powers.end(), bin, bin + radial_set.num_coefficients()); });
  }
  radial_set.drop_rows();
}

}    // namespace equi

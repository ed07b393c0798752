// SPDX-License-Identifier: MIT
// The density of a normalization and its tables, for both back ends.
#ifndef EQUI_DENSITY_CONSTANTS_H
#define EQUI_DENSITY_CONSTANTS_H

#include "kokkos/geometry/radial_set.h"
#include "kokkos/kernel_interface/feature_layout.h"
#include "src/layers/density_normalization.h"
#include "src/numbers/dual.h"

#include <cstdint>
#include <tuple>
#include <vector>

namespace equi {

// norm = offset + factor * the sum of the density over the edges of a row
struct DensityConstants {
  DensityConstants(const DensityNormalization &layer, const FeatureLayout &layout, int num_species,
                   const EvaluatorOptions &options);

  FeatureLayout layout;
  double offset, factor;
  RadialSet radial_set;
  std::vector<double> powers;        // [bins of all tables][coefficients]; empty with exact functions
  std::vector<int64_t> first_bin;    // per table

  auto members() const { return std::tie(powers); }
  // Density at a distance and its derivative. D: double, or a Dual of it.
  template <class D>
  void evaluate(int function, D r, D *value, D *derivative) const {
    double d[3] = {};
    if (radial_set.exact()) {
      radial_set.function(function).derivatives(value_of(r), PLANES<D>, -1, d);
    } else {
      const RadialTable::BinPosition found = radial_set.table(function).bin_of(value_of(r));
      const int n = radial_set.num_coefficients();
      const double *row = powers.data() + (first_bin[function] + found.bin) * n;
      for (int k = n - 1; k >= 0; k--) {
        if (IS_DUAL<D>) d[2] = d[2] * found.fraction + d[1];
        d[1] = d[1] * found.fraction + d[0];
        d[0] = d[0] * found.fraction + row[k];
      }
      d[1] *= found.bins_per_length;
      d[2] *= 2.0 * found.bins_per_length * found.bins_per_length;
    }
    *value = make_number<D>(d[0], d[1] * tangent_of(r));
    *derivative = make_number<D>(d[1], d[2] * tangent_of(r));
  }
};

}    // namespace equi

#endif

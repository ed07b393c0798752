// SPDX-License-Identifier: MIT
// Many radial functions as sums of a few: f(r) = c(r) V for all pairs of species, with a constant matrix V. The outputs
// of a radial network are sums of the activations before its last matrix. These depend smoothly on the distance, so
// fewer combinations of them are enough.
#ifndef EQUI_RADIAL_EXPANSION_H
#define EQUI_RADIAL_EXPANSION_H

#include "src/functions/radial_function.h"

#include <optional>
#include <vector>

namespace equi {

struct RadialExpansion {
  RadialFunction coefficients;    // c: the function with another last matrix
  Matrix outputs;                 // V [coefficients.num_outputs(), f.num_outputs()], with orthonormal rows
};

// The residual is a vector of all outputs at a sampled distance. Beyond 1 Angstrom it is at most `tolerance` times the
// largest such vector of the function there. Below 1 Angstrom the largest vector of all distances is used. Empty for
// zero functions, and for functions whose outputs are not linear in the last matrix with the same coefficients for all
// pairs. The latter read features, are activated or gated, or have factors of pairs, powers of the distance or
// potentials of charges.
std::optional<RadialExpansion> expand_radial(const RadialFunction &f, int num_species, double tolerance);

// Orthonormal rows of n numbers each. They are as few as possible so that no sample, also n numbers, is further than 1
// from their span. None is much longer along the samples than the others.
std::vector<double> few_directions(std::vector<double> samples, int n);

}    // namespace equi

#endif

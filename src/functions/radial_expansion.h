// SPDX-License-Identifier: MIT
// Many radial functions as sums of a few: f(r) = c(r) V for all pairs of species, with a constant matrix V. The outputs
// of a radial network are such sums, of the activations before its last matrix, and these depend so smoothly on the
// distance that fewer combinations of them do.
#ifndef EQUI_RADIAL_EXPANSION_H
#define EQUI_RADIAL_EXPANSION_H

#include "src/functions/radial_function.h"

#include <optional>
#include <vector>

namespace equi {

// Trained functions may be steep below the distances of real bonds (radial_table.cpp).
constexpr double SHORT_DISTANCE = 1.0;    // Angstrom

struct RadialExpansion {
  RadialFunction coefficients;    // c: the function with another last matrix
  Matrix outputs;                 // V [coefficients.num_outputs(), f.num_outputs()], of orthonormal rows
};

// The residual at the distances that are tried, as a vector of all outputs, is at most `tolerance` times the largest
// such vector of the function; below 1 Angstrom times the largest one of all distances. Empty for functions whose
// outputs are not linear in the last matrix, the same for all pairs: those that read features, activated ones, those
// with factors of pairs or powers of the distance; and for zero functions.
std::optional<RadialExpansion> expand_radial(const RadialFunction &f, int num_species, double tolerance);

// Orthonormal rows of n numbers each, as few as it takes so that no sample, n numbers as well, is further than 1 from
// their span. None is much longer along the samples than the others.
std::vector<double> few_directions(std::vector<double> samples, int n);

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Real spherical harmonics in the basis of irreps.h, with gradients. This is the reference in float64. The kernels have
// their own vectorized evaluation (kokkos/), which is tested against this one.
#ifndef EQUI_SPHERICAL_HARMONICS_H
#define EQUI_SPHERICAL_HARMONICS_H

namespace equi {

// values [(lmax+1)^2]: Y_lm(vec/|vec|), l ascending, m = -l..l, "component" normalization.
// gradient [(lmax+1)^2][3], or null: derivative of the values by vec (1/length unit of vec). vec must not be zero.
void spherical_harmonics(int lmax, const double vec[3], double *values, double *gradient);

}    // namespace equi

#endif

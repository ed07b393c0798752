// SPDX-License-Identifier: MIT
// Windows of the distance in which a few functions reproduce those of a set of tables: f(r) = c(r) P, with a matrix
// P for each window.
#ifndef EQUI_RADIAL_WINDOWS_H
#define EQUI_RADIAL_WINDOWS_H

#include "kokkos/geometry/radial_set.h"
#include "src/numbers/matrix.h"

#include <vector>

namespace equi {

struct RadialWindows {
  std::vector<int> of_bin;    // the window of each bin, for the bins of one table of the set after another
  std::vector<Matrix>
      functions;    // P of each window [functions of a window, set.num_outputs()]: orthonormal rows, or 0

  // Makes this many windows of equal width up to the largest cutoff. The remaining error of the functions, as a
  // vector, and of their derivatives is at most `tolerance` times the largest such vector. In bins below 1 Angstrom
  // it is at most that share of the largest one for all distances.
  static RadialWindows divide(const RadialSet &set, int num_windows, double tolerance);
};

}    // namespace equi

#endif

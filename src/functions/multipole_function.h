// SPDX-License-Identifier: MIT
// The interaction of multipoles with Gaussian widths in a periodic cell.
#ifndef EQUI_MULTIPOLE_FUNCTION_H
#define EQUI_MULTIPOLE_FUNCTION_H

#include <algorithm>
#include <cmath>
#include <vector>

namespace equi {

// Atoms have sources, a charge q and a dipole p of width s for each channel. They also have probes g0 and g1, of widths
// w_1, w_2, ... for each channel. With
//   S(k) = sum_j (q_j + i k . p_j) exp(i k . r_j),   G(k) = sum_i sum_w h_w(k) (g0_i + i k . g1_i) exp(i k . r_i),
//   h_w(k) = (prefactor / V) exp(-(s^2 + w^2) k^2 / 2) / k^2,
// the sum is L = 2 sum_k Re(conj(S) G) over one of each pair k and -k, without 0. It is linear in sources and in
// probes: the derivative by g0 is the potential that a Gaussian probe feels, the one by g1 its gradient. The Ewald
// energy of charges (EwaldFunction) is half of L with the sources as probes of the width 0.
struct MultipoleFunction {
  double prefactor;              // 1/eps0, eV Angstrom per squared unit of charge
  double width;                  // s, Angstrom
  std::vector<double> widths;    // w, Angstrom

  // s^2 + w^2
  double square(int w) const { return width * width + widths[w] * widths[w]; }
  // The smallest width of a source and a probe in one Gaussian, Angstrom: converged sums need wave vectors for it.
  double least_width() const {
    const double w = *std::min_element(widths.begin(), widths.end());
    return std::sqrt(width * width + w * w);
  }
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Real Clebsch-Gordan coupling tensors between irreps of SO(3).
#ifndef EQUI_COUPLING_H
#define EQUI_COUPLING_H

#include <vector>

namespace equi {

// w(l1,l2,l3) as a dense row-major array [2 l1+1][2 l2+1][2 l3+1] with Frobenius norm 1, the basis of irreps.h and the
// sign of e3nn >= 0.5: real part of sum A_l1 A_l2 conj(A_l3) <l1 m1 l2 m2 | l3 m3>, accurate to 1e-14 for l <= 8.
// Throws std::invalid_argument if the triangle rule does not hold.
std::vector<double> coupling(int l1, int l2, int l3);

// The same as a list of its entries larger than 1e-12 in magnitude.
struct CouplingEntry {
  int m1, m2, m3;    // 0-based
  double value;
};
std::vector<CouplingEntry> coupling_entries(int l1, int l2, int l3);

}    // namespace equi

#endif

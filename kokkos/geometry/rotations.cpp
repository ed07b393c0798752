// SPDX-License-Identifier: MIT
// Makes the rotations of all orders from couplings of l - 1 and 1 to l, and their generators.
#include "kokkos/geometry/rotations.h"

#include "src/algebra/coupling.h"
#include "src/base/model_limits.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace equi {

static_assert(LMAX_SUPPORTED <= SO2_LMAX);

Rotations::Rotations(int lmax) : lmax_(lmax) {
  if (lmax > SO2_LMAX) throw std::invalid_argument("rotations of l = " + std::to_string(lmax));
  for (int l = 0; l <= lmax; l++)
    for (int m = 0; m <= 2 * l; m++) {
      begin_.push_back(static_cast<int>(terms_.size()));
      if (l < 2) continue;
      for (const CouplingEntry &c : coupling_entries(1, l - 1, l))
        if (c.m3 == m) terms_.push_back({c.m1, c.m2, std::sqrt(2.0 * l + 1) * c.value});
    }
  begin_.push_back(static_cast<int>(terms_.size()));
}

template <class R>
std::vector<So2Generator<R>> Rotations::generators(int lmax, int mmax) {
  // The coupling of an order with l = 1 to itself is invariant, and so are the generators: they differ by a factor.
  // Its magnitude follows from the sum of squares, l (l+1) (2l+1). Its sign follows from J_y, which turns +m to -m.
  std::vector<So2Generator<R>> entries;
  for (int l = 1; l <= lmax; l++) {
    const std::vector<CouplingEntry> coupled = coupling_entries(1, l, l);
    double factor = std::sqrt(l * (l + 1.0) * (2 * l + 1));
    for (const CouplingEntry &c : coupled)
      if (c.m1 == 1 && c.m2 == l - 1 && c.m3 == l + 1 && c.value < 0.0) factor = -factor;
    for (const CouplingEntry &c : coupled)
      if (std::abs(c.m2 - l) <= mmax)
        entries.push_back({c.m1, l, c.m2 - l, c.m3 - l, static_cast<R>(factor * c.value)});
  }
  return entries;
}

template std::vector<So2Generator<float>> Rotations::generators<float>(int, int);
template std::vector<So2Generator<double>> Rotations::generators<double>(int, int);

}    // namespace equi

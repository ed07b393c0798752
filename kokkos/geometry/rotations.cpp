// SPDX-License-Identifier: MIT
#include "kokkos/geometry/rotations.h"

#include "src/algebra/coupling.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace equi {

Rotations::Rotations(int lmax) : lmax_(lmax), terms_(lmax + 1) {
  if (lmax > SO2_LMAX) throw std::invalid_argument("rotations of l = " + std::to_string(lmax));
  for (int l = 2; l <= lmax; l++) {
    terms_[l].resize(2 * l + 1);
    for (const CouplingEntry &c : coupling_entries(1, l - 1, l))
      terms_[l][c.m3].push_back({c.m1, c.m2, std::sqrt(2.0 * l + 1) * c.value});
  }
}

template <class D>
void Rotations::frame(const D n[3], D r[9]) {
  using std::sqrt;
  // The axis that n has least of, so that its part across n is far from 0.
  int axis = 0;
  for (int k = 1; k < 3; k++)
    if (std::fabs(value_of(n[k])) < std::fabs(value_of(n[axis]))) axis = k;
  D across[3], square = 0.0;
  for (int k = 0; k < 3; k++) {
    across[k] = D(k == axis ? 1.0 : 0.0) - n[axis] * n[k];
    square += across[k] * across[k];
  }
  const D inverse = D(1.0) / sqrt(square);
  for (int k = 0; k < 3; k++) {
    r[k] = inverse * across[k];
    r[3 + k] = n[k];
  }
  for (int k = 0; k < 3; k++) {    // z = x * y
    const int a = (k + 1) % 3, b = (k + 2) % 3;
    r[6 + k] = r[a] * n[b] - r[b] * n[a];
  }
}

template <class D>
void Rotations::evaluate(const D r[9], D *d) const {
  d[0] = 1.0;
  if (lmax_ > 0) std::copy_n(r, 9, d + 1);
  D half[3 * (2 * SO2_LMAX - 1)];    // one side of D_1 x D_(l-1) coupled to a component of l
  const D *before = d + 1;
  for (int l = 2; l <= lmax_; l++) {
    D *const now = d + rotations_size(l - 1);
    const int dim = 2 * l + 1, smaller = 2 * l - 1;
    for (int m = 0; m < dim; m++) {
      std::fill_n(half, 3 * smaller, D(0.0));
      for (const Term &t : terms_[l][m])
        for (int a = 0; a < 3; a++)
          for (int b = 0; b < smaller; b++)
            half[a * smaller + b] += t.value * r[3 * t.a + a] * before[t.b * smaller + b];
      for (int n = 0; n < dim; n++) {
        D sum = 0.0;
        for (const Term &t : terms_[l][n]) sum += t.value * half[t.a * smaller + t.b];
        now[m * dim + n] = sum;
      }
    }
    before = now;
  }
}

template <class R>
std::vector<So2Generator<R>> Rotations::generators(int lmax, int mmax) {
  // The coupling of an order with l = 1 to itself is invariant, and so are the generators: they differ by a factor. Of
  // its magnitude the sum of squares tells, l (l+1) (2l+1); of its sign, that J_y turns +m to -m.
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
template void Rotations::frame<double>(const double[3], double[9]);
template void Rotations::frame<Dual<double>>(const Dual<double>[3], Dual<double>[9]);
template void Rotations::evaluate<double>(const double[9], double *) const;
template void Rotations::evaluate<Dual<double>>(const Dual<double>[9], Dual<double> *) const;

}    // namespace equi

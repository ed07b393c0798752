// SPDX-License-Identifier: MIT
// Spherical harmonics of the edges, in the conventions of irreps.h, by recurrences for any order.
//
// With n = (x,y,z): (z + ix)^a = C_a + i S_a and Pi_l^a = d^a P_l(y)/dy^a, Y_l,m = N_l,a Pi_l^a(y) (m >= 0 ? C_a :
// S_a), a = |m|.
#ifndef EQUI_HARMONICS_H
#define EQUI_HARMONICS_H

#include "src/numbers/host_device.h"

#include <cmath>

namespace equi {

constexpr int HARMONICS_LMAX = 12;
constexpr int MAX_HARMONICS = (HARMONICS_LMAX + 1) * (HARMONICS_LMAX + 1);

struct HarmonicsNorms {
  // N_l,a for all (l, a) with a <= l <= lmax, at l (l+1)/2 + a.
  double norm[(HARMONICS_LMAX + 1) * (HARMONICS_LMAX + 2) / 2];
  double inverse[HARMONICS_LMAX + 1];    // 1 / n
  HarmonicsNorms() {
    for (int l = 0; l <= HARMONICS_LMAX; l++) {
      inverse[l] = l > 0 ? 1.0 / l : 0.0;
      double ratio = 1.0;    // (l-a)!/(l+a)!
      for (int a = 0; a <= l; a++) {
        if (a > 0) ratio /= static_cast<double>(l + a) * (l - a + 1);
        norm[l * (l + 1) / 2 + a] = std::sqrt((2 * l + 1) * (a == 0 ? 1.0 : 2.0) * ratio);
      }
    }
  }
};

// Below, V is one number or several in a register, and R is the type of its elements.

// Computes the next C_a and S_a from the current ones.
template <class V>
EQUI_FUNCTION void next_power(const V n[3], V &c, V &s) {
  const V c_next = n[2] * c - n[0] * s;
  s = n[2] * s + n[0] * c;
  c = c_next;
}

// Computes y [(lmax+1)^2] for a unit vector.
template <class R, class V, class T>
EQUI_FUNCTION void evaluate_harmonics(const HarmonicsNorms &norms, int lmax, const V n[3], T *y) {
  V c = V{} + R(1), s = V{};
  R first = R(1);    // Pi_a^a
  for (int a = 0; a <= lmax; a++) {
    V before = V{}, pi = V{} + first;    // Pi_{l-1}^a, Pi_l^a
    for (int l = a; l <= lmax; l++) {
      const V f = R(norms.norm[l * (l + 1) / 2 + a]) * pi;
      y[l * l + l + a] = static_cast<T>(f * c);
      if (a > 0) y[l * l + l - a] = static_cast<T>(f * s);
      if (l == lmax) break;
      const R inverse = R(norms.inverse[l + 1 - a]);
      const V next = (R(2 * l + 1) * inverse) * n[1] * pi - (R(l + a) * inverse) * before;
      before = pi;
      pi = next;
    }
    next_power(n, c, s);
    first *= R(2 * a + 1);
  }
}

// g += sum_{l>0} y_adj dY/dn for the polynomials above, which are also defined off the sphere. The caller projects
// onto the tangent plane.
template <class R, class V>
EQUI_FUNCTION void harmonics_gradient(const HarmonicsNorms &norms, int lmax, const V n[3], const V *y_adj, V g[3]) {
  V c = V{} + R(1), s = V{}, c_before = V{}, s_before = V{};    // for a and a-1
  R first = R(1);                                               // Pi_a^a
  for (int a = 0; a <= lmax; a++) {
    V before = V{}, pi = V{} + first;    // Pi_l^a
    V d_before = V{}, d_pi = V{};        // its derivative with respect to y
    for (int l = a; l <= lmax; l++) {
      if (l > 0) {
        const R norm = R(norms.norm[l * (l + 1) / 2 + a]);
        const V yc = norm * y_adj[l * l + l + a], ys = a > 0 ? norm * y_adj[l * l + l - a] : V{};
        g[1] += d_pi * (yc * c + ys * s);
        // dC_a/dz = a C_{a-1}, dC_a/dx = -a S_{a-1}, dS_a/dz = a S_{a-1}, dS_a/dx = a C_{a-1}
        const V of_a = R(a) * pi;
        g[2] += of_a * (yc * c_before + ys * s_before);
        g[0] += of_a * (ys * c_before - yc * s_before);
      }
      if (l == lmax) break;
      const R inverse = R(norms.inverse[l + 1 - a]), of_pi = R(2 * l + 1) * inverse, of_before = R(l + a) * inverse;
      const V next = of_pi * n[1] * pi - of_before * before;
      const V d_next = of_pi * (pi + n[1] * d_pi) - of_before * d_before;
      before = pi;
      pi = next;
      d_before = d_pi;
      d_pi = d_next;
    }
    c_before = c;
    s_before = s;
    next_power(n, c, s);
    first *= R(2 * a + 1);
  }
}

// The derivative of an energy with respect to the vector of an edge, from those with respect to its unit vector u,
// g, and to its length. Only the tangential part of g counts.
template <class V>
EQUI_FUNCTION void gradient_by_vector(const V u[3], V inverse_length, const V g[3], V by_length, V gradient[3]) {
  const V along = g[0] * u[0] + g[1] * u[1] + g[2] * u[2];
  for (int k = 0; k < 3; k++) gradient[k] = (g[k] - along * u[k]) * inverse_length + by_length * u[k];
}

}    // namespace equi

#endif

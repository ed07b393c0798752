// SPDX-License-Identifier: MIT
// Spherical harmonics of the edges, in the conventions of irreps.h, by recurrences that serve any order.
//
// With n = (x,y,z): (z + ix)^a = C_a + i S_a and Pi_l^a = d^a P_l(y)/dy^a, Y_l,m = N_l,a Pi_l^a(y) (m >= 0 ? C_a :
// S_a), a = |m|.
#ifndef EQUI_HARMONICS_H
#define EQUI_HARMONICS_H

#include "src/functions/activation.h"

#include <cmath>

namespace equi {

constexpr int HARMONICS_LMAX = 12;

// N_l,a of all (l, a) with a <= l <= lmax, at l (l+1)/2 + a.
struct HarmonicsNorms {
  double norm[(HARMONICS_LMAX + 1) * (HARMONICS_LMAX + 2) / 2];
  HarmonicsNorms() {
    for (int l = 0; l <= HARMONICS_LMAX; l++) {
      double ratio = 1.0;    // (l-a)!/(l+a)!
      for (int a = 0; a <= l; a++) {
        if (a > 0) ratio /= static_cast<double>(l + a) * (l - a + 1);
        norm[l * (l + 1) / 2 + a] = std::sqrt((2 * l + 1) * (a == 0 ? 1.0 : 2.0) * ratio);
      }
    }
  }
};

// y [(lmax+1)^2] of a unit vector.
template <class G, class T>
EQUI_FUNCTION void evaluate_harmonics(const HarmonicsNorms &norms, int lmax, const G n[3], T *y) {
  G c = 1, s = 0;
  for (int a = 0; a <= lmax; a++) {
    G before = 0, pi = 1;    // Pi_{l-1}^a, Pi_l^a at l = a
    for (int k = 1; k <= a; k++) pi *= G(2 * k - 1);
    for (int l = a; l <= lmax; l++) {
      const G f = static_cast<G>(norms.norm[l * (l + 1) / 2 + a]) * pi;
      y[l * l + l + a] = static_cast<T>(f * c);
      if (a > 0) y[l * l + l - a] = static_cast<T>(f * s);
      const G next = (G(2 * l + 1) * n[1] * pi - G(l + a) * before) / G(l + 1 - a);
      before = pi;
      pi = next;
    }
    const G c_next = n[2] * c - n[0] * s;
    s = n[2] * s + n[0] * c;
    c = c_next;
  }
}

// g += sum_{l>0} y_adj dY/dn for the polynomials above, off the sphere too: the caller projects onto the tangent plane.
template <class G>
EQUI_FUNCTION void harmonics_gradient(const HarmonicsNorms &norms, int lmax, const G n[3], const G *y_adj, G g[3]) {
  G c = 1, s = 0, c_before = 0, s_before = 0;    // of a and a-1
  for (int a = 0; a <= lmax; a++) {
    G before = 0, pi = 1;        // Pi_l^a
    G d_before = 0, d_pi = 0;    // its derivative by y
    for (int k = 1; k <= a; k++) pi *= G(2 * k - 1);
    for (int l = a; l <= lmax; l++) {
      if (l > 0) {
        const G norm = static_cast<G>(norms.norm[l * (l + 1) / 2 + a]);
        const G yc = norm * y_adj[l * l + l + a], ys = a > 0 ? norm * y_adj[l * l + l - a] : G(0);
        g[1] += d_pi * (yc * c + ys * s);
        // dC_a/dz = a C_{a-1}, dC_a/dx = -a S_{a-1}, dS_a/dz = a S_{a-1}, dS_a/dx = a C_{a-1}
        g[2] += pi * G(a) * (yc * c_before + ys * s_before);
        g[0] += pi * G(a) * (ys * c_before - yc * s_before);
      }
      const G next = (G(2 * l + 1) * n[1] * pi - G(l + a) * before) / G(l + 1 - a);
      const G d_next = (G(2 * l + 1) * (pi + n[1] * d_pi) - G(l + a) * d_before) / G(l + 1 - a);
      before = pi;
      pi = next;
      d_before = d_pi;
      d_pi = d_next;
    }
    c_before = c;
    s_before = s;
    const G c_next = n[2] * c - n[0] * s;
    s = n[2] * s + n[0] * c;
    c = c_next;
  }
}

}    // namespace equi

#endif

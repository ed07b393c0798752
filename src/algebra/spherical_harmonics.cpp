// SPDX-License-Identifier: MIT
// The reference implementation of the real spherical harmonics and their gradients.
#include "src/algebra/spherical_harmonics.h"

#include <cmath>
#include <vector>

namespace equi {

// With n = (x, y, z), (z + ix)^a = C_a + i S_a and Pi_l^a(y) the a-th derivative of the Legendre polynomial P_l:
//   Y_lm = N_la Pi_l^a(y) (C_a or S_a),  a = |m|,  C for m >= 0.
// Off the sphere this expression is only one of many continuations of Y. Its gradient is projected onto the tangent
// plane at n, which gives the derivative of Y(vec/|vec|) for any continuation.
void spherical_harmonics(int lmax, const double vec[3], double *values, double *gradient) {
  const double norm = std::sqrt(vec[0] * vec[0] + vec[1] * vec[1] + vec[2] * vec[2]);
  const double x = vec[0] / norm, y = vec[1] / norm, z = vec[2] / norm;

  std::vector<double> cosine(lmax + 2), sine(lmax + 2);
  cosine[0] = 1.0;
  sine[0] = 0.0;
  for (int a = 1; a <= lmax; ++a) {
    cosine[a] = z * cosine[a - 1] - x * sine[a - 1];
    sine[a] = z * sine[a - 1] + x * cosine[a - 1];
  }

  // pi[l][a], zero for a > l
  const int stride = lmax + 2;
  std::vector<double> pi(static_cast<size_t>(lmax + 1) * stride, 0.0);
  double double_factorial = 1.0;
  for (int a = 0; a <= lmax; ++a) {
    if (a > 0) double_factorial *= 2 * a - 1;
    pi[a * stride + a] = double_factorial;
    for (int l = a + 1; l <= lmax; ++l) {
      const double before = l >= 2 ? pi[(l - 2) * stride + a] : 0.0;
      pi[l * stride + a] = ((2 * l - 1) * y * pi[(l - 1) * stride + a] - (l + a - 1) * before) / (l - a);
    }
  }

  int i = 0;
  for (int l = 0; l <= lmax; ++l)
    for (int m = -l; m <= l; ++m, ++i) {
      const int a = m < 0 ? -m : m;
      double ratio = 1.0;    // (l-a)!/(l+a)!
      for (int k = l - a + 1; k <= l + a; ++k) ratio /= k;
      const double factor = std::sqrt((2 * l + 1) * (m == 0 ? 1.0 : 2.0) * ratio);
      const double polar = factor * pi[l * stride + a];
      values[i] = polar * (m >= 0 ? cosine[a] : sine[a]);
      if (!gradient) continue;

      double g[3] = {0.0, factor * pi[l * stride + a + 1] * (m >= 0 ? cosine[a] : sine[a]), 0.0};
      if (a > 0) {
        g[0] = polar * a * (m >= 0 ? -sine[a - 1] : cosine[a - 1]);
        g[2] = polar * a * (m >= 0 ? cosine[a - 1] : sine[a - 1]);
      }
      const double radial = g[0] * x + g[1] * y + g[2] * z;
      gradient[3 * i] = (g[0] - radial * x) / norm;
      gradient[3 * i + 1] = (g[1] - radial * y) / norm;
      gradient[3 * i + 2] = (g[2] - radial * z) / norm;
    }
}

}    // namespace equi

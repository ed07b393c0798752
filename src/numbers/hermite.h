// SPDX-License-Identifier: MIT
// Hermite interpolation within a bin.
#ifndef EQUI_HERMITE_H
#define EQUI_HERMITE_H

namespace equi {

// The degree + 1 coefficients of a bin's rows (RadialTable) at the fraction t of its width h, for value and derivative.
inline void hermite(int degree, double t, double h, double *value, double *derivative) {
  const double t2 = t * t, t3 = t2 * t, s = 1.0 - t, s2 = s * s;
  if (degree == 3) {
    value[0] = s2 * (1.0 + 2.0 * t);
    value[1] = t * s2;
    value[2] = t2 * (3.0 - 2.0 * t);
    value[3] = -t2 * s;
    derivative[0] = -6.0 * t * s / h;
    derivative[1] = s * (1.0 - 3.0 * t) / h;
    derivative[2] = 6.0 * t * s / h;
    derivative[3] = t * (3.0 * t - 2.0) / h;
    return;
  }
  const double s3 = s2 * s;
  value[0] = s3 * (1.0 + 3.0 * t + 6.0 * t2);
  value[1] = t * s3 * (1.0 + 3.0 * t);
  value[2] = t2 * s3;
  value[3] = t3 * (1.0 + 3.0 * s + 6.0 * s2);
  value[4] = -s * t3 * (1.0 + 3.0 * s);
  value[5] = s2 * t3;
  derivative[0] = -30.0 * t2 * s2 / h;
  derivative[1] = s2 * (1.0 + 2.0 * t - 15.0 * t2) / h;
  derivative[2] = t * s2 * (2.0 - 5.0 * t) / h;
  derivative[3] = 30.0 * t2 * s2 / h;
  derivative[4] = t2 * (1.0 + 2.0 * s - 15.0 * s2) / h;
  derivative[5] = -t2 * s * (2.0 - 5.0 * s) / h;
}

// The same polynomial as degree + 1 coefficients of powers of t, from the rows of a bin.
inline void hermite_powers(int degree, const double *rows, double *powers) {
  const double *f = rows, *g = rows + (degree + 1) / 2;    // of the two knots
  powers[0] = f[0];
  powers[1] = f[1];
  if (degree == 3) {
    powers[2] = 3.0 * (g[0] - f[0]) - 2.0 * f[1] - g[1];
    powers[3] = 2.0 * (f[0] - g[0]) + f[1] + g[1];
    return;
  }
  powers[2] = f[2];
  powers[3] = 10.0 * (g[0] - f[0]) - 6.0 * f[1] - 4.0 * g[1] - 3.0 * f[2] + g[2];
  powers[4] = 15.0 * (f[0] - g[0]) + 8.0 * f[1] + 7.0 * g[1] + 3.0 * f[2] - 2.0 * g[2];
  powers[5] = 6.0 * (g[0] - f[0]) - 3.0 * (f[1] + g[1]) - f[2] + g[2];
}

}    // namespace equi

#endif

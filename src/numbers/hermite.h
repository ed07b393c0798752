// SPDX-License-Identifier: MIT
// Hermite interpolation within a bin, from the rows of a RadialTable. Each of its two knots has the value and the
// derivative, and from degree 5 on half the second derivative. Derivatives are by the fraction t of the bin's width.
// Degree 7 also has the values at two inner points between the knots.
#ifndef EQUI_HERMITE_H
#define EQUI_HERMITE_H

namespace equi {

constexpr int MAX_TABLE_DEGREE = 7;

// Numbers per knot, and per bin behind the knot.
constexpr int hermite_knot_rows(int degree) {
  return degree == 3 ? 2 : 3;
}
constexpr int hermite_inner_rows(int degree) {
  return degree + 1 - 2 * hermite_knot_rows(degree);
}

// The error of degree 7 is t^3 (1 - t)^3 (t - x0) (t - x1) f^(8) / 8! at leading order. With these points its
// derivative, the error of forces, has four extrema of equal size, and none larger. It is 5.5 times smaller than with
// the value and three derivatives at each knot. Third-order zeros keep second derivatives continuous.
constexpr double HERMITE_POINTS[] = {0.4417424305044161, 0.5582575694955839};

// The degree + 1 coefficients of a bin's rows at the fraction t of its width h, for value and derivative.
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
  const int inner = hermite_inner_rows(degree);
  double *end_value = value + 3 + inner, *end_derivative = derivative + 3 + inner;    // at the second knot
  const double s3 = s2 * s;
  value[0] = s3 * (1.0 + 3.0 * t + 6.0 * t2);
  value[1] = t * s3 * (1.0 + 3.0 * t);
  value[2] = t2 * s3;
  end_value[0] = t3 * (1.0 + 3.0 * s + 6.0 * s2);
  end_value[1] = -s * t3 * (1.0 + 3.0 * s);
  end_value[2] = s2 * t3;
  derivative[0] = -30.0 * t2 * s2 / h;
  derivative[1] = s2 * (1.0 + 2.0 * t - 15.0 * t2) / h;
  derivative[2] = t * s2 * (2.0 - 5.0 * t) / h;
  end_derivative[0] = 30.0 * t2 * s2 / h;
  end_derivative[1] = t2 * (1.0 + 2.0 * s - 15.0 * s2) / h;
  end_derivative[2] = -t2 * s * (2.0 - 5.0 * s) / h;
  // An inner point x adds what the six terms above leave of its value: this remainder times c(t) / c(x), which is 1 at
  // x and 0 at the others, c(t) = t^3 (1 - t)^3 prod (t - others).
  for (int i = 0; i < inner; ++i) {
    const double x = HERMITE_POINTS[i], ends = t * s / (x * (1.0 - x));
    double others = 1.0, slope = 0.0;
    for (int j = 0; j < inner; ++j)
      if (j != i) {
        const double factor = 1.0 / (x - HERMITE_POINTS[j]);
        slope = (slope * (t - HERMITE_POINTS[j]) + others) * factor;
        others *= (t - HERMITE_POINTS[j]) * factor;
      }
    const double c = ends * ends * ends * others;
    const double dc = ends * ends * (3.0 * (1.0 - 2.0 * t) / (x * (1.0 - x)) * others + ends * slope);
    double of_ends[6], unused[6];
    hermite(5, x, h, of_ends, unused);
    value[3 + i] = c;
    derivative[3 + i] = dc / h;
    for (int k = 0; k < 3; ++k) {
      value[k] -= of_ends[k] * c;
      derivative[k] -= of_ends[k] * dc / h;
      end_value[k] -= of_ends[3 + k] * c;
      end_derivative[k] -= of_ends[3 + k] * dc / h;
    }
  }
}

// The same polynomial as degree + 1 coefficients of powers of t, the distance from the first knot in widths of the bin.
inline void hermite_powers_from_knot(int degree, const double *rows, double *powers) {
  const int inner = hermite_inner_rows(degree);
  const double *f = rows, *g = rows + hermite_knot_rows(degree) + inner;    // rows of the two knots
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
  if (inner == 0) return;
  // t^3 (1 - t)^3 q(t) is the remainder at the inner points. These are small numbers, so Newton's differences lose no
  // digits that matter.
  constexpr int MAX_INNER = hermite_inner_rows(MAX_TABLE_DEGREE);
  double q[MAX_INNER], by_powers[MAX_INNER] = {};
  for (int i = 0; i < inner; ++i) {
    const double x = HERMITE_POINTS[i], ends = x * (1.0 - x);
    double sum = powers[5];
    for (int k = 4; k >= 0; --k) sum = sum * x + powers[k];
    q[i] = (rows[3 + i] - sum) / (ends * ends * ends);
  }
  for (int order = 1; order < inner; ++order)
    for (int i = inner - 1; i >= order; --i) q[i] = (q[i] - q[i - 1]) / (HERMITE_POINTS[i] - HERMITE_POINTS[i - order]);
  for (int i = inner - 1; i >= 0; --i) {
    for (int k = inner - 1; k > 0; --k) by_powers[k] = by_powers[k - 1] - HERMITE_POINTS[i] * by_powers[k];
    by_powers[0] = q[i] - HERMITE_POINTS[i] * by_powers[0];
  }
  for (int k = 6; k <= degree; ++k) powers[k] = 0.0;
  for (int k = 0; k < inner; ++k) {
    powers[3 + k] += by_powers[k];
    powers[4 + k] -= 3.0 * by_powers[k];
    powers[5 + k] += 3.0 * by_powers[k];
    powers[6 + k] -= by_powers[k];
  }
}

// The same as coefficients of powers of t - 1/2, the distance from the middle of the bin. The higher the order, the
// less a coefficient matters.
inline void hermite_powers(int degree, const double *rows, double *powers) {
  hermite_powers_from_knot(degree, rows, powers);
  for (int i = 0; i < degree; ++i)
    for (int k = degree - 1; k >= i; --k) powers[k] += 0.5 * powers[k + 1];
}

}    // namespace equi

#endif

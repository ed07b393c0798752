#include "radial_function.h"

#include <algorithm>
#include <cmath>

namespace equi {

namespace {

constexpr int MAX_ORDER = 3;
constexpr double BINOMIAL[4][4] = {{1, 0, 0, 0}, {1, 1, 0, 0}, {1, 2, 1, 0}, {1, 3, 3, 1}};

// s[q] = q-th derivative of sin(x)/x.
void sinc_derivatives(double x, int order, double *s) {
  if (std::fabs(x) < 1.0) {
    // sum (-1)^k x^2k / (2k+1)!, differentiated term by term; ten terms reach 1e-19 at x = 1. The recurrence below
    // would lose digits like 1/x^q.
    for (int q = 0; q <= order; ++q) {
      double sum = 0.0, factorial = 1.0;
      for (int k = 0; k < 12; ++k) {
        if (k > 0) factorial *= -(2.0 * k) * (2.0 * k + 1.0);
        const int power = 2 * k - q;
        if (power < 0) continue;
        double term = 1.0 / factorial;
        for (int i = 0; i < q; ++i) term *= 2 * k - i;
        for (int i = 0; i < power; ++i) term *= x;
        sum += term;
      }
      s[q] = sum;
    }
    return;
  }
  // x s = sin x, differentiated q times: x s^(q) + q s^(q-1) = sin^(q) x
  const double sine = std::sin(x), cosine = std::cos(x);
  const double rhs[4] = {sine, cosine, -sine, -cosine};
  s[0] = sine / x;
  for (int q = 1; q <= order; ++q) s[q] = (rhs[q] - q * s[q - 1]) / x;
}

// coefficient d^q/du^q u^power, without 0 * infinity at u = 0
double power_derivative(double coefficient, double power, int q, double u) {
  for (int i = 0; i < q; ++i) coefficient *= power - i;
  if (coefficient == 0.0) return 0.0;
  const double exponent = power - q;
  if (exponent < 0.0) u = std::max(u, 1e-12);    // only for p < 3, at distances that no run reaches
  return coefficient * std::pow(u, exponent);
}

void cutoff_derivatives(const RadialBasis &b, double r, int order, int side, double *f) {
  const double c = b.cutoff;
  if (b.cutoff_kind == RadialBasis::Cutoff::polynomial) {
    const double p = b.p, u = r / c;
    double unit = 1.0;    // c^-q
    for (int q = 0; q <= order; ++q, unit /= c)
      f[q] = unit *
             ((q == 0 ? 1.0 : 0.0) + power_derivative(-0.5 * (p + 1.0) * (p + 2.0), p, q, u) +
              power_derivative(p * (p + 2.0), p + 1.0, q, u) + power_derivative(-0.5 * p * (p + 1.0), p + 2.0, q, u));
    return;
  }
  double d[4] = {1.0, 0.0, 0.0, 0.0};
  if (r > b.r_on || (r == b.r_on && side > 0)) {
    // F(s) with s = r^2, and its derivatives with respect to s
    const double s = r * r, on = b.r_on * b.r_on, a = c * c - s, width = c * c - on, cube = width * width * width;
    const double f0 = a * a * (c * c + 2.0 * s - 3.0 * on) / cube, f1 = -6.0 * a * (s - on) / cube;
    const double f2 = -6.0 * (c * c + on - 2.0 * s) / cube, f3 = 12.0 / cube;
    d[0] = f0;
    d[1] = 2.0 * r * f1;
    d[2] = 2.0 * f1 + 4.0 * s * f2;
    d[3] = 12.0 * r * f2 + 8.0 * s * r * f3;
  }
  std::copy(d, d + order + 1, f);
}

}    // namespace

std::vector<double> RadialBasis::kinks() const {
  if (cutoff_kind == Cutoff::xplor && r_on > 0.0 && r_on < cutoff) return {r_on};
  return {};
}

void RadialBasis::derivatives(double r, int order, int side, double *out) const {
  double f[MAX_ORDER + 1], s[MAX_ORDER + 1];
  cutoff_derivatives(*this, r, order, side, f);
  const int n = size();
  for (int i = 0; i < n; ++i) {
    // sin(kr)/r = k sinc(kr)
    const double k = wave_numbers[i];
    sinc_derivatives(k * r, order, s);
    double unit = prefactor * k;
    for (int q = 0; q <= order; ++q, unit *= k) s[q] *= unit;
    for (int q = 0; q <= order; ++q) {
      double sum = 0.0;
      for (int a = 0; a <= q; ++a) sum += BINOMIAL[q][a] * s[a] * f[q - a];
      out[q * n + i] = sum;
    }
  }
}

void RadialFunction::derivatives(double r, int order, int side, double *out) const {
  derivatives(1, &r, order, side, out);
}

void RadialFunction::derivatives(int count, const double *r, int order, int side, double *out) const {
  const size_t n_in = static_cast<size_t>(order + 1) * basis.size(), n = num_outputs();
  std::vector<double> in(count * n_in);
  for (int p = 0; p < count; ++p) basis.derivatives(r[p], order, side, in.data() + p * n_in);
  network.derivatives(count, order, in.data(), out);
  if (r_power.empty()) return;

  // Leibniz' rule with r^p, highest derivative first because it overwrites in place.
  for (int p = 0; p < count; ++p) {
    double *row = out + p * (order + 1) * n;
    for (size_t j = 0; j < n; ++j) {
      if (r_power[j] == 0) continue;
      double power[MAX_ORDER + 1];
      for (int q = 0; q <= order; ++q) power[q] = power_derivative(1.0, r_power[j], q, r[p]);
      for (int q = order; q >= 0; --q) {
        double sum = 0.0;
        for (int a = 0; a <= q; ++a) sum += BINOMIAL[q][a] * row[a * n + j] * power[q - a];
        row[q * n + j] = sum;
      }
    }
  }
}

}    // namespace equi

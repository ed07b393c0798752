// SPDX-License-Identifier: MIT
// Computes coupling tensors from the Condon-Shortley coefficients, whose alternating sum is an exact integer here. They
// are transformed to the real basis in extended precision.
#include "src/algebra/coupling.h"

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace equi {

namespace {

using Complex = std::complex<long double>;

// Up to this l the products of three binomials below stay within 64 bits.
constexpr int MAX_L = 10;

long double factorial(int n) {
  long double f = 1.0L;
  for (int i = 2; i <= n; ++i) f *= i;
  return f;
}

int64_t binomial(int n, int k) {
  if (k < 0 || k > n) return 0;
  int64_t b = 1;
  for (int i = 1; i <= k; ++i) b = b * (n - k + i) / i;
  return b;
}

// <l1 m1 l2 m2 | l3 m1+m2>, Racah's sum written with binomials, so that its cancellation is exact.
long double condon_shortley(int l1, int m1, int l2, int m2, int l3) {
  const int m3 = m1 + m2;
  if (std::abs(m3) > l3) return 0.0L;
  const int a = l1 + l2 - l3, b = l1 - l2 + l3, c = -l1 + l2 + l3;
  int64_t sum = 0;
  for (int k = 0; k <= a; ++k) {
    const int64_t term = binomial(a, k) * binomial(b, l1 - m1 - k) * binomial(c, l2 + m2 - k);
    sum += k % 2 == 0 ? term : -term;
  }
  const long double square = (2 * l3 + 1) / (factorial(l1 + l2 + l3 + 1) * factorial(a) * factorial(b) * factorial(c)) *
                             factorial(l1 + m1) * factorial(l1 - m1) * factorial(l2 + m2) * factorial(l2 - m2) *
                             factorial(l3 + m3) * factorial(l3 - m3);
  return std::sqrt(square) * sum;
}

// Component mu of the complex basis in the real component m, without the common factor (-i)^l; zero unless |mu| = |m|.
Complex complex_from_real(int mu, int m) {
  const long double s = std::sqrt(0.5L);
  if (std::abs(mu) != std::abs(m)) return 0.0L;
  if (m == 0) return 1.0L;
  if (mu < 0) return m > 0 ? Complex(s, 0.0L) : Complex(0.0L, -s);
  const long double sign = mu % 2 == 0 ? s : -s;
  return m > 0 ? Complex(sign, 0.0L) : Complex(0.0L, sign);
}

}    // namespace

std::vector<double> coupling(int l1, int l2, int l3) {
  if (l1 < 0 || l2 < 0 || l3 < std::abs(l1 - l2) || l3 > l1 + l2 || l1 > MAX_L || l2 > MAX_L || l3 > MAX_L)
    throw std::invalid_argument("no coupling of l = " + std::to_string(l1) + " and " + std::to_string(l2) + " to " +
                                std::to_string(l3) + " (triangle rule, l up to " + std::to_string(MAX_L) + ")");
  const int d1 = 2 * l1 + 1, d2 = 2 * l2 + 1, d3 = 2 * l3 + 1;
  std::vector<double> w(static_cast<size_t>(d1) * d2 * d3, 0.0);

  if (l1 == 0 || l2 == 0 || l3 == 0) {    // a delta, exact by construction
    const int l = l1 == 0 ? l2 : l1;
    const double value = 1.0 / std::sqrt(2.0 * l + 1.0);
    for (int m = 0; m <= 2 * l; ++m) {
      const int a = l1 == 0 ? 0 : m, b = l2 == 0 ? 0 : m, c = l3 == 0 ? 0 : m;
      w[(static_cast<size_t>(a) * d2 + b) * d3 + c] = value;
    }
    return w;
  }

  // (-i)^l1 (-i)^l2 conj((-i)^l3) = (-i)^(l1+l2-l3)
  Complex phase = 1.0L;
  for (int k = 0; k < l1 + l2 - l3; ++k) phase *= Complex(0.0L, -1.0L);

  std::vector<long double> t(w.size(), 0.0L);
  long double norm = 0.0L;
  for (int a = -l1; a <= l1; ++a)
    for (int b = -l2; b <= l2; ++b)
      for (int c = -l3; c <= l3; ++c) {
        Complex sum = 0.0L;
        for (int m1 : {-a, a}) {
          for (int m2 : {-b, b}) {
            const int m3 = m1 + m2;
            if (std::abs(m3) == std::abs(c))
              sum += complex_from_real(m1, a) * complex_from_real(m2, b) * std::conj(complex_from_real(m3, c)) *
                     condon_shortley(l1, m1, l2, m2, l3);
            if (b == 0) break;
          }
          if (a == 0) break;
        }
        const long double value = (phase * sum).real();
        t[(static_cast<size_t>(a + l1) * d2 + (b + l2)) * d3 + (c + l3)] = value;
        norm += value * value;
      }
  const long double scale = 1.0L / std::sqrt(norm);
  for (size_t i = 0; i < w.size(); ++i) {
    const double value = static_cast<double>(t[i] * scale);
    w[i] = std::fabs(value) > 1e-12 ? value : 0.0;    // the true entries are zero or far larger
  }
  return w;
}

std::vector<CouplingEntry> coupling_entries(int l1, int l2, int l3) {
  const std::vector<double> w = coupling(l1, l2, l3);
  std::vector<CouplingEntry> entries;
  size_t i = 0;
  for (int a = 0; a <= 2 * l1; ++a)
    for (int b = 0; b <= 2 * l2; ++b)
      for (int c = 0; c <= 2 * l3; ++c, ++i)
        if (std::fabs(w[i]) > 1e-12) entries.push_back({a, b, c, w[i]});
  return entries;
}

}    // namespace equi

// SPDX-License-Identifier: MIT
// Sums over atoms and wave vectors as dense products of tables of powers.
#include "src/functions/ewald_sum.h"

#include <algorithm>
#include <cmath>

namespace equi {

namespace {

constexpr double TWO_PI = 6.283185307179586;
constexpr int LANES = WaveVectors::LANES;
// Numbers n1 whose sums are in registers while a product runs over atoms, and atoms of one block.
constexpr int ROWS = 4, ATOMS = 128;

template <class T>
T cosine_and_sine(T angle, T &sine) {
  const double c = std::cos(value_of(angle)), s = std::sin(value_of(angle)), along = tangent_of(angle);
  sine = make_number<T>(s, c * along);
  return make_number<T>(c, -s * along);
}

// Complex numbers of the lanes of a tile.
template <class T>
struct Lanes {
  T re[LANES], im[LANES];
};

}    // namespace

double EwaldFunction::self() const {
  return removes_self ? prefactor / (TWO_PI * std::sqrt(TWO_PI) * sigma) : 0.0;
}

template <class T>
EwaldSum<T>::EwaldSum(const EwaldFunction &function, const WaveVectors &waves)
    : function_(function), waves_(waves), weights_(waves.size()) {
  const double factor = function.prefactor / waves.volume(), half_square = 0.5 * function.sigma * function.sigma;
  waves.for_each([&](int64_t at, int n1, int n2, int n3) {
    const Vector3 k = waves.vector(n1, n2, n3);
    const double square = k[0] * k[0] + k[1] * k[1] + k[2] * k[2];
    weights_[at] = factor * std::exp(-half_square * square) / square;
  });
  const auto &largest = waves.largest();
  // n1 is never negative. The last tile of n3 may exceed the largest number.
  row_ = {largest[0] + 1, 2 * largest[1] + 1, 2 * largest[2] + LANES};
  start_ = {0, row_[0], row_[0] + row_[1]};
}

template <class T>
void EwaldSum<T>::tabulate(const Position &position, Complex *powers) const {
  for (int d = 0; d < 3; d++) {
    const int largest = waves_.largest()[d];
    Complex *zero = powers + start_[d] + (d == 0 ? 0 : largest);
    const Vector3 &b = waves_.reciprocal()[d];
    T s = T(b[0]) * position[0] + T(b[1]) * position[1] + T(b[2]) * position[2];
    s -= T(std::round(value_of(s)));
    Complex one;
    one.re = cosine_and_sine<T>(T(TWO_PI) * s, one.im);
    zero[0] = {T(1.0), T(0.0)};
    for (int n = 1; n <= largest; n++) {
      const Complex &p = zero[n - 1];
      zero[n] = {p.re * one.re - p.im * one.im, p.re * one.im + p.im * one.re};
      if (d > 0) zero[-n] = {zero[n].re, -zero[n].im};
    }
    if (d == 2) std::fill(zero + largest + 1, powers + start_[d] + row_[d], Complex{T(0.0), T(0.0)});
  }
}

template <class T>
void EwaldSum<T>::add_up(int64_t count, const Position *positions, const T *charges, T *structure_factors) {
  powers_.resize(count * stride());
  for (int64_t i = 0; i < count; i++) tabulate(positions[i], powers_.data() + i * stride());
  T *re = structure_factors, *im = structure_factors + waves_.size();
  std::fill(re, re + 2 * waves_.size(), T(0.0));
  std::vector<Lanes<T>> factors(ATOMS);
  for (int64_t first = 0; first < count; first += ATOMS) {
    const int num = static_cast<int>(std::min<int64_t>(ATOMS, count - first));
    const Complex *block = powers_.data() + first * stride();
    for (const WaveVectors::Tile &tile : waves_.tiles()) {
      for (int a = 0; a < num; a++) {
        const Complex *own = block + a * stride(), *third = own + start_[2] + waves_.largest()[2] + tile.first_n3;
        const Complex second = own[start_[1] + waves_.largest()[1] + tile.n2];
        const T x = charges[first + a] * second.re, y = charges[first + a] * second.im;
        for (int l = 0; l < LANES; l++) {
          factors[a].re[l] = x * third[l].re - y * third[l].im;
          factors[a].im[l] = x * third[l].im + y * third[l].re;
        }
      }
      for (int n1 = tile.first_n1; n1 < tile.end_n1; n1 += ROWS) {
        const int rows = std::min(ROWS, tile.end_n1 - n1);
        Lanes<T> sum[ROWS];
        for (auto &s : sum)
          for (int l = 0; l < LANES; l++) s.re[l] = s.im[l] = T(0.0);
        for (int a = 0; a < num; a++)
          for (int r = 0; r < rows; r++) {
            const Complex p = block[a * stride() + n1 + r];
            for (int l = 0; l < LANES; l++) {
              sum[r].re[l] += p.re * factors[a].re[l] - p.im * factors[a].im[l];
              sum[r].im[l] += p.re * factors[a].im[l] + p.im * factors[a].re[l];
            }
          }
        const int64_t at = tile.at + (n1 - tile.first_n1) * LANES;
        for (int r = 0; r < rows; r++)
          for (int l = 0; l < LANES; l++) {
            re[at + r * LANES + l] += sum[r].re[l];
            im[at + r * LANES + l] += sum[r].im[l];
          }
      }
    }
  }
}

// With t = 2 h conj(S), the potential is the real part of the sum of t exp(i k . r), and the gradient has a factor i k.
// The sums over n1 come first: one with t and one with n1 t. The factors n2 and n3 are then constants of a lane.
template <class T>
void EwaldSum<T>::gather(const T *structure_factors, const T *charges, AtPlace *atoms) {
  const int64_t size = waves_.size(), count = stride() > 0 ? static_cast<int64_t>(powers_.size()) / stride() : 0;
  factors_.resize(2 * size);
  for (int64_t at = 0; at < size; at++) {
    factors_[at] = T(2.0 * weights_[at]) * structure_factors[at];
    factors_[size + at] = T(-2.0 * weights_[at]) * structure_factors[size + at];
  }
  const double self = function_.self();
  for (int64_t i = 0; i < count; i++) {
    const Complex *own = powers_.data() + i * stride();
    T potential(0.0), slope[3] = {T(0.0), T(0.0), T(0.0)};
    for (const WaveVectors::Tile &tile : waves_.tiles()) {
      Lanes<T> sum, with_n1;
      for (int l = 0; l < LANES; l++) sum.re[l] = sum.im[l] = with_n1.re[l] = with_n1.im[l] = T(0.0);
      const T *re = factors_.data() + tile.at, *im = re + size;
      for (int n1 = tile.first_n1; n1 < tile.end_n1; n1++, re += LANES, im += LANES) {
        const Complex p = own[n1], q = {T(n1) * p.re, T(n1) * p.im};
        for (int l = 0; l < LANES; l++) {
          sum.re[l] += p.re * re[l] - p.im * im[l];
          sum.im[l] += p.re * im[l] + p.im * re[l];
          with_n1.re[l] += q.re * re[l] - q.im * im[l];
          with_n1.im[l] += q.re * im[l] + q.im * re[l];
        }
      }
      const Complex second = own[start_[1] + waves_.largest()[1] + tile.n2],
                    *third = own + start_[2] + waves_.largest()[2] + tile.first_n3;
      T imaginary(0.0), with_n3(0.0);
      for (int l = 0; l < LANES; l++) {
        const T x = second.re * third[l].re - second.im * third[l].im,
                y = second.re * third[l].im + second.im * third[l].re;
        const T of_lane = x * sum.im[l] + y * sum.re[l];
        potential += x * sum.re[l] - y * sum.im[l];
        slope[0] -= x * with_n1.im[l] + y * with_n1.re[l];
        imaginary += of_lane;
        with_n3 += T(tile.first_n3 + l) * of_lane;
      }
      slope[1] -= T(tile.n2) * imaginary;
      slope[2] -= with_n3;
    }
    const T q = charges[i];
    atoms[i].potential = potential - T(self) * q;
    for (int a = 0; a < 3; a++) {
      T sum(0.0);
      for (int d = 0; d < 3; d++) sum += T(TWO_PI * waves_.reciprocal()[d][a]) * slope[d];
      atoms[i].gradient[a] = q * sum;
    }
  }
}

template <class T>
typename EwaldSum<T>::Total EwaldSum<T>::total(const T *structure_factors) const {
  constexpr int FIRST[6] = {0, 1, 2, 0, 0, 1}, SECOND[6] = {0, 1, 2, 1, 2, 2};
  const T *re = structure_factors, *im = structure_factors + waves_.size();
  Total sum{T(0.0), {}};
  sum.strain.fill(T(0.0));
  const double of_width = function_.sigma * function_.sigma;
  waves_.for_each([&](int64_t at, int n1, int n2, int n3) {
    const Vector3 k = waves_.vector(n1, n2, n3);
    const double square = k[0] * k[0] + k[1] * k[1] + k[2] * k[2];
    const T energy = T(weights_[at]) * (re[at] * re[at] + im[at] * im[at]);
    sum.energy += energy;
    for (int c = 0; c < 6; c++) sum.strain[c] += T((2.0 / square + of_width) * k[FIRST[c]] * k[SECOND[c]]) * energy;
  });
  for (int c = 0; c < 3; c++) sum.strain[c] -= sum.energy;
  return sum;
}

template <class T>
std::size_t EwaldSum<T>::bytes() const {
  return weights_.capacity() * sizeof(double) + powers_.capacity() * sizeof(Complex) + factors_.capacity() * sizeof(T);
}

template class EwaldSum<double>;
template class EwaldSum<Dual<double>>;

}    // namespace equi

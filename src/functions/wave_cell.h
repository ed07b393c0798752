// SPDX-License-Identifier: MIT
// The formulas of sums over atoms and wave vectors (wave_sum.h), which hosts and devices share.
#ifndef EQUI_WAVE_CELL_H
#define EQUI_WAVE_CELL_H

#include "src/functions/wave_vectors.h"
#include "src/numbers/dual.h"
#include "src/numbers/host_device.h"

#include <cmath>
#include <cstdint>

namespace equi {

// Components of a symmetric matrix, xx, yy, zz, xy, xz, yz: of a strain, or of second derivatives.
constexpr int SYMMETRIC = 6;
EQUI_FUNCTION constexpr int first_of_symmetric(int c) {
  return c < 3 ? c : c == 5 ? 1 : 0;
}
EQUI_FUNCTION constexpr int second_of_symmetric(int c) {
  return c < 3 ? c : c == 3 ? 1 : 2;
}
EQUI_FUNCTION constexpr int symmetric_component(int a, int b) {
  return a == b ? a : a + b + 2;
}

// Numbers of a field at an atom, up to an order of its derivatives: the value; its gradient; its second derivatives.
EQUI_FUNCTION constexpr int field_numbers(int order) {
  return order == 0 ? 1 : order == 1 ? 4 : 4 + SYMMETRIC;
}

template <class T>
EQUI_FUNCTION T cosine_and_sine(T angle, T &sine) {
  const double c = std::cos(value_of(angle)), s = std::sin(value_of(angle)), along = tangent_of(angle);
  sine = make_number<T>(s, c * along);
  return make_number<T>(c, -s * along);
}

// A cell, its integer vectors and the places of powers exp(2 pi i n b_d . r) in the table of an atom. Kernels copy it.
// T: double or Dual<double>.
template <class T>
struct WaveCell {
  T reciprocal[3][3];       // rows: b, 1/Angstrom
  double volume, growth;    // V; dV / V
  int largest[3];           // absolute values of n1, n2, n3
  int start[3], row[3];     // of the powers of each direction, and their number

  WaveCell() = default;
  // cell_direction: the derivative of the cell's vectors along the direction, or null, for a constant cell.
  explicit WaveCell(const WaveVectors &waves, const CellMatrix *cell_direction = nullptr);

  EQUI_FUNCTION int stride() const { return start[2] + row[2]; }    // powers of an atom
  // n1 is never negative.
  EQUI_FUNCTION int place(int d, int n) const { return start[d] + (d == 0 ? 0 : largest[d]) + n; }

  EQUI_FUNCTION void wave_vector(int n1, int n2, int n3, T *k) const {
    for (int a = 0; a < 3; a++)
      k[a] = T(WaveVectors::TWO_PI) * (T(n1) * reciprocal[0][a] + T(n2) * reciprocal[1][a] + T(n3) * reciprocal[2][a]);
  }
  // h = (prefactor / V) exp(-square_of_widths k^2 / 2) / k^2, not for k = 0.
  EQUI_FUNCTION T weight(int n1, int n2, int n3, double prefactor, double square_of_widths) const {
    T k[3];
    wave_vector(n1, n2, n3, k);
    const T square = k[0] * k[0] + k[1] * k[1] + k[2] * k[2];
    const double half = 0.5 * square_of_widths, s = value_of(square), h = prefactor / volume * std::exp(-half * s) / s;
    return make_number<T>(h, -h * (growth + (half + 1.0 / s) * tangent_of(square)));
  }

  // Calls put(place, re, im) for all powers of one direction. Those beyond the largest are 0.
  template <class Put>
  EQUI_FUNCTION void for_powers(int d, const T *position, const Put &put) const {
    const T *b = reciprocal[d];
    T s = b[0] * position[0] + b[1] * position[1] + b[2] * position[2];
    s -= T(std::round(value_of(s)));
    T one_im;
    const T one_re = cosine_and_sine<T>(T(WaveVectors::TWO_PI) * s, one_im);
    T re(1.0), im(0.0);
    const int zero = place(d, 0);
    put(zero, re, im);
    for (int n = 1; n <= largest[d]; n++) {
      const T last = re;
      re = last * one_re - im * one_im;
      im = last * one_im + im * one_re;
      put(zero + n, re, im);
      if (d > 0) put(zero - n, re, -im);
    }
    for (int n = zero + largest[d] + 1; n < start[d] + row[d]; n++) put(n, T(0.0), T(0.0));
  }

  // Numbers c_d of a dipole p with k . p = n1 c_1 + n2 c_2 + n3 c_3.
  EQUI_FUNCTION void along_cell(const T *dipole, T *c) const {
    for (int d = 0; d < 3; d++)
      c[d] = T(WaveVectors::TWO_PI) *
             (reciprocal[d][0] * dipole[0] + reciprocal[d][1] * dipole[1] + reciprocal[d][2] * dipole[2]);
  }
  // A field in Cartesian coordinates from its derivatives by coordinates along the cell, whose terms have factors
  // i n_d: [field_numbers(order)] of both.
  EQUI_FUNCTION void put_field(int order, const T *along, T *field) const {
    field[0] = along[0];
    for (int a = 0; order > 0 && a < 3; a++) {
      T sum(0.0);
      for (int d = 0; d < 3; d++) sum += reciprocal[d][a] * along[1 + d];
      field[1 + a] = T(WaveVectors::TWO_PI) * sum;
    }
    for (int c = 0; order > 1 && c < SYMMETRIC; c++) {
      T sum(0.0);
      for (int d = 0; d < 3; d++)
        for (int e = 0; e < 3; e++)
          sum += reciprocal[d][first_of_symmetric(c)] * reciprocal[e][second_of_symmetric(c)] *
                 along[4 + symmetric_component(d < e ? d : e, d < e ? e : d)];
      field[4 + c] = T(WaveVectors::TWO_PI * WaveVectors::TWO_PI) * sum;
    }
  }

  // Adds the derivative of a wave vector's energy with respect to a symmetric strain of cell and positions.
  template <class U>
  EQUI_FUNCTION void add_strain(int n1, int n2, int n3, double square_of_widths, U energy, U *strain) const {
    T k[3];
    wave_vector(n1, n2, n3, k);
    const T square = k[0] * k[0] + k[1] * k[1] + k[2] * k[2], by_square = T(2.0) / square + T(square_of_widths);
    for (int c = 0; c < SYMMETRIC; c++) {
      const T by_strain = by_square * k[first_of_symmetric(c)] * k[second_of_symmetric(c)] - T(c < 3 ? 1.0 : 0.0);
      if constexpr (IS_DUAL<U>)
        strain[c] += by_strain * energy;
      else
        strain[c] += value_of(by_strain) * energy;
    }
  }
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The formulas of an Ewald sum (ewald_sum.h), which hosts and devices share.
#ifndef EQUI_EWALD_CELL_H
#define EQUI_EWALD_CELL_H

#include "src/functions/ewald_function.h"
#include "src/functions/wave_vectors.h"
#include "src/numbers/dual.h"
#include "src/numbers/host_device.h"

#include <cmath>
#include <cstdint>

namespace equi {

// What the charges of all ranks give to an atom. T: double or Dual<double>.
template <class T>
struct EwaldAtom {
  T potential;      // dE/dq_i; q_i potential / 2 is the atom's energy
  T gradient[3];    // dE/dr_i while charges are constant
};

// Components of a strain, of EWALD_STRAIN numbers: xx, yy, zz, xy, xz, yz.
constexpr int EWALD_STRAIN = 6;
EQUI_FUNCTION constexpr int first_of_strain(int c) {
  return c < 3 ? c : c == 5 ? 1 : 0;
}
EQUI_FUNCTION constexpr int second_of_strain(int c) {
  return c < 3 ? c : c == 3 ? 1 : 2;
}

template <class T>
EQUI_FUNCTION T cosine_and_sine(T angle, T &sine) {
  const double c = std::cos(value_of(angle)), s = std::sin(value_of(angle)), along = tangent_of(angle);
  sine = make_number<T>(s, c * along);
  return make_number<T>(c, -s * along);
}

// A cell, its integer vectors and the places of powers exp(2 pi i n b_d . r) in the table of an atom. Kernels copy it.
template <class T>
struct EwaldCell {
  T reciprocal[3][3];             // rows: b, 1/Angstrom
  double half_square;             // sigma^2 / 2
  double self, factor, growth;    // EwaldFunction::self(); prefactor / V; dV / V
  int largest[3];                 // absolute values of n1, n2, n3
  int start[3], row[3];           // of the powers of each direction, and their number

  EwaldCell() = default;
  // cell_direction: the derivative of the cell's vectors along the direction, or null, for a constant cell.
  EwaldCell(const EwaldFunction &function, const WaveVectors &waves, const CellMatrix *cell_direction);

  EQUI_FUNCTION int stride() const { return start[2] + row[2]; }    // powers of an atom
  // n1 is never negative.
  EQUI_FUNCTION int place(int d, int n) const { return start[d] + (d == 0 ? 0 : largest[d]) + n; }

  EQUI_FUNCTION void wave_vector(int n1, int n2, int n3, T *k) const {
    for (int a = 0; a < 3; a++)
      k[a] = T(WaveVectors::TWO_PI) * (T(n1) * reciprocal[0][a] + T(n2) * reciprocal[1][a] + T(n3) * reciprocal[2][a]);
  }
  // h(k), not for k = 0.
  EQUI_FUNCTION T weight(int n1, int n2, int n3) const {
    T k[3];
    wave_vector(n1, n2, n3, k);
    const T square = k[0] * k[0] + k[1] * k[1] + k[2] * k[2];
    const double s = value_of(square), h = factor * std::exp(-half_square * s) / s;
    return make_number<T>(h, -h * (growth + (half_square + 1.0 / s) * tangent_of(square)));
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

  // With t = 2 h conj(S), `potential` is the real part of the sum of t exp(i k . r), and slopes have a factor i n_d.
  EQUI_FUNCTION void put_atom(T potential, const T *slopes, T charge, EwaldAtom<T> &atom) const {
    atom.potential = potential - T(self) * charge;
    for (int a = 0; a < 3; a++) {
      T along(0.0);
      for (int d = 0; d < 3; d++) along += T(WaveVectors::TWO_PI) * reciprocal[d][a] * slopes[d];
      atom.gradient[a] = charge * along;
    }
  }

  // Adds the derivative of a wave vector's energy with respect to a symmetric strain of cell and positions.
  template <class U>
  EQUI_FUNCTION void add_strain(int n1, int n2, int n3, U energy, U *strain) const {
    T k[3];
    wave_vector(n1, n2, n3, k);
    const T square = k[0] * k[0] + k[1] * k[1] + k[2] * k[2], by_square = T(2.0) / square + T(2.0 * half_square);
    for (int c = 0; c < EWALD_STRAIN; c++) {
      const T by_strain = by_square * k[first_of_strain(c)] * k[second_of_strain(c)] - T(c < 3 ? 1.0 : 0.0);
      if constexpr (IS_DUAL<U>)
        strain[c] += by_strain * energy;
      else
        strain[c] += value_of(by_strain) * energy;
    }
  }
};

}    // namespace equi

#endif

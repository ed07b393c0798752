// SPDX-License-Identifier: MIT
// The interaction of multipoles (src/functions/multipole_function.h), number by number: what a sum computes of its
// structure factors and of its fields at atoms, on hosts and devices.
//
// A side of the interaction has columns: those of the sources are the channels, those of the probes are the channels
// and, within each, the widths. Each column is a plane of factors. D: double or Dual<double>.
#ifndef EQUI_MULTIPOLE_NUMBERS_H
#define EQUI_MULTIPOLE_NUMBERS_H

#include "kokkos/layer_interface/system_numbers.h"
#include "src/functions/wave_cell.h"
#include "src/functions/wave_vectors.h"
#include "src/numbers/dual.h"
#include "src/numbers/host_device.h"

#include <cstdint>

namespace equi {

// Consecutive n1 of a tile of wave vectors.
struct WaveRows {
  int n2, first_n3, first_n1, num;
  int64_t at;    // WaveVectors::Tile
};

// Where the complex numbers of a plane are: number k of plane p is at place(p, k), and its imaginary part further on.
struct FactorPlaces {
  int64_t size;               // numbers of a plane
  int64_t next, imaginary;    // distances
  EQUI_FUNCTION int64_t place(int64_t plane, int64_t k) const { return 2 * plane * size + k * next; }
};

// Where the powers of atoms are (WaveCell::place).
template <class D>
struct PowersOfAtoms {
  const D *powers;
  int64_t atoms_of_block, block, atom, next, imaginary;    // distances of blocks, of atoms in one, of powers
  EQUI_FUNCTION const D *of(int64_t i) const { return powers + i / atoms_of_block * block + i % atoms_of_block * atom; }
};

// The multipoles of one side, and the fields that act on them.
template <class D>
struct MultipoleSide {
  int columns, components;    // components of a multipole: 1 or 4, a charge and a dipole
  int64_t stride;             // of fields
  const D *multipoles;        // [atoms][columns][components]
  const D *fields;            // [atoms][columns][stride]
  EQUI_FUNCTION const D *multipole(int64_t atom, int c) const { return multipoles + (atom * columns + c) * components; }
  EQUI_FUNCTION const D *field(int64_t atom, int c) const { return fields + (atom * columns + c) * stride; }
};

constexpr int MAX_WIDTHS = 64;
// Sums of the squared widths of a source and a probe, Angstrom^2.
struct SquaredWidths {
  int num;
  double of[MAX_WIDTHS] = {};    // all, because an emulated device looks for pointers in what it gets
};

// The weights h_w of one width, [size]; 0 where no wave vector is.
template <class D>
struct WeightsOfWidth {
  WaveCell<D> cell;
  const WaveRows *rows;
  const int8_t *present;
  double prefactor, square;
  D *weights;
  EQUI_FUNCTION void operator()(int64_t n) const {
    constexpr int LANES = WaveVectors::LANES;
    const WaveRows &own = rows[n / LANES];
    const int lane = static_cast<int>(n % LANES);
    for (int r = 0; r < own.num; r++) {
      const int64_t at = own.at + r * LANES + lane;
      weights[at] =
          present[at] ? cell.weight(own.first_n1 + r, own.n2, own.first_n3 + lane, prefactor, square) : D(0.0);
    }
  }
};

// Dipoles along the cell; a launch has a number for each multipole.
template <class D>
struct MultipolesAlongCell {
  WaveCell<D> cell;
  const D *from;
  D *to;
  EQUI_FUNCTION void operator()(int64_t n) const {
    to[4 * n] = from[4 * n];
    cell.along_cell(from + 4 * n + 1, to + 4 * n + 1);
  }
};

// Factors of the fields that act on probes: t = 2 h_w conj(S), for each channel and width.
template <class D>
struct FactorsForProbes {
  FactorPlaces at;
  int num_widths;
  const D *weights, *sums;
  D *factors;
  EQUI_FUNCTION void operator()(int64_t n) const {
    const int64_t plane = n / at.size, k = n % at.size, from = at.place(plane / num_widths, k), to = at.place(plane, k);
    const D twice = D(2.0) * weights[plane % num_widths * at.size + k];
    factors[to] = twice * sums[from];
    factors[to + at.imaginary] = -(twice * sums[from + at.imaginary]);
  }
};

// The sum of a channel's structure factors of probes over its widths, with their weights.
template <class D>
struct SumOfWidths {
  FactorPlaces at;
  int num_widths;
  const D *weights, *of_widths;
  D *sums;
  EQUI_FUNCTION void operator()(int64_t n) const {
    const int64_t c = n / at.size, k = n % at.size, to = at.place(c, k);
    D re(0.0), im(0.0);
    for (int w = 0; w < num_widths; w++) {
      const int64_t from = at.place(c * num_widths + w, k);
      const D h = weights[w * at.size + k];
      re += h * of_widths[from];
      im += h * of_widths[from + at.imaginary];
    }
    sums[to] = re;
    sums[to + at.imaginary] = im;
  }
};

// Replaces those sums by factors of the fields that act on sources: t = 2 conj(G).
template <class D>
struct FactorsForSources {
  FactorPlaces at;
  D *sums;
  EQUI_FUNCTION void operator()(int64_t n) const {
    const int64_t to = at.place(n / at.size, n % at.size);
    sums[to] = D(2.0) * sums[to];
    sums[to + at.imaginary] = D(-2.0) * sums[to + at.imaginary];
  }
};

// The derivative of an interaction by the position of an atom on both sides, while the multipoles are constant.
template <class D>
struct GradientOfMultipoles {
  MultipoleSide<D> sides[2];
  D *gradient;    // [atoms][3]
  EQUI_FUNCTION void operator()(int64_t n) const {
    const int64_t atom = n / 3;
    const int a = static_cast<int>(n % 3);
    D sum(0.0);
    for (const MultipoleSide<D> &side : sides)
      for (int c = 0; c < side.columns; c++) {
        const D *m = side.multipole(atom, c), *field = side.field(atom, c);
        sum += m[0] * field[1 + a];
        for (int b = 0; side.components == 4 && b < 3; b++)
          sum += m[1 + b] * field[4 + symmetric_component(a < b ? a : b, a < b ? b : a)];
      }
    gradient[n] = sum;
  }
};

// A strain turns neither dipoles nor gradients, so k . p changes with k: the derivative by a strain that the formula
// for constant k . p lacks.
template <class D>
struct StrainOfDipoles {
  MultipoleSide<D> sides[2];
  D *strains;    // [atoms][SYMMETRIC]
  EQUI_FUNCTION void operator()(int64_t n) const {
    const int64_t atom = n / SYMMETRIC;
    const int component = static_cast<int>(n % SYMMETRIC), a = 1 + first_of_symmetric(component),
              b = 1 + second_of_symmetric(component);
    D sum(0.0);
    for (const MultipoleSide<D> &side : sides)
      for (int c = 0; side.components == 4 && c < side.columns; c++) {
        const D *m = side.multipole(atom, c), *field = side.field(atom, c);
        sum -= D(0.5) * (field[a] * m[b] + field[b] * m[a]);
      }
    strains[n] = sum;
  }
};

// The derivative by a strain of sum_k 2 h Re(conj(S) G) while k . p is constant, from structure factors.
template <class D>
struct StrainOfRows {
  WaveCell<D> cell;
  const WaveRows *rows;
  FactorPlaces at;
  SquaredWidths squares;
  int channels;
  double factor;
  const D *weights, *sources, *probes;    // [widths][size], [channels] and [channels][widths] planes
  D *strain;                              // [rows][SYMMETRIC]
  EQUI_FUNCTION void operator()(int64_t g) const {
    constexpr int LANES = WaveVectors::LANES;
    const WaveRows own = rows[g];
    D sum[SYMMETRIC];
    for (int c = 0; c < SYMMETRIC; c++) sum[c] = D(0.0);
    for (int n = 0; n < own.num * LANES; n++) {
      const int64_t k = own.at + n;
      const int n1 = own.first_n1 + n / LANES, n3 = own.first_n3 + n % LANES;
      for (int w = 0; w < squares.num; w++) {
        const D weight = weights[w * at.size + k];
        if (value_of(weight) == 0.0) continue;    // NaN passes this test
        D product(0.0);
        for (int c = 0; c < channels; c++) {
          const D *s = sources + at.place(c, k), *p = probes + at.place(c * squares.num + w, k);
          product += s[0] * p[0] + s[at.imaginary] * p[at.imaginary];
        }
        cell.add_strain(n1, own.n2, n3, squares.of[w], D(2.0 * factor) * weight * product, sum);
      }
    }
    for (int c = 0; c < SYMMETRIC; c++) strain[SYMMETRIC * g + c] = sum[c];
  }
};

// The same for the probes of an atom, from the factors of the fields that act on them. A plain sum: virials of atoms
// are rarely requested.
template <class D>
struct StrainOfAtoms {
  WaveCell<D> cell;
  PowersOfAtoms<D> powers;
  const WaveRows *rows;
  int64_t num_rows;
  FactorPlaces at;
  SquaredWidths squares;
  int columns, components;
  double factor;
  const D *weights, *factors;
  const D *multipoles;    // [atoms][columns][components] along the cell
  double *strains;        // [atoms][SYMMETRIC]
  EQUI_FUNCTION void operator()(int64_t i) const {
    constexpr int LANES = WaveVectors::LANES;
    const D *own = powers.of(i), *m = multipoles + i * columns * components;
    const auto real = [&](int d, int n) { return value_of(own[cell.place(d, n) * powers.next]); };
    const auto imaginary = [&](int d, int n) {
      return value_of(own[cell.place(d, n) * powers.next + powers.imaginary]);
    };
    double sum[SYMMETRIC] = {};
    for (int64_t g = 0; g < num_rows; g++) {
      const WaveRows row = rows[g];
      const double second_re = real(1, row.n2), second_im = imaginary(1, row.n2);
      for (int n = 0; n < row.num * LANES; n++) {
        const int n1 = row.first_n1 + n / LANES, n3 = row.first_n3 + n % LANES;
        if (value_of(weights[row.at + n]) == 0.0) continue;    // NaN passes this test
        const double x = real(0, n1) * second_re - imaginary(0, n1) * second_im,
                     y = real(0, n1) * second_im + imaginary(0, n1) * second_re;
        const double cosine = x * real(2, n3) - y * imaginary(2, n3), sine = x * imaginary(2, n3) + y * real(2, n3);
        for (int w = 0; w < squares.num; w++) {
          double part = 0.0;
          for (int c = w; c < columns; c += squares.num) {
            const D *t = factors + at.place(c, row.at + n), *of_column = m + c * components;
            const double re = value_of(t[0]), im = value_of(t[at.imaginary]);
            part += value_of(of_column[0]) * (re * cosine - im * sine);
            if (components == 4)
              part -= (n1 * value_of(of_column[1]) + row.n2 * value_of(of_column[2]) + n3 * value_of(of_column[3])) *
                      (re * sine + im * cosine);
          }
          cell.add_strain(n1, row.n2, n3, squares.of[w], factor * part, sum);
        }
      }
    }
    for (int c = 0; c < SYMMETRIC; c++) strains[SYMMETRIC * i + c] = sum[c];
  }
};

}    // namespace equi

#endif

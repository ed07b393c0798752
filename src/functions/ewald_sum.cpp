// SPDX-License-Identifier: MIT
// Sums over atoms and wave vectors as dense products of tables of powers.
#include "src/functions/ewald_sum.h"

#include <algorithm>
#include <cmath>

namespace equi {

namespace {

constexpr int LANES = WaveVectors::LANES;
// Numbers n1 whose sums are in registers while a product runs over atoms, and atoms of one block.
constexpr int ROWS = 2, ATOMS = 64;

// Powers of a direction: n1 is never negative, and the last tile of n3 may exceed the largest number.
int num_powers(int d, int largest) {
  return d == 0 ? largest + 1 : 2 * largest + (d == 1 ? 1 : LANES);
}

// Calls body(), which is always inlined, in the text for the widest registers of this CPU that have a text. Functions
// that it calls must be inlined, too.
#if defined(__x86_64__) && defined(__GNUC__)
#define EQUI_INLINED __attribute__((always_inline))
template <class F>
__attribute__((target("avx2,fma"))) void run_wide(const F &body) {
  body();
}
template <class F>
void run_widest(const F &body) {
  static const bool is_wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (is_wide)
    run_wide(body);
  else
    body();
}
#else
#define EQUI_INLINED
template <class F>
void run_widest(const F &body) {
  body();
}
#endif

// Complex numbers of the lanes of a tile.
template <class T>
struct TileLanes {
  T re[LANES], im[LANES];
};

// Adds the products of a block of `num` atoms for a fixed number of n1. powers: of the first n1 of the first atom;
// those of the next atom are `next` numbers further, and imaginary parts `imaginary` numbers.
template <int NUM_ROWS, class T>
EQUI_INLINED inline void add_rows(int num, const T *powers, int64_t next, int64_t imaginary,
                                  const TileLanes<T> *factors, T *re, T *im) {
  TileLanes<T> sum[NUM_ROWS];
  for (int r = 0; r < NUM_ROWS; r++)
    for (int l = 0; l < LANES; l++) sum[r].re[l] = sum[r].im[l] = T(0.0);
  for (int a = 0; a < num; a++, powers += next) {
    const TileLanes<T> &f = factors[a];
    for (int r = 0; r < NUM_ROWS; r++) {
      const T x = powers[r], y = powers[r + imaginary];
      for (int l = 0; l < LANES; l++) sum[r].re[l] += x * f.re[l] - y * f.im[l];
      for (int l = 0; l < LANES; l++) sum[r].im[l] += x * f.im[l] + y * f.re[l];
    }
  }
  for (int r = 0; r < NUM_ROWS; r++)
    for (int l = 0; l < LANES; l++) {
      re[r * LANES + l] += sum[r].re[l];
      im[r * LANES + l] += sum[r].im[l];
    }
}

}    // namespace

double EwaldFunction::self() const {
  return removes_self ? prefactor / (WaveVectors::TWO_PI * std::sqrt(WaveVectors::TWO_PI) * sigma) : 0.0;
}

// With rows A of the cell and rows B of its dual basis, A B^T = 1, so dB = -B dA^T B and dV / V = sum of B dA.
template <class T>
EwaldCell<T>::EwaldCell(const EwaldFunction &function, const WaveVectors &waves, const CellMatrix *cell_direction)
    : half_square(0.5 * function.sigma * function.sigma),
      self(function.self()),
      factor(function.prefactor / waves.volume()),
      growth(0.0) {
  const CellMatrix &b = waves.reciprocal();
  double moved[3][3] = {};
  for (int i = 0; cell_direction && i < 3; i++)
    for (int j = 0; j < 3; j++) {
      const Vector3 &da = (*cell_direction)[j];
      const double along = b[i][0] * da[0] + b[i][1] * da[1] + b[i][2] * da[2];
      if (i == j) growth += along;
      for (int k = 0; k < 3; k++) moved[i][k] -= along * b[j][k];
    }
  for (int d = 0; d < 3; d++) {
    for (int a = 0; a < 3; a++) reciprocal[d][a] = make_number<T>(b[d][a], moved[d][a]);
    largest[d] = waves.largest()[d];
    row[d] = num_powers(d, largest[d]);
    start[d] = d == 0 ? 0 : start[d - 1] + row[d - 1];
  }
}

template <class T>
EwaldSum<T>::EwaldSum(const EwaldFunction &function, const WaveVectors &waves, const CellMatrix *cell_direction)
    : function_(function), waves_(waves) {
  set_cell(cell_direction);
}

template <class T>
void EwaldSum<T>::set_cell(const CellMatrix *cell_direction) {
  cell_ = EwaldCell<T>(function_, waves_, cell_direction);
  weights_.assign(waves_.size(), T(0.0));
  waves_.for_each([&](int64_t at, int n1, int n2, int n3) { weights_[at] = cell_.weight(n1, n2, n3); });
}

// The number of atoms varies on a rank, so the table has a reserve.
template <class T>
void EwaldSum<T>::set_count(int64_t count) {
  count_ = count;
  const std::size_t size = count * 2 * stride();
  if (size > powers_.capacity()) {
    powers_ = {};
    powers_.reserve(size + size / 8);
  }
  powers_.resize(size);
}

template <class T>
std::size_t EwaldSum<T>::bytes_for(const WaveVectors::Extent &extent, int64_t count) {
  int64_t of_atoms = 0;
  for (int d = 0; d < 3; d++) of_atoms += count * 2 * num_powers(d, extent.largest[d]);
  return (3 * extent.most + of_atoms + of_atoms / 8) * sizeof(T);
}

template <class T>
void EwaldSum<T>::tabulate(int64_t first, int64_t end, const Position *positions) {
  for (int64_t i = first; i < end; i++) {
    T *re = powers_.data() + i * 2 * stride(), *im = re + stride();
    for (int d = 0; d < 3; d++)
      cell_.for_powers(d, positions[i].data(), [&](int at, T real, T imaginary) {
        re[at] = real;
        im[at] = imaginary;
      });
  }
}

// Products of the powers of n1 of all atoms of a block with charges and powers of n2 and n3.
template <class T>
EQUI_INLINED inline void EwaldSum<T>::add_block(const WaveVectors::Tile &tile, int num, const T *powers,
                                                const T *charges, T *structure_factors) const {
  T *re = structure_factors, *im = structure_factors + waves_.size();
  TileLanes<T> factors[ATOMS];
  for (int a = 0; a < num; a++) {
    const T *own = powers + a * 2 * stride(), *second = own + cell_.place(1, tile.n2),
            *third = own + cell_.place(2, tile.first_n3);
    const T x = charges[a] * second[0], y = charges[a] * second[stride()];
    for (int l = 0; l < LANES; l++) {
      const T third_re = third[l], third_im = third[l + stride()];
      factors[a].re[l] = x * third_re - y * third_im;
      factors[a].im[l] = x * third_im + y * third_re;
    }
  }
  int n1 = tile.first_n1;
  int64_t at = tile.at;
  for (; n1 + ROWS <= tile.end_n1; n1 += ROWS, at += ROWS * LANES)
    add_rows<ROWS>(num, powers + n1, 2 * stride(), stride(), factors, re + at, im + at);
  for (; n1 < tile.end_n1; n1++, at += LANES)
    add_rows<1>(num, powers + n1, 2 * stride(), stride(), factors, re + at, im + at);
}

// Atoms of a block stay in the cache while the tiles pass.
template <class T>
void EwaldSum<T>::add_tiles(int64_t first, int64_t end, const T *charges, T *structure_factors) const {
  run_widest([&]() EQUI_INLINED {
    for (int64_t t = first; t < end; t++) {
      const WaveVectors::Tile &tile = waves_.tiles()[t];
      const int64_t size = static_cast<int64_t>(tile.end_n1 - tile.first_n1) * LANES;
      std::fill_n(structure_factors + tile.at, size, T(0.0));
      std::fill_n(structure_factors + waves_.size() + tile.at, size, T(0.0));
    }
    for (int64_t a = 0; a < count_; a += ATOMS)
      for (int64_t t = first; t < end; t++)
        add_block(waves_.tiles()[t], static_cast<int>(std::min<int64_t>(ATOMS, count_ - a)),
                  powers_.data() + a * 2 * stride(), charges + a, structure_factors);
  });
}

template <class T>
void EwaldSum<T>::set_sum(const T *structure_factors) {
  const int64_t size = waves_.size();
  factors_.resize(2 * size);
  for (int64_t at = 0; at < size; at++) {
    const T twice = T(2.0) * weights_[at];
    factors_[at] = twice * structure_factors[at];
    factors_[size + at] = -(twice * structure_factors[size + at]);
  }
}

// With t = 2 h conj(S), the potential is the real part of the sum of t exp(i k . r), and the gradient has a factor i k.
// The sums over n1 come first: one with t and one with n1 t. The factors n2 and n3 are then constants of a lane.
template <class T>
void EwaldSum<T>::gather(int64_t first, int64_t end, const T *charges, AtPlace *atoms) const {
  const int64_t size = waves_.size();
  run_widest([&]() EQUI_INLINED {
    for (int64_t i = first; i < end; i++) {
      const T *own = powers_.data() + i * 2 * stride();
      // Sums of lanes, which are added up after all tiles: a sum over lanes in each tile would take longer than the
      // rest.
      T potential[LANES], slope[3][LANES];
      for (int l = 0; l < LANES; l++) potential[l] = slope[0][l] = slope[1][l] = slope[2][l] = T(0.0);
      for (const WaveVectors::Tile &tile : waves_.tiles()) {
        TileLanes<T> sum, with_n1;
        for (int l = 0; l < LANES; l++) sum.re[l] = sum.im[l] = with_n1.re[l] = with_n1.im[l] = T(0.0);
        const T *re = factors_.data() + tile.at, *im = re + size;
        for (int n1 = tile.first_n1; n1 < tile.end_n1; n1++, re += LANES, im += LANES) {
          const T p_re = own[n1], p_im = own[n1 + stride()], n(n1);
          for (int l = 0; l < LANES; l++) {
            const T x = p_re * re[l] - p_im * im[l], y = p_re * im[l] + p_im * re[l];
            sum.re[l] += x;
            sum.im[l] += y;
            with_n1.re[l] += n * x;
            with_n1.im[l] += n * y;
          }
        }
        const T *second = own + cell_.place(1, tile.n2), *third = own + cell_.place(2, tile.first_n3);
        const T second_re = second[0], second_im = second[stride()];
        for (int l = 0; l < LANES; l++) {
          const T third_re = third[l], third_im = third[l + stride()];
          const T x = second_re * third_re - second_im * third_im, y = second_re * third_im + second_im * third_re;
          const T imaginary = x * sum.im[l] + y * sum.re[l];
          potential[l] += x * sum.re[l] - y * sum.im[l];
          slope[0][l] -= x * with_n1.im[l] + y * with_n1.re[l];
          slope[1][l] -= T(tile.n2) * imaginary;
          slope[2][l] -= T(tile.first_n3 + l) * imaginary;
        }
      }
      T sum(0.0), slopes[3] = {T(0.0), T(0.0), T(0.0)};
      for (int l = 0; l < LANES; l++) {
        sum += potential[l];
        for (int d = 0; d < 3; d++) slopes[d] += slope[d][l];
      }
      cell_.put_atom(sum, slopes, charges[i], atoms[i]);
    }
  });
}

template <class T>
typename EwaldSum<T>::Total EwaldSum<T>::total(const T *structure_factors) const {
  const T *re = structure_factors, *im = structure_factors + waves_.size();
  Total sum{T(0.0), {}};
  sum.strain.fill(T(0.0));
  waves_.for_each([&](int64_t at, int n1, int n2, int n3) {
    const T energy = weights_[at] * (re[at] * re[at] + im[at] * im[at]);
    sum.energy += energy;
    cell_.add_strain(n1, n2, n3, energy, sum.strain.data());
  });
  return sum;
}

// A plain sum: virials of atoms are rarely requested.
template <class T>
void EwaldSum<T>::gather_strain(int64_t first, int64_t end, const double *charges, std::array<double, 6> *atoms) const {
  const int64_t size = waves_.size();
  for (int64_t i = first; i < end; i++) atoms[i] = {};
  waves_.for_each([&](int64_t at, int n1, int n2, int n3) {
    double by_strain[6] = {};
    cell_.add_strain(n1, n2, n3, 1.0, by_strain);
    const double re = value_of(factors_[at]), im = value_of(factors_[size + at]);
    for (int64_t i = first; i < end; i++) {
      const T *own = powers_.data() + i * 2 * stride(), *one = own + n1, *two = own + cell_.place(1, n2),
              *three = own + cell_.place(2, n3);
      const auto real = [&](const T *p) { return value_of(p[0]); };
      const auto imaginary = [&](const T *p) { return value_of(p[stride()]); };
      const double x = real(one) * real(two) - imaginary(one) * imaginary(two),
                   y = real(one) * imaginary(two) + imaginary(one) * real(two);
      const double cosine = x * real(three) - y * imaginary(three), sine = x * imaginary(three) + y * real(three);
      const double energy = 0.5 * charges[i] * (re * cosine - im * sine);
      for (int c = 0; c < 6; c++) atoms[i][c] += by_strain[c] * energy;
    }
  });
}

template <class T>
std::size_t EwaldSum<T>::bytes() const {
  return (weights_.capacity() + powers_.capacity() + factors_.capacity()) * sizeof(T);
}

template struct EwaldCell<double>;
template struct EwaldCell<Dual<double>>;
template class EwaldSum<double>;
template class EwaldSum<Dual<double>>;

}    // namespace equi

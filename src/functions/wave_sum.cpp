// SPDX-License-Identifier: MIT
// Sums over atoms and wave vectors as dense products of tables of powers.
#include "src/functions/wave_sum.h"

#include <algorithm>
#include <cmath>

namespace equi {

namespace {

constexpr int LANES = WaveVectors::LANES;
// Numbers n1 whose sums are in registers while a product runs over atoms, atoms of one block of it, and atoms for which
// the factors of a plane stay in the cache.
constexpr int ROWS = 2, ATOMS = 64, GATHERED = 16;

// Powers of a direction: n1 is never negative, and the last tile of n3 may exceed the largest number.
int num_powers(int d, int largest) {
  return d == 0 ? largest + 1 : 2 * largest + (d == 1 ? 1 : LANES);
}

// Calls body(), which is always inlined, in the text for the widest registers of this CPU that have a text. Functions
// that it calls must be inlined, too.
#if defined(__x86_64__) && defined(__GNUC__)
#define EQUI_INLINED __attribute__((always_inline))
template <class F>
__attribute__((target("avx2,fma"))) void run_on_avx2(const F &body) {
  body();
}
template <class F>
__attribute__((target("avx512f,avx512vl,avx512dq,avx2,fma,prefer-vector-width=512"))) void run_on_avx512(
    const F &body) {
  body();
}
template <class F>
void run_widest(const F &body) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
                    has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                                 __builtin_cpu_supports("avx512dq");
  if (has_avx512)
    run_on_avx512(body);
  else if (has_avx2)
    run_on_avx2(body);
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

// A column of a block of `num` atoms: factors of the powers of n1 in the lanes of a tile, and what n1 times a number of
// the atom adds to them.
template <class T>
struct TileColumn {
  int num;
  const T *powers;            // of n1 = 0 of the first atom
  int64_t next, imaginary;    // distances of the powers of the next atom, and of imaginary parts
  const TileLanes<T> *factors, *phases;
  const T *slopes;    // of n1, or null
  int64_t next_slope;
};

// Adds the products of a block of atoms for a fixed number of n1.
template <int NUM_ROWS, bool HAS_SLOPES, class T>
EQUI_INLINED inline void add_rows(const TileColumn<T> &c, int n1, T *re, T *im) {
  TileLanes<T> sum[NUM_ROWS];
  for (int r = 0; r < NUM_ROWS; r++)
    for (int l = 0; l < LANES; l++) sum[r].re[l] = sum[r].im[l] = T(0.0);
  const T *powers = c.powers + n1, *slope = c.slopes;
  for (int a = 0; a < c.num; a++, powers += c.next) {
    const TileLanes<T> &f = c.factors[a];
    for (int r = 0; r < NUM_ROWS; r++) {
      const T x = powers[r], y = powers[r + c.imaginary];
      if constexpr (HAS_SLOPES) {
        const TileLanes<T> &p = c.phases[a];
        const T along = T(n1 + r) * *slope;
        TileLanes<T> all;
        for (int l = 0; l < LANES; l++) all.re[l] = f.re[l] - along * p.im[l];
        for (int l = 0; l < LANES; l++) all.im[l] = f.im[l] + along * p.re[l];
        for (int l = 0; l < LANES; l++) sum[r].re[l] += x * all.re[l] - y * all.im[l];
        for (int l = 0; l < LANES; l++) sum[r].im[l] += x * all.im[l] + y * all.re[l];
      } else {
        for (int l = 0; l < LANES; l++) sum[r].re[l] += x * f.re[l] - y * f.im[l];
        for (int l = 0; l < LANES; l++) sum[r].im[l] += x * f.im[l] + y * f.re[l];
      }
    }
    if (HAS_SLOPES) slope += c.next_slope;
  }
  for (int r = 0; r < NUM_ROWS; r++)
    for (int l = 0; l < LANES; l++) {
      re[r * LANES + l] += sum[r].re[l];
      im[r * LANES + l] += sum[r].im[l];
    }
}

}    // namespace

// With rows A of the cell and rows B of its dual basis, A B^T = 1, so dB = -B dA^T B and dV / V = sum of B dA.
template <class T>
WaveCell<T>::WaveCell(const WaveVectors &waves, const CellMatrix *cell_direction)
    : volume(waves.volume()), growth(0.0) {
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
WaveSum<T>::WaveSum(const WaveVectors &waves, const CellMatrix *cell_direction) : waves_(waves) {
  set_cell(cell_direction);
}

// The number of atoms varies on a rank, so the table has a reserve.
template <class T>
void WaveSum<T>::set_count(int64_t count) {
  count_ = count;
  const std::size_t size = count * 2 * stride();
  if (size > powers_.capacity()) {
    powers_ = {};
    powers_.reserve(size + size / 8);
  }
  powers_.resize(size);
}

template <class T>
std::size_t WaveSum<T>::bytes_for(const WaveVectors::Extent &extent, int64_t count) {
  int64_t of_atoms = 0;
  for (int d = 0; d < 3; d++) of_atoms += count * 2 * num_powers(d, extent.largest[d]);
  return (of_atoms + of_atoms / 8) * sizeof(T);
}

template <class T>
void WaveSum<T>::tabulate(int64_t first, int64_t end, const Position *positions) {
  for (int64_t i = first; i < end; i++) {
    T *re = powers_.data() + i * 2 * stride(), *im = re + stride();
    for (int d = 0; d < 3; d++)
      cell_.for_powers(d, positions[i].data(), [&](int at, T real, T imaginary) {
        re[at] = real;
        im[at] = imaginary;
      });
  }
}

// Products of the powers of n1 of all atoms of a block with multipoles and powers of n2 and n3.
template <class T>
template <int COMPONENTS>
EQUI_INLINED inline void WaveSum<T>::add_block(const WaveVectors::Tile &tile, int64_t first, int num, int columns,
                                               const T *multipoles, T *sums) const {
  constexpr bool HAS_DIPOLES = COMPONENTS == 4;
  const T *powers = powers_.data() + first * 2 * stride();
  TileLanes<T> phases[ATOMS], factors[ATOMS];
  for (int a = 0; a < num; a++) {
    const T *own = powers + a * 2 * stride(), *second = own + cell_.place(1, tile.n2),
            *third = own + cell_.place(2, tile.first_n3);
    const T x = second[0], y = second[stride()];
    for (int l = 0; l < LANES; l++) {
      const T third_re = third[l], third_im = third[l + stride()];
      phases[a].re[l] = x * third_re - y * third_im;
      phases[a].im[l] = x * third_im + y * third_re;
    }
  }
  const int64_t numbers = static_cast<int64_t>(columns) * COMPONENTS;
  for (int c = 0; c < columns; c++) {
    const T *first_of_column = multipoles + first * numbers + c * COMPONENTS;
    for (int a = 0; a < num; a++) {
      const T *m = first_of_column + a * numbers;
      const TileLanes<T> &p = phases[a];
      if constexpr (HAS_DIPOLES)
        for (int l = 0; l < LANES; l++) {
          const T along = T(tile.n2) * m[2] + T(tile.first_n3 + l) * m[3];
          factors[a].re[l] = m[0] * p.re[l] - along * p.im[l];
          factors[a].im[l] = m[0] * p.im[l] + along * p.re[l];
        }
      else
        for (int l = 0; l < LANES; l++) {
          factors[a].re[l] = m[0] * p.re[l];
          factors[a].im[l] = m[0] * p.im[l];
        }
    }
    const TileColumn<T> column{
        num, powers, 2 * stride(), stride(), factors, phases, HAS_DIPOLES ? first_of_column + 1 : nullptr, numbers};
    T *re = sums + 2 * c * waves_.size() + tile.at, *im = re + waves_.size();
    int n1 = tile.first_n1;
    for (; n1 + ROWS <= tile.end_n1; n1 += ROWS, re += ROWS * LANES, im += ROWS * LANES)
      add_rows<ROWS, HAS_DIPOLES>(column, n1, re, im);
    for (; n1 < tile.end_n1; n1++, re += LANES, im += LANES) add_rows<1, HAS_DIPOLES>(column, n1, re, im);
  }
}

// Atoms of a block stay in the cache while the tiles pass.
template <class T>
void WaveSum<T>::add_tiles(int64_t first, int64_t end, int columns, int components, const T *multipoles,
                           T *sums) const {
  run_widest([&]() EQUI_INLINED {
    for (int64_t t = first; t < end; t++) {
      const WaveVectors::Tile &tile = waves_.tiles()[t];
      const int64_t size = static_cast<int64_t>(tile.end_n1 - tile.first_n1) * LANES;
      for (int part = 0; part < 2 * columns; part++) std::fill_n(sums + part * waves_.size() + tile.at, size, T(0.0));
    }
    for (int64_t a = 0; a < count_; a += ATOMS) {
      const int num = static_cast<int>(std::min<int64_t>(ATOMS, count_ - a));
      for (int64_t t = first; t < end; t++)
        if (components == 4)
          add_block<4>(waves_.tiles()[t], a, num, columns, multipoles, sums);
        else
          add_block<1>(waves_.tiles()[t], a, num, columns, multipoles, sums);
    }
  });
}

// Derivatives of a field by coordinates along the cell have factors i n_d. The sums over n1 come first: one with t, one
// with n1 t, and for second derivatives one with n1 n1 t. The factors n2 and n3 are then constants of a lane.
template <class T>
template <int ORDER>
EQUI_INLINED inline void WaveSum<T>::gather_plane(int64_t first, int64_t end, int planes, const T *factors,
                                                  int64_t stride_of_fields, T *fields) const {
  constexpr int NUMBERS = field_numbers(ORDER);
  const int64_t size = waves_.size();
  for (int64_t i = first; i < end; i++) {
    const T *own = powers_.data() + i * 2 * stride();
    // Sums of lanes, which are added up after all tiles: a sum over lanes in each tile would take longer than the rest.
    T lanes[NUMBERS][LANES];
    for (auto &numbers : lanes)
      for (int l = 0; l < LANES; l++) numbers[l] = T(0.0);
    for (const WaveVectors::Tile &tile : waves_.tiles()) {
      TileLanes<T> sum[ORDER + 1];    // with powers of n1
      for (auto &s : sum)
        for (int l = 0; l < LANES; l++) s.re[l] = s.im[l] = T(0.0);
      const T *re = factors + tile.at, *im = re + size;
      for (int n1 = tile.first_n1; n1 < tile.end_n1; n1++, re += LANES, im += LANES) {
        const T p_re = own[n1], p_im = own[n1 + stride()], n(n1);
        for (int l = 0; l < LANES; l++) {
          const T x = p_re * re[l] - p_im * im[l], y = p_re * im[l] + p_im * re[l];
          sum[0].re[l] += x;
          sum[0].im[l] += y;
          if constexpr (ORDER > 0) {
            sum[1].re[l] += n * x;
            sum[1].im[l] += n * y;
          }
          if constexpr (ORDER > 1) {
            sum[2].re[l] += n * n * x;
            sum[2].im[l] += n * n * y;
          }
        }
      }
      const T *second = own + cell_.place(1, tile.n2), *third = own + cell_.place(2, tile.first_n3);
      const T second_re = second[0], second_im = second[stride()], n2(tile.n2);
      for (int l = 0; l < LANES; l++) {
        const T third_re = third[l], third_im = third[l + stride()], n3(tile.first_n3 + l);
        const T x = second_re * third_re - second_im * third_im, y = second_re * third_im + second_im * third_re;
        const T real = x * sum[0].re[l] - y * sum[0].im[l];
        lanes[0][l] += real;
        if constexpr (ORDER > 0) {
          const T imaginary = x * sum[0].im[l] + y * sum[0].re[l];
          lanes[1][l] -= x * sum[1].im[l] + y * sum[1].re[l];
          lanes[2][l] -= n2 * imaginary;
          lanes[3][l] -= n3 * imaginary;
        }
        if constexpr (ORDER > 1) {
          const T with_n1 = x * sum[1].re[l] - y * sum[1].im[l];
          lanes[4][l] -= x * sum[2].re[l] - y * sum[2].im[l];
          lanes[5][l] -= n2 * n2 * real;
          lanes[6][l] -= n3 * n3 * real;
          lanes[7][l] -= n2 * with_n1;
          lanes[8][l] -= n3 * with_n1;
          lanes[9][l] -= n2 * n3 * real;
        }
      }
    }
    T along[NUMBERS];
    for (int n = 0; n < NUMBERS; n++) {
      along[n] = T(0.0);
      for (int l = 0; l < LANES; l++) along[n] += lanes[n][l];
    }
    cell_.put_field(ORDER, along, fields + i * planes * stride_of_fields);
  }
}

template <class T>
void WaveSum<T>::gather(int64_t first, int64_t end, int planes, int order, const T *factors, int64_t stride_of_fields,
                        T *fields) const {
  run_widest([&]() EQUI_INLINED {
    for (int64_t a = first; a < end; a += GATHERED)
      for (int p = 0; p < planes; p++) {
        const int64_t last = std::min(a + GATHERED, end);
        const T *own = factors + 2 * p * waves_.size();
        T *to = fields + p * stride_of_fields;
        if (order == 0)
          gather_plane<0>(a, last, planes, own, stride_of_fields, to);
        else if (order == 1)
          gather_plane<1>(a, last, planes, own, stride_of_fields, to);
        else
          gather_plane<2>(a, last, planes, own, stride_of_fields, to);
      }
  });
}

template struct WaveCell<double>;
template struct WaveCell<Dual<double>>;
template class WaveSum<double>;
template class WaveSum<Dual<double>>;

}    // namespace equi

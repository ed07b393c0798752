// SPDX-License-Identifier: MIT
// Sums over atoms and wave vectors as dense products of tables of powers.
#include "src/functions/wave_sum.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

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

// Calls body(at_once), which is always inlined, in the text for the widest registers of this CPU that have a text.
// Functions that it calls must be inlined, too. at_once: the number of atoms whose sums of fields are in registers at a
// time, as a constant. One atom has too few independent sums for registers of eight numbers.
template <int NUM>
using AtOnce = std::integral_constant<int, NUM>;
#if defined(__x86_64__) && defined(__GNUC__)
#define EQUI_INLINED __attribute__((always_inline))
template <class F>
__attribute__((target("avx2,fma"))) void run_on_avx2(const F &body) {
  body(AtOnce<1>());
}
template <class F>
__attribute__((target("avx512f,avx512vl,avx512dq,avx2,fma,prefer-vector-width=512"))) void run_on_avx512(
    const F &body) {
  body(AtOnce<2>());
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
    body(AtOnce<1>());
}
#else
#define EQUI_INLINED
template <class F>
void run_widest(const F &body) {
  body(AtOnce<1>());
}
#endif

// Numbers of the lanes of a tile. For plain numbers the compiler maps them to vector registers; it would not vectorize
// all loops over arrays.
template <class T>
struct LaneNumbers {
  T of[LANES];
};
template <>
struct LaneNumbers<double> {
  typedef double Vector __attribute__((vector_size(LANES * sizeof(double))));
  Vector of;
};
template <class T>
EQUI_INLINED inline void set_zero(LaneNumbers<T> &x) {
  if constexpr (IS_DUAL<T>)
    for (int l = 0; l < LANES; l++) x.of[l] = T(0.0);
  else
    x.of = typename LaneNumbers<T>::Vector{};
}
template <class T>
EQUI_INLINED inline void load(const T *from, LaneNumbers<T> &x) {
  if constexpr (IS_DUAL<T>)
    for (int l = 0; l < LANES; l++) x.of[l] = from[l];
  else
    std::memcpy(&x.of, from, sizeof x.of);
}
template <class T>
EQUI_INLINED inline void store(const LaneNumbers<T> &x, T *to) {
  if constexpr (IS_DUAL<T>)
    for (int l = 0; l < LANES; l++) to[l] = x.of[l];
  else
    std::memcpy(to, &x.of, sizeof x.of);
}
// y += a x and y -= a x; a: a number, or one for each lane.
template <class T>
EQUI_INLINED inline void add(T a, const LaneNumbers<T> &x, LaneNumbers<T> &y) {
  if constexpr (IS_DUAL<T>)
    for (int l = 0; l < LANES; l++) y.of[l] += a * x.of[l];
  else
    y.of += a * x.of;
}
template <class T>
EQUI_INLINED inline void subtract(T a, const LaneNumbers<T> &x, LaneNumbers<T> &y) {
  if constexpr (IS_DUAL<T>)
    for (int l = 0; l < LANES; l++) y.of[l] -= a * x.of[l];
  else
    y.of -= a * x.of;
}
template <class T>
EQUI_INLINED inline void add(const LaneNumbers<T> &a, const LaneNumbers<T> &x, LaneNumbers<T> &y) {
  if constexpr (IS_DUAL<T>)
    for (int l = 0; l < LANES; l++) y.of[l] += a.of[l] * x.of[l];
  else
    y.of += a.of * x.of;
}
template <class T>
EQUI_INLINED inline void subtract(const LaneNumbers<T> &a, const LaneNumbers<T> &x, LaneNumbers<T> &y) {
  if constexpr (IS_DUAL<T>)
    for (int l = 0; l < LANES; l++) y.of[l] -= a.of[l] * x.of[l];
  else
    y.of -= a.of * x.of;
}

// Complex numbers.
template <class T>
struct TileLanes {
  LaneNumbers<T> re, im;
};
template <class T>
EQUI_INLINED inline void set_zero(TileLanes<T> &x) {
  set_zero(x.re);
  set_zero(x.im);
}
// y += a x, where a is a complex number, or one for each lane.
template <class T>
EQUI_INLINED inline void add_product(T a_re, T a_im, const TileLanes<T> &x, TileLanes<T> &y) {
  add(a_re, x.re, y.re);
  subtract(a_im, x.im, y.re);
  add(a_re, x.im, y.im);
  add(a_im, x.re, y.im);
}
template <class T>
EQUI_INLINED inline void add_product(const TileLanes<T> &a, const TileLanes<T> &x, TileLanes<T> &y) {
  add(a.re, x.re, y.re);
  subtract(a.im, x.im, y.re);
  add(a.re, x.im, y.im);
  add(a.im, x.re, y.im);
}
// Numbers n of the lanes, from the first one.
template <class T>
EQUI_INLINED inline void count_from(int first, LaneNumbers<T> &n) {
  for (int l = 0; l < LANES; l++) n.of[l] = T(first + l);
}
// Powers of n2 and n3 of an atom in the lanes of a tile.
template <class T>
EQUI_INLINED inline void load_phases(const T *second, const T *third, int64_t imaginary, TileLanes<T> &phases) {
  TileLanes<T> powers;
  load(third, powers.re);
  load(third + imaginary, powers.im);
  set_zero(phases);
  add_product(second[0], second[imaginary], powers, phases);
}

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
  for (int r = 0; r < NUM_ROWS; r++) {
    load(re + r * LANES, sum[r].re);
    load(im + r * LANES, sum[r].im);
  }
  const T *powers = c.powers + n1, *slope = c.slopes;
  for (int a = 0; a < c.num; a++, powers += c.next) {
    for (int r = 0; r < NUM_ROWS; r++) {
      const T x = powers[r], y = powers[r + c.imaginary];
      if constexpr (HAS_SLOPES) {
        TileLanes<T> all = c.factors[a];
        add_product(T(0.0), T(n1 + r) * *slope, c.phases[a], all);
        add_product(x, y, all, sum[r]);
      } else {
        add_product(x, y, c.factors[a], sum[r]);
      }
    }
    if (HAS_SLOPES) slope += c.next_slope;
  }
  for (int r = 0; r < NUM_ROWS; r++) {
    store(sum[r].re, re + r * LANES);
    store(sum[r].im, im + r * LANES);
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
    const T *own = powers + a * 2 * stride();
    load_phases(own + cell_.place(1, tile.n2), own + cell_.place(2, tile.first_n3), stride(), phases[a]);
  }
  LaneNumbers<T> n3;
  count_from(tile.first_n3, n3);
  const int64_t numbers = static_cast<int64_t>(columns) * COMPONENTS;
  for (int c = 0; c < columns; c++) {
    const T *first_of_column = multipoles + first * numbers + c * COMPONENTS;
    for (int a = 0; a < num; a++) {
      const T *m = first_of_column + a * numbers;
      const TileLanes<T> &p = phases[a];
      set_zero(factors[a]);
      add(m[0], p.re, factors[a].re);
      add(m[0], p.im, factors[a].im);
      if constexpr (HAS_DIPOLES) {
        LaneNumbers<T> along;
        for (int l = 0; l < LANES; l++) along.of[l] = T(tile.n2) * m[2];
        add(m[3], n3, along);
        subtract(along, p.im, factors[a].re);
        add(along, p.re, factors[a].im);
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
  run_widest([&](auto) EQUI_INLINED {
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
template <int ORDER, int AT_ONCE>
EQUI_INLINED inline void WaveSum<T>::gather_atoms(int64_t first, int planes, const T *factors, int64_t stride_of_fields,
                                                  T *fields) const {
  constexpr int NUMBERS = field_numbers(ORDER);
  const int64_t size = waves_.size();
  // Sums of lanes, which are added up after all tiles: a sum over lanes in each tile would take longer than the rest.
  LaneNumbers<T> lanes[AT_ONCE][NUMBERS];
  const T *own[AT_ONCE];
  for (int a = 0; a < AT_ONCE; a++) {
    own[a] = powers_.data() + (first + a) * 2 * stride();
    for (auto &numbers : lanes[a]) set_zero(numbers);
  }
  for (const WaveVectors::Tile &tile : waves_.tiles()) {
    TileLanes<T> sum[AT_ONCE][ORDER + 1];    // with powers of n1
    for (auto &of_atom : sum)
      for (auto &s : of_atom) set_zero(s);
    const T *re = factors + tile.at, *im = re + size;
    for (int n1 = tile.first_n1; n1 < tile.end_n1; n1++, re += LANES, im += LANES) {
      const T n(n1);
      TileLanes<T> t;
      load(re, t.re);
      load(im, t.im);
      for (int a = 0; a < AT_ONCE; a++) {
        const T p_re = own[a][n1], p_im = own[a][n1 + stride()];
        add_product(p_re, p_im, t, sum[a][0]);
        if constexpr (ORDER > 0) add_product(n * p_re, n * p_im, t, sum[a][1]);
        if constexpr (ORDER > 1) add_product(n * n * p_re, n * n * p_im, t, sum[a][2]);
      }
    }
    const T one(1.0), n2(tile.n2);
    LaneNumbers<T> n3;
    count_from(tile.first_n3, n3);
    for (int a = 0; a < AT_ONCE; a++) {
      LaneNumbers<T>(&to)[NUMBERS] = lanes[a];
      TileLanes<T> phases, all;
      load_phases(own[a] + cell_.place(1, tile.n2), own[a] + cell_.place(2, tile.first_n3), stride(), phases);
      set_zero(all);
      add_product(phases, sum[a][0], all);
      add(one, all.re, to[0]);
      if constexpr (ORDER > 0) {
        subtract(phases.re, sum[a][1].im, to[1]);
        subtract(phases.im, sum[a][1].re, to[1]);
        subtract(n2, all.im, to[2]);
        subtract(n3, all.im, to[3]);
      }
      if constexpr (ORDER > 1) {
        LaneNumbers<T> with_n1, with_n3;
        set_zero(with_n1);
        add(phases.re, sum[a][1].re, with_n1);
        subtract(phases.im, sum[a][1].im, with_n1);
        set_zero(with_n3);
        add(n3, all.re, with_n3);
        subtract(phases.re, sum[a][2].re, to[4]);
        add(phases.im, sum[a][2].im, to[4]);
        subtract(n2 * n2, all.re, to[5]);
        subtract(n3, with_n3, to[6]);
        subtract(n2, with_n1, to[7]);
        subtract(n3, with_n1, to[8]);
        subtract(n2, with_n3, to[9]);
      }
    }
  }
  for (int a = 0; a < AT_ONCE; a++) {
    T along[NUMBERS];
    for (int n = 0; n < NUMBERS; n++) {
      along[n] = T(0.0);
      for (int l = 0; l < LANES; l++) along[n] += lanes[a][n].of[l];
    }
    cell_.put_field(ORDER, along, fields + (first + a) * planes * stride_of_fields);
  }
}

template <class T>
template <int ORDER, int AT_ONCE>
EQUI_INLINED inline void WaveSum<T>::gather_plane(int64_t first, int64_t end, int planes, const T *factors,
                                                  int64_t stride_of_fields, T *fields) const {
  int64_t i = first;
  for (; i + AT_ONCE <= end; i += AT_ONCE) gather_atoms<ORDER, AT_ONCE>(i, planes, factors, stride_of_fields, fields);
  for (; i < end; i++) gather_atoms<ORDER, 1>(i, planes, factors, stride_of_fields, fields);
}

template <class T>
void WaveSum<T>::gather(int64_t first, int64_t end, int planes, int order, const T *factors, int64_t stride_of_fields,
                        T *fields) const {
  run_widest([&](auto at_once) EQUI_INLINED {
    constexpr int AT_ONCE = IS_DUAL<T> ? 1 : decltype(at_once)::value;
    for (int64_t a = first; a < end; a += GATHERED)
      for (int p = 0; p < planes; p++) {
        const int64_t last = std::min(a + GATHERED, end);
        const T *own = factors + 2 * p * waves_.size();
        T *to = fields + p * stride_of_fields;
        if (order == 0)
          gather_plane<0, AT_ONCE>(a, last, planes, own, stride_of_fields, to);
        else if (order == 1)
          gather_plane<1, AT_ONCE>(a, last, planes, own, stride_of_fields, to);
        else
          gather_plane<2, AT_ONCE>(a, last, planes, own, stride_of_fields, to);
      }
  });
}

template struct WaveCell<double>;
template struct WaveCell<Dual<double>>;
template class WaveSum<double>;
template class WaveSum<Dual<double>>;

}    // namespace equi

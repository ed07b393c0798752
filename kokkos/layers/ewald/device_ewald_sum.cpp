// SPDX-License-Identifier: MIT
// Kernels of the Ewald sum in device memory. Threads of the structure factors own some n1 of a lane of a tile, and sum
// over a chunk of the atoms. Threads of the potentials own an atom, and sum over a chunk of the tiles.
#include "kokkos/layers/ewald/device_ewald_sum.h"

#include <algorithm>
#include <vector>

namespace equi {

namespace {

constexpr int TILE_LANES = WaveVectors::LANES;
// Threads that a kernel has at least if the sum can be divided so far: a large GPU runs about as many at a time.
constexpr int64_t SUM_THREADS = 1 << 16;
// Atoms of a chunk at least: fewer would cost more for partial sums than they gain.
constexpr int64_t ATOMS_OF_CHUNK = 32;
// What a thread holds in registers: sums of ROWS n1 and some lanes of a tile, or those of some lanes for two atoms. It
// is so much that a load serves several operations: the first-level cache would be the bound otherwise.
template <class D>
constexpr int LANES_AT_A_TIME = IS_DUAL<D> ? 2 : 4;
constexpr int ATOMS_OF_THREAD = 2;
constexpr int ATOMS_OF_BLOCK = 32;    // atoms whose powers are adjacent

int64_t blocks_of(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

// Threads of a chunk of tiles.
int64_t threads_of(int64_t count) {
  return blocks_of(count, ATOMS_OF_BLOCK * ATOMS_OF_THREAD) * ATOMS_OF_BLOCK;
}

// The two tables of powers.
template <class D>
struct EwaldTables {
  EwaldNumber<D> *by_atom;     // [atoms][stride]
  EwaldNumber<D> *by_power;    // [blocks of atoms][stride][ATOMS_OF_BLOCK]
  int64_t stride;
  EQUI_FUNCTION EwaldNumber<D> *powers_of(int64_t atom) const { return by_atom + atom * stride; }
  // Power n is at [n * ATOMS_OF_BLOCK].
  EQUI_FUNCTION EwaldNumber<D> *column_of(int64_t atom) const {
    return by_power + atom / ATOMS_OF_BLOCK * stride * ATOMS_OF_BLOCK + atom % ATOMS_OF_BLOCK;
  }
};

template <class D>
EQUI_FUNCTION EwaldNumber<D> product(EwaldNumber<D> a, EwaldNumber<D> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

template <class D>
struct EwaldWeights {
  EwaldCell<D> cell;
  const EwaldRows *rows;
  const int8_t *present;
  D *weights;
  EQUI_FUNCTION void operator()(int64_t k) const {
    const EwaldRows &own = rows[k / TILE_LANES];
    const int lane = static_cast<int>(k % TILE_LANES);
    for (int r = 0; r < own.num; r++) {
      const int64_t at = own.at + r * TILE_LANES + lane;
      weights[at] = present[at] ? cell.weight(own.first_n1 + r, own.n2, own.first_n3 + lane) : D(0.0);
    }
  }
};

template <class D>
struct EwaldTabulate {
  EwaldCell<D> cell;
  EwaldTables<D> tables;
  int64_t count;
  const int *receiver;
  const double *positions, *direction;
  EQUI_FUNCTION void operator()(int64_t k) const {
    const int64_t i = k % count, atom = receiver[i];
    D position[3];
    for (int a = 0; a < 3; a++)
      position[a] = make_number<D>(positions[3 * atom + a], direction ? direction[3 * atom + a] : 0.0);
    EwaldNumber<D> *powers = tables.powers_of(i), *column = tables.column_of(i);
    cell.for_powers(static_cast<int>(k / count), position, [&](int at, D re, D im) {
      powers[at] = column[at * ATOMS_OF_BLOCK] = {re, im};
    });
  }
};

// Neighboring threads read the same atoms, so their loads are common or adjacent.
template <class D>
struct EwaldAdd {
  static constexpr int ROWS = DeviceEwaldSum<D>::ROWS, L = LANES_AT_A_TIME<D>;
  EwaldCell<D> cell;
  EwaldTables<D> tables;
  const EwaldRows *rows;
  const D *charges;
  int64_t num_rows, count, chunk, size;    // chunk: number of atoms
  EwaldNumber<D> *sums;                    // [chunks][size]
  EQUI_FUNCTION void operator()(int64_t k) const {
    constexpr int PARTS = TILE_LANES / L;
    const int lane = static_cast<int>(k % PARTS) * L;
    const EwaldRows own = rows[k / PARTS % num_rows];
    const int64_t part = k / PARTS / num_rows, first = part * chunk,
                  end = first + chunk < count ? first + chunk : count;
    const int second = cell.place(1, own.n2), third = cell.place(2, own.first_n3) + lane, last = own.num - 1;
    EwaldNumber<D> sum[ROWS][L];
    EQUI_UNROLL for (int r = 0; r < ROWS; r++) {
      EQUI_UNROLL for (int l = 0; l < L; l++) sum[r][l] = {D(0.0), D(0.0)};
    }
    for (int64_t a = first; a < end; a++) {
      const EwaldNumber<D> *powers = tables.powers_of(a), of_n2 = powers[second];
      const D charge = charges[a];
      const EwaldNumber<D> charged{charge * of_n2.re, charge * of_n2.im};
      EwaldNumber<D> factor[L];
      EQUI_UNROLL for (int l = 0; l < L; l++) factor[l] = product(charged, powers[third + l]);
      EQUI_UNROLL for (int r = 0; r < ROWS; r++) {
        // Rows beyond the last one repeat it, and are not stored.
        const EwaldNumber<D> p = powers[own.first_n1 + (r < last ? r : last)];
        EQUI_UNROLL for (int l = 0; l < L; l++) {
          // Four fused operations; with the product in brackets there were six.
          sum[r][l].re = sum[r][l].re + p.re * factor[l].re - p.im * factor[l].im;
          sum[r][l].im = sum[r][l].im + p.re * factor[l].im + p.im * factor[l].re;
        }
      }
    }
    EwaldNumber<D> *to = sums + part * size + own.at + lane;
    EQUI_UNROLL for (int r = 0; r < ROWS; r++) {
      EQUI_UNROLL for (int l = 0; l < L; l++) {
        if (r <= last) to[r * TILE_LANES + l] = sum[r][l];
      }
    }
  }
};

template <class D>
struct EwaldJoin {
  int64_t chunks, size;
  const EwaldNumber<D> *parts;    // [chunks][size]
  EwaldNumber<D> *sums;
  EQUI_FUNCTION void operator()(int64_t k) const {
    EwaldNumber<D> sum{D(0.0), D(0.0)};
    for (int64_t c = 0; c < chunks; c++) {
      sum.re += parts[c * size + k].re;
      sum.im += parts[c * size + k].im;
    }
    sums[k] = sum;
  }
};

template <class D>
struct EwaldFactors {
  const D *weights;
  const EwaldNumber<D> *sums;
  EwaldNumber<D> *factors;
  EQUI_FUNCTION void operator()(int64_t k) const {
    const D twice = D(2.0) * weights[k];
    factors[k] = {twice * sums[k].re, -(twice * sums[k].im)};
  }
};

// Neighboring threads have neighboring atoms and read the same factors. The sums over n1 of a lane come first: one with
// t = 2 h conj(S), and one with n1 t.
template <class D>
struct EwaldGather {
  static constexpr int A = ATOMS_OF_THREAD, L = LANES_AT_A_TIME<D>;
  EwaldCell<D> cell;
  EwaldTables<D> tables;
  const WaveVectors::Tile *tiles;
  const EwaldNumber<D> *factors;
  int64_t num_tiles, count, threads, chunk;    // threads: those of a chunk; chunk: number of tiles
  D *parts;                                    // [chunks][4][count]: potential and slopes
  EQUI_FUNCTION void operator()(int64_t k) const {
    const int64_t thread = k % threads, part = k / threads, first = part * chunk,
                  end = first + chunk < num_tiles ? first + chunk : num_tiles,
                  atom = thread / ATOMS_OF_BLOCK * ATOMS_OF_BLOCK * A +
                         thread % ATOMS_OF_BLOCK;    // the next ones are ATOMS_OF_BLOCK further
    if (atom >= count) return;
    const EwaldNumber<D> *own[A];
    D sums[A][4];
    EQUI_UNROLL for (int a = 0; a < A; a++) {
      own[a] = tables.column_of(atom + a * ATOMS_OF_BLOCK < count ? atom + a * ATOMS_OF_BLOCK : atom);
      EQUI_UNROLL for (int n = 0; n < 4; n++) sums[a][n] = D(0.0);
    }
    for (int64_t t = first; t < end; t++) {
      const WaveVectors::Tile tile = tiles[t];
      for (int lane = 0; lane < TILE_LANES; lane += L) add(tile, lane, own, sums);
    }
    EQUI_UNROLL for (int a = 0; a < A; a++) {
      EQUI_UNROLL for (int n = 0; n < 4; n++) {
        if (atom + a * ATOMS_OF_BLOCK < count) parts[(part * 4 + n) * count + atom + a * ATOMS_OF_BLOCK] = sums[a][n];
      }
    }
  }

  EQUI_FUNCTION void add(const WaveVectors::Tile &tile, int first_lane, const EwaldNumber<D> *const *own,
                         D (*sums)[4]) const {
    EwaldNumber<D> sum[A][L], with_n1[A][L];
    EQUI_UNROLL for (int a = 0; a < A; a++) {
      EQUI_UNROLL for (int l = 0; l < L; l++) sum[a][l] = with_n1[a][l] = {D(0.0), D(0.0)};
    }
    const EwaldNumber<D> *t = factors + tile.at + first_lane;
    for (int n1 = tile.first_n1; n1 < tile.end_n1; n1++, t += TILE_LANES) {
      const D n(n1);
      EwaldNumber<D> p[A];
      EQUI_UNROLL for (int a = 0; a < A; a++) p[a] = own[a][n1 * ATOMS_OF_BLOCK];
      EQUI_UNROLL for (int l = 0; l < L; l++) {
        const EwaldNumber<D> factor = t[l];
        EQUI_UNROLL for (int a = 0; a < A; a++) {
          const EwaldNumber<D> x = product(p[a], factor);
          sum[a][l].re += x.re;
          sum[a][l].im += x.im;
          with_n1[a][l].re += n * x.re;
          with_n1[a][l].im += n * x.im;
        }
      }
    }
    EQUI_UNROLL for (int a = 0; a < A; a++) {
      const EwaldNumber<D> second = own[a][cell.place(1, tile.n2) * ATOMS_OF_BLOCK],
                           *third = own[a] + (cell.place(2, tile.first_n3) + first_lane) * ATOMS_OF_BLOCK;
      EQUI_UNROLL for (int l = 0; l < L; l++) {
        const EwaldNumber<D> x = product(second, third[l * ATOMS_OF_BLOCK]), all = product(x, sum[a][l]);
        sums[a][0] += all.re;
        sums[a][1] -= x.re * with_n1[a][l].im + x.im * with_n1[a][l].re;
        sums[a][2] -= D(tile.n2) * all.im;
        sums[a][3] -= D(tile.first_n3 + first_lane + l) * all.im;
      }
    }
  }
};

template <class D>
struct EwaldPutAtoms {
  EwaldCell<D> cell;
  int64_t count, chunks;
  const D *parts, *charges;
  EwaldAtom<D> *atoms;
  EQUI_FUNCTION void operator()(int64_t i) const {
    D sums[4];
    for (int n = 0; n < 4; n++) {
      sums[n] = D(0.0);
      for (int64_t c = 0; c < chunks; c++) sums[n] += parts[(c * 4 + n) * count + i];
    }
    cell.put_atom(sums[0], sums + 1, charges[i], atoms[i]);
  }
};

// A plain sum: virials of atoms are rarely requested.
template <class D>
struct EwaldStrainOfAtoms {
  EwaldCell<D> cell;
  EwaldTables<D> tables;
  const EwaldRows *rows;
  const D *weights, *charges;
  const EwaldNumber<D> *factors;
  int64_t num_rows;
  double *virial;    // [atoms][6]
  EQUI_FUNCTION void operator()(int64_t i) const {
    const EwaldNumber<D> *powers = tables.column_of(i);
    double strain[EWALD_STRAIN] = {};
    for (int64_t g = 0; g < num_rows; g++) {
      const EwaldRows own = rows[g];
      const EwaldNumber<D> second = powers[cell.place(1, own.n2) * ATOMS_OF_BLOCK];
      for (int n = 0; n < own.num * TILE_LANES; n++) {
        if (value_of(weights[own.at + n]) == 0.0) continue;    // NaN passes this test
        const int n1 = own.first_n1 + n / TILE_LANES, n3 = own.first_n3 + n % TILE_LANES;
        const EwaldNumber<D> x = product(product(powers[n1 * ATOMS_OF_BLOCK], second),
                                         product(powers[cell.place(2, n3) * ATOMS_OF_BLOCK], factors[own.at + n]));
        cell.add_strain(n1, own.n2, n3, 0.5 * value_of(charges[i]) * value_of(x.re), strain);
      }
    }
    for (int c = 0; c < EWALD_STRAIN; c++) virial[EWALD_STRAIN * i + c] -= strain[c];
  }
};

template <class D>
struct EwaldStrainOfRows {
  EwaldCell<D> cell;
  const EwaldRows *rows;
  const D *weights;
  const EwaldNumber<D> *sums;
  D *strain;    // [rows][6]
  EQUI_FUNCTION void operator()(int64_t g) const {
    const EwaldRows own = rows[g];
    D sum[EWALD_STRAIN];
    for (int c = 0; c < EWALD_STRAIN; c++) sum[c] = D(0.0);
    for (int n = 0; n < own.num * TILE_LANES; n++) {
      const D weight = weights[own.at + n];
      if (value_of(weight) == 0.0) continue;
      const EwaldNumber<D> s = sums[own.at + n];
      cell.add_strain(own.first_n1 + n / TILE_LANES, own.n2, own.first_n3 + n % TILE_LANES,
                      weight * (s.re * s.re + s.im * s.im), sum);
    }
    for (int c = 0; c < EWALD_STRAIN; c++) strain[EWALD_STRAIN * g + c] = sum[c];
  }
};

template <class D>
struct EwaldSubtract {
  double factor;
  const D *from;
  D *to;
  EQUI_FUNCTION void operator()(int64_t k) const { to[k] -= factor * from[k]; }
};

}    // namespace

template <class D>
int64_t DeviceEwaldSum<D>::chunks_of_atoms(int64_t num_rows, int64_t count) {
  const int64_t most = std::max<int64_t>(1, blocks_of(count, ATOMS_OF_CHUNK));
  return std::min(most, blocks_of(SUM_THREADS, std::max<int64_t>(1, TILE_LANES / LANES_AT_A_TIME<D> * num_rows)));
}
template <class D>
int64_t DeviceEwaldSum<D>::chunks_of_tiles(int64_t num_tiles, int64_t count) {
  return std::min(std::max<int64_t>(1, num_tiles), blocks_of(SUM_THREADS, std::max<int64_t>(1, threads_of(count))));
}

template <class D>
void DeviceEwaldSum<D>::set_integers(const DeviceExec &exec, const WaveVectors &waves) {
  std::vector<EwaldRows> rows;
  for (const WaveVectors::Tile &tile : waves.tiles())
    for (int n1 = tile.first_n1; n1 < tile.end_n1; n1 += ROWS)
      rows.push_back({tile.n2, tile.first_n3, n1, std::min(ROWS, tile.end_n1 - n1),
                      tile.at + static_cast<int64_t>(n1 - tile.first_n1) * TILE_LANES});
  size_ = waves.size();
  num_rows_ = static_cast<int>(rows.size());
  num_tiles_ = static_cast<int>(waves.tiles().size());
  assign(exec, rows_, rows);
  assign(exec, tiles_, waves.tiles());
  assign(exec, present_, waves.present());
}

template <class D>
void DeviceEwaldSum<D>::set_cell(const DeviceExec &exec, const EwaldCell<D> &cell) {
  cell_ = cell;
  D *weights = weights_.reserve(size_);
  Kokkos::parallel_for("equi:ewald_weights", DeviceRange(exec, 0, static_cast<int64_t>(num_rows_) * TILE_LANES),
                       EwaldWeights<D>{cell_, rows_.data(), present_.data(), weights});
}

template <class D>
void DeviceEwaldSum<D>::tabulate(const DeviceExec &exec, int count, const int *receiver, const double *positions,
                                 const double *direction) {
  const int64_t stride = cell_.stride();
  const EwaldTables<D> tables{by_atom_.reserve(count * stride),
                              by_power_.reserve(blocks_of(count, ATOMS_OF_BLOCK) * ATOMS_OF_BLOCK * stride), stride};
  Kokkos::parallel_for("equi:ewald_tables", DeviceRange(exec, 0, 3 * static_cast<int64_t>(count)),
                       EwaldTabulate<D>{cell_, tables, count, receiver, positions, direction});
}

template <class D>
void DeviceEwaldSum<D>::add_up(const DeviceExec &exec, int count, const D *charges, Number *structure_factors) {
  const int64_t chunks = chunks_of_atoms(num_rows_, count);
  Number *sums = chunks == 1 ? structure_factors : partial_sums_.reserve(chunks * size_);
  Kokkos::parallel_for("equi:ewald_add", DeviceRange(exec, 0, chunks * num_rows_ * (TILE_LANES / LANES_AT_A_TIME<D>)),
                       EwaldAdd<D>{cell_,
                                   {by_atom_.data(), by_power_.data(), cell_.stride()},
                                   rows_.data(),
                                   charges,
                                   num_rows_,
                                   count,
                                   blocks_of(count, chunks),
                                   size_,
                                   sums});
  if (chunks > 1)
    Kokkos::parallel_for("equi:ewald_join", DeviceRange(exec, 0, size_),
                         EwaldJoin<D>{chunks, size_, sums, structure_factors});
}

template <class D>
void DeviceEwaldSum<D>::gather(const DeviceExec &exec, int count, const D *charges, const Number *structure_factors,
                               EwaldAtom<D> *atoms) {
  Number *factors = factors_.reserve(size_);
  Kokkos::parallel_for("equi:ewald_factors", DeviceRange(exec, 0, size_),
                       EwaldFactors<D>{weights_.data(), structure_factors, factors});
  const int64_t chunks = chunks_of_tiles(num_tiles_, count), threads = threads_of(count);
  D *parts = partial_atoms_.reserve(chunks * 4 * count);
  Kokkos::parallel_for("equi:ewald_gather", DeviceRange(exec, 0, chunks * threads),
                       EwaldGather<D>{cell_,
                                      {by_atom_.data(), by_power_.data(), cell_.stride()},
                                      tiles_.data(),
                                      factors,
                                      num_tiles_,
                                      count,
                                      threads,
                                      blocks_of(num_tiles_, chunks),
                                      parts});
  Kokkos::parallel_for("equi:ewald_atoms", DeviceRange(exec, 0, count),
                       EwaldPutAtoms<D>{cell_, count, chunks, parts, charges, atoms});
}

template <class D>
void DeviceEwaldSum<D>::subtract_strain(const DeviceExec &exec, int count, const D *charges, double *virial) const {
  Kokkos::parallel_for("equi:ewald_virials", DeviceRange(exec, 0, count),
                       EwaldStrainOfAtoms<D>{cell_,
                                             {by_atom_.data(), by_power_.data(), cell_.stride()},
                                             rows_.data(),
                                             weights_.data(),
                                             charges,
                                             factors_.data(),
                                             num_rows_,
                                             virial});
}

template <class D>
void DeviceEwaldSum<D>::subtract_total_strain(const DeviceExec &exec, double share, const Number *structure_factors,
                                              D *virial) {
  if (num_rows_ == 0) return;
  D *strain = strain_.reserve(static_cast<int64_t>(num_rows_ + 1) * EWALD_STRAIN);
  Kokkos::parallel_for("equi:ewald_virial", DeviceRange(exec, 0, num_rows_),
                       EwaldStrainOfRows<D>{cell_, rows_.data(), weights_.data(), structure_factors, strain});
  D *total = strain + static_cast<int64_t>(num_rows_) * EWALD_STRAIN;
  sum_.add_up(exec, {{reinterpret_cast<const double *>(strain), num_rows_, EWALD_STRAIN * PLANES<D>,
                      reinterpret_cast<double *>(total)}});
  Kokkos::parallel_for("equi:ewald_share", DeviceRange(exec, 0, EWALD_STRAIN), EwaldSubtract<D>{share, total, virial});
}

template <class D>
std::size_t DeviceEwaldSum<D>::bytes() const {
  return rows_.bytes() + tiles_.bytes() + present_.bytes() + weights_.bytes() + by_atom_.bytes() + by_power_.bytes() +
         factors_.bytes() + partial_sums_.bytes() + partial_atoms_.bytes() + strain_.bytes() + sum_.bytes();
}

// Buffers have a reserve of an eighth.
template <class D>
std::size_t DeviceEwaldSum<D>::bytes_for(const WaveVectors::Extent &extent, int64_t count) {
  const auto &[n1, n2, n3] = extent.largest;
  const int64_t tiles = (2 * n2 + 1) * static_cast<int64_t>((2 * n3 + TILE_LANES) / TILE_LANES),
                rows = tiles * (n1 / ROWS + 1), powers = n1 + 2 * n2 + 2 * n3 + 2 + TILE_LANES,
                atoms = count + blocks_of(count, ATOMS_OF_BLOCK) * ATOMS_OF_BLOCK;
  if (extent.most == 0) return 0;
  const std::size_t bytes =
      rows * (sizeof(EwaldRows) + (EWALD_STRAIN + 1) * sizeof(D)) + tiles * sizeof(WaveVectors::Tile) +
      extent.most * (sizeof(int8_t) + sizeof(D) + sizeof(Number)) + atoms * powers * sizeof(Number) +
      (chunks_of_atoms(rows, count) * extent.most) * sizeof(Number) +
      chunks_of_tiles(tiles, count) * 4 * count * sizeof(D);
  return bytes + bytes / 8;
}

template class DeviceEwaldSum<double>;
template class DeviceEwaldSum<Dual<double>>;

}    // namespace equi

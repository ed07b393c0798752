// SPDX-License-Identifier: MIT
// Kernels of sums over atoms and wave vectors in device memory. Threads of the structure factors own some n1 of a lane
// of a tile, and sum over a chunk of the atoms. Threads of the fields own atoms, and sum over a chunk of the tiles.
#include "kokkos/wave_sums/device_waves.h"

#include "kokkos/wave_sums/system_multipoles.h"

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
// is so much that a load serves several operations: the first-level cache would be the bound otherwise. Second
// derivatives have half as many lanes.
template <class D, int ORDER = 1>
constexpr int LANES_AT_A_TIME = IS_DUAL<D> || ORDER > 1 ? 2 : 4;
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
struct WaveTables {
  WaveNumber<D> *by_atom;     // [atoms][stride]
  WaveNumber<D> *by_power;    // [blocks of atoms][stride][ATOMS_OF_BLOCK]
  int64_t stride;
  EQUI_FUNCTION WaveNumber<D> *powers_of(int64_t atom) const { return by_atom + atom * stride; }
  // Power n is at [n * ATOMS_OF_BLOCK].
  EQUI_FUNCTION WaveNumber<D> *column_of(int64_t atom) const {
    return by_power + atom / ATOMS_OF_BLOCK * stride * ATOMS_OF_BLOCK + atom % ATOMS_OF_BLOCK;
  }
};

template <class D>
EQUI_FUNCTION WaveNumber<D> product(WaveNumber<D> a, WaveNumber<D> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

template <class D>
struct WaveTabulate {
  WaveCell<D> cell;
  WaveTables<D> tables;
  int64_t count;
  const int *receiver;
  const double *positions, *direction;
  EQUI_FUNCTION void operator()(int64_t k) const {
    const int64_t i = k % count, atom = receiver[i];
    D position[3];
    for (int a = 0; a < 3; a++)
      position[a] = make_number<D>(positions[3 * atom + a], direction ? direction[3 * atom + a] : 0.0);
    WaveNumber<D> *powers = tables.powers_of(i), *column = tables.column_of(i);
    cell.for_powers(static_cast<int>(k / count), position, [&](int at, D re, D im) {
      powers[at] = column[at * ATOMS_OF_BLOCK] = {re, im};
    });
  }
};

// Neighboring threads read the same atoms, so their loads are common or adjacent. Columns of a chunk are adjacent.
template <class D, int COMPONENTS>
struct WaveAdd {
  // With dipoles, the sums of four lanes and what they need exceed the registers of a thread.
  static constexpr int ROWS = DeviceWaves<D>::ROWS, L = COMPONENTS == 4 ? 2 : LANES_AT_A_TIME<D>,
                       PARTS = TILE_LANES / L;
  WaveCell<D> cell;
  WaveTables<D> tables;
  const WaveRows *rows;
  const D *multipoles;
  int columns;
  int64_t num_rows, count, chunk, size;    // chunk: number of atoms
  WaveNumber<D> *sums;                     // [chunks][columns][size]
  EQUI_FUNCTION void operator()(int64_t k) const {
    const int lane = static_cast<int>(k % PARTS) * L;
    const WaveRows own = rows[k / PARTS % num_rows];
    const int64_t plane = k / PARTS / num_rows, column = plane % columns, first = plane / columns * chunk,
                  end = first + chunk < count ? first + chunk : count;
    const int second = cell.place(1, own.n2), third = cell.place(2, own.first_n3) + lane, last = own.num - 1;
    WaveNumber<D> sum[ROWS][L];
    EQUI_UNROLL for (int r = 0; r < ROWS; r++) {
      EQUI_UNROLL for (int l = 0; l < L; l++) sum[r][l] = {D(0.0), D(0.0)};
    }
    for (int64_t a = first; a < end; a++) {
      const WaveNumber<D> *powers = tables.powers_of(a), of_n2 = powers[second];
      const D *m = multipoles + (a * columns + column) * COMPONENTS;
      WaveNumber<D> factor[L], phase[L];
      if constexpr (COMPONENTS == 4) {
        EQUI_UNROLL for (int l = 0; l < L; l++) {
          const D along = D(own.n2) * m[2] + D(own.first_n3 + lane + l) * m[3];
          phase[l] = product(of_n2, powers[third + l]);
          factor[l] = {m[0] * phase[l].re - along * phase[l].im, m[0] * phase[l].im + along * phase[l].re};
        }
      } else {
        const WaveNumber<D> charged{m[0] * of_n2.re, m[0] * of_n2.im};
        EQUI_UNROLL for (int l = 0; l < L; l++) factor[l] = product(charged, powers[third + l]);
      }
      EQUI_UNROLL for (int r = 0; r < ROWS; r++) {
        // Rows beyond the last one repeat it, and are not stored.
        const int n1 = own.first_n1 + (r < last ? r : last);
        const WaveNumber<D> p = powers[n1];
        EQUI_UNROLL for (int l = 0; l < L; l++) {
          WaveNumber<D> f = factor[l];
          if constexpr (COMPONENTS == 4) {
            const D along = D(n1) * m[1];
            f.re = f.re - along * phase[l].im;
            f.im = f.im + along * phase[l].re;
          }
          // Four fused operations; with the product in brackets there were six.
          sum[r][l].re = sum[r][l].re + p.re * f.re - p.im * f.im;
          sum[r][l].im = sum[r][l].im + p.re * f.im + p.im * f.re;
        }
      }
    }
    WaveNumber<D> *to = sums + plane * size + own.at + lane;
    EQUI_UNROLL for (int r = 0; r < ROWS; r++) {
      EQUI_UNROLL for (int l = 0; l < L; l++) {
        if (r <= last) to[r * TILE_LANES + l] = sum[r][l];
      }
    }
  }
};

// Neighboring threads have neighboring atoms and read the same factors. The sums over n1 of a lane come first, with
// powers of n1 up to the order of the derivatives.
template <class D, int ORDER>
struct WaveGather {
  static constexpr int A = ATOMS_OF_THREAD, L = LANES_AT_A_TIME<D, ORDER>, NUMBERS = field_numbers(ORDER);
  WaveCell<D> cell;
  WaveTables<D> tables;
  const WaveVectors::Tile *tiles;
  const WaveNumber<D> *factors;    // [planes][size]
  int planes;
  int64_t size, num_tiles, count, threads, chunk;    // threads: those of a chunk; chunk: number of tiles
  D *parts;                                          // [chunks][planes][NUMBERS][count]
  EQUI_FUNCTION void operator()(int64_t k) const {
    const int64_t thread = k % threads, part = k / threads, first = part / planes * chunk,
                  end = first + chunk < num_tiles ? first + chunk : num_tiles,
                  atom = thread / ATOMS_OF_BLOCK * ATOMS_OF_BLOCK * A +
                         thread % ATOMS_OF_BLOCK;    // the next ones are ATOMS_OF_BLOCK further
    if (atom >= count) return;
    const WaveNumber<D> *own[A];
    D sums[A][NUMBERS];
    EQUI_UNROLL for (int a = 0; a < A; a++) {
      own[a] = tables.column_of(atom + a * ATOMS_OF_BLOCK < count ? atom + a * ATOMS_OF_BLOCK : atom);
      EQUI_UNROLL for (int n = 0; n < NUMBERS; n++) sums[a][n] = D(0.0);
    }
    const WaveNumber<D> *of_plane = factors + part % planes * size;
    for (int64_t t = first; t < end; t++) {
      const WaveVectors::Tile tile = tiles[t];
      for (int lane = 0; lane < TILE_LANES; lane += L) add(tile, lane, of_plane, own, sums);
    }
    EQUI_UNROLL for (int a = 0; a < A; a++) {
      EQUI_UNROLL for (int n = 0; n < NUMBERS; n++) {
        if (atom + a * ATOMS_OF_BLOCK < count)
          parts[(part * NUMBERS + n) * count + atom + a * ATOMS_OF_BLOCK] = sums[a][n];
      }
    }
  }

  EQUI_FUNCTION void add(const WaveVectors::Tile &tile, int first_lane, const WaveNumber<D> *of_plane,
                         const WaveNumber<D> *const *own, D (*sums)[NUMBERS]) const {
    WaveNumber<D> sum[ORDER + 1][A][L];
    EQUI_UNROLL for (int o = 0; o <= ORDER; o++) {
      EQUI_UNROLL for (int a = 0; a < A; a++) {
        EQUI_UNROLL for (int l = 0; l < L; l++) sum[o][a][l] = {D(0.0), D(0.0)};
      }
    }
    const WaveNumber<D> *t = of_plane + tile.at + first_lane;
    for (int n1 = tile.first_n1; n1 < tile.end_n1; n1++, t += TILE_LANES) {
      const D n(n1);
      WaveNumber<D> p[A];
      EQUI_UNROLL for (int a = 0; a < A; a++) p[a] = own[a][n1 * ATOMS_OF_BLOCK];
      EQUI_UNROLL for (int l = 0; l < L; l++) {
        const WaveNumber<D> factor = t[l];
        EQUI_UNROLL for (int a = 0; a < A; a++) {
          const WaveNumber<D> x = product(p[a], factor);
          sum[0][a][l].re += x.re;
          sum[0][a][l].im += x.im;
          if constexpr (ORDER > 0) {
            sum[1][a][l].re += n * x.re;
            sum[1][a][l].im += n * x.im;
          }
          if constexpr (ORDER > 1) {
            sum[2][a][l].re += n * n * x.re;
            sum[2][a][l].im += n * n * x.im;
          }
        }
      }
    }
    const D n2(tile.n2);
    EQUI_UNROLL for (int a = 0; a < A; a++) {
      const WaveNumber<D> second = own[a][cell.place(1, tile.n2) * ATOMS_OF_BLOCK],
                          *third = own[a] + (cell.place(2, tile.first_n3) + first_lane) * ATOMS_OF_BLOCK;
      EQUI_UNROLL for (int l = 0; l < L; l++) {
        const WaveNumber<D> x = product(second, third[l * ATOMS_OF_BLOCK]), all = product(x, sum[0][a][l]);
        const D n3(tile.first_n3 + first_lane + l);
        sums[a][0] += all.re;
        if constexpr (ORDER > 0) {
          sums[a][1] -= x.re * sum[1][a][l].im + x.im * sum[1][a][l].re;
          sums[a][2] -= n2 * all.im;
          sums[a][3] -= n3 * all.im;
        }
        if constexpr (ORDER > 1) {
          const D with_n1 = x.re * sum[1][a][l].re - x.im * sum[1][a][l].im;
          sums[a][4] -= x.re * sum[2][a][l].re - x.im * sum[2][a][l].im;
          sums[a][5] -= n2 * n2 * all.re;
          sums[a][6] -= n3 * n3 * all.re;
          sums[a][7] -= n2 * with_n1;
          sums[a][8] -= n3 * with_n1;
          sums[a][9] -= n2 * n3 * all.re;
        }
      }
    }
  }
};

// Neighboring threads have neighboring atoms of a plane.
template <class D, int ORDER>
struct WavePutFields {
  static constexpr int NUMBERS = field_numbers(ORDER);
  WaveCell<D> cell;
  int planes;
  int64_t count, chunks, stride;
  const D *parts;
  D *fields;    // [count][planes][stride]
  EQUI_FUNCTION void operator()(int64_t k) const {
    const int64_t i = k % count, plane = k / count;
    D sums[NUMBERS];
    for (int n = 0; n < NUMBERS; n++) {
      sums[n] = D(0.0);
      for (int64_t c = 0; c < chunks; c++) sums[n] += parts[((c * planes + plane) * NUMBERS + n) * count + i];
    }
    cell.put_field(ORDER, sums, fields + (i * planes + plane) * stride);
  }
};

}    // namespace

template <class D>
int64_t DeviceWaves<D>::chunks_of_atoms(int64_t num_rows, int64_t count) {
  const int64_t most = std::max<int64_t>(1, blocks_of(count, ATOMS_OF_CHUNK));
  return std::min(most, blocks_of(SUM_THREADS, std::max<int64_t>(1, TILE_LANES / LANES_AT_A_TIME<D> * num_rows)));
}
template <class D>
int64_t DeviceWaves<D>::chunks_of_tiles(int64_t num_tiles, int64_t count) {
  return std::min(std::max<int64_t>(1, num_tiles), blocks_of(SUM_THREADS, std::max<int64_t>(1, threads_of(count))));
}

template <class D>
PowersOfAtoms<D> DeviceWaves<D>::powers() const {
  const int64_t numbers_of_power = 2 * ATOMS_OF_BLOCK;
  return {reinterpret_cast<const D *>(by_power_.data()),
          ATOMS_OF_BLOCK,
          numbers_of_power * cell_.stride(),
          2,
          numbers_of_power,
          1};
}

template <class D>
void DeviceWaves<D>::set_vectors(const Work &exec, const CellMatrix &cell, const double (*direction)[3]) {
  const SystemWaves::Change change = vectors_.use(cell, direction);
  if (change == SystemWaves::Change::none) return;
  num_changes_++;
  const WaveVectors &waves = vectors_.vectors();
  cell_ = WaveCell<D>(waves, &vectors_.cell_direction());
  if (change != SystemWaves::Change::integers) return;
  std::vector<WaveRows> rows;
  for (const WaveVectors::Tile &tile : waves.tiles())
    for (int n1 = tile.first_n1; n1 < tile.end_n1; n1 += ROWS)
      rows.push_back({tile.n2, tile.first_n3, n1, std::min(ROWS, tile.end_n1 - n1),
                      tile.at + static_cast<int64_t>(n1 - tile.first_n1) * TILE_LANES});
  num_rows_ = static_cast<int64_t>(rows.size());
  num_tiles_ = static_cast<int64_t>(waves.tiles().size());
  assign(exec, rows_, rows);
  assign(exec, tiles_, waves.tiles());
  assign(exec, present_, waves.present());
}

template <class D>
void DeviceWaves<D>::tabulate(const Work &exec, int count, const int *receiver, const double *positions,
                              const double *direction) {
  count_ = count;
  const int64_t stride = cell_.stride();
  const WaveTables<D> tables{by_atom_.reserve(count * stride),
                             by_power_.reserve(blocks_of(count, ATOMS_OF_BLOCK) * ATOMS_OF_BLOCK * stride), stride};
  Kokkos::parallel_for("equi:wave_tables", DeviceRange(exec, 0, 3 * static_cast<int64_t>(count)),
                       WaveTabulate<D>{cell_, tables, count, receiver, positions, direction});
}

template <class D>
void DeviceWaves<D>::prepare(const Work &exec, const System &system, int count) {
  if (prepared_ == system.step) return;
  set_vectors(exec, system.box.cell_of_waves(), system.cell_direction);
  tabulate(exec, count, system.receiver, system.positions, system.directions[0]);
  prepared_ = system.step;
}

template <class D>
void DeviceWaves<D>::add_up(const Work &exec, int columns, int components, const D *multipoles, D *sums) {
  // Columns are further threads.
  const int64_t size = this->size(), chunks = chunks_of_atoms(num_rows_ * columns, count_);
  Complex *all = reinterpret_cast<Complex *>(sums),
          *parts = chunks == 1 ? all : partial_sums_.reserve(chunks * columns * size);
  const auto add = [&](auto kernel) {
    kernel = {cell_,        {by_atom_.data(), by_power_.data(), cell_.stride()},
              rows_.data(), multipoles,
              columns,      num_rows_,
              count_,       blocks_of(count_, chunks),
              size,         parts};
    Kokkos::parallel_for("equi:wave_add", DeviceRange(exec, 0, chunks * columns * num_rows_ * decltype(kernel)::PARTS),
                         kernel);
  };
  if (components == 4)
    add(WaveAdd<D, 4>());
  else
    add(WaveAdd<D, 1>());
  if (chunks > 1)
    SystemOnDevice<D>::for_numbers(exec, "equi:wave_join", 2 * columns * size,
                                   JoinParts<D>{chunks, 2 * columns * size, reinterpret_cast<const D *>(parts), sums});
}

template <class D>
template <int ORDER>
void DeviceWaves<D>::gather_order(const Work &exec, int planes, const D *factors, int64_t stride, D *fields) {
  // Planes are further threads.
  const int64_t threads = threads_of(count_),
                chunks = chunks_of_tiles(num_tiles_, static_cast<int64_t>(count_) * planes),
                numbers = field_numbers(ORDER);
  D *parts = partial_fields_.reserve(chunks * planes * numbers * count_);
  Kokkos::parallel_for("equi:wave_gather", DeviceRange(exec, 0, chunks * planes * threads),
                       WaveGather<D, ORDER>{cell_,
                                            {by_atom_.data(), by_power_.data(), cell_.stride()},
                                            tiles_.data(),
                                            reinterpret_cast<const Complex *>(factors),
                                            planes,
                                            size(),
                                            num_tiles_,
                                            count_,
                                            threads,
                                            blocks_of(num_tiles_, chunks),
                                            parts});
  Kokkos::parallel_for("equi:wave_fields", DeviceRange(exec, 0, static_cast<int64_t>(count_) * planes),
                       WavePutFields<D, ORDER>{cell_, planes, count_, chunks, stride, parts, fields});
}

template <class D>
void DeviceWaves<D>::gather(const Work &exec, int planes, int order, const D *factors, int64_t stride, D *fields) {
  if (order == 0)
    gather_order<0>(exec, planes, factors, stride, fields);
  else if (order == 1)
    gather_order<1>(exec, planes, factors, stride, fields);
  else
    gather_order<2>(exec, planes, factors, stride, fields);
}

// Buffers have a reserve of an eighth.
template <class D>
std::size_t DeviceWaves<D>::bytes_for(const CellMatrix &cell, int count, int columns, int order) const {
  const WaveVectors::Extent extent = vectors_.extent(cell);
  const auto &[n1, n2, n3] = extent.largest;
  const int64_t tiles = (2 * n2 + 1) * static_cast<int64_t>((2 * n3 + TILE_LANES) / TILE_LANES),
                rows = tiles * (n1 / ROWS + 1), powers = n1 + 2 * n2 + 2 * n3 + 2 + TILE_LANES,
                atoms = count + blocks_of(count, ATOMS_OF_BLOCK) * ATOMS_OF_BLOCK;
  if (extent.most == 0) return 0;
  const std::size_t bytes = rows * sizeof(WaveRows) + tiles * sizeof(WaveVectors::Tile) + extent.most * sizeof(int8_t) +
                            atoms * powers * sizeof(Complex) +
                            chunks_of_atoms(rows * columns, count) * columns * extent.most * sizeof(Complex) +
                            chunks_of_tiles(tiles, static_cast<int64_t>(count) * columns) * columns *
                                field_numbers(order) * count * sizeof(D);
  return bytes + bytes / 8;
}

template class DeviceWaves<double>;
template class DeviceWaves<Dual<double>>;
template class SystemMultipoles<DeviceWaves<double>>;
template class SystemMultipoles<DeviceWaves<Dual<double>>>;

}    // namespace equi

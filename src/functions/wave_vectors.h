// SPDX-License-Identifier: MIT
// The wave vectors of an Ewald sum in a periodic cell.
#ifndef EQUI_WAVE_VECTORS_H
#define EQUI_WAVE_VECTORS_H

#include "src/numbers/vector3.h"

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

namespace equi {

using CellMatrix = std::array<Vector3, 3>;    // rows: the vectors of the cell, Angstrom

// Rows b with a_i . b_j = 1 if i = j, else 0; 1/Angstrom. Throws std::invalid_argument if the cell has no volume.
CellMatrix dual_basis(const CellMatrix &cell);
double cell_volume(const CellMatrix &cell);

// The wave vectors k = 2 pi (n1 b1 + n2 b2 + n3 b3) with 0 < |k| < cutoff, one of each pair k and -k. A dense product
// needs them in tiles: a tile has one n2, LANES consecutive n3, and consecutive n1. Numbers of wave vectors are in
// arrays [size], in the order of tiles, then n1, then lanes. Numbers at places without a wave vector are ignored,
// because their weight is 0.
class WaveVectors {
 public:
  static constexpr double TWO_PI = 6.283185307179586;
  static constexpr int LANES = 8;
  struct Tile {
    int n2, first_n3, first_n1, end_n1;
    int64_t at;    // of its first number
  };
  // What the factor exp(-sigma^2 k^2/2) leaves beyond the cutoff of converged sums.
  static constexpr double CONVERGED = 1e-10;
  // More would not fit into the memory of most machines: 1.6 GB for one array of structure factors.
  static constexpr int64_t MAX_SIZE = 100'000'000;

  // Bounds of the integers, and of size().
  struct Extent {
    std::array<int, 3> largest;    // absolute values of n1, n2, n3
    int64_t most;
  };

  WaveVectors() = default;
  // cutoff: 1/Angstrom. A wave vector on the surface of the sphere is left out, whatever its rounding. Throws
  // std::invalid_argument if the cell has no volume, or if there were more than MAX_SIZE numbers.
  WaveVectors(const CellMatrix &cell, double cutoff);
  // Keeps the integers, and computes the wave vectors of another cell. The energy is then a smooth function of the
  // cell. With the integers of the new sphere it has a jump wherever the number of wave vectors changes.
  void deform(const CellMatrix &cell);

  // Those of a sphere in a cell. Throws like the constructor.
  static Extent extent(const CellMatrix &cell, double cutoff);
  Extent extent() const { return {largest_, size()}; }

  // The cutoff beyond which the factor exp(-sigma^2 k^2/2) is less than the tolerance. sigma: Angstrom.
  static double converged_cutoff(double sigma, double tolerance = CONVERGED);

  int64_t size() const { return static_cast<int64_t>(present_.size()); }
  int64_t count() const { return count_; }    // of wave vectors, half of those in the sphere
  const std::vector<Tile> &tiles() const { return tiles_; }
  const std::vector<int8_t> &present() const { return present_; }    // [size] whether a wave vector is at this place
  const std::array<int, 3> &largest() const { return largest_; }     // absolute values of n1, n2, n3
  const CellMatrix &reciprocal() const { return reciprocal_; }       // rows: b
  double volume() const { return volume_; }
  Vector3 vector(int n1, int n2, int n3) const;
  auto members() const { return std::tie(present_, tiles_); }    // owned_memory.h

  // f(place in arrays, n1, n2, n3) for each wave vector
  template <class F>
  void for_each(const F &f) const {
    for (const Tile &tile : tiles_) {
      int64_t at = tile.at;
      for (int n1 = tile.first_n1; n1 < tile.end_n1; n1++)
        for (int lane = 0; lane < LANES; lane++, at++)
          if (present_[at]) f(at, n1, tile.n2, tile.first_n3 + lane);
    }
  }

 private:
  CellMatrix reciprocal_{};
  double volume_ = 0.0;
  int64_t count_ = 0;
  std::array<int, 3> largest_{};
  std::vector<Tile> tiles_;
  std::vector<int8_t> present_;    // [size]
};

}    // namespace equi

#endif

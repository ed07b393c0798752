// SPDX-License-Identifier: MIT
// Sums over wave vectors between multipoles of one Gaussian width and others of several widths, in a periodic cell.
#ifndef EQUI_MULTIPOLE_SUM_H
#define EQUI_MULTIPOLE_SUM_H

#include "src/functions/ewald_sum.h"
#include "src/functions/multipole_function.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace equi {

// T: double, or Dual<double> for the derivative of all results along one direction of positions, multipoles and cell.
// Multipoles of an atom are four numbers, the charge and the dipole, for each channel and each width of their side.
// Factors, S or G, are arrays [channels][2][waves.size()] of real and imaginary parts. Each rank adds its own atoms;
// the caller sums the factors over the ranks. Threads share the work by ranges of tiles or atoms.
template <class T>
class MultipoleSum {
 public:
  using Position = std::array<T, 3>;
  enum Side { sources, probes };

  // cell_direction: the derivative of the cell's vectors along the direction, or null, for a constant cell.
  MultipoleSum(const MultipoleFunction &function, int channels, const WaveVectors &waves,
               const CellMatrix *cell_direction = nullptr);
  MultipoleSum(const MultipoleSum &) = delete;

  int num_widths(Side side) const { return side == sources ? 1 : static_cast<int>(function_.widths.size()); }
  int numbers(Side side) const { return 4 * channels_ * num_widths(side); }    // of an atom
  int64_t num_factors() const { return 2 * channels_ * waves_.size(); }
  int64_t num_tiles() const { return tables_.num_tiles(); }

  void set_count(int64_t count) {
    count_ = count;
    tables_.set_count(count);
  }
  void tabulate(int64_t first, int64_t end, const Position *positions) { tables_.tabulate(first, end, positions); }
  // Writes the factors of all atoms' multipoles for a range of tiles.
  void add_tiles(Side side, int64_t first, int64_t end, const T *multipoles, T *factors) const;
  // For a range of atoms and the factors of the other side:
  // the derivatives of L by the multipoles [atoms][numbers(side)],
  void gather(Side side, int64_t first, int64_t end, const T *factors, T *derivatives) const;
  // those by the positions [atoms] while multipoles are constant,
  void gather_gradient(Side side, int64_t first, int64_t end, const T *multipoles, const T *factors,
                       Position *gradients) const;
  // and for probes the derivatives of their parts of L by a strain of cell and positions, xx, yy, zz, xy, xz, yz, while
  // k . p and k . g1 are constant.
  void gather_strain(int64_t first, int64_t end, const T *multipoles, const T *factors,
                     std::array<T, 6> *strains) const;
  std::size_t bytes() const;
  // Bytes for this number of atoms and, at most, these wave vectors, with the factors of both sides.
  static std::size_t bytes_for(int channels, int num_widths, const WaveVectors::Extent &extent, int64_t count);

 private:
  const T *weights(Side side, int width) const {
    return side == sources ? ones_.data() : of_width_[width].weights().data();
  }
  // Calls f(place in arrays, cosines [LANES], sines [LANES]) for all wave vectors of a tile.
  template <class F>
  void for_lanes(const WaveVectors::Tile &tile, int64_t atom, const F &f) const;

  MultipoleFunction function_;
  int channels_;
  const WaveVectors &waves_;
  std::vector<EwaldSum<T>> of_width_;    // for their weights
  EwaldSum<T> tables_;
  std::array<std::vector<T>, 3> k_;    // wave vectors, 0 where none is
  std::vector<T> ones_;                // 1 where a wave vector is
  int64_t count_ = 0;
};

}    // namespace equi

#endif

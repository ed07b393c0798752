// SPDX-License-Identifier: MIT
// Sums over atoms and wave vectors in a periodic cell: of the multipoles of atoms, and back at the atoms.
#ifndef EQUI_WAVE_SUM_H
#define EQUI_WAVE_SUM_H

#include "src/functions/wave_cell.h"
#include "src/functions/wave_vectors.h"
#include "src/numbers/dual.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

namespace equi {

// T: double, or Dual<double> for the derivative of all results along one direction of positions, multipoles and cell.
//
// An atom has multipoles in columns: a charge q, or a charge and a dipole p. Their structure factors are
//   S(k) = sum_j (q_j + i k . p_j) exp(i k . r_j).
// Each rank adds those of its own atoms; the caller sums them over the ranks. The field of factors t(k) at an atom is
// the real part of the sum of t exp(i k . r). The sums of atoms are in the order of atoms, so results do not depend on
// the number of threads. Threads share the work by calling the functions for ranges of atoms or tiles.
template <class T>
class WaveSum {
 public:
  using Position = std::array<T, 3>;

  // cell_direction: the derivative of the cell's vectors along the direction, or null, for a constant cell.
  // The wave vectors must stay where they are.
  explicit WaveSum(const WaveVectors &waves, const CellMatrix *cell_direction = nullptr);
  // After a change of the wave vectors, and before the other functions.
  void set_cell(const CellMatrix *cell_direction) { cell_ = WaveCell<T>(waves_, cell_direction); }
  const WaveCell<T> &cell() const { return cell_; }

  // In this order: sets the number of atoms; prepares the tables of atoms of a range.
  void set_count(int64_t count);
  void tabulate(int64_t first, int64_t end, const Position *positions);
  // Writes the structure factors of all atoms for a range of tiles, [columns][2][waves.size()]: real, then imaginary
  // parts. multipoles: [atoms][columns][components], where components are 1 or 4, a charge and WaveCell::along_cell()
  // of a dipole.
  void add_tiles(int64_t first, int64_t end, int columns, int components, const T *multipoles, T *sums) const;
  // Writes the fields of factors, [planes][2][waves.size()], at a range of atoms: fields[(atom planes + plane) stride]
  // and the following have field_numbers(order) numbers. Factors must be 0 where no wave vector is.
  void gather(int64_t first, int64_t end, int planes, int order, const T *factors, int64_t stride, T *fields) const;

  // Powers of an atom: exp(i k . r) is the product of first[n1], second[n2] and third[n3]; imaginary parts are
  // `imaginary` numbers further. Positive n3 may exceed the largest one up to the end of a tile; these powers are 0.
  struct Powers {
    const T *first, *second, *third;
    int64_t imaginary;
  };
  Powers powers(int64_t atom) const {
    const T *own = powers_.data() + atom * 2 * stride();
    return {own, own + cell_.place(1, 0), own + cell_.place(2, 0), stride()};
  }
  int64_t num_tiles() const { return static_cast<int64_t>(waves_.tiles().size()); }
  auto members() const { return std::tie(powers_); }    // owned_memory.h
  // Bytes for this number of atoms and, at most, these wave vectors.
  static std::size_t bytes_for(const WaveVectors::Extent &extent, int64_t count);

 private:
  template <int COMPONENTS>
  void add_block(const WaveVectors::Tile &tile, int64_t first, int num, int columns, const T *multipoles,
                 T *sums) const;
  template <int ORDER, int AT_ONCE>
  void gather_atoms(int64_t first, int planes, const T *factors, int64_t stride, T *fields) const;
  template <int ORDER, int AT_ONCE>
  void gather_plane(int64_t first, int64_t end, int planes, const T *factors, int64_t stride, T *fields) const;
  int64_t stride() const { return cell_.stride(); }

  const WaveVectors &waves_;
  WaveCell<T> cell_;
  int64_t count_ = 0;
  std::vector<T> powers_;    // [atoms][2][stride]
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The Ewald sum of charges with a Gaussian width in a periodic cell, without a part in real space.
#ifndef EQUI_EWALD_SUM_H
#define EQUI_EWALD_SUM_H

#include "src/functions/ewald_cell.h"
#include "src/functions/wave_vectors.h"
#include "src/numbers/dual.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace equi {

// T: double, or Dual<double> for the derivative of all results along one direction of positions, charges and the cell.
// Energies in eV, lengths in Angstrom.
//
// Each rank adds the structure factors of its own atoms; the caller sums them over the ranks. Charges of ghosts are
// not needed. The sums of atoms are in the order of atoms, so results do not depend on the number of threads. Threads
// share the work by calling the functions for ranges of atoms or tiles.
template <class T>
class EwaldSum {
 public:
  using Position = std::array<T, 3>;
  using AtPlace = EwaldAtom<T>;
  struct Total {
    T energy;    // without the self-interaction
    // Derivative of that energy with respect to a symmetric strain of cell and positions, while charges are constant:
    // xx, yy, zz, xy, xz, yz.
    std::array<T, 6> strain;
  };

  // cell_direction: the derivative of the cell's vectors along the direction, or null, for a constant cell.
  // The wave vectors must stay where they are.
  EwaldSum(const EwaldFunction &function, const WaveVectors &waves, const CellMatrix *cell_direction = nullptr);
  EwaldSum(const EwaldSum &) = default;
  // After a change of the wave vectors, and before the other functions.
  void set_cell(const CellMatrix *cell_direction);

  // In this order: sets the number of atoms; prepares the tables of atoms of a range; writes the structure factors of
  // all atoms for a range of tiles: real, then imaginary parts, [2][waves.size()].
  void set_count(int64_t count);
  void tabulate(int64_t first, int64_t end, const Position *positions);
  void add_tiles(int64_t first, int64_t end, const T *charges, T *structure_factors) const;
  // Then, with the sum of structure factors over all ranks: sets them, and computes the potentials of a range of atoms.
  void set_sum(const T *structure_factors);
  void gather(int64_t first, int64_t end, const T *charges, AtPlace *atoms) const;
  // Derivatives of the energies of a range of atoms by a strain while charges and structure factors are constant. Their
  // sum over all atoms is Total::strain.
  void gather_strain(int64_t first, int64_t end, const double *charges, std::array<double, 6> *atoms) const;
  Total total(const T *structure_factors) const;
  std::size_t bytes() const;
  // Bytes for this number of atoms and, at most, these wave vectors.
  static std::size_t bytes_for(const WaveVectors::Extent &extent, int64_t count);
  int64_t num_tiles() const { return static_cast<int64_t>(waves_.tiles().size()); }

  // For other sums over the same wave vectors. Powers of an atom: exp(i k . r) is the product of first[n1], second[n2]
  // and third[n3]; imaginary parts are `imaginary` numbers further. Positive n3 may exceed the largest one up to the
  // end of a tile; these powers are 0.
  struct Powers {
    const T *first, *second, *third;
    int64_t imaginary;
  };
  Powers powers(int64_t atom) const {
    const T *own = powers_.data() + atom * 2 * stride();
    return {own, own + cell_.place(1, 0), own + cell_.place(2, 0), stride()};
  }
  const std::vector<T> &weights() const { return weights_; }    // h [waves.size()], 0 where no wave vector is
  Position wave_vector(int n1, int n2, int n3) const {
    Position k;
    cell_.wave_vector(n1, n2, n3, k.data());
    return k;
  }

  // All of it on one thread.
  void add_up(int64_t count, const Position *positions, const T *charges, T *structure_factors) {
    set_count(count);
    tabulate(0, count, positions);
    add_tiles(0, num_tiles(), charges, structure_factors);
  }
  void gather(const T *structure_factors, const T *charges, AtPlace *atoms) {
    set_sum(structure_factors);
    gather(0, count_, charges, atoms);
  }

 private:
  // num: not more than the atoms of a block
  void add_block(const WaveVectors::Tile &tile, int num, const T *powers, const T *charges, T *structure_factors) const;
  int64_t stride() const { return cell_.stride(); }

  EwaldFunction function_;
  const WaveVectors &waves_;
  EwaldCell<T> cell_;
  std::vector<T> weights_;    // h [size], 0 where no wave vector is
  int64_t count_ = 0;
  std::vector<T> powers_;     // [atoms][2][stride]
  std::vector<T> factors_;    // 2 h conj(S), real, then imaginary parts
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The Ewald sum of charges with a Gaussian width in a periodic cell, without a part in real space.
#ifndef EQUI_EWALD_SUM_H
#define EQUI_EWALD_SUM_H

#include "src/functions/wave_vectors.h"
#include "src/numbers/dual.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace equi {

// With S(k) = sum_i q_i exp(i k . r_i) and the sum over one of each pair k and -k,
//   E = sum_k h(k) |S(k)|^2 - self/2 sum_i q_i^2,   h(k) = (prefactor / V) exp(-sigma^2 k^2 / 2) / k^2.
// If all k take part and the self-interaction is removed, the charges interact by (prefactor / 4 pi) erf(r / (sqrt2
// sigma)) / r with all periodic images. A charged cell has a uniform background, because k = 0 is left out.
struct EwaldFunction {
  double sigma;         // Angstrom
  double prefactor;     // 1/eps0, eV Angstrom per squared unit of charge
  bool removes_self;    // the interaction of each charge with itself

  // prefactor / ((2 pi)^(3/2) sigma), or 0: eV per squared unit of charge
  double self() const;
};

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
  // What the charges of all ranks give to an atom.
  struct AtPlace {
    T potential;          // dE/dq_i; q_i potential / 2 is the atom's energy
    Position gradient;    // dE/dr_i while charges are constant
  };
  struct Total {
    T energy;    // without the self-interaction
    // Derivative of that energy with respect to a symmetric strain of cell and positions, while charges are constant:
    // xx, yy, zz, xy, xz, yz.
    std::array<T, 6> strain;
  };

  // cell_direction: the derivative of the cell's vectors along the direction, or null, for a constant cell.
  EwaldSum(const EwaldFunction &function, const WaveVectors &waves, const CellMatrix *cell_direction = nullptr);
  EwaldSum(const EwaldSum &) = default;

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
  int64_t num_tiles() const { return static_cast<int64_t>(waves_.tiles().size()); }

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
  // Powers exp(i n s) of one atom: real, then imaginary parts, [2][stride()].
  void tabulate(const Position &position, T *powers) const;
  // num: not more than the atoms of a block
  void add_block(const WaveVectors::Tile &tile, int num, const T *powers, const T *charges, T *structure_factors) const;
  Position wave_vector(int n1, int n2, int n3) const;
  void put_atom(const T *potential, const T (*slope)[WaveVectors::LANES], T charge, AtPlace &atom) const;
  int64_t stride() const { return start_[2] + row_[2]; }

  EwaldFunction function_;
  const WaveVectors &waves_;
  Position reciprocal_[3];                // WaveVectors::reciprocal()
  std::vector<T> weights_;                // h [size], 0 where no wave vector is
  std::array<int64_t, 3> start_, row_;    // of the powers of each direction within those of an atom, and their number
  int64_t count_ = 0;
  std::vector<T> powers_;     // [atoms][2][stride]
  std::vector<T> factors_;    // 2 h conj(S), real, then imaginary parts
};

}    // namespace equi

#endif

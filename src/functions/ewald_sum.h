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

// T: double, or Dual<double> for the derivative of all results along one direction of positions and charges. The cell
// is a constant. Energies in eV, lengths in Angstrom.
//
// Each rank adds the structure factors of its own atoms; the caller sums them over the ranks. Charges of ghosts are
// not needed. The sums of atoms are in the order of atoms, so results do not depend on the number of threads.
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

  EwaldSum(const EwaldFunction &function, const WaveVectors &waves);

  // Prepares the tables of atoms, and writes their structure factors: real, then imaginary parts, [2][waves.size()].
  void add_up(int64_t count, const Position *positions, const T *charges, T *structure_factors);
  // Computes the potentials of the atoms of the last add_up(), from the sum of structure factors over all ranks.
  void gather(const T *structure_factors, const T *charges, AtPlace *atoms);
  Total total(const T *structure_factors) const;
  std::size_t bytes() const;

 private:
  // Powers exp(i n s) of one atom: real, then imaginary parts, [2][stride()].
  void tabulate(const Position &position, T *powers) const;
  // num: not more than the atoms of a block
  void add_block(int num, const T *powers, const T *charges, T *structure_factors) const;
  void put_atom(const T *potential, const T (*slope)[WaveVectors::LANES], T charge, AtPlace &atom) const;
  int64_t stride() const { return start_[2] + row_[2]; }

  EwaldFunction function_;
  const WaveVectors &waves_;
  std::vector<double> weights_;           // h [size], 0 where no wave vector is
  std::array<int64_t, 3> start_, row_;    // of the powers of each direction within those of an atom, and their number
  std::vector<T> powers_;                 // [atoms][2][stride]
  std::vector<T> factors_;                // 2 h conj(S), real, then imaginary parts
};

}    // namespace equi

#endif

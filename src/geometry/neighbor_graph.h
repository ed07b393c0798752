// SPDX-License-Identifier: MIT
// The atoms, candidate neighbors and feature rows that an evaluation works on.
//
// Edge direction, stated here once: an edge belongs to its receiver i, which this rank owns; its sender j is any atom
// this rank knows; its vector is r_j - r_i. Every ordered pair within the cutoff is one edge.
//
// Atoms and rows: an *atom* is an entry of the position array (owned atoms first, then ghosts, including periodic
// images). A *row* holds the features of one real atom. Images of an owned atom share the owner's row, and images of
// one remote atom share one row. Only rows of remote atoms are sent between ranks.
#ifndef EQUI_NEIGHBOR_GRAPH_H
#define EQUI_NEIGHBOR_GRAPH_H

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

namespace equi {

// For sums over all atoms: which directions are periodic, and the vectors of the box as rows, Angstrom. Vectors of
// directions without periodicity may be 0.
struct PeriodicBox {
  using Vectors = std::array<std::array<double, 3>, 3>;
  std::array<bool, 3> periodic{};
  Vectors vectors{};
  // The vectors if the box is periodic in three directions, else zeros.
  Vectors cell() const { return periodic[2] ? cell_of_waves() : Vectors{}; }
  // The same for sums over wave vectors, which a slab that is periodic in the first two directions has, too.
  Vectors cell_of_waves() const { return periodic[0] && periodic[1] ? vectors : Vectors{}; }
};

// Changes when the host program rebuilds its neighbor list, not in each step. Candidates may be beyond the cutoff
// (skin).
struct Neighborhood {
  int num_atoms = 0;               // entries of the position array
  int num_receivers = 0;           // N: receiver i has row i
  int num_interior = 0;            // the first num_interior receivers are known to have only owned senders
  int num_rows = 0;                // A >= N: rows N..A-1 are remote atoms
  std::vector<int> receiver;       // [N] atom index of receiver i
  std::vector<int> row_species;    // [A] species of a row
  std::vector<int64_t> first;      // [N+1] candidates of receiver i: first[i]..first[i+1]
  std::vector<int> sender_atom;    // [candidates] atom index of j
  std::vector<int> sender_row;     // [candidates] row of j
  PeriodicBox box;                 // the host program may change it before each evaluation
  auto members() const { return std::tie(receiver, row_species, first, sender_atom, sender_row); }    // owned_memory.h
};

// An atomic structure with its periodic images as explicit atoms, all rows owned: for self-checks and tests.
struct ImageStructure {
  std::vector<std::array<double, 3>> positions;    // owned first, then images
  std::vector<int> owner;                          // [atoms] index of the real atom
  Neighborhood neighborhood;
};

// Pairs of an atom and an image that build_image_structure examines; they can be far more than the neighbors. Throws
// like that function.
double num_image_candidates(const std::vector<std::array<double, 3>> &positions, const double cell[3][3],
                            const bool periodic[3], double cutoff);

// All images within the cutoff, also for cells smaller than it. species[i] is that of owned atom i; cell rows are
// lattice vectors. Throws std::invalid_argument if the periodic vectors are not independent, or if positions are
// billions of cells apart.
ImageStructure build_image_structure(const std::vector<std::array<double, 3>> &positions,
                                     const std::vector<int> &species, const double cell[3][3], const bool periodic[3],
                                     double cutoff);

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The neighbor list of a structure with periodic images as explicit atoms, found by vesin in a time that is
// proportional to the number of atoms.
#ifndef EQUI_STRUCTURE_NEIGHBORS_H
#define EQUI_STRUCTURE_NEIGHBORS_H

#include "src/geometry/neighbor_graph.h"

#include <array>
#include <vector>

namespace equi {

// Rows of `vectors` are the lattice vectors. A list of neighbors does not use those without periodicity.
struct PeriodicCell {
  double vectors[3][3] = {};
  bool periodic[3] = {};
  bool operator==(const PeriodicCell &other) const;
};

class StructureNeighbors {
 public:
  // skin, Angstrom: the list is kept as long as it has all neighbors within the cutoff, because no atom has moved by
  // more than half the skin.
  StructureNeighbors(double cutoff, double skin) : cutoff_(cutoff), skin_(skin) {}

  // Returns whether neighborhood() is another one than before. Throws std::invalid_argument if positions or the cell
  // are not finite, if periodic vectors are not independent, if positions are more than some million cells apart, if
  // a periodic structure is too flat or thin for its length, or if the list would need more than `memory` bytes.
  bool update(const std::vector<std::array<double, 3>> &positions, const std::vector<int> &species,
              const PeriodicCell &cell, double memory);

  // Valid until the next update.
  const Neighborhood &neighborhood() const { return neighborhood_; }
  const std::vector<std::array<double, 3>> &positions() const { return positions_; }    // [atoms], Angstrom
  const std::vector<int> &owner() const { return owner_; }    // [atoms] the atom whose image it is

 private:
  bool is_kept(const std::vector<std::array<double, 3>> &positions, const std::vector<int> &species,
               const PeriodicCell &cell) const;
  void build(const std::vector<std::array<double, 3>> &positions, const std::vector<int> &species, double memory);
  void move_images(const std::vector<std::array<double, 3>> &positions);

  double cutoff_, skin_;
  bool is_valid_ = false;
  PeriodicCell cell_;
  std::vector<std::array<double, 3>> built_for_;    // positions when the list was made
  Neighborhood neighborhood_;
  std::vector<std::array<double, 3>> positions_;
  std::vector<int> owner_;
  std::vector<std::array<int, 3>> shift_;    // [atoms] lattice vectors between the owner and its image
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The system of the programs that measure evaluations without LAMMPS: rock salt, with each atom slightly displaced.
#ifndef EQUI_BENCH_ROCK_SALT_H
#define EQUI_BENCH_ROCK_SALT_H

#include "src/geometry/neighbor_graph.h"

#include <cmath>
#include <random>
#include <vector>

namespace equi {

// cells^3 cubic cells of 8 atoms, species 0 and 1, periodic; the same atoms at every call. Time and memory grow with
// the number of atoms, unlike in build_image_structure().
inline ImageStructure jittered_rock_salt(int cells, double cutoff) {
  constexpr double SPACING = 2.82, JITTER = 0.1;    // Angstrom
  const int side = 2 * cells, reach = static_cast<int>(std::ceil((cutoff + 4.0 * JITTER) / SPACING)),
            width = side + 2 * reach;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> jitter(-JITTER, JITTER);
  ImageStructure s;
  Neighborhood &n = s.neighborhood;
  const int num_atoms = side * side * side;
  for (int i = 0; i < num_atoms; ++i) {
    const int at[3] = {i % side, i / side % side, i / (side * side)};
    s.positions.push_back({});
    for (int k = 0; k < 3; ++k) s.positions.back()[k] = SPACING * at[k] + jitter(random);
    s.owner.push_back(i);
    n.receiver.push_back(i);
    n.row_species.push_back((at[0] + at[1] + at[2]) % 2);
  }
  n.num_receivers = n.num_interior = n.num_rows = num_atoms;

  // Atoms and images by their site in the lattice, made when a neighbor list first names them.
  std::vector<int> atom_at(static_cast<size_t>(width) * width * width, -1);
  n.first.push_back(0);
  for (int i = 0; i < num_atoms; ++i) {
    const int at[3] = {i % side, i / side % side, i / (side * side)};
    for (int z = -reach; z <= reach; ++z)
      for (int y = -reach; y <= reach; ++y)
        for (int x = -reach; x <= reach; ++x) {
          if (x == 0 && y == 0 && z == 0) continue;
          const int place[3] = {at[0] + x, at[1] + y, at[2] + z};
          int home[3];
          std::array<double, 3> shift;
          for (int k = 0; k < 3; ++k) {
            home[k] = ((place[k] % side) + side) % side;
            shift[k] = SPACING * (place[k] - home[k]);
          }
          const int owner = (home[2] * side + home[1]) * side + home[0];
          std::array<double, 3> position = s.positions[owner];
          double square = 0.0;
          for (int k = 0; k < 3; ++k) {
            position[k] += shift[k];
            square += (position[k] - s.positions[i][k]) * (position[k] - s.positions[i][k]);
          }
          if (square > cutoff * cutoff) continue;
          int &atom =
              atom_at[(static_cast<size_t>(place[2] + reach) * width + place[1] + reach) * width + place[0] + reach];
          if (atom < 0 && shift == std::array<double, 3>{}) atom = owner;
          if (atom < 0) {
            atom = static_cast<int>(s.positions.size());
            s.positions.push_back(position);
            s.owner.push_back(owner);
          }
          n.sender_atom.push_back(atom);
          n.sender_row.push_back(owner);
        }
    n.first.push_back(static_cast<int64_t>(n.sender_atom.size()));
  }
  n.num_atoms = static_cast<int>(s.positions.size());
  return s;
}

}    // namespace equi

#endif

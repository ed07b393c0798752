// The system of the programs that measure evaluations without LAMMPS: rock salt, each atom moved a little.
#ifndef EQUI_BENCH_ROCK_SALT_H
#define EQUI_BENCH_ROCK_SALT_H

#include "neighbor_graph.h"

#include <random>
#include <vector>

namespace equi {

// cells^3 cubic cells of 8 atoms, species 0 and 1, periodic; the same atoms at every call.
inline ImageStructure jittered_rock_salt(int cells, double cutoff) {
  constexpr double LENGTH = 5.64, JITTER = 0.1;    // Angstrom
  std::mt19937 random(1);
  std::uniform_real_distribution<double> jitter(-JITTER, JITTER);
  std::vector<std::array<double, 3>> positions;
  std::vector<int> species;
  const int side = 2 * cells;
  for (int n = 0; n < side * side * side; ++n) {
    const int at[3] = {n % side, n / side % side, n / (side * side)};
    positions.push_back({});
    for (int k = 0; k < 3; ++k) positions.back()[k] = 0.5 * LENGTH * at[k] + jitter(random);
    species.push_back((at[0] + at[1] + at[2]) % 2);
  }
  const double cell[3][3] = {{LENGTH * cells, 0, 0}, {0, LENGTH * cells, 0}, {0, 0, LENGTH * cells}};
  const bool periodic[3] = {true, true, true};
  return build_image_structure(positions, species, cell, periodic, cutoff);
}

}    // namespace equi

#endif

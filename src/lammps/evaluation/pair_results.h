// SPDX-License-Identifier: MIT
// Adds the results of an evaluation to LAMMPS's arrays, in LAMMPS's units. The functors run on a host or on a device.
#ifndef EQUI_PAIR_RESULTS_H
#define EQUI_PAIR_RESULTS_H

#include "src/numbers/host_device.h"

#include <cstdint>

namespace equi {

// Results of rows, in eV and Angstrom. Row r is atom atom_of_row[r], or atom r if atom_of_row is null; -1 means no
// atom.
struct ResultRows {
  int num_rows = 0, num_energies = 0;
  const int *atom_of_row = nullptr;
  const double *forces = nullptr;      // [num_rows][3]
  const double *energies = nullptr;    // [num_energies]
  const double *virials = nullptr;     // [num_rows][9], order xx,yy,zz,xy,xz,yz,yx,zx,zy
  double unit = 1.0;                   // LAMMPS's units per eV
  bool on_device = false;              // whether the arrays are in the memory of a device

  EQUI_FUNCTION int atom(int row) const { return atom_of_row ? atom_of_row[row] : row; }
};

// Each functor adds the numbers of a row to an array of atoms, to(i) or to(i, k).
template <class Array>
struct AddForces {
  ResultRows rows;
  Array to;
  EQUI_FUNCTION void operator()(int row) const {
    const int i = rows.atom(row);
    if (i < 0) return;
    for (int k = 0; k < 3; k++) to(i, k) += rows.unit * rows.forces[3 * static_cast<int64_t>(row) + k];
  }
};

template <class Array>
struct AddEnergies {
  ResultRows rows;
  Array to;
  EQUI_FUNCTION void operator()(int row) const { to(rows.atom(row)) += rows.unit * rows.energies[row]; }
};

// The symmetric part, as in LAMMPS's vatom.
template <class Array>
struct AddVirials {
  ResultRows rows;
  Array to;
  EQUI_FUNCTION void operator()(int row) const {
    const int i = rows.atom(row);
    if (i < 0) return;
    const double *v = rows.virials + 9 * static_cast<int64_t>(row);
    for (int k = 0; k < 3; k++) to(i, k) += rows.unit * v[k];
    for (int k = 3; k < 6; k++) to(i, k) += 0.5 * rows.unit * (v[k] + v[k + 3]);
  }
};

template <class Array>
struct AddCentroidVirials {
  ResultRows rows;
  Array to;
  EQUI_FUNCTION void operator()(int row) const {
    const int i = rows.atom(row);
    if (i < 0) return;
    for (int k = 0; k < 9; k++) to(i, k) += rows.unit * rows.virials[9 * static_cast<int64_t>(row) + k];
  }
};

}    // namespace equi

#endif

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Second derivatives for commands. LAMMPS is set up for the present positions of the atoms; then products of the matrix
// of second derivatives with vectors are computed.

#ifndef EQUI_LAMMPS_HESSIAN_H
#define EQUI_LAMMPS_HESSIAN_H

#include "src/evaluation/born_charges.h"
#include "src/lammps/evaluation/pair_derivatives.h"
#include "src/lammps/pair/pair_equi.h"

#include "pointers.h"

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace equi {

class LammpsHessian : protected LAMMPS_NS::Pointers {
 public:
  // Checks that pair style equi is the only pair style, calls the init() of LAMMPS, and sets up ghosts and neighbors.
  // command: for error messages. kept_directions: if not 0, the evaluation uses memory for vectors that are 0 for most
  // atoms. Later products, of this number of vectors at a time, then cost less. has_born_charges: prepares
  // born_charges(). This function and all below are collective.
  LammpsHessian(LAMMPS_NS::LAMMPS *lmp, const std::string &command, int kept_directions = 0,
                bool has_born_charges = false);

  // H v for each of `count` vectors; v and H v are those of this rank's atoms, [nlocal].
  using Vectors = std::vector<std::array<double, 3>>;
  void multiply(int count, const Vectors *v, Vectors *hv);

  // Derivatives by a homogeneous strain; `forces`: those of the forces on this rank's atoms, [nlocal].
  StrainDerivatives strain(const double strain[3][3], Vectors &forces);

  // Those of this rank's atoms, [nlocal], with which the energy of an Ewald sum depends on the direction of long waves.
  BornCharges born_charges();
  // The factor of that part of the second derivatives, in LAMMPS's units of energy/length^2 per e^2. Stops with an
  // error unless the energy has an Ewald sum of charges that are an observable.
  double long_wave_factor() const;

  // Whether a rotation of all atoms leaves the energy unchanged, except for rounding.
  bool is_invariant() const { return pair_->is_invariant(); }

  int find_group(const std::string &id) const;
  bool in_group(int igroup, int atom_index) const;
  // Mass of one of this rank's atoms.
  double mass(int atom_index) const;
  // Replaces this rank's numbers by their sums over all ranks.
  void sum_over_ranks(std::vector<double> &numbers) const;
  // [natoms] by ID, on all ranks; IDs must be 1 .. natoms.
  std::vector<double> gather(int width, const std::vector<double> &of_local_atoms) const;
  // Factor from energy/length^2/mass in LAMMPS's units to 10 J/mol/Angstrom^2/(g/mol), the unit of squared frequencies
  // in 1/ps.
  double energy_per_area_and_mass() const;

 private:
  std::string command_;
  LAMMPS_NS::PairEqui *pair_;
  bool is_first_ = true;    // no product has been computed yet
};

// A file of results, which rank 0 writes. All ranks stop if it cannot be opened; opening is collective.
class ResultFile {
 public:
  // gzip: compressed, with this suffix after the name.
  ResultFile(LAMMPS_NS::LAMMPS *lmp, const std::string &command, const std::string &name, const char *mode = "w",
             bool gzip = false);
  FILE *stream() const { return file_.get(); }    // null on other ranks
  // Throw if data could not be written. The last numbers leave the buffer in close(), and the disk may be full.
  void check() const;
  void close();

 private:
  std::string name_;
  std::unique_ptr<FILE, int (*)(FILE *)> file_;
};

}    // namespace equi

#endif

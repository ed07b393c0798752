// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// compute equi/charge, equi/dipole, equi/polarizability and equi/spin: quantities that a model computes besides the
// energy. The manual page is doc/charges_and_fields.rst.

#ifndef LMP_COMPUTE_EQUI_OBSERVABLE_H
#define LMP_COMPUTE_EQUI_OBSERVABLE_H

#include "compute.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

class ComputeEquiObservable : public Compute {
 public:
  ComputeEquiObservable(class LAMMPS *, int, char **);
  ~ComputeEquiObservable() override;
  void init() override;
  double compute_scalar() override;
  void compute_vector() override;
  void compute_peratom() override;
  double memory_usage() override;

 private:
  std::string name_;                // charge, dipole, polarizability or spin
  double unit_ = 1.0;               // of the results, per e Angstrom
  int width_;                       // numbers of an atom: q; q, mu; xx, yy, zz, xy, xz, yz
  std::vector<double> of_atoms_;    // [nlocal][width_], zero outside the group
  bigint evaluated_ = -1;           // the step at which of_atoms_ was computed
  int capacity_ = 0;

  class PairEqui &pair() const;
  void evaluate();
  // The sums over the atoms of the group on all ranks; for a dipole with the part of charges.
  std::vector<double> sums();
};

}    // namespace LAMMPS_NS

#endif

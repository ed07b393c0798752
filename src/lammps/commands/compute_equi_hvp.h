// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// compute equi/hvp: the matrix of second derivatives of the energy times a vector per atom. The manual page is
// doc/second_derivatives.rst.

#ifndef LMP_COMPUTE_EQUI_HVP_H
#define LMP_COMPUTE_EQUI_HVP_H

#include "compute.h"

#include <array>
#include <string>
#include <vector>

namespace LAMMPS_NS {

class ComputeEquiHVP : public Compute {
 public:
  ComputeEquiHVP(class LAMMPS *, int, char **);
  ~ComputeEquiHVP() override;
  void init() override;
  void compute_peratom() override;
  double memory_usage() override;

 private:
  // One component of the vector: v_name, or c_ID, c_ID[k], f_ID, f_ID[k].
  struct Source {
    std::string text, id;
    char kind;
    int column;    // 0: a per-atom vector
  };
  Source sources_[3];
  std::vector<std::array<double, 3>> vector_, product_;
  std::vector<double> component_;
  int capacity_ = 0;

  class PairEqui &pair() const;
  void read_component(int);
  void multiply();
};

}    // namespace LAMMPS_NS

#endif

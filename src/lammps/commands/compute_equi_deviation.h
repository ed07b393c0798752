// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// compute equi/deviation: how much the models of a committee differ. The manual page is doc/committee.rst.

#ifndef LMP_COMPUTE_EQUI_DEVIATION_H
#define LMP_COMPUTE_EQUI_DEVIATION_H

#include "compute.h"

namespace LAMMPS_NS {

class ComputeEquiDeviation : public Compute {
 public:
  ComputeEquiDeviation(class LAMMPS *, int, char **);
  ~ComputeEquiDeviation() override;
  void init() override {}
  void compute_peratom() override;
  void compute_vector() override;
  double memory_usage() override;

 private:
  int capacity_ = 0;

  class PairEqui *pair() const;
};

}    // namespace LAMMPS_NS

#endif

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// compute equi/born: the Born effective charges of atoms whose charges or dipoles a model computes. The manual page is
// doc/charges_and_fields.rst.

#ifndef LMP_COMPUTE_EQUI_BORN_H
#define LMP_COMPUTE_EQUI_BORN_H

#include "compute.h"

#include "src/evaluation/born_charges.h"

namespace LAMMPS_NS {

class ComputeEquiBorn : public Compute {
 public:
  ComputeEquiBorn(class LAMMPS *, int, char **);
  ~ComputeEquiBorn() override;
  void init() override;
  void compute_vector() override;
  void compute_peratom() override;
  double memory_usage() override;

 private:
  bool neutral_ = false;
  equi::BornCharges charges_;    // [nlocal], also outside the group
  bigint evaluated_ = -1;        // the step at which charges_ were computed
  int capacity_ = 0;

  class PairEqui &pair() const;
  void evaluate();
};

}    // namespace LAMMPS_NS

#endif

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// compute equi/heat/flux: the heat flux of pair style equi. It is exact for potentials whose energies of atoms depend
// on more than pairs. The manual page is doc/second_derivatives.rst.

#ifndef LMP_COMPUTE_EQUI_HEAT_FLUX_H
#define LMP_COMPUTE_EQUI_HEAT_FLUX_H

#include "compute.h"

#include <array>
#include <vector>

namespace LAMMPS_NS {

class ComputeEquiHeatFlux : public Compute {
 public:
  ComputeEquiHeatFlux(class LAMMPS *, int, char **);
  ~ComputeEquiHeatFlux() override;
  void init() override;
  void compute_vector() override;
  void compute_peratom() override;
  double memory_usage() override;

 private:
  using Flux = std::array<double, 6>;    // same components as the compute's vector
  std::vector<double> energies_;
  std::vector<std::array<double, 3>> moments_;
  std::vector<Flux> flux_;    // [nlocal], zero outside the group
  bigint evaluated_ = -1;     // the step at which flux_ was computed
  int capacity_ = 0;

  class PairEqui &pair() const;
  void evaluate();
};

}    // namespace LAMMPS_NS

#endif

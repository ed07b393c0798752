// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// How much the models of a committee differ, for fix pair of LAMMPS and for compute equi/deviation.

#ifndef EQUI_COMMITTEE_DEVIATION_H
#define EQUI_COMMITTEE_DEVIATION_H

#include "src/lammps/evaluation/pair_runner.h"

#include "lmptype.h"

#include <string>
#include <vector>

namespace equi {

class CommitteeDeviation : public PairPart {
 public:
  using PairPart::PairPart;

  // Computes the deviations of the runner's last step. evaluation_step: that step. Collective; null is an error.
  void find(PairRunner *runner, LAMMPS_NS::bigint evaluation_step);
  void forget() { step_ = -1; }    // forces have been computed
  bool is_known() const;           // for the present step
  bool is_wanted() const { return wants_ != 0; }
  // In LAMMPS's units: the standard deviation of the force on each of this rank's atoms [nlocal], sqrt(mean over models
  // |F - mean F|^2), and that of the energy of all atoms.
  const double *force() const { return force_.data(); }
  double energy() const { return energy_; }

  // What fix pair reads and sets: null for other names.
  int *flag(const std::string &name);
  double *peratom(const std::string &name);

 private:
  int wants_ = 0;                  // fix pair sets it to 1 for the next step
  LAMMPS_NS::bigint step_ = -1;    // the step at which the deviations were computed
  std::vector<double> force_;      // [nlocal+1]
  double energy_ = 0.0;
};

}    // namespace equi

#endif

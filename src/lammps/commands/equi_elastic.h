// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The command equi_elastic: the elastic constants of a crystal. The manual page is doc/second_derivatives.rst.

#ifndef LMP_EQUI_ELASTIC_H
#define LMP_EQUI_ELASTIC_H

#include "command.h"

namespace LAMMPS_NS {

class EquiElastic : public Command {
 public:
  explicit EquiElastic(class LAMMPS *lmp) : Command(lmp) {}
  void command(int, char **) override;

 private:
  void calculate(int, char **);
};

}    // namespace LAMMPS_NS

#endif

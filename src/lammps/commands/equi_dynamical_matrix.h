// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The command equi_dynamical_matrix: like LAMMPS's dynamical_matrix, but with exact second derivatives. The
// manual page is doc/second_derivatives.rst.

#ifndef LMP_EQUI_DYNAMICAL_MATRIX_H
#define LMP_EQUI_DYNAMICAL_MATRIX_H

#include "command.h"

#include <array>
#include <vector>

namespace equi {
class LammpsHessian;
}

namespace LAMMPS_NS {

class EquiDynamicalMatrix : public Command {
 public:
  explicit EquiDynamicalMatrix(class LAMMPS *lmp) : Command(lmp) {}
  void command(int, char **) override;

 private:
  void calculate(int, char **);
  std::vector<double> charges_along(const std::array<double, 3> &n, equi::LammpsHessian &hessian);
};

}    // namespace LAMMPS_NS

#endif

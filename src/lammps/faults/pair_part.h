// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The base of the classes that do the work of pair style equi: LAMMPS's classes, and errors in the style's name.

#ifndef EQUI_PAIR_PART_H
#define EQUI_PAIR_PART_H

#include "src/lammps/faults/lammps_faults.h"

#include "comm.h"
#include "pointers.h"
#include "utils.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace equi {

class PairPart : protected LAMMPS_NS::Pointers {
 protected:
  using Pointers::Pointers;

  // For work of a setup, without communication: an error of any rank stops all.
  void collective_try(Work work) const { equi::collective_try(error, world, "Pair style equi", work); }
  // Stops with this error of any rank, unless it is empty on all.
  void stop_at(const std::string &fault) const {
    collective_try([&] {
      if (!fault.empty()) throw std::runtime_error(fault);
    });
  }

  template <class... Arguments>
  void log(const std::string &format, Arguments &&...arguments) const {
    if (comm->me == 0) LAMMPS_NS::utils::logmesg(lmp, format, std::forward<Arguments>(arguments)...);
  }

  // Over all ranks. Collective.
  bool any(bool mine) const { return reduce<int>(mine, MPI_INT, MPI_MAX) != 0; }
  double sum(double mine) const { return reduce(mine, MPI_DOUBLE, MPI_SUM); }
  double largest(double mine) const { return reduce(mine, MPI_DOUBLE, MPI_MAX); }
  template <class T>
  T reduce(T mine, MPI_Datatype type, MPI_Op operation) const {
    T all{};
    MPI_Allreduce(&mine, &all, 1, type, operation, world);
    return all;
  }
};

}    // namespace equi

#endif

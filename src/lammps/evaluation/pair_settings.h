// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The settings of pair_style equi. The table of its keywords is in the source.

#ifndef EQUI_PAIR_SETTINGS_H
#define EQUI_PAIR_SETTINGS_H

#include "src/evaluation/evaluator.h"
#include "src/lammps/atoms/lammps_exchange.h"
#include "src/model/model_file.h"

#include <array>

namespace LAMMPS_NS {
class LAMMPS;
}

namespace equi {

// Whether a command has been used, and whether its last use was accepted. A program that uses LAMMPS as a library
// survives an error; nothing of an earlier command is used afterwards.
enum class PairCommand { missing, refused, accepted };

// Each pair_style command replaces all of them at once.
struct PairSettings {
  PairCommand command = PairCommand::missing;
  EvaluatorOptions options;    // without the limit of the memory
  bool reference = false, check = false;
  ForcesOf forces_of = ForcesOf::energy;
  enum class Kernels { automatic, host, device } kernels = Kernels::automatic;
  ExchangeMode exchange_mode = ExchangeMode::automatic;
  double memory_limit = -1.0;       // bytes per rank; 0: none; -1: the available memory, divided by the ranks
  AtomicSystem system;              // task, charge, spin and other inputs, for files for all systems
  std::array<double, 3> field{};    // V/Angstrom, for models with a dipole

  bool has_direct_forces() const { return forces_of == ForcesOf::features; }
  bool has_field() const { return field != std::array<double, 3>{}; }
};

// The settings of the arguments of pair_style; stops with an error if they are wrong. is_kokkos: the style is equi/kk.
PairSettings read_settings(LAMMPS_NS::LAMMPS *lmp, int narg, char **arg, bool is_kokkos);

}    // namespace equi

#endif

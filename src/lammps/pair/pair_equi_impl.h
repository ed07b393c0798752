// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The data of PairEqui, for its own source and for that of equi/kk.

#ifndef LMP_PAIR_EQUI_IMPL_H
#define LMP_PAIR_EQUI_IMPL_H

#include "src/lammps/pair/pair_equi.h"

#include "src/evaluation/evaluator.h"
#include "src/lammps/atoms/lammps_exchange.h"
#include "src/model/model_file.h"

#include "lmptype.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace LAMMPS_NS {

// Whether a command has been used, and whether its last use was accepted. A program that uses LAMMPS as a library
// survives an error; nothing of an earlier command is used afterwards.
enum class EquiCommand { missing, refused, accepted };

// The settings of pair_style. Each command replaces all of them at once.
struct EquiSettings {
  EquiCommand pair_style = EquiCommand::missing;
  equi::EvaluatorOptions options;
  bool reference = false, check = false;
  equi::ForcesOf forces_of = equi::ForcesOf::energy;
  enum class Kernels { automatic, host, device } kernels = Kernels::automatic;
  equi::ExchangeMode exchange_mode = equi::ExchangeMode::automatic;
  double memory_limit = -1.0;    // bytes per rank; 0: none; -1: the available memory, divided by the ranks
  equi::AtomicSystem system;     // task, charge and spin, for files for all systems
};

// The settings of pair_coeff. Each command replaces all of them, too.
struct EquiCoefficients {
  EquiCommand pair_coeff = EquiCommand::missing;
  std::vector<equi::Model> models;    // with all elements; several models are a committee
  std::vector<std::string> files;     // files of the models, as pair_coeff names them
  equi::AtomicSystem made_for;        // the system that models of files for all systems were made for
  equi::ForcesOf read_with = equi::ForcesOf::energy;
  std::vector<std::string> symbols;        // elements in use, in the order of species of the evaluator
  std::vector<std::string> type_symbol;    // [ntypes+1], empty for NULL
  std::vector<int> type_species;           // [ntypes+1], -1 for NULL
};

struct PairEqui::Impl : EquiSettings, EquiCoefficients {
  Impl(Pair *pair, MPI_Comm world) : exchange(std::make_unique<equi::LammpsExchange>(pair, world)) {}

  // Call before a command or a setup that may be refused: drops everything that was set up.
  void unset() {
    is_set_up = false;
    evaluator.reset();
    plain.reset();
    directional.reset();
    moments.reset();
  }

  // The largest cutoff of the models.
  double cutoff() const {
    double largest = 0.0;
    for (const equi::Model &model : models) largest = std::max(largest, model.reach());
    return largest;
  }

  // Whether a rotation of all atoms leaves the energy unchanged, except for rounding.
  bool is_invariant() const {
    return std::all_of(models.begin(), models.end(),
                       [](const auto &model) { return equi::is_invariant(model.layers); });
  }

  bool is_direct() const { return forces_of == equi::ForcesOf::features; }

  bool is_set_up = false;    // init_style() has succeeded since the last pair_style or pair_coeff
  std::unique_ptr<equi::Evaluator> evaluator;
  bool wants_hessian = false, wants_moments = false;
  int kept_directions = 0;
  std::unique_ptr<equi::Evaluator> plain;    // with `check yes`, until the first evaluation has been compared with it
  std::unique_ptr<equi::Evaluator> directional;    // for second derivatives, if something requests them
  std::unique_ptr<equi::Evaluator> moments;        // for energy moments, likewise
  double energy_unit = 1.0;                        // LAMMPS's units per eV

  std::unique_ptr<equi::LammpsExchange> exchange;
  equi::Neighborhood neighborhood;
  std::vector<int> atom_row;
  bool neighborhood_is_set = false, directional_is_set = false, moments_is_set = false;
  tagint hidden_atom = 0;    // ID of an atom of this rank outside the group all, since the last list; or 0
  std::vector<std::array<double, 3>> forces;                             // [atoms], eV/Angstrom
  std::vector<std::array<double, 9>> virials;                            // [atoms], eV
  std::vector<double> energies;                                          // [atoms], eV
  std::vector<std::array<double, 3>> direction, tangents, row_values;    // [atoms], [atoms], [rows]
  std::vector<double> row_sums;    // forces and virials of ghosts, while sent to their owners
  std::vector<int> atom_type;      // [atoms] types that the neighborhood was built with
  // State of the neighbor list when it was read: IDs [atoms], ghosts included, image flags [nlocal], number of
  // receivers.
  std::vector<tagint> list_ids;
  std::vector<imageint> list_images;
  int list_length = -1;
  bool bonds_are_checked = false;       // since the last setup of a run
  double memory_without_atoms = 0.0;    // bytes
  bool forces_are_checked = false, memory_is_logged = false;
  bool symbols_are_checked = false, start_is_checked = false;    // since the last pair_coeff
  int wants_deviation = 0;                                       // LAMMPS's fix pair sets it to 1 for the next step
  bigint deviation_step = -1;                                    // the step at which the deviations were computed
  std::vector<double> force_deviation;                           // [nlocal+1] in LAMMPS's units
  double energy_deviation = 0.0;                                 // deviation for all atoms, in LAMMPS's units
  bigint evaluation_step = -1;                                   // the step of the last evaluation of forces
  // The atoms of that step, with ghosts, if something may request their data between runs (keeps_atoms()).
  std::vector<tagint> evaluated_ids;
  std::vector<std::array<double, 3>> evaluated_positions;
  bool keeps_atoms() const { return models.size() > 1 || wants_hessian || wants_moments; }
  double virial_trace = 0.0;             // trace over this rank's edges in the last evaluation, eV
  double timestep_with_warning = 0.0;    // the timestep that a warning was printed for, ps
  bool has_warned_of_exclusions = false;
  std::vector<char> has_pair;    // [types+1][types+1], i <= j: whether LAMMPS assigns the pair to this style
};

}    // namespace LAMMPS_NS

#endif

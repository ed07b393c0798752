// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Checks and warnings about how LAMMPS is set up for the models: symbols, timestep, excluded pairs, pressures, and the
// first structure.

#ifndef EQUI_SETUP_CHECKS_H
#define EQUI_SETUP_CHECKS_H

#include "src/lammps/evaluation/pair_models.h"
#include "src/lammps/evaluation/pair_runner.h"

#include <string>
#include <vector>

namespace equi {

class SetupChecks : public PairPart {
 public:
  SetupChecks(LAMMPS_NS::LAMMPS *lmp, const PairSettings &settings, const PairModels &models)
      : PairPart(lmp), settings_(settings), models_(models) {}

  void new_coefficients() { symbols_are_checked_ = first_is_checked_ = false; }    // pair_coeff was accepted
  // At the setup of a run. Collective.
  void check();
  // For energies of all pairs of atoms. Call it before LAMMPS makes lists of all images, which may be too many in a
  // small cell. Collective.
  void check_images() const;
  // LAMMPS asks for the cutoff of a pair of types, type_i <= type_j, after check().
  void add_pair(int type_i, int type_j);
  // Whether check_first_structure() will need the virial.
  bool needs_virial() const { return !first_is_checked_; }
  // With the first atoms that are evaluated after each pair_coeff. The trace of the virial is that of this rank's
  // edges, in eV. Collective.
  void check_first_structure(PairRunner &runner, double virial_trace);

 private:
  void check_symbols() const;
  void check_timestep();
  void check_exclusions();
  // A hybrid style asks this style for the cutoffs only of the pairs of types that it assigns to it.
  void check_pairs_of_types();
  void check_pressure() const;
  void check_field() const;
  void warn_of_hidden_pairs(const std::string &command);
  void check_ewald(const Model &model) const;
  std::size_t pair_index(int type_i, int type_j) const;

  const PairSettings &settings_;
  const PairModels &models_;
  bool symbols_are_checked_ = false, has_warned_of_exclusions_ = false, first_is_checked_ = false;
  double timestep_with_warning_ = 0.0;    // the timestep that a warning was printed for, ps
  std::vector<char> has_pair_;            // [types+1][types+1], i <= j: whether LAMMPS assigns the pair to this style
};

}    // namespace equi

#endif

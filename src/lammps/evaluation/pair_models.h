// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The models of pair_coeff, for the elements of the atom types and for the simulated system.

#ifndef EQUI_PAIR_MODELS_H
#define EQUI_PAIR_MODELS_H

#include "src/lammps/evaluation/pair_settings.h"
#include "src/lammps/faults/pair_part.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace equi {

// What a pair_coeff command sets. Each command replaces all of it at once.
struct PairCoefficients {
  PairCommand command = PairCommand::missing;
  std::vector<Model> models;         // with all elements; several models are a committee
  std::vector<std::string> files;    // files of the models, as pair_coeff names them
  AtomicSystem made_for;             // the system that models of files for all systems were made for
  ForcesOf read_with = ForcesOf::energy;
  std::vector<std::string> symbols;        // elements in use, in the order of species of the evaluator
  std::vector<std::string> type_symbol;    // [ntypes+1], empty for NULL
  std::vector<int> type_species;           // [ntypes+1], -1 for NULL
};

class PairModels : public PairPart, public PairCoefficients {
 public:
  PairModels(LAMMPS_NS::LAMMPS *lmp, const PairSettings &settings) : PairPart(lmp), settings_(settings) {}

  // Reads the arguments of pair_coeff. All functions without const are collective.
  void read(int narg, char **arg);
  // Whether the models are those of the present system and settings. If not, read_for_system() makes them.
  bool fit_system();
  void read_for_system();
  // Stops if the atoms do not have the composition that a model was made for. Collective.
  void check_composition() const;

  // Warns if a model reads charge and spin, and the number of electrons does not allow the spin. Collective.
  void check_electrons() const;

  double cutoff() const;    // the largest of the models
  // Whether a rotation of all atoms leaves the energy unchanged, except for rounding.
  bool is_invariant() const;
  bool has_ewald_sum() const;           // of all periodic images
  bool has_field_of_charges() const;    // EvaluationRequest::image_shifts
  bool has_species(int type) const { return type_species[type] >= 0; }
  // The model applies to atom i, which may be a ghost.
  bool has_atom(int i) const;

 private:
  Model read_model(const std::string &file, const AtomicSystem &system) const;
  std::map<std::string, int64_t> count_elements() const;
  bool is_made(const Model &model) const;

  const PairSettings &settings_;
  AtomicSystem wanted_;    // the present system, after fit_system()
};

}    // namespace equi

#endif

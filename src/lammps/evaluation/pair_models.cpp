// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Reads the models of pair_coeff, and makes those of files for all systems when a run starts.
#include "src/lammps/evaluation/pair_models.h"

#include "src/lammps/atoms/lammps_neighborhood.h"
#include "src/model/model_checks.h"

#include "atom.h"
#include "comm.h"
#include "error.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

using namespace LAMMPS_NS;

namespace equi {

namespace {

// Whether an argument of pair_coeff after the first file names another file.
bool is_model_file(const std::string &word) {
  return utils::strmatch(word, "\\.equi$");
}

}    // namespace

// Rank 0 reads, and all ranks parse the same bytes.
Model PairModels::read_model(const std::string &file, const AtomicSystem &system) const {
  std::string bytes;
  collective_try([&] {
    if (comm->me != 0) return;
    const std::string path = utils::get_potential_file_path(file);
    bytes = read_potential_bytes(path.empty() ? file : path);
  });
  bigint length = static_cast<bigint>(bytes.size());
  MPI_Bcast(&length, 1, MPI_LMP_BIGINT, 0, world);
  collective_try([&] { bytes.resize(length); });
  // Sent in pieces: MPI counts are int.
  for (bigint at = 0; at < length; at += MAXSMALLINT / 2)
    MPI_Bcast(&bytes[at], static_cast<int>(std::min<bigint>(length - at, MAXSMALLINT / 2)), MPI_CHAR, 0, world);
  Model model;
  collective_try([&] { model = parse_model(bytes, file, system, settings_.forces_of); });
  return model;
}

// pair_coeff * * FILE.equi [FILE.equi ...] symbol ...
void PairModels::read(int narg, char **arg) {
  command = PairCommand::refused;
  const int ntypes = atom->ntypes;
  if (narg < 3)
    error->all(FLERR, "Pair style equi: expected pair_coeff * * FILE and one element or NULL per atom type");
  if (std::strcmp(arg[0], "*") != 0 || std::strcmp(arg[1], "*") != 0)
    error->all(FLERR, "Pair style equi: pair_coeff must start with * *, not {} {}", arg[0], arg[1]);
  int first_symbol = 3;
  while (first_symbol < narg && is_model_file(arg[first_symbol])) first_symbol++;
  if (narg != first_symbol + ntypes)
    error->all(FLERR,
               "Pair style equi: pair_coeff names {} elements for {} atom types; one per type is needed, or NULL",
               narg - first_symbol, ntypes);

  PairCoefficients fresh;
  fresh.read_with = settings_.forces_of;
  for (int k = 2; k < first_symbol; k++) {
    fresh.files.push_back(arg[k]);
    // The system is known only when a run starts. Until then, only its elements and its cutoff are needed.
    fresh.models.push_back(read_model(arg[k], {}));
  }
  collective_try([&] {
    fresh.type_symbol.assign(ntypes + 1, "");
    fresh.type_species.assign(ntypes + 1, -1);
    for (int t = 1; t <= ntypes; t++) {
      const std::string symbol = arg[first_symbol + t - 1];
      if (symbol == "NULL") continue;
      for (const Model &model : fresh.models) check_element(model, symbol, fmt::format(" (atom type {})", t));
      auto at = std::find(fresh.symbols.begin(), fresh.symbols.end(), symbol);
      fresh.type_species[t] = static_cast<int>(at - fresh.symbols.begin());
      if (at == fresh.symbols.end()) fresh.symbols.push_back(symbol);
      fresh.type_symbol[t] = symbol;
    }
    if (fresh.symbols.empty()) throw std::runtime_error("pair_coeff maps all atom types to NULL");
  });

  fresh.command = PairCommand::accepted;
  static_cast<PairCoefficients &>(*this) = std::move(fresh);
}

double PairModels::cutoff() const {
  double largest = 0.0;
  for (const Model &model : models) largest = std::max(largest, model.reach());
  return largest;
}

bool PairModels::is_invariant() const {
  return std::all_of(models.begin(), models.end(), [](const Model &model) { return equi::is_invariant(model.layers); });
}

bool PairModels::has_ewald_sum() const {
  return std::any_of(models.begin(), models.end(), [](const Model &model) { return sums_over_waves(model.layers); });
}

bool PairModels::has_field_of_charges() const {
  return settings_.has_field() && std::any_of(models.begin(), models.end(), [&](const Model &model) {
           return equi::has_field_of_charges(model.with_charges_in_field(settings_.field).layers);
         });
}

bool PairModels::has_atom(int i) const {
  return species_of_atom(*atom, type_species, i) >= 0;
}

/* ----------------------------------------------------------------------
   The matrices of a mixture of experts hold for the fractions of the elements that they were mixed for. Files for all
systems are mixed when a run starts. Fixes that insert, delete or swap atoms change the fractions between two neighbor
lists, of which only one rank knows.
------------------------------------------------------------------------- */

// The atoms of all ranks to which the models apply, by symbol.
std::map<std::string, int64_t> PairModels::count_elements() const {
  std::vector<int64_t> mine(symbols.size(), 0), all(symbols.size());
  for (int i = 0; i < atom->nlocal; i++)
    if (const int s = species_of_atom(*atom, type_species, i); s >= 0) mine[s]++;
  MPI_Allreduce(mine.data(), all.data(), static_cast<int>(mine.size()), MPI_INT64_T, MPI_SUM, world);
  std::map<std::string, int64_t> counts;
  for (size_t s = 0; s < all.size(); s++)
    if (all[s] > 0) counts[symbols[s]] = all[s];
  return counts;
}

bool PairModels::is_made(const Model &model) const {
  if (read_with != settings_.forces_of) return false;
  return model.mixture ? model.mixture->is_same_for(wanted_, made_for) : !wanted_.says_something();
}

bool PairModels::fit_system() {
  const auto has_mixture = [](const Model &model) { return model.mixture.has_value(); };
  wanted_ = settings_.system;
  const bool any = std::any_of(models.begin(), models.end(), has_mixture);
  if (!any && !wanted_.says_something() && read_with == settings_.forces_of) return true;
  wanted_.atoms = count_elements();
  if (wanted_.atoms.empty())    // a box without atoms counts as one with equal numbers
    for (const std::string &symbol : symbols) wanted_.atoms[symbol] = 1;
  collective_try([this] {
    for (const Model &model : models) check_task(model, wanted_);
  });
  return std::all_of(models.begin(), models.end(), [this](const Model &model) { return is_made(model); });
}

void PairModels::read_for_system() {
  std::map<size_t, Model> fresh;    // all or none change
  for (size_t k = 0; k < models.size(); k++)
    if (!is_made(models[k])) fresh[k] = read_model(files[k], wanted_);
  for (auto &[k, model] : fresh) models[k] = std::move(model);
  read_with = settings_.forces_of;
  made_for = wanted_;
}

void PairModels::check_electrons() const {
  if (std::none_of(models.begin(), models.end(), [](const Model &model) { return model.mixture.has_value(); })) return;
  const std::map<std::string, int64_t> counts = count_elements();
  for (const Model &model : models)
    if (const std::string fault = electron_fault(model, counts); !fault.empty() && comm->me == 0)
      error->warning(FLERR, "Pair style equi: {}", fault);
}

void PairModels::check_composition() const {
  const auto depends = [](const Model &model) { return !model.composition.empty(); };
  if (std::none_of(models.begin(), models.end(), depends)) return;
  const std::map<std::string, int64_t> counts = count_elements();
  for (const Model &model : models)
    if (const std::string fault = composition_fault(model, counts); !fault.empty())
      error->all(FLERR, "Pair style equi: {} on step {}: {}", fault, update->ntimestep,
                 model.mixture ? "a run with these atoms has another potential; start it anew"
                               : "convert the model for this composition (equi convert --composition)");
}

}    // namespace equi

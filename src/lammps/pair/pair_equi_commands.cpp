// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The commands pair_style and pair_coeff of pair style equi: their arguments, and warnings about their meaning.
#include "src/lammps/pair/pair_equi_impl.h"

#include "src/lammps/atoms/lammps_label_map.h"
#include "src/lammps/faults/lammps_faults.h"
#include "src/model/chemical_elements.h"
#include "src/model/model_file.h"

#include "atom.h"
#include "comm.h"
#include "error.h"
#include "group.h"
#include "neighbor.h"
#include "platform.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

using namespace LAMMPS_NS;

namespace {

// The bytes of a model file, which is searched in the same folders as LAMMPS's potentials. The error lists them.
std::string read_potential_file(const std::string &name) {
  const std::string path = utils::get_potential_file_path(name);
  if (!path.empty()) return equi::read_file_bytes(path);
  const char *variable = std::getenv("LAMMPS_POTENTIALS");
  try {
    return equi::read_file_bytes(name);
  } catch (const equi::ModelFileError &fault) {
    std::error_code none;    // no folder: an empty name
    throw std::runtime_error(
        fmt::format("{}; it was searched for in {} and in LAMMPS_POTENTIALS ({}); 'equi convert' makes model files",
                    fault.what(), std::filesystem::current_path(none).string(), variable ? variable : "not set"));
  }
}

// Whether an argument of pair_coeff after the first file names another file.
bool is_model_file(const std::string &word) {
  return utils::strmatch(word, "\\.equi$");
}

}    // namespace

/* ----------------------------------------------------------------------
   pair_style equi keyword value ...
------------------------------------------------------------------------- */

void PairEqui::settings(int narg, char **arg) {
  report_exceptions([&] { read_settings(narg, arg); });
}

void PairEqui::read_settings(int narg, char **arg) {
  impl->unset();
  impl->pair_style = EquiCommand::refused;
  EquiSettings fresh;
  const std::string keywords =
      "precision, radial, reference, check, memory, batch, deterministic, kernels, exchange, graphs, overlap, forces, "
      "task, charge, spin";

  int k = 0;
  auto value = [&](const std::string &keyword, const std::string &choices) -> std::string {
    if (k >= narg) error->all(FLERR, "Pair style equi: keyword {} needs a value: {}", keyword, choices);
    return arg[k++];
  };
  auto yes_no = [&](const std::string &keyword) {
    const std::string v = value(keyword, "yes or no");
    if (v != "yes" && v != "no") error->all(FLERR, "Pair style equi: keyword {} must be yes or no, not {}", keyword, v);
    return v == "yes";
  };
  auto place = [&](const std::string &keyword, auto automatic, auto device, auto host) {
    const std::string choices = "auto, device or host", v = value(keyword, choices);
    if (v != "auto" && v != "device" && v != "host")
      error->all(FLERR, "Pair style equi: keyword {} must be {}, not {}", keyword, choices, v);
    return v == "auto" ? automatic : v == "device" ? device : host;
  };
  auto whole_number = [&](const std::string &keyword) {
    const std::string v = value(keyword, "a whole number");
    if (!utils::is_integer(v))
      error->all(FLERR, "Pair style equi: keyword {} must be a whole number, not {}", keyword, v);
    return utils::inumeric(FLERR, v, false, lmp);
  };
  while (k < narg) {
    const std::string keyword = arg[k++];
    if (keyword == "precision") {
      const std::string choices = "single, mixed or double", v = value(keyword, choices);
      if (v == "single")
        fresh.options.precision = equi::Precision::single;
      else if (v == "mixed")
        fresh.options.precision = equi::Precision::mixed;
      else if (v == "double")
        fresh.options.precision = equi::Precision::double_;
      else
        error->all(FLERR, "Pair style equi: precision must be {}, not {}", choices, v);
    } else if (keyword == "radial") {
      // pair_style hybrid splits its arguments at `table`, the name of another style, so the bare tolerance is
      // accepted, too.
      const std::string choices = "table TOLERANCE, TOLERANCE or exact";
      const std::string v = value(
          keyword, choices + "; under a hybrid style, which takes the word table for a pair style, TOLERANCE alone");
      if (v == "exact") {
        fresh.options.radial_exact = true;
      } else if (v == "table" || utils::is_double(v)) {
        const std::string number = v == "table" ? value("radial table", "a tolerance, for example 1e-6") : v;
        const double tolerance = utils::numeric(FLERR, number, false, lmp);
        if (!(tolerance > 0.0 && tolerance < 1.0))
          error->all(FLERR, "Pair style equi: the tolerance of radial tables must lie between 0 and 1, not {}", number);
        fresh.options.radial_exact = false;
        fresh.options.radial_tolerance = tolerance;
      } else {
        error->all(FLERR, "Pair style equi: radial must be {}, not {}", choices, v);
      }
    } else if (keyword == "reference") {
      fresh.reference = yes_no(keyword);
    } else if (keyword == "check") {
      fresh.check = yes_no(keyword);
    } else if (keyword == "memory") {
      const std::string choices = "GB per rank, auto or unlimited", v = value(keyword, choices);
      if (v == "auto" || v == "unlimited") {
        fresh.memory_limit = v == "auto" ? -1.0 : 0.0;
      } else {
        if (!utils::is_double(v) || !(utils::numeric(FLERR, v, false, lmp) > 0.0))
          error->all(FLERR, "Pair style equi: memory must be {}, not {}", choices, v);
        fresh.memory_limit = 1e9 * utils::numeric(FLERR, v, false, lmp);
      }
    } else if (keyword == "batch") {
      const std::string choices = "a number of atoms or auto", v = value(keyword, choices);
      fresh.options.batch = 0;
      if (v != "auto") {
        if (!utils::is_integer(v) || utils::inumeric(FLERR, v, false, lmp) < 1)
          error->all(FLERR, "Pair style equi: batch must be {}, not {}", choices, v);
        fresh.options.batch = utils::inumeric(FLERR, v, false, lmp);
      }
    } else if (keyword == "deterministic") {
      fresh.options.deterministic = yes_no(keyword);
    } else if (keyword == "kernels") {
      using Kernels = EquiSettings::Kernels;
      fresh.kernels = place(keyword, Kernels::automatic, Kernels::device, Kernels::host);
    } else if (keyword == "exchange") {
      using Mode = equi::ExchangeMode;
      fresh.exchange_mode = place(keyword, Mode::automatic, Mode::device, Mode::host);
      if (fresh.exchange_mode == Mode::device && !kokkosable)
        error->all(FLERR, "Pair style equi: exchange device needs the style equi/kk");
    } else if (keyword == "graphs") {
      fresh.options.graphs = yes_no(keyword);
    } else if (keyword == "overlap") {
      fresh.options.overlap = yes_no(keyword);
    } else if (keyword == "forces") {
      const std::string choices = "energy or direct", v = value(keyword, choices);
      if (v != "energy" && v != "direct")
        error->all(FLERR, "Pair style equi: keyword forces must be {}, not {}", choices, v);
      fresh.forces_of = v == "direct" ? equi::ForcesOf::features : equi::ForcesOf::energy;
    } else if (keyword == "task") {
      fresh.system.task = value(keyword, "the name of a data set");
    } else if (keyword == "charge") {
      fresh.system.charge = whole_number(keyword);
    } else if (keyword == "spin") {
      fresh.system.spin = whole_number(keyword);
    } else {
      error->all(FLERR, "Pair style equi: unknown keyword {}; known are {}", keyword, keywords);
    }
  }
  fresh.pair_style = EquiCommand::accepted;
  static_cast<EquiSettings &>(*impl) = std::move(fresh);
}

/* ----------------------------------------------------------------------
   pair_coeff * * FILE.equi [FILE.equi ...] symbol ...
------------------------------------------------------------------------- */

// Rank 0 reads, and all ranks parse the same bytes.
equi::Model PairEqui::read_model(const std::string &file, const equi::AtomicSystem &system) {
  std::string bytes;
  collective_try([&] {
    if (comm->me == 0) bytes = read_potential_file(file);
  });
  bigint length = static_cast<bigint>(bytes.size());
  MPI_Bcast(&length, 1, MPI_LMP_BIGINT, 0, world);
  collective_try([&] { bytes.resize(length); });
  // Sent in pieces: MPI counts are int.
  for (bigint at = 0; at < length; at += MAXSMALLINT / 2)
    MPI_Bcast(&bytes[at], static_cast<int>(std::min<bigint>(length - at, MAXSMALLINT / 2)), MPI_CHAR, 0, world);
  equi::Model model;
  collective_try([&] { model = equi::parse_model(bytes, file, system, impl->forces_of); });
  return model;
}

void PairEqui::coeff(int narg, char **arg) {
  report_exceptions([&] { read_coefficients(narg, arg); });
}

void PairEqui::read_coefficients(int narg, char **arg) {
  if (!allocated) allocate();
  impl->unset();
  impl->pair_coeff = EquiCommand::refused;
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

  EquiCoefficients fresh;
  fresh.read_with = impl->forces_of;
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
      for (const equi::Model &model : fresh.models) {
        if (model.species(symbol) >= 0) continue;
        std::string known, meant;
        for (const std::string &e : model.elements) {
          known += " " + e;
          if (utils::lowercase(e) == utils::lowercase(symbol)) meant = fmt::format(": did you mean {}?", e);
        }
        throw std::runtime_error(fmt::format("{} does not know element {} (atom type {}){}; its elements are:{}",
                                             model.file, symbol, t, meant, known));
      }
      auto at = std::find(fresh.symbols.begin(), fresh.symbols.end(), symbol);
      fresh.type_species[t] = static_cast<int>(at - fresh.symbols.begin());
      if (at == fresh.symbols.end()) fresh.symbols.push_back(symbol);
      fresh.type_symbol[t] = symbol;
    }
    if (fresh.symbols.empty()) throw std::runtime_error("pair_coeff maps all atom types to NULL");
  });

  fresh.pair_coeff = EquiCommand::accepted;
  static_cast<EquiCoefficients &>(*impl) = std::move(fresh);
  impl->symbols_are_checked = impl->start_is_checked = false;
  for (int i = 1; i <= ntypes; i++)
    for (int j = i; j <= ntypes; j++) setflag[i][j] = impl->type_species[i] >= 0 && impl->type_species[j] >= 0;
}

// A style created by read_restart has default keywords.
void PairEqui::check_commands() {
  const auto refuse = [&](const char *command) {
    error->all(FLERR, "Pair style equi: the last {} command was refused: give one that is accepted before a run",
               command);
  };
  if (impl->pair_style == EquiCommand::refused) refuse("pair_style");
  if (impl->pair_coeff == EquiCommand::refused) refuse("pair_coeff");
  if (impl->pair_coeff == EquiCommand::missing)
    error->all(FLERR, "Pair style equi: no pair_coeff command has named a model file");
}

void PairEqui::check_setup() {
  check_commands();
  if (!impl->is_set_up)
    error->all(FLERR,
               "Pair style equi is not set up: its last setup failed, or pair_style or pair_coeff came after it; a run "
               "without the option pre no sets it up");
}

// A wrong order of symbols gives wrong energies without an error, so it is compared with the type labels and masses.
void PairEqui::check_symbols() {
  constexpr double TOLERANCE = 0.01;
  const auto is_mass_of = [](double mass, const std::string &symbol) {
    const double expected = equi::standard_atomic_mass(symbol);
    return std::fabs(mass - expected) <= TOLERANCE * expected;
  };
  std::vector<std::string> label(atom->ntypes + 1);    // labels of types that are the symbol of an element
  if (atom->labelmapflag)
    for (const std::string &element : equi::chemical_symbols())
      if (const int t = equi::type_of_label(*atom->lmap, element, Atom::ATOM); t > 0) label[t] = element;
  for (int t = 1; t <= atom->ntypes; t++) {
    const std::string &symbol = impl->type_symbol[t];
    const double expected = symbol.empty() ? 0.0 : equi::standard_atomic_mass(symbol);
    if (expected == 0.0) continue;
    // If atoms have individual masses, those of types mean nothing.
    const double mass = atom->mass && !atom->rmass_flag ? atom->mass[t] : expected;
    const bool label_fits = label[t].empty() || label[t] == symbol, mass_fits = is_mass_of(mass, symbol);
    if (label_fits && mass_fits) continue;
    std::string text = fmt::format("Atom type {} is mapped to {} but has ", t, symbol), likely;
    if (!label_fits) text += fmt::format("the label {}", likely = label[t]);
    if (!mass_fits) {
      text += fmt::format("{}mass {:.6g} instead of {:.6g}", label_fits ? "" : " and ", mass, expected);
      for (const std::string &other : impl->symbols)
        if (label_fits && is_mass_of(mass, other)) text += fmt::format(", which is that of {}", likely = other);
      if (likely.empty() && symbol == "H") text += " (an isotope?)";
    }
    if (!likely.empty()) text += ": pair_coeff names one symbol per type, in the order of the types";
    error->warning(FLERR, text);
  }
}

// A timestep of 1, usual in units real, is a thousand times too long in units metal.
void PairEqui::check_timestep() {
  constexpr double LONG_STEP = 0.02;    // ps: steps of 20 fs cannot resolve any vibration of atoms
  const double dt = update->dt;
  if (std::strcmp(update->unit_style, "metal") != 0 || update->whichflag != 1 || update->nsteps == 0 ||
      dt < LONG_STEP || dt == impl->timestep_with_warning)
    return;
  impl->timestep_with_warning = dt;
  if (comm->me == 0)
    error->warning(FLERR,
                   "The timestep of {:.6g} ps ({:.6g} fs) is too long for the motion of atoms: with units metal it is "
                   "in ps, and 0.001 is usual",
                   dt, 1e3 * dt);
}

// A pair that is missing from the neighbor list changes the surroundings of both atoms in the model, and so the forces
// on third atoms. Exclusions of groups without atoms, as made by Monte Carlo fixes, hide nothing.
void PairEqui::check_exclusions() {
  if (impl->has_warned_of_exclusions) return;
  const auto has_species = [&](int type) { return impl->type_species[type] >= 0; };
  // Whether any rank has an atom of the model inside the group with this number, or outside.
  const auto any_atom = [&](int number, bool inside) {
    int mine = 0, any = 0;
    for (int i = 0; i < atom->nlocal && !mine; i++)
      mine = ((atom->mask[i] & group->bitmask[number]) != 0) == inside && has_species(atom->type[i]);
    MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, world);
    return any != 0;
  };
  std::string command;
  for (int m = 0; m < neighbor->nex_type; m++)
    if (has_species(neighbor->ex1_type[m]) && has_species(neighbor->ex2_type[m])) command = "neigh_modify exclude";
  for (int m = 0; m < neighbor->nex_group; m++)
    if (any_atom(neighbor->ex1_group[m], true) && any_atom(neighbor->ex2_group[m], true))
      command = "neigh_modify exclude";
  for (int m = 0; m < neighbor->nex_mol; m++)
    if (any_atom(neighbor->ex_mol_group[m], true)) command = "neigh_modify exclude";
  if (neighbor->includegroup && any_atom(neighbor->includegroup, false)) command = "neigh_modify include";
  if (!command.empty()) warn_of_hidden_pairs(command);
}

// A hybrid style asks this style for the cutoffs only of the pairs of types that it assigns to it.
void PairEqui::check_pairs_of_types() {
  if (impl->has_warned_of_exclusions) return;
  bool has_all = true;
  for (int i = 1; i <= atom->ntypes; i++)
    for (int j = i; j <= atom->ntypes; j++)
      has_all = has_all &&
                (impl->type_species[i] < 0 || impl->type_species[j] < 0 || impl->has_pair[i * (atom->ntypes + 1) + j]);
  if (!has_all) warn_of_hidden_pairs("pair_style hybrid with another style for some pairs of types");
}

void PairEqui::warn_of_hidden_pairs(const std::string &command) {
  impl->has_warned_of_exclusions = true;
  if (comm->me == 0)
    error->warning(FLERR,
                   "Pair style equi: {} hides atoms from one another, so that the model sees other surroundings: the "
                   "energies and forces of all atoms near them change",
                   command);
}

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Warns of wrong symbols, long timesteps and hidden pairs, and refuses pressures of direct forces.
#include "src/lammps/checks/setup_checks.h"

#include "src/lammps/atoms/lammps_label_map.h"
#include "src/model/chemical_elements.h"

#include "atom.h"
#include "comm.h"
#include "compute.h"
#include "domain.h"
#include "error.h"
#include "fix.h"
#include "force.h"
#include "group.h"
#include "modify.h"
#include "neighbor.h"
#include "update.h"
#include "utils.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

using namespace LAMMPS_NS;

// From LAMMPS's C library (library.h); weak, because a static lmp may lack it. The headers of LAMMPS's packages do not
// include the class of thermo output.
extern "C" {
__attribute__((weak)) void *lammps_last_thermo(void *lmp, const char *what, int index);
}

namespace equi {

namespace {

// Bonds are longer: the shortest ones for their elements, in UO2(2+), are 0.68 times the sum of the covalent radii.
constexpr double LEAST_DISTANCE = 0.6;
// In eV, a third of the trace of the virial per atom, which is pressure times volume per atom. It needs no volume, so
// it has a meaning in every box. With SevenNet-0 it is 2.9 or more for four of the five wrong orders of SrTiO3; the
// distance shows the others. It is at most 2.2 for sound structures strained by some percent, also at 40 GPa.
constexpr double LARGEST_STRAIN_ENERGY = 2.5;
constexpr double GPA = 160.2176634;    // per eV/Angstrom^3

struct ClosestPair {
  double ratio = std::numeric_limits<double>::infinity();    // distance / sum of the covalent radii
  double distance = 0.0;                                     // Angstrom
  tagint id[2] = {0, 0};
  int type[2] = {0, 0};
};

// The closest pair of a rank's neighborhood. radius [ntypes+1]: 0 for elements without one.
// Not std::hypot, which needs glibc 2.35: clusters of today have 2.34.
double norm(const std::array<double, 3> &v) {
  return std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

ClosestPair closest_pair(const Atom &atom, const Neighborhood &n, const double (*x)[3],
                         const std::vector<double> &radius) {
  ClosestPair closest;
  for (int row = 0; row < n.num_receivers; row++) {
    const int i = n.receiver[row], type_i = atom.type[i];
    if (radius[type_i] == 0.0) continue;
    for (int64_t c = n.first[row]; c < n.first[row + 1]; c++) {
      const int j = n.sender_atom[c], type_j = atom.type[j];
      if (radius[type_j] == 0.0) continue;
      const double distance = norm({x[j][0] - x[i][0], x[j][1] - x[i][1], x[j][2] - x[i][2]});
      const double ratio = distance / (radius[type_i] + radius[type_j]);
      if (ratio < closest.ratio) closest = {ratio, distance, {atom.tag[i], atom.tag[j]}, {type_i, type_j}};
    }
  }
  return closest;
}

// Whether a periodic box has images of itself within this distance.
bool has_image_within(const Domain &box, double cutoff) {
  const double lengths[3] = {box.xprd, norm({box.xy, box.yprd, 0.0}), norm({box.xz, box.yz, box.zprd})};
  const int periodic[3] = {box.xperiodic, box.yperiodic, box.zperiodic};
  for (int k = 0; k < 3; ++k)
    if (periodic[k] && lengths[k] < cutoff) return true;
  return false;
}

}    // namespace

void SetupChecks::check() {
  if (!symbols_are_checked_ && comm->me == 0) check_symbols();
  symbols_are_checked_ = true;
  check_timestep();
  check_exclusions();
  has_pair_.assign(pair_index(atom->ntypes + 1, 0), 0);
  check_pressure();
  check_field();
}

// Charges of LAMMPS's atoms and the dipole of the model are two descriptions of the same electrons.
void SetupChecks::check_field() const {
  if (!settings_.has_field()) return;
  for (const Fix *fix : modify->get_fix_list())
    if (utils::strmatch(fix->style, "^efield"))
      error->all(
          FLERR,
          "Pair style equi: fix {} {} and the keyword field would act on the same charges: leave out one of them",
          fix->id, fix->style);
}

void SetupChecks::check_images() const {
  collective_try([&] {
    for (const Model &model : models_.models)
      if (needs_all_pairs(model.layers)) {
        const double cutoff = far_cutoff(model.layers);
        check_all_pairs(!has_image_within(*domain, cutoff), cutoff);
      }
    for (const Model &model : models_.models) check_ewald(model);
  });
}

void SetupChecks::check_ewald(const Model &model) const {
  if (!sums_over_waves(model.layers)) return;
  const bool is_periodic = domain->xperiodic && domain->yperiodic && domain->zperiodic,
             is_open = !domain->xperiodic && !domain->yperiodic && !domain->zperiodic,
             is_slab = domain->xperiodic && domain->yperiodic && !domain->zperiodic;
  if (needs_periodic_cell(model.layers) && !is_periodic)
    throw std::invalid_argument(model.file + " has an Ewald sum, which needs 'boundary p p p'");
  if (!is_periodic && !is_open && !is_slab)
    throw std::invalid_argument(model.file +
                                " has potentials of charges, which know periodic boxes (boundary p p p), open ones "
                                "(f f f) and slabs (p p f)");
  if (force->kspace)
    throw std::invalid_argument(model.file +
                                " has an Ewald sum of its own, so a kspace_style would add another: use 'kspace_style "
                                "none'");
}

std::size_t SetupChecks::pair_index(int type_i, int type_j) const {
  return static_cast<std::size_t>(type_i) * (atom->ntypes + 1) + type_j;
}

void SetupChecks::add_pair(int type_i, int type_j) {
  has_pair_[pair_index(type_i, type_j)] = 1;
}

// A wrong order of symbols gives wrong energies without an error, so it is compared with the type labels and masses.
void SetupChecks::check_symbols() const {
  constexpr double TOLERANCE = 0.01;
  const auto is_mass_of = [](double mass, const std::string &symbol) {
    const double expected = standard_atomic_mass(symbol);
    return std::fabs(mass - expected) <= TOLERANCE * expected;
  };
  std::vector<std::string> label(atom->ntypes + 1);    // labels of types that are the symbol of an element
  if (atom->labelmapflag)
    for (const std::string &element : chemical_symbols())
      if (const int t = type_of_label(*atom->lmap, element, Atom::ATOM); t > 0) label[t] = element;
  for (int t = 1; t <= atom->ntypes; t++) {
    const std::string &symbol = models_.type_symbol[t];
    const double expected = symbol.empty() ? 0.0 : standard_atomic_mass(symbol);
    if (expected == 0.0) continue;
    // If atoms have individual masses, those of types mean nothing.
    const double mass = atom->mass && !atom->rmass_flag ? atom->mass[t] : expected;
    const bool label_fits = label[t].empty() || label[t] == symbol, mass_fits = is_mass_of(mass, symbol);
    if (label_fits && mass_fits) continue;
    std::string text = fmt::format("Atom type {} is mapped to {} but has ", t, symbol), likely;
    if (!label_fits) text += fmt::format("the label {}", likely = label[t]);
    if (!mass_fits) {
      text += fmt::format("{}mass {:.6g} instead of {:.6g}", label_fits ? "" : " and ", mass, expected);
      for (const std::string &other : models_.symbols)
        if (label_fits && is_mass_of(mass, other)) text += fmt::format(", which is that of {}", likely = other);
      if (likely.empty() && symbol == "H") text += " (an isotope?)";
    }
    if (!likely.empty()) text += ": pair_coeff names one symbol per type, in the order of the types";
    error->warning(FLERR, text);
  }
}

// A timestep of 1, usual in units real, is a thousand times too long in units metal; one of 0.001, usual in units
// metal, makes a run in units real a thousand times longer than meant.
void SetupChecks::check_timestep() {
  constexpr double LONG_STEP = 20.0;    // fs: such steps cannot resolve any vibration of atoms
  constexpr double SHORT_STEP = 0.005;
  const double dt = update->dt, femtoseconds = dt / force->femtosecond;
  const bool is_metal = std::strcmp(update->unit_style, "metal") == 0;
  const bool is_long = femtoseconds >= LONG_STEP, is_short = femtoseconds > 0.0 && femtoseconds <= SHORT_STEP;
  if (update->whichflag != 1 || update->nsteps == 0 || !(is_long || is_short) || dt == timestep_with_warning_) return;
  timestep_with_warning_ = dt;
  if (comm->me == 0)
    error->warning(
        FLERR, "The timestep of {:.6g} fs is too {} for the motion of atoms: with units {} it is in {} is usual",
        femtoseconds, is_long ? "long" : "short", update->unit_style, is_metal ? "ps, and 0.001" : "fs, and 1");
}

// A pair that is missing from the neighbor list changes the surroundings of both atoms in the model, and so the forces
// on third atoms. Exclusions of groups without atoms, as made by Monte Carlo fixes, hide nothing.
void SetupChecks::check_exclusions() {
  if (has_warned_of_exclusions_) return;
  const auto has_species = [this](int type) { return models_.has_species(type); };
  // Whether any rank has an atom of the model inside the group with this number, or outside.
  const auto any_atom = [&](int number, bool inside) {
    bool mine = false;
    for (int i = 0; i < atom->nlocal && !mine; i++)
      mine = ((atom->mask[i] & group->bitmask[number]) != 0) == inside && has_species(atom->type[i]);
    return any(mine);
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

void SetupChecks::check_pairs_of_types() {
  if (has_warned_of_exclusions_) return;
  bool has_all = true;
  for (int i = 1; i <= atom->ntypes; i++)
    for (int j = i; j <= atom->ntypes; j++)
      has_all = has_all && (!models_.has_species(i) || !models_.has_species(j) || has_pair_[pair_index(i, j)]);
  if (!has_all) warn_of_hidden_pairs("pair_style hybrid with another style for some pairs of types");
}

void SetupChecks::warn_of_hidden_pairs(const std::string &command) {
  has_warned_of_exclusions_ = true;
  if (comm->me == 0)
    error->warning(FLERR,
                   "Pair style equi: {} hides atoms from one another, so that the model sees other surroundings: the "
                   "energies and forces of all atoms near them change",
                   command);
}

/* ----------------------------------------------------------------------
   direct forces have no virial: what wants a pressure is refused where it is known of, and what is not known of gets
numbers that are none
------------------------------------------------------------------------- */

void SetupChecks::check_pressure() const {
  if (!settings_.has_direct_forces()) return;
  constexpr const char *REASON = "Pair style equi: with direct forces there is no virial, so that {} has no pressure";
  for (const Compute *compute : modify->get_compute_list())
    if (std::strcmp(compute->id, "thermo_press") != 0 && (compute->pressflag || compute->pressatomflag))
      error->all(FLERR, REASON, fmt::format("compute {} {}", compute->id, compute->style));
  if (!lammps_last_thermo) return;
  for (int k = 0; const auto *column = static_cast<const char *>(lammps_last_thermo(lmp, "keyword", k)); k++)
    if (utils::strmatch(column, "^Press$") || utils::strmatch(column, "^P[xyz][xyz]$") ||
        utils::strmatch(column, "^Enthalpy$"))
      error->all(FLERR,
                 std::string(REASON) + ": leave it out, for example by thermo_style custom step temp pe ke etotal",
                 fmt::format("the column {} of thermo output", column));
}

/* ----------------------------------------------------------------------
   The first structure that is evaluated shows a wrong order of symbols that neither labels nor masses show: atoms are
too close for their elements, or the model strains against the box more than in any structure of its training. The
   numbers are this style's own, whatever other styles a hybrid has.
------------------------------------------------------------------------- */

void SetupChecks::check_first_structure(PairRunner &runner, double virial_trace) {
  if (first_is_checked_) return;
  check_pairs_of_types();
  const double num_atoms = sum(runner.neighborhood().num_receivers), trace = sum(virial_trace);
  if (num_atoms == 0.0) return;
  first_is_checked_ = true;

  std::vector<double> radius(atom->ntypes + 1, 0.0);
  for (int t = 1; t <= atom->ntypes; t++) radius[t] = covalent_radius(models_.type_symbol[t]);
  Neighborhood space;
  const double(*x)[3] = runner.atoms().positions();
  ClosestPair closest;
  runner.try_step([&] { closest = closest_pair(*atom, runner.neighborhood_on_host(space), x, radius); });
  struct {
    double ratio;
    int rank;
  } own = {closest.ratio, comm->me}, least;
  MPI_Allreduce(&own, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, world);
  MPI_Bcast(&closest, sizeof(closest), MPI_BYTE, least.rank, world);

  const double strain_energy = trace / 3.0 / num_atoms;
  const bool is_strained = !(std::fabs(strain_energy) <= LARGEST_STRAIN_ENERGY);
  const bool is_close = closest.ratio < LEAST_DISTANCE;
  if (comm->me != 0 || (!is_strained && !is_close)) return;
  std::string found, symbols;
  if (is_strained) {
    found = fmt::format("a virial of {:.3g} eV per atom", strain_energy);
    if (domain->dimension == 3 && domain->xperiodic && domain->yperiodic && domain->zperiodic) {
      const double volume = domain->xprd * domain->yprd * domain->zprd;
      found += fmt::format(" (a pressure of {:.3g} GPa)", strain_energy * num_atoms / volume * GPA);
    }
  }
  if (is_close)
    found += fmt::format("{}atoms {} ({}) and {} ({}) at {:.3g} Angstrom, {:.2f} of the sum of their covalent radii",
                         found.empty() ? "" : ", and ", closest.id[0], models_.type_symbol[closest.type[0]],
                         closest.id[1], models_.type_symbol[closest.type[1]], closest.distance, closest.ratio);
  for (int t = 1; t <= atom->ntypes; t++)
    symbols += models_.type_symbol[t].empty() ? " NULL" : " " + models_.type_symbol[t];
  error->warning(FLERR,
                 "Pair style equi: the first structure is unlike any that a model is trained on: {}. Do the symbols of "
                 "pair_coeff, {}, stand in the order of the atom types, and are box and units as they should be? If "
                 "this state is meant, nothing needs to be done",
                 found, symbols.substr(1));
}

}    // namespace equi

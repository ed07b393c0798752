// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Writes the dynamical matrix from exact second derivatives, with lattice translations used where possible.
#include "src/lammps/commands/equi_dynamical_matrix.h"

#include "src/hessian/lattice_translations.h"
#include "src/lammps/commands/command_options.h"
#include "src/lammps/commands/lammps_hessian.h"
#include "src/lammps/faults/lammps_faults.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "platform.h"
#include "utils.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

using namespace LAMMPS_NS;

namespace {

constexpr char NAME[] = "equi_dynamical_matrix";

// Atoms within this distance of each other's translated places, in Angstrom, count as equal. Second derivatives then
// differ by about a hundred times as much in eV/Angstrom^2.
constexpr double TRANSLATION_TOLERANCE = 1e-7;

struct Options {
  std::string file = "dynmat.dyn";
  bool binary = false, gzip = false, fold = false, translations = true;
  std::array<double, 3> direction{};    // of long waves, of length one; 0: none

  bool has_direction() const { return direction != std::array<double, 3>{}; }
};

// Largest |dQ/dr| of an atom, e/Angstrom, at which the total charge counts as fixed.
constexpr double FIXED_CHARGE = 1e-4;

void write_row(FILE *file, const std::vector<double> &row, bool binary) {
  if (binary)
    std::fwrite(row.data(), sizeof(double), row.size(), file);
  else
    for (size_t k = 0; k < row.size(); k++) std::fprintf(file, k % 3 == 2 ? "%4.8f\n" : "%4.8f ", row[k]);
}

Options parse(int narg, char **arg, LAMMPS *lmp) {
  Options o;
  std::vector<double> direction;
  const auto yes_or_no = [lmp](bool &to) {
    return [lmp, &to](const std::string &value) { to = utils::logical(FLERR, value, false, lmp); };
  };
  const auto read_binary = [&](const std::string &value) {
    o.gzip = value == "gzip";
    o.binary = !o.gzip && utils::logical(FLERR, value, false, lmp);
  };
  const auto read_direction = [&](const std::string &value) {
    direction.push_back(utils::numeric(FLERR, value, false, lmp));
  };
  equi::read_options(lmp, NAME, narg, arg,
                     {{"direction", read_direction, 3, "three numbers"},
                      {"file", [&](const auto &value) { o.file = value; }},
                      {"binary", read_binary},
                      {"fold", yes_or_no(o.fold)},
                      {"translations", yes_or_no(o.translations)}});
  if (direction.empty()) return o;
  std::copy_n(direction.end() - 3, 3, o.direction.begin());
  double square = 0.0;
  for (const double n : o.direction) square += n * n;
  if (square == 0.0) lmp->error->all(FLERR, "{}: the direction must not be 0 0 0", NAME);
  for (double &n : o.direction) n /= std::sqrt(square);
  return o;
}

// Data that all ranks have, by ID. They include the atoms of the rows and of the columns of the matrix. For all atoms
// they include the roots of their masses, their kinds (by type and mass) and fractional coordinates.
struct MatrixAtoms {
  std::vector<bigint> rows, columns;
  std::vector<double> root_mass;
  std::vector<int> kind;
  std::vector<std::array<double, 3>> place;
};

MatrixAtoms find_atoms(const equi::LammpsHessian &hessian, int igroup, bool fold, const Atom &atom, Domain &domain) {
  std::vector<double> local;
  for (int i = 0; i < atom.nlocal; i++) {
    double lamda[3];
    domain.x2lamda(atom.x[i], lamda);
    local.insert(local.end(), {hessian.in_group(igroup, i) ? 1.0 : 0.0, hessian.mass(i),
                               static_cast<double>(atom.type[i]), lamda[0], lamda[1], lamda[2]});
  }
  const std::vector<double> all = hessian.gather(6, local);
  MatrixAtoms atoms;
  std::map<std::pair<double, double>, int> kind_of;    // key: type and mass
  for (bigint i = 0; i < atom.natoms; i++) {
    const double *a = &all[6 * i];
    if (a[0] > 0.0) atoms.rows.push_back(i);
    if (a[0] > 0.0 || fold) atoms.columns.push_back(i);
    atoms.root_mass.push_back(std::sqrt(a[1]));
    atoms.kind.push_back(kind_of.try_emplace({a[2], a[1]}, static_cast<int>(kind_of.size())).first->second);
    atoms.place.push_back({a[3], a[4], a[5]});
  }
  return atoms;
}

}    // namespace

/* ----------------------------------------------------------------------
   equi_dynamical_matrix GROUP-ID regular|eskm GAMMA keyword value ...
------------------------------------------------------------------------- */

void EquiDynamicalMatrix::command(int narg, char **arg) {
  equi::local_try(error, world, NAME, [&] { calculate(narg, arg); });
}

// The polarization along a direction as each atom moves, n.Z_i, [natoms][3] by ID on all ranks; empty without a
// direction.
std::vector<double> EquiDynamicalMatrix::charges_along(const std::array<double, 3> &n, equi::LammpsHessian &hessian) {
  if (n == std::array<double, 3>{}) return {};
  const equi::BornCharges charges = hessian.born_charges();
  std::vector<double> local;
  double largest = 0.0, mine = 0.0;
  for (int i = 0; i < atom->nlocal; i++) {
    for (int b = 0; b < 3; b++)
      local.push_back(n[0] * charges.born[i][b] + n[1] * charges.born[i][3 + b] + n[2] * charges.born[i][6 + b]);
    for (const double d : charges.charge_derivative[i]) mine = std::max(mine, std::fabs(d));
  }
  MPI_Allreduce(&mine, &largest, 1, MPI_DOUBLE, MPI_MAX, world);
  if (largest > FIXED_CHARGE && comm->me == 0)
    error->warning(
        FLERR,
        "{}: the total charge changes by up to {:.3g} e/Angstrom as an atom moves: second derivatives at long "
        "waves then have no limit",
        NAME, largest);
  return hessian.gather(3, local);
}

void EquiDynamicalMatrix::calculate(int narg, char **arg) {
  if (narg < 3) error->all(FLERR, "{}: expected a group, regular or eskm, and a displacement", NAME);
  const std::string style = arg[1];
  if (style != "regular" && style != "eskm")
    error->all(FLERR, "{}: style must be regular or eskm, not {}", NAME, style);
  // Accepted for input that was written for finite differences; the derivatives need no displacement.
  utils::numeric(FLERR, arg[2], false, lmp);
  const Options options = parse(narg - 3, arg + 3, lmp);

  const double start = platform::walltime();
  equi::LammpsHessian hessian(lmp, NAME, 3, options.has_direction());
  const int igroup = hessian.find_group(arg[0]), me = comm->me;
  const double unit = style == "eskm" ? hessian.energy_per_area_and_mass() : 1.0;

  const std::vector<double> along = charges_along(options.direction, hessian);    // empty, or [natoms][3]
  const double long_waves = along.empty() ? 0.0 : hessian.long_wave_factor();

  const bigint num_atoms = atom->natoms;
  const auto [rows, columns, root_mass, kinds, places] = find_atoms(hessian, igroup, options.fold, *atom, *domain);

  // Atoms that a translation of the lattice maps onto each other have the same rows.
  equi::Translations translations(static_cast<int>(num_atoms));
  if (options.translations) {
    const double edges[3][3] = {
        {domain->xprd, 0.0, 0.0}, {domain->xy, domain->yprd, 0.0}, {domain->xz, domain->yz, domain->zprd}};
    const bool periodic[3] = {domain->xperiodic != 0, domain->yperiodic != 0, domain->zperiodic != 0};
    translations = equi::find_translations(places, kinds, edges, periodic, TRANSLATION_TOLERANCE);
  }
  std::map<int, int> first_row_of_orbit;
  for (const bigint i : rows)
    first_row_of_orbit.try_emplace(translations.orbit(static_cast<int>(i)), static_cast<int>(i));
  if (me == 0)
    utils::logmesg(
        lmp,
        "Calculating dynamical matrix by second derivatives ...\n  Total # of atoms = {}\n  Atoms in group = "
        "{}\n  Translations that map the atoms onto themselves = {}\n  Total dynamical matrix elements = {}\n"
        "  Hessian-vector products = {}\n",
        num_atoms, rows.size(), translations.count(), 9 * rows.size() * columns.size(), 3 * first_row_of_orbit.size());

  equi::ResultFile file(lmp, NAME, options.file, options.binary ? "wb" : "w", options.gzip);
  struct Orbit {
    int atom = -1;
    std::vector<double> rows[3];    // [natoms][3], on rank 0
  };
  std::map<int, Orbit> orbits;
  equi::LammpsHessian::Vectors v[3], hv[3];
  size_t done = 0;
  int printed = 0;
  for (const bigint i : rows) {
    Orbit &orbit = orbits[translations.orbit(static_cast<int>(i))];
    if (orbit.atom < 0) {
      orbit.atom = static_cast<int>(i);
      for (int alpha = 0; alpha < 3; alpha++) {
        v[alpha].assign(atom->nlocal + 1, {});
        for (int a = 0; a < atom->nlocal; a++)
          if (atom->tag[a] == i + 1) v[alpha][a][alpha] = 1.0;
      }
      hessian.multiply(3, v, hv);
      for (int alpha = 0; alpha < 3; alpha++) {
        std::vector<double> local;
        for (const auto &h : hv[alpha]) local.insert(local.end(), h.begin(), h.end());
        orbit.rows[alpha] = hessian.gather(3, local);
        if (me != 0) orbit.rows[alpha].clear();
      }
      done++;
      const int tenths = static_cast<int>(10 * done / first_row_of_orbit.size());
      if (me == 0 && screen && tenths > printed) {
        printed = tenths;
        utils::print(screen, " {}%", 10 * tenths);
        std::fflush(screen);
      }
    }
    if (me != 0) continue;
    const std::vector<int> from = translations.preimages(orbit.atom, static_cast<int>(i));
    for (int alpha = 0; alpha < 3; alpha++) {
      std::vector<double> row;
      row.reserve(3 * columns.size());
      for (const bigint j : columns)
        for (int beta = 0; beta < 3; beta++) {
          double h = orbit.rows[alpha][3 * from[j] + beta];
          if (!along.empty()) h += long_waves * along[3 * i + alpha] * along[3 * j + beta];
          row.push_back(unit * h / (root_mass[i] * root_mass[j]));
        }
      write_row(file.stream(), row, options.binary);
      file.check();
    }
  }
  if (me == 0) {
    file.close();
    if (screen) utils::print(screen, "\n");
    utils::logmesg(lmp, "Finished dynamical matrix in {:.3f} seconds\n", platform::walltime() - start);
  }
}

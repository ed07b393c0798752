// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Computes elastic constants from derivatives by strains, with and without relaxation of the atoms.
#include "src/lammps/commands/equi_elastic.h"

#include "src/hessian/conjugate_directions.h"
#include "src/lammps/commands/command_options.h"
#include "src/lammps/commands/lammps_hessian.h"
#include "src/lammps/faults/lammps_faults.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "force.h"
#include "platform.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

using namespace LAMMPS_NS;

namespace {

constexpr char NAME[] = "equi_elastic";

// Voigt's order, xx, yy, zz, yz, xz, xy, and its positions in the order of virials (xx, yy, zz, xy, xz, yz).
constexpr int STRAINS = 6, FIRST[STRAINS] = {0, 1, 2, 1, 0, 0}, SECOND[STRAINS] = {0, 1, 2, 2, 2, 1},
              OF_VIRIAL[STRAINS] = {0, 1, 2, 5, 4, 3};

using Constants = std::array<std::array<double, STRAINS>, STRAINS>;

std::string table(const char *name, const Constants &c) {
  std::string text = fmt::format("  {} (GPa; xx, yy, zz, yz, xz, xy)\n", name);
  for (const auto &row : c) {
    for (double number : row) text += fmt::format(" {:13.6f}", number);
    text += "\n";
  }
  return text;
}

struct Options {
  std::string file = "elastic.dat";
  double tolerance = 1e-5;
  int max_products = 1000;
};

Options parse(int narg, char **arg, LAMMPS *lmp) {
  Options o;
  equi::read_options(
      lmp, NAME, narg, arg,
      {{"file", [&](const auto &value) { o.file = value; }},
       {"tolerance", [&](const auto &value) { o.tolerance = utils::numeric(FLERR, value, false, lmp); }},
       {"products", [&](const auto &value) { o.max_products = utils::inumeric(FLERR, value, false, lmp); }}});
  if (!(o.tolerance > 0.0) || o.max_products < 0)
    lmp->error->all(FLERR, "{}: the tolerance must be positive, and the number of products not negative", NAME);
  return o;
}

// The results of strains with clamped atoms.
struct Strained {
  Constants clamped{};
  double pressure[STRAINS] = {};
  std::vector<std::vector<double>> force_tangents;    // [strains][3 nlocal]
};

// Pressures are virials over the volume, P = W / V. So the derivative of the stress -P by a strain e is -(dW/de) / V +
// W tr(e) / V. gpa: converts an energy.
Strained strain_atoms(equi::LammpsHessian &hessian, int nlocal, double gpa) {
  Strained s;
  for (int j = 0; j < STRAINS; j++) {
    double strain[3][3] = {};
    strain[FIRST[j]][SECOND[j]] += 0.5;
    strain[SECOND[j]][FIRST[j]] += 0.5;
    equi::LammpsHessian::Vectors forces;
    const auto derivatives = hessian.strain(strain, forces);
    for (int i = 0; i < STRAINS; i++) {
      const double virial = derivatives.virial[OF_VIRIAL[i]];
      s.pressure[i] = gpa * virial;
      s.clamped[i][j] = gpa * ((j < 3 ? virial : 0.0) - derivatives.virial_tangent[OF_VIRIAL[i]]);
    }
    s.force_tangents.emplace_back();
    for (int a = 0; a < nlocal; a++)
      for (int k = 0; k < 3; k++) s.force_tangents.back().push_back(forces[a][k]);
  }
  return s;
}

// Sums over all atoms of the products of vector `a` of this rank with each of `vectors`.
std::vector<double> products(const equi::LammpsHessian &hessian, const std::vector<double> &a,
                             const std::vector<std::vector<double>> &vectors) {
  std::vector<double> sums;
  for (const auto &b : vectors) sums.push_back(std::inner_product(a.begin(), a.end(), b.begin(), 0.0));
  hessian.sum_over_ranks(sums);
  return sums;
}

}    // namespace

/* ----------------------------------------------------------------------
   equi_elastic keyword value ...
------------------------------------------------------------------------- */

void EquiElastic::command(int narg, char **arg) {
  equi::local_try(error, world, NAME, [&] { calculate(narg, arg); });
}

void EquiElastic::calculate(int narg, char **arg) {
  const Options options = parse(narg, arg, lmp);
  if (domain->box_exist && !(domain->xperiodic && domain->yperiodic && domain->zperiodic))
    error->all(FLERR, "{} needs a box that is periodic in all directions", NAME);
  const double start_time = platform::walltime();
  equi::LammpsHessian hessian(lmp, NAME);
  const int nlocal = atom->nlocal;
  equi::ResultFile file(lmp, NAME, options.file);

  const bool is_metal = std::string(update->unit_style) == "metal";
  const double volume = domain->xprd * domain->yprd * domain->zprd;
  const double gpa = force->nktv2p * (is_metal ? 1e-4 : 1.01325e-4) / volume;    // per energy; bars or atmospheres
  const Strained strained = strain_atoms(hessian, nlocal, gpa);
  const auto &force_tangents = strained.force_tangents;

  // Atoms follow a strain by u, H u = the derivative of the forces L: the energy decreases by L u / 2.
  equi::SymmetricOperator matrix;
  equi::LammpsHessian::Vectors v, hv;
  matrix.multiply = [&](const std::vector<double> &x, std::vector<double> &y) {
    v.assign(nlocal + 1, {});
    for (int a = 0; a < nlocal; a++) std::copy_n(&x[3 * a], 3, v[a].data());
    hessian.multiply(1, &v, &hv);
    for (int a = 0; a < nlocal; a++) std::copy_n(hv[a].data(), 3, &y[3 * a]);
  };
  matrix.sum_over_ranks = [&](std::vector<double> &numbers) { hessian.sum_over_ranks(numbers); };
  std::vector<double> squares;
  for (const auto &t : force_tangents) squares.push_back(std::inner_product(t.begin(), t.end(), t.begin(), 0.0));
  hessian.sum_over_ranks(squares);
  const double largest_square = *std::max_element(squares.begin(), squares.end());
  // Below this number, in eV/Angstrom, derivatives of forces are rounding errors and change no constant.
  constexpr double NEGLIGIBLE = 1e-6;
  const double ev = is_metal ? 1.0 : utils::get_conversion_factor(utils::ENERGY, utils::METAL2REAL);
  const double allowed = std::max(options.tolerance * std::sqrt(largest_square), NEGLIGIBLE * ev);
  const equi::LinearSolutions follow =
      equi::solve_by_conjugate_directions(matrix, force_tangents, allowed, options.max_products);
  Constants relaxed = strained.clamped;
  for (int i = 0; i < STRAINS; i++) {
    const std::vector<double> gains = products(hessian, force_tangents[i], follow.x);
    for (int j = 0; j < STRAINS; j++) relaxed[i][j] -= gpa * gains[j];
  }

  if (comm->me != 0) return;
  utils::logmesg(lmp, "{}: 6 strains and {} Hessian-vector products in {:.3f} seconds, residual {:.1e}\n{}{}", NAME,
                 follow.products, platform::walltime() - start_time, follow.residual,
                 table("elastic constants of clamped atoms", strained.clamped), table("elastic constants", relaxed));
  utils::logmesg(lmp, "  pressure (GPa):");
  for (double p : strained.pressure) utils::logmesg(lmp, " {:.6f}", p);
  utils::logmesg(lmp, "\n");
  if (!hessian.is_invariant())
    utils::logmesg(lmp,
                   "  the energy of this model depends on the orientation of the structure: shear columns hold for "
                   "strains without rotation, which a tilt of the box is not\n");
  if (!follow.positive)
    error->warning(
        FLERR, "{}: the energy is not at a minimum of the positions, and the elastic constants have no meaning", NAME);
  else if (!follow.converged)
    error->warning(FLERR, "{}: the motion of atoms under strain has not reached the tolerance", NAME);
  for (const Constants &c : {relaxed, strained.clamped})
    for (const auto &row : c) {
      for (double number : row) utils::print(file.stream(), " {:.12g}", number);
      utils::print(file.stream(), "\n");
    }
  file.close();
}

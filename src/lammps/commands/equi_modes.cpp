// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Computes the lowest vibrational modes of a group and writes them as tables and frames.
#include "src/lammps/commands/equi_modes.h"

#include "src/hessian/lowest_eigenpairs.h"
#include "src/lammps/commands/command_options.h"
#include "src/lammps/commands/lammps_hessian.h"
#include "src/lammps/faults/lammps_faults.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "platform.h"
#include "utils.h"

#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

using namespace LAMMPS_NS;

namespace {

constexpr char NAME[] = "equi_modes";

// A number in [-1, 1) for an atom, the same on any number of ranks.
double random_component(uint64_t seed, uint64_t id, uint64_t component) {
  uint64_t z = seed * 0x9e3779b97f4a7c15ull + id * 0xbf58476d1ce4e5b9ull + component * 0x94d049bb133111ebull;
  for (int k = 0; k < 2; k++) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
  }
  return static_cast<double>(z >> 11) * 0x1p-52 - 1.0;
}

struct Options {
  equi::EigenOptions eigen;
  std::string file = "modes.dump";
  int seed = 1;
};

Options parse(int narg, char **arg, LAMMPS *lmp) {
  Error *error = lmp->error;
  if (narg < 2) error->all(FLERR, "{}: expected a group and the number of modes", NAME);
  Options o;
  o.eigen.count = utils::inumeric(FLERR, arg[1], false, lmp);
  o.eigen.tolerance = 1e-6;
  const auto integer = [lmp](int &to) {
    return [lmp, &to](const std::string &value) { to = utils::inumeric(FLERR, value, false, lmp); };
  };
  equi::read_options(
      lmp, NAME, narg - 2, arg + 2,
      {{"file", [&](const auto &value) { o.file = value; }},
       {"tolerance", [&](const auto &value) { o.eigen.tolerance = utils::numeric(FLERR, value, false, lmp); }},
       {"products", integer(o.eigen.max_products)},
       {"seed", integer(o.seed)}});
  if (o.eigen.count < 1 || !(o.eigen.tolerance > 0.0) || o.eigen.max_products < 1 || o.seed < 1)
    error->all(FLERR, "{}: the number of modes, tolerance, products and seed must be positive", NAME);
  return o;
}

// This rank's atoms of a group.
struct GroupAtoms {
  std::vector<int> index;
  std::vector<double> root_mass;
  bigint count = 0;    // over all ranks
};

// The translations, which are eigenvectors if all atoms may move, and noise.
std::vector<std::vector<double>> starting_vectors(const Atom &atom, const GroupAtoms &group, const Options &options) {
  std::vector<std::vector<double>> start;
  for (int n = 0; n < options.eigen.count + options.eigen.num_known + 5; n++) {
    std::vector<double> x(3 * group.index.size());
    const bool translates = n < options.eigen.num_known;
    for (size_t a = 0; a < group.index.size(); a++)
      for (int k = 0; k < 3; k++)
        x[3 * a + k] = translates ? (k == n ? group.root_mass[a] : 0.0)
                                  : random_component(options.seed, atom.tag[group.index[a]], 3 * n + k);
    start.push_back(std::move(x));
  }
  return start;
}

// Frequencies in THz, negative for imaginary ones: the root of an eigenvalue in ps^-2 over 2 pi. unit: unit of
// eigenvalues, in ps^-2.
std::string table_of(const equi::Eigenpairs &modes, double unit) {
  std::string table = "  mode   eigenvalue (THz^2 4 pi^2)   frequency (THz)   residual\n";
  for (size_t n = 0; n < modes.values.size(); n++) {
    const double squared = unit * modes.values[n];
    table += fmt::format("  {:4}   {:25.8g}   {:15.6f}   {:8.1e}\n", n + 1, squared,
                         std::copysign(std::sqrt(std::fabs(squared)), squared) / (2.0 * M_PI), modes.residuals[n]);
  }
  return table;
}

constexpr int FRAME_WIDTH = 8;    // columns: whether the atom is in the group, type, position, displacement

// atoms [natoms][FRAME_WIDTH]; displacements are multiplied by `factor`.
void write_frame(FILE *fp, size_t number, bigint count, Domain &domain, const std::vector<double> &atoms,
                 double factor) {
  char boundary[9];
  domain.boundary_string(boundary);
  utils::print(fp, "ITEM: TIMESTEP\n{}\nITEM: NUMBER OF ATOMS\n{}\n", number, count);
  if (domain.triclinic)
    utils::print(
        fp, "ITEM: BOX BOUNDS xy xz yz {}\n{:.16e} {:.16e} {:.16e}\n{:.16e} {:.16e} {:.16e}\n{:.16e} {:.16e} {:.16e}\n",
        boundary, domain.boxlo_bound[0], domain.boxhi_bound[0], domain.xy, domain.boxlo_bound[1], domain.boxhi_bound[1],
        domain.xz, domain.boxlo_bound[2], domain.boxhi_bound[2], domain.yz);
  else
    utils::print(fp, "ITEM: BOX BOUNDS {}\n{:.16e} {:.16e}\n{:.16e} {:.16e}\n{:.16e} {:.16e}\n", boundary,
                 domain.boxlo[0], domain.boxhi[0], domain.boxlo[1], domain.boxhi[1], domain.boxlo[2], domain.boxhi[2]);
  utils::print(fp, "ITEM: ATOMS id type x y z ux uy uz\n");
  for (size_t i = 0; FRAME_WIDTH * i < atoms.size(); i++) {
    const double *from = &atoms[FRAME_WIDTH * i];
    if (from[0] == 0.0) continue;
    utils::print(fp, "{} {} {:.10g} {:.10g} {:.10g}", i + 1, static_cast<int>(from[1]), from[2], from[3], from[4]);
    for (int k = 0; k < 3; k++) utils::print(fp, " {:.10g}", from[5 + k] * factor);
    utils::print(fp, "\n");
  }
}

}    // namespace

/* ----------------------------------------------------------------------
   equi_modes GROUP-ID COUNT keyword value ...
------------------------------------------------------------------------- */

void EquiModes::command(int narg, char **arg) {
  equi::local_try(error, world, NAME, [&] { calculate(narg, arg); });
}

void EquiModes::calculate(int narg, char **arg) {
  Options options = parse(narg, arg, lmp);
  const double start_time = platform::walltime();
  equi::LammpsHessian hessian(lmp, NAME);
  const int igroup = hessian.find_group(arg[0]), nlocal = atom->nlocal, me = comm->me;
  GroupAtoms group;
  for (int i = 0; i < nlocal; i++)
    if (hessian.in_group(igroup, i)) {
      group.index.push_back(i);
      group.root_mass.push_back(std::sqrt(hessian.mass(i)));
    }
  const bigint my_count = static_cast<bigint>(group.index.size());
  MPI_Allreduce(&my_count, &group.count, 1, MPI_LMP_BIGINT, MPI_SUM, world);
  if (options.eigen.count > 3 * group.count)
    error->all(FLERR, "{}: {} modes of a group of {} atoms", NAME, options.eigen.count, group.count);
  if (group.count == atom->natoms) options.eigen.num_known = 3;
  equi::ResultFile file(lmp, NAME, options.file);    // opened before the work, which may take hours

  // D = M^-1/2 H M^-1/2
  equi::SymmetricOperator dynamical;
  equi::LammpsHessian::Vectors v, hv;
  dynamical.multiply = [&](const std::vector<double> &x, std::vector<double> &y) {
    v.assign(nlocal + 1, {});
    for (size_t a = 0; a < group.index.size(); a++)
      for (int k = 0; k < 3; k++) v[group.index[a]][k] = x[3 * a + k] / group.root_mass[a];
    hessian.multiply(1, &v, &hv);
    for (size_t a = 0; a < group.index.size(); a++)
      for (int k = 0; k < 3; k++) y[3 * a + k] = hv[group.index[a]][k] / group.root_mass[a];
  };
  dynamical.sum_over_ranks = [&](std::vector<double> &numbers) { hessian.sum_over_ranks(numbers); };
  int printed = 0;
  const equi::Eigenpairs modes = equi::lowest_eigenpairs(
      dynamical, starting_vectors(*atom, group, options), options.eigen, [&](int products, int converged) {
        if (me != 0 || !screen || products < printed + 20) return;
        printed = products;
        utils::print(screen, "{}: {} products, {} of {} modes converged\n", NAME, products, converged,
                     options.eigen.count);
        std::fflush(screen);
      });
  if (me == 0) {
    utils::logmesg(lmp, "{} modes of {} atoms by {} Hessian-vector products in {:.3f} seconds\n{}", modes.values.size(),
                   group.count, modes.products, platform::walltime() - start_time,
                   table_of(modes, hessian.energy_per_area_and_mass()));
    if (!modes.converged)
      error->warning(FLERR, "{}: not all modes reached the tolerance {}", NAME, options.eigen.tolerance);
  }

  // A frame per mode: displacements u = M^-1/2 x, scaled to length one.
  for (size_t n = 0; n < modes.vectors.size(); n++) {
    std::vector<double> local(FRAME_WIDTH * static_cast<size_t>(nlocal), 0.0), square(1, 0.0);
    for (size_t a = 0; a < group.index.size(); a++) {
      const int i = group.index[a];
      double *to = &local[FRAME_WIDTH * static_cast<size_t>(i)];
      to[0] = 1.0;
      to[1] = atom->type[i];
      for (int k = 0; k < 3; k++) {
        to[2 + k] = atom->x[i][k];
        to[5 + k] = modes.vectors[n][3 * a + k] / group.root_mass[a];
        square[0] += to[5 + k] * to[5 + k];
      }
    }
    hessian.sum_over_ranks(square);
    const std::vector<double> all = hessian.gather(FRAME_WIDTH, local);
    if (me == 0) write_frame(file.stream(), n + 1, group.count, *domain, all, 1.0 / std::sqrt(square[0]));
  }
  file.close();
}

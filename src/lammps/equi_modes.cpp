// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

#include "src/lammps/equi_modes.h"

#include "src/hessian/lowest_eigenpairs.h"
#include "src/lammps/lammps_faults.h"
#include "src/lammps/lammps_hessian.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "platform.h"
#include "utils.h"

#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>

using namespace LAMMPS_NS;

namespace {

constexpr char NAME[] = "equi_modes";

// A number in [-1, 1) for an atom, the same on every number of ranks.
double random_component(uint64_t seed, uint64_t id, uint64_t component) {
  uint64_t z = seed * 0x9e3779b97f4a7c15ull + id * 0xbf58476d1ce4e5b9ull + component * 0x94d049bb133111ebull;
  for (int k = 0; k < 2; k++) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
  }
  return static_cast<double>(z >> 11) * 0x1p-52 - 1.0;
}

}    // namespace

/* ----------------------------------------------------------------------
   equi_modes GROUP-ID COUNT keyword value ...
------------------------------------------------------------------------- */

void EquiModes::command(int narg, char **arg) {
  equi::this_rank_or_none(error, world, NAME, [&] { calculate(narg, arg); });
}

void EquiModes::calculate(int narg, char **arg) {
  if (narg < 2) error->all(FLERR, "{}: expected a group and the number of modes", NAME);
  equi::EigenOptions options;
  options.count = utils::inumeric(FLERR, arg[1], false, lmp);
  options.tolerance = 1e-6;
  std::string file = "modes.dump";
  int seed = 1;
  for (int k = 2; k < narg; k += 2) {
    const std::string keyword = arg[k];
    if (k + 1 == narg) error->all(FLERR, "{}: keyword {} needs a value", NAME, keyword);
    if (keyword == "file")
      file = arg[k + 1];
    else if (keyword == "tolerance")
      options.tolerance = utils::numeric(FLERR, arg[k + 1], false, lmp);
    else if (keyword == "products")
      options.max_products = utils::inumeric(FLERR, arg[k + 1], false, lmp);
    else if (keyword == "seed")
      seed = utils::inumeric(FLERR, arg[k + 1], false, lmp);
    else
      error->all(FLERR, "{}: unknown keyword {}; known are file, tolerance, products, seed", NAME, keyword);
  }
  if (options.count < 1 || !(options.tolerance > 0.0) || options.max_products < 1 || seed < 1)
    error->all(FLERR, "{}: the number of modes, tolerance, products and seed must be positive", NAME);

  const double start_time = platform::walltime();
  equi::LammpsHessian hessian(lmp, NAME);
  const int igroup = hessian.find_group(arg[0]), nlocal = atom->nlocal, me = comm->me;
  std::vector<int> mine;    // atoms of the group
  std::vector<double> root_mass;
  for (int i = 0; i < nlocal; i++)
    if (hessian.in_group(igroup, i)) {
      mine.push_back(i);
      root_mass.push_back(std::sqrt(hessian.mass(i)));
    }
  bigint my_count = static_cast<bigint>(mine.size()), count = 0;
  MPI_Allreduce(&my_count, &count, 1, MPI_LMP_BIGINT, MPI_SUM, world);
  if (options.count > 3 * count) error->all(FLERR, "{}: {} modes of a group of {} atoms", NAME, options.count, count);

  // Opened before the work, which may take hours.
  std::unique_ptr<FILE, int (*)(FILE *)> opened(nullptr, std::fclose);
  equi::all_ranks_or_none(error, world, NAME, [&] {
    if (me != 0) return;
    opened.reset(std::fopen(file.c_str(), "w"));
    if (!opened) throw std::runtime_error("cannot open file " + file + ": " + utils::getsyserror());
  });
  FILE *fp = opened.get();

  // D = M^-1/2 H M^-1/2
  equi::SymmetricOperator dynamical;
  equi::LammpsHessian::Vectors v, hv;
  dynamical.multiply = [&](const std::vector<double> &x, std::vector<double> &y) {
    v.assign(nlocal + 1, {});
    for (size_t a = 0; a < mine.size(); a++)
      for (int k = 0; k < 3; k++) v[mine[a]][k] = x[3 * a + k] / root_mass[a];
    hessian.multiply(1, &v, &hv);
    for (size_t a = 0; a < mine.size(); a++)
      for (int k = 0; k < 3; k++) y[3 * a + k] = hv[mine[a]][k] / root_mass[a];
  };
  dynamical.sum_over_ranks = [&](std::vector<double> &numbers) {
    MPI_Allreduce(MPI_IN_PLACE, numbers.data(), static_cast<int>(numbers.size()), MPI_DOUBLE, MPI_SUM, world);
  };
  // The three translations, if all atoms may move, and noise.
  std::vector<std::vector<double>> start;
  for (int n = 0; n < options.count + 5; n++) {
    std::vector<double> x(3 * mine.size());
    const bool translates = n < 3 && count == atom->natoms;
    for (size_t a = 0; a < mine.size(); a++)
      for (int k = 0; k < 3; k++)
        x[3 * a + k] =
            translates ? (k == n ? root_mass[a] : 0.0) : random_component(seed, atom->tag[mine[a]], 3 * n + k);
    start.push_back(std::move(x));
  }
  int printed = 0;
  const equi::Eigenpairs modes =
      equi::lowest_eigenpairs(dynamical, std::move(start), options, [&](int products, int converged) {
        if (me != 0 || !screen || products < printed + 20) return;
        printed = products;
        utils::print(screen, "{}: {} products, {} of {} modes converged\n", NAME, products, converged, options.count);
        std::fflush(screen);
      });

  // In THz, negative for imaginary ones: of an eigenvalue in ps^-2, its root over 2 pi.
  const double unit = hessian.energy_per_area_and_mass();
  std::string table = "  mode   eigenvalue (THz^2 4 pi^2)   frequency (THz)   residual\n";
  for (size_t n = 0; n < modes.values.size(); n++) {
    const double squared = unit * modes.values[n];
    table += fmt::format("  {:4}   {:25.8g}   {:15.6f}   {:8.1e}\n", n + 1, squared,
                         std::copysign(std::sqrt(std::fabs(squared)), squared) / (2.0 * M_PI), modes.residuals[n]);
  }
  if (me == 0) {
    utils::logmesg(lmp, "{} modes of {} atoms by {} Hessian-vector products in {:.3f} seconds\n{}", modes.values.size(),
                   count, modes.products, platform::walltime() - start_time, table);
    if (!modes.converged) error->warning(FLERR, "{}: not all modes reached the tolerance {}", NAME, options.tolerance);
  }

  // A frame per mode: displacements u = M^-1/2 x, scaled to length one.
  for (size_t n = 0; n < modes.vectors.size(); n++) {
    std::vector<double> local(8 * static_cast<size_t>(nlocal), 0.0), square(1, 0.0);
    for (size_t a = 0; a < mine.size(); a++) {
      double *to = &local[8 * static_cast<size_t>(mine[a])];
      to[0] = 1.0;
      to[1] = atom->type[mine[a]];
      for (int k = 0; k < 3; k++) {
        to[2 + k] = atom->x[mine[a]][k];
        to[5 + k] = modes.vectors[n][3 * a + k] / root_mass[a];
        square[0] += to[5 + k] * to[5 + k];
      }
    }
    dynamical.sum_over_ranks(square);
    const std::vector<double> all = hessian.gather(8, local);
    if (me != 0) continue;
    char boundary[9];
    domain->boundary_string(boundary);
    utils::print(fp, "ITEM: TIMESTEP\n{}\nITEM: NUMBER OF ATOMS\n{}\n", n + 1, count);
    if (domain->triclinic)
      utils::print(
          fp,
          "ITEM: BOX BOUNDS xy xz yz {}\n{:.16e} {:.16e} {:.16e}\n{:.16e} {:.16e} {:.16e}\n{:.16e} {:.16e} {:.16e}\n",
          boundary, domain->boxlo_bound[0], domain->boxhi_bound[0], domain->xy, domain->boxlo_bound[1],
          domain->boxhi_bound[1], domain->xz, domain->boxlo_bound[2], domain->boxhi_bound[2], domain->yz);
    else
      utils::print(fp, "ITEM: BOX BOUNDS {}\n{:.16e} {:.16e}\n{:.16e} {:.16e}\n{:.16e} {:.16e}\n", boundary,
                   domain->boxlo[0], domain->boxhi[0], domain->boxlo[1], domain->boxhi[1], domain->boxlo[2],
                   domain->boxhi[2]);
    utils::print(fp, "ITEM: ATOMS id type x y z ux uy uz\n");
    for (bigint i = 0; i < atom->natoms; i++) {
      const double *from = &all[8 * i];
      if (from[0] == 0.0) continue;
      utils::print(fp, "{} {} {:.10g} {:.10g} {:.10g}", i + 1, static_cast<int>(from[1]), from[2], from[3], from[4]);
      for (int k = 0; k < 3; k++) utils::print(fp, " {:.10g}", from[5 + k] / std::sqrt(square[0]));
      utils::print(fp, "\n");
    }
  }
  if (fp && (std::fflush(fp) != 0 || std::ferror(fp)))
    throw std::runtime_error("cannot write file " + file + ": " + utils::getsyserror());
}

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Warns of a first structure with close atoms or with a large virial.
#include "src/lammps/checks/first_structure.h"

#include "src/model/chemical_elements.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace LAMMPS_NS;

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
ClosestPair closest_pair(const Atom &atom, const Neighborhood &n, const double (*x)[3],
                         const std::vector<double> &radius) {
  ClosestPair closest;
  for (int row = 0; row < n.num_receivers; row++) {
    const int i = n.receiver[row], type_i = atom.type[i];
    if (radius[type_i] == 0.0) continue;
    for (int64_t c = n.first[row]; c < n.first[row + 1]; c++) {
      const int j = n.sender_atom[c], type_j = atom.type[j];
      if (radius[type_j] == 0.0) continue;
      const double distance = std::hypot(x[j][0] - x[i][0], x[j][1] - x[i][1], x[j][2] - x[i][2]);
      const double ratio = distance / (radius[type_i] + radius[type_j]);
      if (ratio < closest.ratio) closest = {ratio, distance, {atom.tag[i], atom.tag[j]}, {type_i, type_j}};
    }
  }
  return closest;
}

}    // namespace

bool FirstStructure::check(PairRunner &runner, double virial_trace) const {
  const PairModels &models = runner.models();
  double mine[2] = {virial_trace, static_cast<double>(runner.neighborhood().num_receivers)}, all[2];
  MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, world);
  const double num_atoms = all[1];
  if (num_atoms == 0.0) return false;

  std::vector<double> radius(atom->ntypes + 1, 0.0);
  for (int t = 1; t <= atom->ntypes; t++) radius[t] = covalent_radius(models.type_symbol[t]);
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

  const double strain_energy = all[0] / 3.0 / num_atoms;
  const bool is_strained = !(std::fabs(strain_energy) <= LARGEST_STRAIN_ENERGY);
  const bool is_close = closest.ratio < LEAST_DISTANCE;
  if (comm->me != 0 || (!is_strained && !is_close)) return true;
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
                         found.empty() ? "" : ", and ", closest.id[0], models.type_symbol[closest.type[0]],
                         closest.id[1], models.type_symbol[closest.type[1]], closest.distance, closest.ratio);
  for (int t = 1; t <= atom->ntypes; t++)
    symbols += models.type_symbol[t].empty() ? " NULL" : " " + models.type_symbol[t];
  error->warning(FLERR,
                 "Pair style equi: the first structure is unlike any that a model is trained on: {}. Do the symbols of "
                 "pair_coeff, {}, stand in the order of the atom types, and are box and units as they should be? If "
                 "this state is meant, nothing needs to be done",
                 found, symbols.substr(1));
  return true;
}

}    // namespace equi

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Sums the charges, dipoles and polarizabilities of atoms.
#include "src/lammps/commands/compute_equi_observable.h"

#include "src/lammps/commands/command_options.h"
#include "src/lammps/evaluation/pair_observables.h"
#include "src/lammps/faults/lammps_faults.h"
#include "src/lammps/pair/pair_equi.h"

#include "atom.h"
#include "domain.h"
#include "error.h"
#include "force.h"
#include "memory.h"
#include "update.h"

#include <algorithm>
#include <cmath>

using namespace LAMMPS_NS;

/* ----------------------------------------------------------------------
   compute ID group-ID equi/charge
   compute ID group-ID equi/dipole keyword value ...
   compute ID group-ID equi/polarizability
   compute ID group-ID equi/spin
------------------------------------------------------------------------- */

ComputeEquiObservable::ComputeEquiObservable(LAMMPS *lmp, int narg, char **arg)
    : Compute(lmp, narg, arg), name_(std::string(arg[2]).substr(std::string("equi/").size())) {
  const std::string command = std::string("Compute ") + arg[2];
  equi::CommandOptions options;
  if (name_ == "dipole")
    options.push_back({"unit", [&](const std::string &word) {
                         if (word != "eA" && word != "debye")
                           error->all(FLERR, "{}: unit must be eA or debye, not {}", command, word);
                         unit_ = word == "debye" ? 1.0 / equi::Observable::DEBYE : 1.0;
                       }});
  if (options.empty() && narg > 3) error->all(FLERR, "{}: expected no further words, found {}", command, arg[3]);
  equi::read_options(lmp, command.c_str(), narg - 3, arg + 3, options);

  peratom_flag = 1;
  if (name_ == "charge" || name_ == "spin") {
    width_ = 1;
    scalar_flag = extscalar = 1;
    size_peratom_cols = 0;
    return;
  }
  width_ = name_ == "dipole" ? 4 : 6;
  size_peratom_cols = width_;
  vector_flag = 1;
  extvector = 1;
  size_vector = name_ == "dipole" ? 5 : 6;
  vector = new double[size_vector];
}

ComputeEquiObservable::~ComputeEquiObservable() {
  delete[] vector;
  memory->destroy(vector_atom);
  memory->destroy(array_atom);
}

void ComputeEquiObservable::init() {
  pair().init_observables();
  evaluated_ = -1;
}

// Looked up each time: a new pair_style may have replaced it since the last setup. Under a hybrid style it is the first
// one whose models compute this quantity. Charges have a dipole, too.
PairEqui &ComputeEquiObservable::pair() const {
  std::vector<std::string> names = {name_};
  if (name_ == "dipole") names.emplace_back("charge");
  return PairEqui::style_with_observable(lmp, names, std::string("Compute ") + style);
}

/* ---------------------------------------------------------------------- */

void ComputeEquiObservable::evaluate() {
  PairEqui &style = pair();
  if (update->whichflag == 0) style.check_same_atoms(true);
  const equi::Model &model = style.model();
  const int64_t all = model.num_observable_numbers(), charge = model.observable_offset("charge"),
                first = model.observable_offset(name_);
  const std::vector<double> &numbers = style.observables().evaluate();
  const int nlocal = atom->nlocal;
  of_atoms_.assign(static_cast<size_t>(width_) * nlocal + 1, 0.0);
  for (int i = 0; i < nlocal; i++) {
    if (!(atom->mask[i] & groupbit)) continue;
    const double *from = numbers.data() + all * i;
    double *to = of_atoms_.data() + static_cast<int64_t>(width_) * i;
    if (size_peratom_cols == 0) {
      to[0] = from[first];
    } else if (name_ == "dipole") {
      to[0] = charge < 0 ? 0.0 : from[charge];
      for (int k = 0; k < 3; k++) to[1 + k] = first < 0 ? 0.0 : unit_ * from[first + k];
    } else {
      const std::array<double, 6> tensor = equi::polarizability_tensor(from + first);
      std::copy(tensor.begin(), tensor.end(), to);
    }
  }
  evaluated_ = update->ntimestep;
}

std::vector<double> ComputeEquiObservable::sums() {
  equi::local_try(error, world, "Compute equi/charge, dipole, polarizability or spin", [&] { evaluate(); });
  std::vector<double> mine(width_, 0.0), all(width_);
  for (int i = 0; i < atom->nlocal; i++) {
    const double *of_atom = of_atoms_.data() + static_cast<int64_t>(width_) * i;
    for (int k = 0; k < width_; k++) mine[k] += of_atom[k];
    if (name_ != "dipole" || of_atom[0] == 0.0) continue;
    double r[3];    // does not jump when an atom crosses a periodic boundary
    domain->unmap(atom->x[i], atom->image[i], r);
    for (int k = 0; k < 3; k++) mine[1 + k] += unit_ * of_atom[0] * r[k];
  }
  MPI_Allreduce(mine.data(), all.data(), width_, MPI_DOUBLE, MPI_SUM, world);
  return all;
}

double ComputeEquiObservable::compute_scalar() {
  scalar = sums().front();
  invoked_scalar = update->ntimestep;
  return scalar;
}

void ComputeEquiObservable::compute_vector() {
  const std::vector<double> all = sums();
  if (name_ == "dipole") {    // mu, its magnitude, the total charge
    std::copy_n(all.begin() + 1, 3, vector);
    vector[3] = std::sqrt(vector[0] * vector[0] + vector[1] * vector[1] + vector[2] * vector[2]);
    vector[4] = all[0];
  } else {
    std::copy(all.begin(), all.end(), vector);
  }
  invoked_vector = update->ntimestep;
}

void ComputeEquiObservable::compute_peratom() {
  equi::local_try(error, world, "Compute equi/charge, dipole, polarizability or spin", [&] {
    // The results of the sums at this step are for the same atoms.
    const bigint summed = std::max(invoked_scalar, invoked_vector);
    if (summed != update->ntimestep || evaluated_ != update->ntimestep) evaluate();
    if (atom->nmax > capacity_ || !(vector_atom || array_atom)) {
      memory->destroy(vector_atom);
      memory->destroy(array_atom);
      capacity_ = atom->nmax > 0 ? atom->nmax : 1;
      if (size_peratom_cols == 0)
        memory->create(vector_atom, capacity_, "equi/charge:vector_atom");
      else
        memory->create(array_atom, capacity_, width_, "equi/observable:array_atom");
    }
    double *to = size_peratom_cols == 0 ? vector_atom : array_atom[0];
    std::copy_n(of_atoms_.begin(), static_cast<int64_t>(width_) * atom->nlocal, to);
  });
  invoked_peratom = update->ntimestep;
}

double ComputeEquiObservable::memory_usage() {
  return static_cast<double>(width_) * capacity_ * sizeof(double) + of_atoms_.capacity() * sizeof(double);
}

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Reads a vector per atom from LAMMPS and computes its product with the Hessian.
#include "src/lammps/commands/compute_equi_hvp.h"

#include "src/lammps/evaluation/pair_derivatives.h"
#include "src/lammps/faults/lammps_faults.h"
#include "src/lammps/pair/pair_equi.h"

#include "atom.h"
#include "error.h"
#include "fix.h"
#include "force.h"
#include "group.h"
#include "input.h"
#include "memory.h"
#include "modify.h"
#include "update.h"
#include "variable.h"

using namespace LAMMPS_NS;

/* ----------------------------------------------------------------------
   compute ID group-ID equi/hvp VX VY VZ
------------------------------------------------------------------------- */

ComputeEquiHVP::ComputeEquiHVP(LAMMPS *lmp, int narg, char **arg) : Compute(lmp, narg, arg) {
  if (narg != 6) error->all(FLERR, "Compute equi/hvp: expected three components of a vector, found {}", narg - 3);
  for (int k = 0; k < 3; k++) {
    Source &s = sources_[k];
    s.text = arg[3 + k];
    s.kind = s.text[0];
    s.column = 0;
    const size_t bracket = s.text.find('[');
    const bool is_indexed = bracket != std::string::npos;
    if (s.text.size() < 3 || s.text[1] != '_' || (s.kind != 'v' && s.kind != 'c' && s.kind != 'f') ||
        (is_indexed && (s.kind == 'v' || s.text.back() != ']')))
      error->all(FLERR, "Compute equi/hvp: expected v_NAME, c_ID, c_ID[K], f_ID or f_ID[K], found {}", s.text);
    s.id = s.text.substr(2, is_indexed ? bracket - 2 : bracket);
    if (is_indexed)
      s.column = utils::inumeric(FLERR, s.text.substr(bracket + 1, s.text.size() - bracket - 2), false, lmp);
  }
  peratom_flag = 1;
  size_peratom_cols = 3;
}

ComputeEquiHVP::~ComputeEquiHVP() {
  memory->destroy(array_atom);
}

void ComputeEquiHVP::init() {
  pair().init_hessian();
}

// Looked up each time: a new pair_style may have replaced it since the last setup.
PairEqui &ComputeEquiHVP::pair() const {
  return PairEqui::only_style(lmp, "Compute equi/hvp");
}

/* ---------------------------------------------------------------------- */

// Reads component k of the vector into component_, zero outside the group.
void ComputeEquiHVP::read_component(int k) {
  const Source &s = sources_[k];
  component_.assign(atom->nlocal + 1, 0.0);
  if (s.kind == 'v') {
    const int v = input->variable->find(s.id.c_str());
    if (v < 0 || !input->variable->atomstyle(v))
      error->all(FLERR, "Compute equi/hvp: {} is not an atom-style variable", s.text);
    input->variable->compute_atom(v, igroup, component_.data(), 1, 0);
    return;
  }
  // A compute, or a fix.
  const auto read = [&](const auto &source) {
    const int columns = source.size_peratom_cols;
    if (!source.peratom_flag || (s.column == 0) != (columns == 0) || s.column < 0 || s.column > columns)
      error->all(FLERR, "Compute equi/hvp: {} is not a vector of numbers per atom", s.text);
    for (int i = 0; i < atom->nlocal; i++)
      if (atom->mask[i] & groupbit)
        component_[i] = s.column == 0 ? source.vector_atom[i] : source.array_atom[i][s.column - 1];
  };
  if (s.kind == 'c') {
    Compute *c = modify->get_compute_by_id(s.id);
    if (!c) error->all(FLERR, "Compute equi/hvp: compute {} does not exist", s.id);
    if (c->peratom_flag && c->invoked_peratom != update->ntimestep) c->compute_peratom();
    read(*c);
  } else {
    const Fix *f = modify->get_fix_by_id(s.id);
    if (!f) error->all(FLERR, "Compute equi/hvp: fix {} does not exist", s.id);
    if (f->peratom_flag && update->ntimestep % f->peratom_freq)
      error->all(FLERR, "Compute equi/hvp: fix {} has numbers of each {} steps, and none of step {}", s.id,
                 f->peratom_freq, update->ntimestep);
    read(*f);
  }
}

void ComputeEquiHVP::compute_peratom() {
  if (update->whichflag == 0) pair().check_same_atoms(true);
  equi::local_try(error, world, "Compute equi/hvp", [&] { multiply(); });
  invoked_peratom = update->ntimestep;
}

void ComputeEquiHVP::multiply() {
  const int nlocal = atom->nlocal;
  if (nlocal > capacity_ || !array_atom) {
    memory->destroy(array_atom);
    capacity_ = atom->nmax > 0 ? atom->nmax : 1;
    memory->create(array_atom, capacity_, 3, "equi/hvp:array_atom");
  }
  vector_.assign(nlocal + 1, {});
  product_.assign(nlocal + 1, {});
  for (int k = 0; k < 3; k++) {
    read_component(k);
    for (int i = 0; i < nlocal; i++) vector_[i][k] = component_[i];
  }
  const auto *v = reinterpret_cast<const double(*)[3]>(vector_.data());
  auto *hv = reinterpret_cast<double(*)[3]>(product_.data());
  pair().derivatives().multiply_hessian(1, &v, &hv, false);
  for (int i = 0; i < nlocal; i++)
    for (int k = 0; k < 3; k++) array_atom[i][k] = (atom->mask[i] & groupbit) ? product_[i][k] : 0.0;
}

double ComputeEquiHVP::memory_usage() {
  return 3.0 * capacity_ * sizeof(double) + (vector_.capacity() + product_.capacity()) * sizeof(vector_[0]);
}

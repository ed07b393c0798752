// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Sets up LAMMPS for second derivatives, and converts vectors and units.
#include "src/lammps/commands/lammps_hessian.h"

#include "src/lammps/evaluation/pair_observables.h"
#include "src/lammps/faults/lammps_faults.h"
#include "src/model/model.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "force.h"
#include "group.h"
#include "lammps.h"
#include "modify.h"
#include "neighbor.h"
#include "platform.h"
#include "update.h"
#include "utils.h"

#include <stdexcept>

using namespace LAMMPS_NS;

namespace equi {

LammpsHessian::LammpsHessian(LAMMPS *lmp, const std::string &command, int kept_directions, bool has_born_charges)
    : Pointers(lmp), command_(command) {
  if (domain->box_exist == 0) error->all(FLERR, "{} before the simulation box is defined", command);
  pair_ = &PairEqui::only_style(lmp, command);
  if (force->kspace || force->bond || force->angle || force->dihedral || force->improper)
    error->all(FLERR, "{} knows second derivatives of pair style equi alone, not of bonds or kspace styles", command);
  if (!atom->tag_consecutive())
    error->all(FLERR, "{} needs atom IDs from 1 to the number of atoms without gaps: reset_atoms id numbers them anew",
               command);
  if (modify->n_post_force_any > 0 && comm->me == 0)
    error->warning(FLERR, "{} leaves out what fixes add to forces", command);
  pair_->init_hessian(kept_directions);
  if (has_born_charges) {
    if (pair_->num_models() > 0) long_wave_factor();
    pair_->init_born_charges();
  }
  lmp->init();

  // Updates ghosts and neighbors for the present atoms, as at the setup of a run.
  const int triclinic = domain->triclinic;
  if (triclinic) domain->x2lamda(atom->nlocal);
  domain->pbc();
  domain->reset_box();
  comm->setup();
  if (neighbor->style) neighbor->setup_bins();
  comm->exchange();
  comm->borders();
  if (triclinic) domain->lamda2x(atom->nlocal + atom->nghost);
  domain->image_check();
  domain->box_too_small_check();
  neighbor->build(1);
  pair_->read_new_list();
}

void LammpsHessian::multiply(int count, const Vectors *v, Vectors *hv) {
  std::vector<const double(*)[3]> from;
  std::vector<double(*)[3]> to;
  for (int k = 0; k < count; k++) {
    hv[k].resize(atom->nlocal + 1);    // at least one entry, so that there is an address
    from.push_back(reinterpret_cast<const double(*)[3]>(v[k].data()));
    to.push_back(reinterpret_cast<double(*)[3]>(hv[k].data()));
  }
  pair_->derivatives().multiply_hessian(count, from.data(), to.data(), !is_first_);
  is_first_ = false;
  for (int k = 0; k < count; k++) hv[k].resize(atom->nlocal);
}

StrainDerivatives LammpsHessian::strain(const double strain[3][3], Vectors &forces) {
  forces.resize(atom->nlocal + 1);
  const auto derivatives = pair_->derivatives().strain(strain, reinterpret_cast<double(*)[3]>(forces.data()));
  is_first_ = true;    // values for further directions have not been kept
  forces.resize(atom->nlocal);
  return derivatives;
}

BornCharges LammpsHessian::born_charges() {
  return pair_->observables().born_charges(false);
}

double LammpsHessian::long_wave_factor() const {
  const Model &model = pair_->model();
  if (pair_->num_models() > 1)
    error->all(FLERR, "{}: the direction of long waves needs a single model, not a committee", command_);
  const auto *ewald = find_layer<Ewald>(model.layers);
  const auto *charge = find_layer<Observable>(model.layers);
  if (!ewald)
    error->all(FLERR,
               "{}: the energy of the model has no Ewald sum, so its second derivatives do not depend on the direction "
               "of long waves: compute equi/born prints the charges for a correction with a permittivity",
               command_);
  if (!charge || charge->name != "charge" || charge->input != ewald->input || ewald->weights.size() != 1)
    error->all(FLERR, "{}: the charges of the model's Ewald sum are no observable of the file: convert it again",
               command_);
  const double weight = ewald->weights.front();
  return pair_->energy_unit() * weight * weight * ewald->function.prefactor /
         (domain->xprd * domain->yprd * domain->zprd);
}

int LammpsHessian::find_group(const std::string &id) const {
  const int igroup = group->find(id);
  if (igroup < 0) error->all(FLERR, "{}: group {} does not exist", command_, id);
  return igroup;
}

bool LammpsHessian::in_group(int igroup, int i) const {
  return (atom->mask[i] & group->bitmask[igroup]) != 0;
}

double LammpsHessian::mass(int i) const {
  return atom->rmass ? atom->rmass[i] : atom->mass[atom->type[i]];
}

void LammpsHessian::sum_over_ranks(std::vector<double> &numbers) const {
  MPI_Allreduce(MPI_IN_PLACE, numbers.data(), static_cast<int>(numbers.size()), MPI_DOUBLE, MPI_SUM, world);
}

std::vector<double> LammpsHessian::gather(int width, const std::vector<double> &of_local_atoms) const {
  std::vector<double> all(static_cast<size_t>(atom->natoms) * width, 0.0);
  for (int i = 0; i < atom->nlocal; i++)
    for (int k = 0; k < width; k++)
      all[static_cast<size_t>(atom->tag[i] - 1) * width + k] = of_local_atoms[static_cast<size_t>(i) * width + k];
  sum_over_ranks(all);
  return all;
}

double LammpsHessian::energy_per_area_and_mass() const {
  // The constants of LAMMPS's dynamical_matrix, so files of both can be combined.
  return std::string(update->unit_style) == "real" ? 418.4 : 9648.5;
}

ResultFile::ResultFile(LAMMPS *lmp, const std::string &command, const std::string &name, const char *mode, bool gzip)
    : name_(name), file_(nullptr, gzip ? platform::pclose : std::fclose) {
  collective_try(lmp->error, lmp->world, command.c_str(), [&] {
    if (lmp->comm->me != 0) return;
    file_.reset(gzip ? platform::compressed_write(name + ".gz") : std::fopen(name.c_str(), mode));
    if (!file_) throw std::runtime_error("cannot open file " + name + ": " + utils::getsyserror());
  });
}

void ResultFile::check() const {
  if (file_ && std::ferror(file_.get()))
    throw std::runtime_error("cannot write file " + name_ + ": " + utils::getsyserror());
}

void ResultFile::close() {
  check();
  if (file_ && file_.get_deleter()(file_.release()) != 0)
    throw std::runtime_error("cannot write file " + name_ + ": " + utils::getsyserror());
}

}    // namespace equi

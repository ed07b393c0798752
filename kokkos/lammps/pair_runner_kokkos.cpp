// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Evaluates steps and Hessian-vector products in the memory of a device.

#include "kokkos/lammps/pair_runner_kokkos.h"

#include "atom_kokkos.h"
#include "atom_masks.h"
#include "force.h"
#include "pair.h"

#include <algorithm>
#include <utility>

using namespace LAMMPS_NS;

namespace equi {

PairRunnerKokkos::PairRunnerKokkos(LAMMPS *lmp, std::unique_ptr<Evaluator> evaluator, const EvaluatorOptions &options,
                                   Atoms &atoms, const PairModels &models)
    : PairRunner(lmp, std::move(evaluator), options, atoms, models),
      atoms_(atoms),
      on_device_(dynamic_cast<DeviceEvaluator &>(this->evaluator())) {}

void PairRunnerKokkos::read_neighborhood() {
  on_device_.read_neighbor_list(*atomKK, atoms_.pair().list, models().type_species);
  atomKK->sync(Host, TAG_MASK);    // ranks use it to agree on their messages
  const DeviceNeighborhood &n = on_device_.neighborhood();
  neighborhood_.num_atoms = n.num_atoms;
  neighborhood_.num_receivers = n.num_receivers;
  neighborhood_.num_rows = n.num_rows;
}

void PairRunnerKokkos::use_neighborhood(bool is_exchanged) {
  atoms_.exchange().set_device_rows(on_device_.row_of_atom(), is_exchanged);
  on_device_.use_neighborhood();
}

EvaluationResult PairRunnerKokkos::run(const StepRequest &wanted) {
  const EvaluationResult result = on_device_.evaluate(*atomKK, true, wanted.virial, wanted.atom_virial, exchange());
  if (!force->newton_pair) on_device_.send_ghosts_home(exchange(), wanted.atom_virial);
  return result;
}

ResultRows PairRunnerKokkos::results() const {
  const DeviceResults of_device = on_device_.results();
  ResultRows rows;
  rows.num_rows = neighborhood_.num_rows;
  rows.num_energies = neighborhood_.num_receivers;
  rows.atom_of_row = of_device.row_atom;
  rows.forces = of_device.forces;
  rows.energies = of_device.energy;
  rows.virials = of_device.virial;
  rows.on_device = true;
  return rows;
}

double PairRunnerKokkos::energy() {
  return on_device_.evaluate(*atomKK, false, false, false, exchange()).energy;
}

std::vector<std::array<double, 3>> PairRunnerKokkos::copy_forces() const {
  std::vector<std::array<double, 3>> forces;
  on_device_.copy_forces(forces);
  return forces;
}

const Neighborhood &PairRunnerKokkos::neighborhood_on_host(Neighborhood &space) const {
  on_device_.copy_candidates(space);
  return space;
}

// The rows are those of the forces' evaluation, which the exchange knows.
void PairRunnerKokkos::multiply_hessian(Evaluator &directional, bool is_set, int count, const double (*const *v)[3],
                                        double (*const *hv)[3], bool same_positions) {
  auto &evaluator = dynamic_cast<DeviceEvaluator &>(directional);
  if (!is_set) {
    if (!hessian_on_device_ || &hessian_on_device_->evaluator() != &evaluator)
      hessian_on_device_ = std::make_unique<LammpsDeviceEvaluation>(evaluator);
    hessian_on_device_->read_neighbor_list(*atomKK, atoms_.pair().list, models().type_species);
    hessian_on_device_->use_neighborhood();
  }
  for (int done = 0, batch; done < count; done += batch, same_positions = true) {
    batch = same_positions ? std::min(count - done, evaluator.max_directions()) : 1;
    hessian_on_device_->multiply_hessian(*atomKK, batch, v + done, hv + done, same_positions, exchange());
  }
}

}    // namespace equi

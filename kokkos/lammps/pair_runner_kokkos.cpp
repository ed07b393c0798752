// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Evaluates steps and derivatives along directions in the memory of a device.

#include "kokkos/lammps/pair_runner_kokkos.h"

#include "src/evaluation/committee.h"

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
      device_evaluator_(dynamic_cast<DeviceEvaluator &>(this->evaluator())) {}

void PairRunnerKokkos::read_neighborhood() {
  on_device_.read_neighbor_list(*atomKK, atoms_.pair().list, models().type_species);
  atomKK->sync(Host, TAG_MASK);    // ranks use it to agree on their messages
  set_numbers();
}

void PairRunnerKokkos::set_numbers() {
  const DeviceNeighborList &n = on_device_.list();
  neighborhood_ = {};
  neighborhood_.num_atoms = n.num_atoms;
  neighborhood_.num_receivers = n.num_receivers;
  neighborhood_.num_rows = n.num_rows;
}

void PairRunnerKokkos::use_neighborhood(bool is_exchanged) {
  atoms_.exchange().set_device_rows(on_device_.row_of_atom(), is_exchanged);
  device_evaluator_.set_neighborhood(on_device_.list(), present_box());
}

DeviceRequest PairRunnerKokkos::request_on_device() {
  DeviceRequest request;
  request.positions = on_device_.positions(*atomKK);
  request.box = present_box();
  if (has_field_of_charges()) {
    atomKK->sync(Host, IMAGE_MASK);
    const double *shifts = reinterpret_cast<const double *>(image_shifts());
    const int64_t size = 3 * static_cast<int64_t>(atoms_.num_all());
    copy_to_device(DeviceExec(), image_shifts_.reserve(size), shifts, size);
    request.image_shifts = image_shifts_.data();
  }
  return request;
}

EvaluationResult PairRunnerKokkos::run(const StepRequest &wanted) {
  DeviceRequest request = request_on_device();
  request.forces = true;
  request.virial = wanted.virial;
  request.atom_virial = wanted.atom_virial;
  const EvaluationResult result = device_evaluator_.evaluate(request, exchange());
  if (!force->newton_pair) {    // sends the results of rows of remote atoms to their owners
    const DeviceResults by_rows = device_evaluator_.results();
    FeaturePieces<double> pieces{{by_rows.forces, FORCE_WIDTH}};
    if (wanted.atom_virial) pieces.push_back({by_rows.virial, VIRIAL_WIDTH});
    exchange().reverse(pieces);
  }
  return result;
}

ResultRows PairRunnerKokkos::results() const {
  const DeviceResults of_device = device_evaluator_.results();
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

std::vector<std::array<double, 3>> PairRunnerKokkos::copy_forces() const {
  const int num_rows = neighborhood_.num_rows;
  std::vector<int> atom_of_row(num_rows);
  std::vector<std::array<double, 3>> of_rows(num_rows), of_atoms(neighborhood_.num_atoms);
  const DeviceResults by_rows = device_evaluator_.results();
  copy_to_host(DeviceExec(), atom_of_row.data(), by_rows.row_atom, num_rows);
  copy_to_host(DeviceExec(), of_rows.data()->data(), static_cast<const double *>(by_rows.forces), 3 * num_rows);
  for (int row = 0; row < num_rows; row++)
    if (atom_of_row[row] >= 0) of_atoms[atom_of_row[row]] = of_rows[row];
  return of_atoms;
}

std::vector<std::vector<std::array<double, 3>>> PairRunnerKokkos::forces_of_models() {
  const Committee &committee = *device_evaluator_.committee();
  const DeviceExec exec;
  const int64_t size = 3 * static_cast<int64_t>(neighborhood_.num_rows);
  const int num_local = atom->nlocal, num_models = committee.size();
  double *rows = row_values_.reserve(num_models * size), *of_atoms = direction_.reserve(3 * num_local);
  FeaturePieces<double> pieces;
  for (int m = 0; m < num_models; m++) {    // copies, because the sum below changes them
    device_copy<double>(exec, rows + m * size, dynamic_cast<DeviceEvaluator &>(committee.member(m)).results().forces,
                        size);
    pieces.push_back({rows + m * size, FORCE_WIDTH});
  }
  exec.fence("equi: rows to be sent");
  exchange().reverse(pieces);
  std::vector<std::vector<std::array<double, 3>>> forces(num_models);
  for (int m = 0; m < num_models; m++) {
    forces[m].resize(num_local);
    on_device_.atoms_of_rows(num_local, rows + m * size, 1.0, of_atoms);
    copy_to_host(exec, reinterpret_cast<double *>(forces[m].data()), of_atoms, 3 * num_local);
  }
  return forces;
}

const Neighborhood &PairRunnerKokkos::neighborhood_on_host(Neighborhood &space) const {
  on_device_.copy_candidates(space);
  return space;
}

// Both neighborhoods have the same rows, so messages stay valid.
void PairRunnerKokkos::with_host_neighborhood(const std::function<void()> &work) {
  const bool is_exchanged = exchange().active();
  PairRunner::read_neighborhood();
  PairRunner::use_neighborhood(is_exchanged);
  work();
  set_numbers();
  use_neighborhood(is_exchanged);
}

DeviceDirections PairRunnerKokkos::make_directions(int count, const double (*const *v)[3]) {
  const DeviceExec exec;
  const int64_t num_local = atom->nlocal, num_all = atoms_.num_all(), num_rows = neighborhood_.num_rows;
  double *rows = row_values_.reserve(3 * num_rows), *directions = direction_.reserve(3 * count * num_all);
  for (int d = 0; d < count; d++) {
    double *direction = directions + 3 * d * num_all;
    copy_to_device(exec, direction, reinterpret_cast<const double *>(v[d]), 3 * num_local);
    device_zero(exec, rows, 3 * num_rows);
    on_device_.rows_of_atoms(num_local, direction, rows);
    exec.fence("equi: rows to be sent");
    exchange().forward(FeaturePieces<double>{{rows, 3}});
    on_device_.atoms_of_rows(num_all, rows, 1.0, direction);
  }
  return {directions, count, num_all};
}

void PairRunnerKokkos::multiply_hessian(Evaluator &directional, bool is_set, int count, const double (*const *v)[3],
                                        double (*const *hv)[3], bool same_positions) {
  DeviceEvaluator &evaluator = with_neighborhood(directional, is_set);
  const int64_t num_rows = neighborhood_.num_rows;
  for (int done = 0, batch; done < count; done += batch) {
    batch = same_positions ? std::min(count - done, evaluator.max_directions()) : 1;
    DeviceRequest request = request_on_device();
    request.directions = make_directions(batch, v + done);
    request.forces = true;
    request.same_positions = same_positions;
    evaluator.evaluate(request, exchange());
    same_positions = true;
    for (int d = 0; d < batch; d++) copy_to_owners(evaluator.results().tangents + 3 * num_rows * d, -1.0, hv[done + d]);
  }
}

EvaluationResult PairRunnerKokkos::derive_by_strain(Evaluator &directional, bool is_set, const double strain[3][3],
                                                    double (*force_tangents)[3]) {
  DeviceEvaluator &evaluator = with_neighborhood(directional, is_set);
  const int64_t num_all = atoms_.num_all();
  DeviceRequest request = request_on_device();
  const double *x = request.positions;
  double *direction = direction_.reserve(3 * num_all);
  Kokkos::Array<double, 9> by;
  for (int k = 0; k < 9; k++) by[k] = strain[k / 3][k % 3];
  Kokkos::parallel_for(
      "equi:strain", DeviceRange(DeviceExec(), 0, 3 * num_all), KOKKOS_LAMBDA(int64_t k) {
        const double *position = x + k / 3 * 3;
        const int a = static_cast<int>(k % 3);
        direction[k] = by[3 * a] * position[0] + by[3 * a + 1] * position[1] + by[3 * a + 2] * position[2];
      });
  request.directions = {direction, 1, num_all};
  const auto cell_direction = strained_cell(strain);
  request.cell_direction = reinterpret_cast<const double(*)[3]>(cell_direction.data());
  request.forces = request.virial = true;
  const EvaluationResult result = evaluator.evaluate(request, exchange());
  copy_to_owners(evaluator.results().tangents, 1.0, force_tangents);
  return result;
}

void PairRunnerKokkos::energy_moments(Evaluator &directional, bool is_set, const double (*v)[3], double *energies,
                                      double (*moments)[3]) {
  DeviceEvaluator &evaluator = with_neighborhood(directional, is_set);
  DeviceRequest request = request_on_device();
  request.directions = make_directions(1, &v);
  request.energy_moments = true;
  evaluator.evaluate(request, exchange());
  std::fill_n(energies, atom->nlocal, 0.0);
  std::fill_n(*moments, 3 * atom->nlocal, 0.0);
  const DeviceResults results = evaluator.results();
  const int num_receivers = neighborhood_.num_receivers;
  std::vector<int> receiver(num_receivers);
  copy_to_host(DeviceExec(), receiver.data(), results.row_atom, num_receivers);
  for_energy_moments(
      results, num_receivers, [&](int row, double energy) { energies[receiver[row]] = energy; },
      [&](int row, int c, double moment) { moments[receiver[row]][c] = moment; });
}

DeviceEvaluator &PairRunnerKokkos::with_neighborhood(Evaluator &directional, bool is_set) {
  auto &evaluator = dynamic_cast<DeviceEvaluator &>(directional);
  if (!is_set) evaluator.set_neighborhood(on_device_.list(), present_box());
  return evaluator;
}

void PairRunnerKokkos::copy_to_owners(double *tangents, double factor, double (*to)[3]) {
  const int64_t num_local = atom->nlocal;
  double *of_atoms = direction_.reserve(3 * num_local);
  exchange().reverse(FeaturePieces<double>{{tangents, 3}});
  on_device_.atoms_of_rows(num_local, tangents, factor, of_atoms);
  copy_to_host(DeviceExec(), *to, of_atoms, 3 * num_local);
}

}    // namespace equi

// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Derivatives of pair style equi along directions: products of the Hessian with vectors of atoms, and the moments of
// the derivatives of atoms' energies.
#include "src/lammps/pair/pair_equi_impl.h"

#include "src/evaluation/native_evaluators.h"
#include "src/lammps/faults/lammps_faults.h"

#include "atom.h"
#include "comm.h"
#include "error.h"
#include "neighbor.h"
#include "utils.h"

#include <algorithm>

using namespace LAMMPS_NS;

/* ----------------------------------------------------------------------
   second derivatives
------------------------------------------------------------------------- */

bool PairEqui::is_invariant() const {
  return impl->is_invariant();
}

void PairEqui::init_hessian(int kept_directions) {
  impl->wants_hessian = true;
  if (kept_directions > impl->kept_directions) {
    impl->directional.reset();
    impl->kept_directions = kept_directions;
  }
  if (impl->evaluator) make_directional();
}

void PairEqui::make_directional() {
  if (!impl->directional) {
    equi::EvaluatorOptions options = impl->options;
    options.kept_directions = impl->kept_directions;
    impl->directional = make_directional(options, evaluator_maker(), "second derivatives");
    impl->directional_is_set = false;
  }
  reserve_buffers(*impl->directional);
}

// Makes an evaluator with these options that computes derivatives along directions. name: the derivatives, for the log.
std::unique_ptr<equi::Evaluator> PairEqui::make_directional(equi::EvaluatorOptions options, EvaluatorMaker *maker,
                                                            const char *name) {
  if (impl->reference) error->all(FLERR, "Pair style equi: {} need reference no", name);
  options.directional = true;
  std::unique_ptr<equi::Evaluator> made;
  std::string description;
  collective_try([&] {
    made = evaluator_of_models(maker, options);
    description = made->describe();
  });
  if (comm->me == 0) utils::logmesg(lmp, "Pair style equi: {}\n{}", name, description);
  return made;
}

// Sizes only grow, because either evaluator may run at any time.
void PairEqui::reserve_buffers(const equi::Evaluator &evaluator) {
  const int size = equi::LammpsExchange::buffer_size(evaluator.exchange_bytes_per_row());
  comm_forward = std::max(comm_forward, size);
  comm_reverse = comm_reverse_off = std::max(comm_reverse, size);
  share_buffer_sizes();
}

void PairEqui::read_new_list() {
  report_exceptions([this] { update_neighborhood(); });
  neighbor->ago = 1;
}

void PairEqui::hessian_vectors(int count, const double (*const *v)[3], double (*const *hv)[3], bool same_positions) {
  update_neighborhood();
  if (!impl->directional)
    error->all(FLERR, "Pair style equi: second derivatives were not asked for before the last setup");
  run_on_this_rank([&] { multiply_hessian(count, v, hv, same_positions); });
}

// Ghosts move like the owners of their rows. copies: [nlocal + nghost].
void PairEqui::spread_to_copies(const double (*v)[3], double (*copies)[3]) {
  const int nlocal = atom->nlocal, nall = nlocal + atom->nghost;
  const std::vector<int> &atom_row = impl->atom_row;
  auto &rows = impl->row_values;
  rows.assign(impl->neighborhood.num_rows + 1, {});
  for (int i = 0; i < nlocal; i++)
    if (atom_row[i] >= 0) std::copy_n(v[i], 3, rows[atom_row[i]].data());
  impl->exchange->forward(equi::FeaturePieces<double>{{rows.data()->data(), 3}});
  for (int i = 0; i < nall; i++)
    if (atom_row[i] >= 0) std::copy_n(rows[atom_row[i]].data(), 3, copies[i]);
}

void PairEqui::multiply_hessian(int count, const double (*const *v)[3], double (*const *hv)[3], bool same_positions) {
  set_directional_neighborhood();
  const int nlocal = atom->nlocal, nall = nlocal + atom->nghost;
  for (int done = 0, batch; done < count; done += batch) {
    batch = same_positions ? std::min(count - done, impl->directional->max_directions()) : 1;
    impl->direction.assign(static_cast<size_t>(nall + 1) * batch, {});
    const auto copies = reinterpret_cast<double(*)[3]>(impl->direction.data());
    for (int d = 0; d < batch; d++) spread_to_copies(v[done + d], copies + static_cast<size_t>(nall + 1) * d);

    impl->tangents.assign(static_cast<size_t>(nall + 1) * batch, {});
    equi::EvaluationRequest request;
    request.positions = reinterpret_cast<const double(*)[3]>(positions());
    request.direction = reinterpret_cast<const double(*)[3]>(impl->direction.data());
    request.force_tangents = reinterpret_cast<double(*)[3]>(impl->tangents.data());
    request.same_positions = same_positions;
    request.num_directions = batch;
    request.direction_distance = nall + 1;
    impl->directional->evaluate(request, *impl->exchange);
    same_positions = true;

    for (int d = 0; d < batch; d++)
      sum_at_owners(impl->tangents.data() + static_cast<size_t>(nall + 1) * d, -impl->energy_unit, hv[done + d]);
  }
}

void PairEqui::set_directional_neighborhood() {
  if (!impl->directional_is_set) impl->directional->set_neighborhood(impl->neighborhood);
  impl->directional_is_set = true;
}

// For each of this rank's atoms [nlocal], the sum over the atom and its ghosts on all ranks, times a factor.
void PairEqui::sum_at_owners(const std::array<double, 3> *of_atoms, double factor, double (*of_owned)[3]) {
  auto &rows = impl->row_values;
  rows.assign(impl->neighborhood.num_rows + 1, {});
  for (int i = 0; i < atom->nlocal + atom->nghost; i++)
    for (int k = 0; impl->atom_row[i] >= 0 && k < 3; k++) rows[impl->atom_row[i]][k] += of_atoms[i][k];
  impl->exchange->reverse(equi::FeaturePieces<double>{{rows.data()->data(), 3}});
  for (int i = 0; i < atom->nlocal; i++)
    for (int k = 0; k < 3; k++) of_owned[i][k] = impl->atom_row[i] >= 0 ? factor * rows[impl->atom_row[i]][k] : 0.0;
}

PairEqui::StrainDerivatives PairEqui::strain_derivatives(const double strain[3][3], double (*force_tangents)[3]) {
  update_neighborhood();
  if (!impl->directional)
    error->all(FLERR, "Pair style equi: second derivatives were not asked for before the last setup");
  if (!impl->directional->has_virial_tangents())
    error->all(FLERR,
               "Pair style equi: derivatives by strain need kernels for CPUs (kernels host, or the suffix kk/host)");
  sync_host_positions();
  equi::EvaluationResult result;
  run_on_this_rank([&] {
    set_directional_neighborhood();
    const int nall = atom->nlocal + atom->nghost;
    impl->direction.assign(nall + 1, {});
    impl->tangents.assign(nall + 1, {});
    for (int i = 0; i < nall; i++)
      for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) impl->direction[i][a] += strain[a][b] * atom->x[i][b];
    equi::EvaluationRequest request;
    request.positions = reinterpret_cast<const double(*)[3]>(positions());
    request.direction = reinterpret_cast<const double(*)[3]>(impl->direction.data());
    request.force_tangents = reinterpret_cast<double(*)[3]>(impl->tangents.data());
    request.virial = true;
    result = impl->directional->evaluate(request, *impl->exchange);
    sum_at_owners(impl->tangents.data(), impl->energy_unit, force_tangents);
  });
  StrainDerivatives all;
  MPI_Allreduce(result.virial, all.virial, 6, MPI_DOUBLE, MPI_SUM, world);
  MPI_Allreduce(result.virial_tangent, all.virial_tangent, 6, MPI_DOUBLE, MPI_SUM, world);
  for (double *numbers : {all.virial, all.virial_tangent})
    for (int k = 0; k < 6; k++) numbers[k] *= impl->energy_unit;
  return all;
}

/* ----------------------------------------------------------------------
   energy moments
------------------------------------------------------------------------- */

void PairEqui::init_energy_moments() {
  impl->wants_moments = true;
  if (impl->evaluator) make_moments();
}

void PairEqui::make_moments() {
  if (!has_host_neighborhood())
    error->all(FLERR,
               "Compute equi/heat/flux: pair style equi/kk with kernels for devices has no heat flux yet; use "
               "pair style equi, or kernels host");
  if (!impl->moments) {
    equi::EvaluatorOptions options = impl->options;
    options.energy_moments = true;
    impl->moments = make_directional(options, equi::make_host_evaluator, "the heat flux");
    impl->moments_is_set = false;
  }
  reserve_buffers(*impl->moments);
}

void PairEqui::energy_moments(const double (*v)[3], double *energies, double (*moments)[3]) {
  update_neighborhood();
  if (!impl->moments) error->all(FLERR, "Pair style equi: the heat flux was not asked for before the last setup");
  run_on_this_rank([&] { evaluate_moments(v, energies, moments); });
}

void PairEqui::evaluate_moments(const double (*v)[3], double *energies, double (*moments)[3]) {
  if (!impl->moments_is_set) impl->moments->set_neighborhood(impl->neighborhood);
  impl->moments_is_set = true;

  const int nlocal = atom->nlocal, nall = nlocal + atom->nghost;
  impl->direction.assign(nall + 1, {});
  impl->tangents.assign(nall + 1, {});
  const auto direction = reinterpret_cast<double(*)[3]>(impl->direction.data());
  spread_to_copies(v, direction);
  std::vector<double> energy(nall + 1, 0.0);
  equi::EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(positions());
  request.direction = direction;
  request.atom_energy = energy.data();
  request.energy_moments = reinterpret_cast<double(*)[3]>(impl->tangents.data());
  impl->moments->evaluate(request, *impl->exchange);
  for (int i = 0; i < nlocal; i++) {
    energies[i] = impl->energy_unit * energy[i];
    for (int k = 0; k < 3; k++) moments[i][k] = impl->energy_unit * impl->tangents[i][k];
  }
}

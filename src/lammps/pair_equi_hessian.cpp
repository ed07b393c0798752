// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Second derivatives of pair style equi: products of the Hessian with vectors of atoms.
#include "src/lammps/pair_equi_impl.h"

#include "src/lammps/lammps_faults.h"

#include "atom.h"
#include "comm.h"
#include "error.h"
#include "utils.h"

#include <algorithm>

using namespace LAMMPS_NS;

/* ----------------------------------------------------------------------
   second derivatives
------------------------------------------------------------------------- */

void PairEqui::init_hessian(int kept_directions) {
  impl->wants_hessian = true;
  if (kept_directions > impl->kept_directions) {
    impl->directional.reset();
    impl->kept_directions = kept_directions;
  }
  if (impl->evaluator) make_directional();
}

void PairEqui::make_directional() {
  if (impl->reference) error->all(FLERR, "Pair style equi: second derivatives need reference no");
  if (!impl->directional) {
    equi::EvaluatorOptions options = impl->options;
    options.directional = true;
    options.kept_directions = impl->kept_directions;
    std::unique_ptr<equi::Evaluator> directional;
    std::string description;
    all_ranks_or_none([&] {
      directional = evaluator_of_models(options);
      description = directional->describe();
    });
    if (comm->me == 0) utils::logmesg(lmp, "Pair style equi: second derivatives\n{}", description);
    impl->directional = std::move(directional);
    impl->directional_is_set = false;
  }
  // Sizes only grow: at any time either evaluator may run.
  const int size = equi::LammpsExchange::buffer_size(impl->directional->exchange_bytes_per_row());
  comm_forward = std::max(comm_forward, size);
  comm_reverse = comm_reverse_off = std::max(comm_reverse, size);
  share_buffer_sizes();
}

void PairEqui::hessian_vectors(int count, const double (*const *v)[3], double (*const *hv)[3], bool same_positions) {
  update_neighborhood();
  if (!impl->directional)
    error->all(FLERR, "Pair style equi: second derivatives were not asked for before the last setup");
  run_on_this_rank([&] { multiply_hessian(count, v, hv, same_positions); });
}

void PairEqui::multiply_hessian(int count, const double (*const *v)[3], double (*const *hv)[3], bool same_positions) {
  set_directional_neighborhood();
  // Ghosts move like the atoms whose copies they are, those of their rows.
  const int nlocal = atom->nlocal, nall = nlocal + atom->nghost;
  const std::vector<int> &atom_row = impl->atom_row;
  auto &rows = impl->row_values;
  const auto pieces = [&] { return equi::FeaturePieces<double>{{rows.data()->data(), 3}}; };
  for (int done = 0, batch; done < count; done += batch) {
    batch = same_positions ? std::min(count - done, impl->directional->max_directions()) : 1;
    impl->direction.assign(static_cast<size_t>(nall + 1) * batch, {});
    for (int d = 0; d < batch; d++) {
      rows.assign(impl->neighborhood.num_rows + 1, {});
      for (int i = 0; i < nlocal; i++)
        if (atom_row[i] >= 0) std::copy_n(v[done + d][i], 3, rows[atom_row[i]].data());
      impl->exchange->forward(pieces());
      for (int i = 0; i < nall; i++)
        if (atom_row[i] >= 0) impl->direction[static_cast<size_t>(nall + 1) * d + i] = rows[atom_row[i]];
    }

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

// Sums over each of this rank's atoms [nlocal] and its ghosts on all ranks, times a factor.
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

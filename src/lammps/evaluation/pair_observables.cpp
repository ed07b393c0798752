// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Evaluates the layers that lead to observables, at the positions of the last step.
#include "src/lammps/evaluation/pair_observables.h"

#include "atom.h"
#include "domain.h"
#include "error.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

using namespace LAMMPS_NS;

namespace equi {

void PairObservables::make() {
  if (members_.empty()) {
    collective_try([&] { members_ = evaluators_.make_observables(runner_.options()); });
    is_set_ = false;
  }
  for (const auto &member : members_) runner_.atoms().reserve_buffers(member->exchange_bytes_per_row());
}

void PairObservables::make_born_charges() {
  if (born_members_.empty()) {
    collective_try([&] { born_members_ = evaluators_.make_born_charges(runner_.options()); });
    born_is_set_ = false;
  }
  for (const auto &member : born_members_) runner_.atoms().reserve_buffers(member->exchange_bytes_per_row());
}

BornCharges PairObservables::born_charges(bool neutral) {
  if (born_members_.empty())
    error->all(FLERR, "Pair style equi: Born charges were not asked for before the last setup");
  const std::array<bool, 3> periodic = {domain->xperiodic != 0, domain->yperiodic != 0, domain->zperiodic != 0};
  const double share = 1.0 / static_cast<double>(born_members_.size());
  BornCharges all;
  all.charge.resize(atom->nlocal);
  all.born.resize(atom->nlocal);
  all.charge_derivative.resize(atom->nlocal);
  runner_.with_host_neighborhood([&] {
    runner_.try_step([&] {
      for (const auto &member : born_members_) {
        if (!born_is_set_ || !runner_.has_host_neighborhood()) member->set_neighborhood(runner_.neighborhood());
        const BornCharges one = member->evaluate(runner_.atoms().positions(), periodic, neutral, runner_.exchange());
        for (size_t k = 0; k < one.charge.size(); k++) {
          const int i = runner_.neighborhood().receiver[k];
          all.charge[i] += share * one.charge[k];
          for (int c = 0; c < 9; c++) all.born[i][c] += share * one.born[k][c];
          for (int c = 0; c < 3; c++) all.charge_derivative[i][c] += share * one.charge_derivative[k][c];
        }
      }
      born_is_set_ = true;
    });
  });
  return all;
}

double PairObservables::memory_bytes() const {
  double bytes = 0.0;
  for (const auto &member : born_members_) bytes += static_cast<double>(member->memory_bytes());
  for (const auto &member : members_) bytes += static_cast<double>(member->memory_bytes());
  return bytes;
}

bool PairObservables::is_evaluated() const {
  const auto *x = reinterpret_cast<const std::array<double, 3> *>(runner_.atoms().positions());
  const int mine = is_set_ && std::equal(positions_.begin(), positions_.end(), x, x + runner_.atoms().num_all());
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, world);
  return all != 0;
}

const std::vector<double> &PairObservables::evaluate() {
  if (members_.empty()) error->all(FLERR, "Pair style equi: observables were not asked for before the last setup");
  if (is_evaluated()) return numbers_;
  const size_t width = runner_.models().models.front().num_observable_numbers(),
               num_all = static_cast<size_t>(runner_.atoms().num_all()) + 1;
  numbers_.assign(num_all * width, 0.0);
  runner_.with_host_neighborhood([&] {
    runner_.try_step([&] {
      EvaluationRequest request = runner_.request_at_positions();
      request.observables = numbers_.data();
      for (const auto &member : members_) {
        if (!is_set_ || !runner_.has_host_neighborhood()) member->set_neighborhood(runner_.neighborhood());
        member->evaluate(request, runner_.exchange());
      }
      is_set_ = true;
    });
  });
  for (double &number : numbers_) number /= static_cast<double>(members_.size());
  const auto *x = reinterpret_cast<const std::array<double, 3> *>(runner_.atoms().positions());
  positions_.assign(x, x + runner_.atoms().num_all());
  return numbers_;
}

}    // namespace equi

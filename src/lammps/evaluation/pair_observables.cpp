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
#include "error.h"

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

double PairObservables::memory_bytes() const {
  double bytes = 0.0;
  for (const auto &member : members_) bytes += static_cast<double>(member->memory_bytes());
  return bytes;
}

const std::vector<double> &PairObservables::evaluate() {
  if (members_.empty()) error->all(FLERR, "Pair style equi: observables were not asked for before the last setup");
  const size_t width = runner_.models().models.front().num_observable_numbers(),
               num_all = static_cast<size_t>(runner_.atoms().num_all()) + 1;
  numbers_.assign(num_all * width, 0.0);
  runner_.with_host_neighborhood([&] {
    runner_.try_step([&] {
      EvaluationRequest request;
      request.positions = runner_.atoms().positions();
      request.observables = numbers_.data();
      for (const auto &member : members_) {
        if (!is_set_ || !runner_.has_host_neighborhood()) member->set_neighborhood(runner_.neighborhood());
        member->evaluate(request, runner_.exchange());
      }
      is_set_ = true;
    });
  });
  for (double &number : numbers_) number /= static_cast<double>(members_.size());
  return numbers_;
}

}    // namespace equi

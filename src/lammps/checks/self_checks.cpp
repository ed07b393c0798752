// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Compares with stored values, with plain loops and with differences of energies.
#include "src/lammps/checks/self_checks.h"

#include "src/evaluation/law_check.h"
#include "src/evaluation/native_evaluators.h"
#include "src/evaluation/self_check.h"

#include "atom.h"
#include "comm.h"
#include "utils.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

using namespace LAMMPS_NS;

namespace equi {

void SelfChecks::check_models(EvaluatorMaker *maker) const {
  for (const Model &model : runner_.models().models) {
    check_stored_structures(model, maker);
    if (maker == make_host_evaluator) check_kernels(model.restricted_to(runner_.models().symbols));
  }
}

void SelfChecks::check_stored_structures(const Model &model, EvaluatorMaker *maker) const {
  std::string table = "  self-check: structure          atoms  energy/atom  force        stress\n", failed;
  collective_try([&] {
    const std::vector<CheckResult> results = run_self_check(model, runner_.options(), maker);
    for (const CheckResult &r : results) {
      table += fmt::format("              {:18} {:5}  {:.2e}     {:.2e}     {:.2e}  {}\n", r.name, r.num_atoms,
                           r.energy_error, r.force_error, r.stress_error, r.passed ? "ok" : "FAILED");
      if (!r.passed) failed += " " + r.name;
    }
    if (results.empty())
      table =
          fmt::format("  self-check: nothing to compare with, for the file stores no values of {}\n", model.framework);
  });
  log(table);
  stop_at(failed.empty() ? "" : "the model's stored energies, forces and stresses are not reproduced:" + failed);
}

void SelfChecks::check_kernels(const Model &model) const {
  std::string fault, line;
  collective_try([&] {
    int number = 0;
    double largest = 0.0;    // in units of the largest allowed difference
    for (const KernelCheck &k : equi::check_kernels(model, "")) {
      number++;
      if (k.allowed > 0.0) largest = std::max(largest, k.difference / k.allowed);
      if (!k.fault.empty() && fault.empty()) fault = fmt::format("the kernel {} is broken: {}", k.name, k.fault);
    }
    line = fmt::format("  kernel check: {} checks, largest difference {:.2e} of what is allowed  {}\n", number, largest,
                       fault.empty() ? "ok" : "FAILED");
  });
  log(line);
  stop_at(fault);
}

void SelfChecks::check_evaluation() {
  const std::vector<std::array<double, 3>> forces = runner_.copy_forces();
  runner_.with_host_neighborhood([&] {
    check_system();
    check_forces(forces);
  });
}

void SelfChecks::check_system() {
  const int nall = runner_.atoms().num_all();
  std::vector<LawResult> results;
  runner_.try_step([&] {
    LawSystem system{&runner_.neighborhood(),
                     {},
                     {},
                     [&](double mine) { return sum(mine); },
                     [&](double mine) { return largest(mine); },
                     [&](std::vector<std::array<double, 3>> &forces) {
                       std::vector<std::array<double, 3>> owned(atom->nlocal + 1);
                       runner_.sum_at_owners(forces.data(), 1.0, reinterpret_cast<double(*)[3]>(owned.data()));
                       std::fill(std::copy_n(owned.begin(), atom->nlocal, forces.begin()), forces.end(),
                                 std::array<double, 3>{});
                     }};
    const PairModels &models = runner_.models();
    system.is_invariant = models.is_invariant() && !settings_.has_field() &&
                          std::none_of(models.models.begin(), models.models.end(), [&](const Model &model) {
                            return depends_on_axes(model.layers, settings_.options.open);
                          });
    system.has_direct_forces = settings_.has_direct_forces();
    const double(*x)[3] = runner_.atoms().positions();
    for (int i = 0; i < nall; i++) {
      system.positions.push_back({x[i][0], x[i][1], x[i][2]});
      // Computed from the ID of an atom, so all copies of the atom have the same direction.
      const double id = static_cast<double>(atom->tag[i]);
      system.direction.push_back({std::sin(1.3 * id), std::sin(2.1 * id + 1.0), std::sin(2.9 * id + 2.0)});
    }
    results = check_laws(runner_.evaluator(), *plain_, system, runner_.exchange(), runner_.options());
  });
  std::string failed, table = "  system check: law                     measured   allowed\n";
  for (const LawResult &r : results) {
    table += fmt::format("                {:22}  {:.2e}   {:.2e}  {}{}\n", r.name, r.measured, r.allowed, r.unit,
                         r.passed() ? "" : "  FAILED");
    if (!r.passed()) failed += (failed.empty() ? "" : "; ") + r.name;
  }
  log(table);
  stop_at(failed.empty()
              ? ""
              : "the energies and forces of this system break laws or differ from those of plain loops: " + failed);
}

double SelfChecks::total_energy(bool is_plain) {
  double mine = 0.0;
  runner_.try_step([&] { mine = runner_.energy_by(is_plain ? *plain_ : runner_.evaluator()); });
  return sum(mine);
}

void SelfChecks::check_forces(const std::vector<std::array<double, 3>> &forces) {
  if (settings_.has_direct_forces()) {
    log("  force check: not of direct forces, which are no derivatives of the energy\n");
    return;
  }
  // A fourth-order stencil with the steps of check_laws, within which the neighbor list stays valid.
  const Precision precision = settings_.options.precision;
  constexpr int MAX_ATOMS = 4;
  PairAtoms &atoms = runner_.atoms();
  const std::vector<int> &receivers = runner_.neighborhood().receiver;

  // Owned plus ghost contributions of the last evaluation, summed at the owners by atom ID.
  const tagint largest_of_rank = atom->nlocal > 0 ? *std::max_element(atom->tag, atom->tag + atom->nlocal) : 0;
  const tagint largest_id = reduce(largest_of_rank, MPI_LMP_TAGINT, MPI_MAX);

  double allowed = 0.0;
  int checked = 0;
  std::string fault;
  std::string table = "  force check: atom ID  component  force         difference\n";
  for (int k = 0; k < MAX_ATOMS; k++) {
    // The receiver with the smallest ID that is not below this point of an even distribution over all IDs.
    const tagint from = 1 + k * (largest_id / MAX_ATOMS);
    tagint best = MAXTAGINT;
    int owner = -1;
    for (int i : receivers)
      if (atom->tag[i] >= from && atom->tag[i] < best) {
        best = atom->tag[i];
        owner = i;
      }
    const tagint id = reduce(best, MPI_LMP_TAGINT, MPI_MIN);
    if (id == MAXTAGINT) continue;
    const bool here = best == id;
    const int component = k % 3;

    double part = 0.0;
    for (int i = 0; i < atoms.num_all(); i++)
      if (atom->tag[i] == id) part += forces[i][component];
    const double analytic = sum(part);

    atoms.sync_host_positions();
    const double start = here ? atom->x[owner][component] : 0.0;
    auto move_to = [&](double position) {
      atoms.sync_host_positions();
      if (here) atom->x[owner][component] = position;
      atoms.modified_host_positions();
      comm->forward_comm();
    };
    double difference = 0.0, tolerance = 0.0;
    const auto passes = [&](bool is_plain, const DifferenceStep &step) {
      const double numeric = -difference_quotient(step.length, [&](double shift) {
        move_to(start + shift);
        return total_energy(is_plain);
      });
      move_to(start);
      difference = std::fabs(numeric - analytic);
      tolerance = step.noise() * std::sqrt(static_cast<double>(atom->natoms)) +
                  stencil_error(precision) * std::max(1.0, std::fabs(analytic));
      return difference <= tolerance;
    };
    const bool passed = passes(false, coarse_step(precision)) || passes(true, FINE_STEP);
    if (!passed && fault.empty())
      fault = fmt::format("forces are not minus the gradient of the energy: ID {}, {}: difference {:.3g} eV/Angstrom",
                          id, "xyz"[component], difference);
    table += fmt::format("               {:7}  {:9}  {:12.6f}  {:.2e}{}\n", id, "xyz"[component], analytic, difference,
                         passed ? "" : "  FAILED");
    allowed = std::max(allowed, tolerance);
    checked++;
  }
  log("{}  force check: {} components, tolerance {:.1e} eV/Angstrom\n", table, checked, allowed);
  stop_at(fault);
}

}    // namespace equi

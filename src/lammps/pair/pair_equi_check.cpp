// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Checks of a model and of the simulated system: the composition, and the checks that `check yes` requests.
#include "src/lammps/pair/pair_equi_impl.h"

#include "src/evaluation/law_check.h"
#include "src/evaluation/native_evaluators.h"
#include "src/evaluation/self_check.h"
#include "src/lammps/atoms/lammps_neighborhood.h"
#include "src/lammps/faults/lammps_faults.h"

#include "atom.h"
#include "comm.h"
#include "compute.h"
#include "domain.h"
#include "error.h"
#include "modify.h"
#include "neigh_list.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <stdexcept>
#include <vector>

using namespace LAMMPS_NS;

// From LAMMPS's C library (library.h); weak, because a static lmp may lack it. The headers of LAMMPS's packages do not
// include the class of thermo output.
extern "C" {
__attribute__((weak)) void *lammps_last_thermo(void *lmp, const char *what, int index);
}

/* ----------------------------------------------------------------------
   check yes: the structures of the file and the kernels of the model, then laws that hold for the system at hand, and
forces of a few of its atoms by differences of energies
------------------------------------------------------------------------- */

void PairEqui::check_stored_structures(const equi::Model &model) {
  std::string table = "  self-check: structure          atoms  energy/atom  force        stress\n", failed;
  collective_try([&] {
    const std::vector<equi::CheckResult> results = equi::run_self_check(model, impl->options, evaluator_maker());
    for (const equi::CheckResult &r : results) {
      table += fmt::format("              {:18} {:5}  {:.2e}     {:.2e}     {:.2e}  {}\n", r.name, r.num_atoms,
                           r.energy_error, r.force_error, r.stress_error, r.passed ? "ok" : "FAILED");
      if (!r.passed) failed += " " + r.name;
    }
    if (results.empty())
      table =
          fmt::format("  self-check: nothing to compare with, for the file stores no values of {}\n", model.framework);
  });
  if (comm->me == 0) utils::logmesg(lmp, table);
  collective_try([&] {
    if (!failed.empty())
      throw std::runtime_error("the model's stored energies, forces and stresses are not reproduced:" + failed);
  });
}

void PairEqui::check_kernels(const equi::Model &model) {
  std::string fault, line;
  collective_try([&] {
    int number = 0;
    double largest = 0.0;    // in units of the largest allowed difference
    for (const equi::KernelCheck &k : equi::check_kernels(model, "")) {
      number++;
      if (k.allowed > 0.0) largest = std::max(largest, k.difference / k.allowed);
      if (!k.fault.empty() && fault.empty()) fault = fmt::format("the kernel {} is broken: {}", k.name, k.fault);
    }
    line = fmt::format("  kernel check: {} checks, largest difference {:.2e} of what is allowed  {}\n", number, largest,
                       fault.empty() ? "ok" : "FAILED");
  });
  if (comm->me == 0) utils::logmesg(lmp, line);
  collective_try([&] {
    if (!fault.empty()) throw std::runtime_error(fault);
  });
}

// Called after the first evaluation of a system.
void PairEqui::check_system() {
  if (!has_host_neighborhood()) {
    if (comm->me == 0)
      utils::logmesg(lmp,
                     "  system check: not with neighbors on a device: pair style equi without the suffix kk has it\n");
    return;
  }
  const int nall = atom->nlocal + atom->nghost;
  const auto over_ranks = [&](double mine, MPI_Op operation) {
    double all = 0.0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, operation, world);
    return all;
  };
  std::vector<equi::LawResult> results;
  run_on_this_rank([&] {
    equi::LawSystem system{&impl->neighborhood,
                           {},
                           {},
                           [&](double mine) { return over_ranks(mine, MPI_SUM); },
                           [&](double mine) { return over_ranks(mine, MPI_MAX); },
                           [&](std::vector<std::array<double, 3>> &forces) {
                             std::vector<std::array<double, 3>> owned(atom->nlocal + 1);
                             sum_at_owners(forces.data(), 1.0, reinterpret_cast<double(*)[3]>(owned.data()));
                             std::fill(std::copy_n(owned.begin(), atom->nlocal, forces.begin()), forces.end(),
                                       std::array<double, 3>{});
                           }};
    system.is_invariant = impl->is_invariant();
    system.has_direct_forces = impl->is_direct();
    const double(*x)[3] = reinterpret_cast<const double(*)[3]>(positions());
    for (int i = 0; i < nall; i++) {
      system.positions.push_back({x[i][0], x[i][1], x[i][2]});
      // Computed from the ID of an atom, so all copies of the atom have the same direction.
      const double id = static_cast<double>(atom->tag[i]);
      system.direction.push_back({std::sin(1.3 * id), std::sin(2.1 * id + 1.0), std::sin(2.9 * id + 2.0)});
    }
    results = equi::check_laws(*impl->evaluator, *impl->plain, system, *impl->exchange, impl->options);
  });
  std::string failed, table = "  system check: law                     measured   allowed\n";
  for (const equi::LawResult &r : results) {
    table += fmt::format("                {:22}  {:.2e}   {:.2e}  {}{}\n", r.name, r.measured, r.allowed, r.unit,
                         r.passed() ? "" : "  FAILED");
    if (!r.passed()) failed += (failed.empty() ? "" : "; ") + r.name;
  }
  if (comm->me == 0) utils::logmesg(lmp, table);
  collective_try([&] {
    if (!failed.empty())
      throw std::runtime_error(
          "the energies and forces of this system break laws or differ from those of plain loops: " + failed);
  });
}

/* ----------------------------------------------------------------------
   direct forces have no virial: what wants a pressure is refused where it is known of, and what is not known of gets
numbers that are none
------------------------------------------------------------------------- */

void PairEqui::check_pressure() const {
  if (!impl->is_direct()) return;
  constexpr const char *REASON = "Pair style equi: with direct forces there is no virial, so that {} has no pressure";
  for (const Compute *compute : modify->get_compute_list())
    if (std::strcmp(compute->id, "thermo_press") != 0 && (compute->pressflag || compute->pressatomflag))
      error->all(FLERR, REASON, fmt::format("compute {} {}", compute->id, compute->style));
  if (!lammps_last_thermo) return;
  for (int k = 0; const auto *column = static_cast<const char *>(lammps_last_thermo(lmp, "keyword", k)); k++)
    if (utils::strmatch(column, "^Press$") || utils::strmatch(column, "^P[xyz][xyz]$") ||
        utils::strmatch(column, "^Enthalpy$"))
      error->all(FLERR,
                 std::string(REASON) + ": leave it out, for example by thermo_style custom step temp pe ke etotal",
                 fmt::format("the column {} of thermo output", column));
}

double PairEqui::energy_of_rank() {
  return energy_by(*impl->evaluator);
}

double PairEqui::energy_by(equi::Evaluator &evaluator) {
  equi::EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(positions());
  return evaluator.evaluate(request, *impl->exchange).energy;
}

// Computed by the pair style's evaluator, or by plain loops.
double PairEqui::total_energy(bool is_plain) {
  double mine = 0.0, all = 0.0;
  run_on_this_rank([&] { mine = is_plain ? energy_by(*impl->plain) : energy_of_rank(); });
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, world);
  return all;
}

/* ----------------------------------------------------------------------
   Monte Carlo fixes hide atoms from the model while they ask for the energy of a trial, for which they want nothing
but the energy. If LAMMPS steps with a hidden atom, the fix has lost it: fix gcmc on several ranks puts an atom back by
its number on a rank, which another trial move may have changed.
------------------------------------------------------------------------- */

tagint PairEqui::find_hidden_atom() const {
  for (int i = 0; i < atom->nlocal; i++)
    if (!(atom->mask[i] & equi::GROUP_ALL) && impl->type_species[atom->type[i]] >= 0) return atom->tag[i];
  return 0;
}

void PairEqui::check_hidden_atom() {
  const bool is_trial = eflag_global && !eflag_atom && !vflag_either;
  if (impl->hidden_atom == 0 || is_trial) return;
  error->one(FLERR,
             "Pair style equi: atom ID {} has been left outside the group all, without neighbors. Fix gcmc loses "
             "atoms in this way if it deletes and moves them on several ranks: use one rank, or no moves",
             impl->hidden_atom);
}

/* ----------------------------------------------------------------------
   During a run LAMMPS makes a new neighbor list whenever it sorts atoms, moves them to other ranks, wraps them or
chooses ghosts. Commands between runs (write_data, write_restart) do the same and make no list, and a run with pre no
begins with the old one. The numbers in it then mean other atoms, or other images: an atom that was wrapped has another
image flag.
------------------------------------------------------------------------- */

// Called on every step with an old list. If only some ranks see the fault, they end the others, which would wait for
// them.
void PairEqui::check_listed_atoms() {
  const auto equal = [](const auto &a, const auto *b, int n) { return std::equal(a.begin(), a.end(), b, b + n); };
  // A list that LAMMPS has allocated but not made has no receivers.
  if (list->inum == impl->list_length && equal(impl->list_ids, atom->tag, atom->nlocal + atom->nghost) &&
      equal(impl->list_images, atom->image, atom->nlocal))
    return;
  const std::string text = fmt::format(
      "Pair style equi: on step {} the neighbor list is older than the last command that sorted, wrapped or moved "
      "atoms, as write_data and write_restart do: leave pre no out of the run command",
      update->ntimestep);
  equi::end_all_ranks(error, world, text.c_str());
}

// Called on the first step of a run with an old list. Commands between runs (set type) may change types of atoms, while
// ghosts on other ranks keep theirs. Collective.
void PairEqui::check_ghost_types() {
  std::vector<tagint> mine;    // IDs and types of atoms whose type has changed
  const int nlocal = impl->neighborhood_is_set ? atom->nlocal : 0;
  for (int i = 0; i < nlocal; i++)
    if (atom->type[i] != impl->atom_type[i]) mine.insert(mine.end(), {atom->tag[i], atom->type[i]});
  std::vector<int> sizes(comm->nprocs), begin(comm->nprocs + 1, 0);
  const int size = static_cast<int>(mine.size());
  MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, world);
  std::partial_sum(sizes.begin(), sizes.end(), begin.begin() + 1);
  if (begin.back() == 0) return;
  std::vector<tagint> all(begin.back());
  MPI_Allgatherv(mine.data(), size, MPI_LMP_TAGINT, all.data(), sizes.data(), begin.data(), MPI_LMP_TAGINT, world);
  std::map<tagint, tagint> remote;
  for (int k = 0; k < begin.back(); k += 2)
    if (k < begin[comm->me] || k >= begin[comm->me + 1]) remote[all[k]] = all[k + 1];
  int is_other = 0, is_other_anywhere = 0;
  for (int i = atom->nlocal; i < atom->nlocal + atom->nghost; i++) {
    const auto at = remote.find(atom->tag[i]);
    is_other |= at != remote.end() && at->second != atom->type[i];
  }
  MPI_Allreduce(&is_other, &is_other_anywhere, 1, MPI_INT, MPI_MAX, world);
  if (is_other_anywhere)
    error->all(FLERR,
               "Pair style equi: on step {} a command has changed types of atoms (set type), and ghosts on other ranks "
               "have the old ones: leave pre no out of the run command",
               update->ntimestep);
}

/* ----------------------------------------------------------------------
   Before each new neighbor list LAMMPS wraps atoms by one length of the periodic box. It drops those that are farther
away, and counts atoms only for thermo output. Through faces that are not periodic atoms may leave.
------------------------------------------------------------------------- */

// Called before a new list is read. Collective.
void PairEqui::check_dropped_atoms() {
  if (domain->nonperiodic) return;
  // Numbers of atoms and sums of IDs, now and with the previous list.
  const size_t listed = impl->list_images.size();
  bigint mine[4] = {atom->nlocal, 0, static_cast<bigint>(listed), 0}, all[4];
  for (int i = 0; i < atom->nlocal; i++) mine[1] += atom->tag[i];
  for (size_t i = 0; i < listed; i++) mine[3] += impl->list_ids[i];
  MPI_Allreduce(mine, all, 4, MPI_LMP_BIGINT, MPI_SUM, world);
  const bigint dropped = atom->natoms - all[0];
  if (dropped <= 0) return;
  std::string id;
  if (dropped == 1 && all[2] == atom->natoms) id = fmt::format(", ID {}", all[3] - all[1]);
  error->all(FLERR,
             "Pair style equi: on step {} LAMMPS has dropped {} of {} atoms{}, which had left the periodic box by more "
             "than its length: wrap positions before LAMMPS reads them (pbc='true' in the ffsocket of i-PI)",
             update->ntimestep, dropped, atom->natoms, id);
}

/* ----------------------------------------------------------------------
   The matrices of a mixture of experts hold for the fractions of the elements that they were mixed for. Files for all
systems are mixed when a run starts. Fixes that insert, delete or swap atoms change the fractions between two neighbor
lists, of which only one rank knows.
------------------------------------------------------------------------- */

// The atoms of all ranks to which the models apply, by symbol.
std::map<std::string, int64_t> PairEqui::count_elements() {
  std::vector<int64_t> mine(impl->symbols.size(), 0), all(impl->symbols.size());
  for (int i = 0; i < atom->nlocal; i++)
    if (const int s = equi::species_of_atom(*atom, impl->type_species, i); s >= 0) mine[s]++;
  MPI_Allreduce(mine.data(), all.data(), static_cast<int>(mine.size()), MPI_INT64_T, MPI_SUM, world);
  std::map<std::string, int64_t> counts;
  for (size_t s = 0; s < all.size(); s++)
    if (all[s] > 0) counts[impl->symbols[s]] = all[s];
  return counts;
}

void PairEqui::make_models_for_system() {
  const auto has_mixture = [](const equi::Model &model) { return model.mixture.has_value(); };
  const bool any = std::any_of(impl->models.begin(), impl->models.end(), has_mixture);
  const bool are_read = impl->read_with == impl->forces_of;
  if (!any && !impl->system.says_something() && are_read) return;
  equi::AtomicSystem wanted = impl->system;
  wanted.atoms = count_elements();
  if (wanted.atoms.empty())    // a box without atoms counts as one with equal numbers
    for (const std::string &symbol : impl->symbols) wanted.atoms[symbol] = 1;
  for (const equi::Model &model : impl->models) {
    if (!model.mixture || model.mixture->tasks.size() <= 1 || !wanted.task.empty()) continue;
    std::string known;
    for (const std::string &task : model.mixture->tasks) known += " " + task;
    error->all(FLERR, "Pair style equi: {} has several tasks: choose one by the keyword task:{}", model.file, known);
  }
  const auto is_made = [&](const equi::Model &model) {
    if (!are_read) return false;
    return model.mixture ? model.mixture->is_same_for(wanted, impl->made_for) : !impl->system.says_something();
  };
  if (std::all_of(impl->models.begin(), impl->models.end(), is_made)) return;
  impl->unset();
  for (size_t k = 0; k < impl->models.size(); k++)
    if (!is_made(impl->models[k])) impl->models[k] = read_model(impl->files[k], wanted);
  impl->read_with = impl->forces_of;
  impl->made_for = std::move(wanted);
}

void PairEqui::check_composition() {
  const auto depends = [](const equi::Model &model) { return !model.composition.empty(); };
  if (std::none_of(impl->models.begin(), impl->models.end(), depends)) return;
  const std::map<std::string, int64_t> counts = count_elements();
  for (const equi::Model &model : impl->models) {
    if (model.composition.empty()) continue;
    std::vector<int64_t> atoms(model.composition.size(), 0);
    for (const auto &[symbol, number] : counts) atoms[model.species(symbol)] = number;
    const auto sum = [](const auto &numbers) { return std::accumulate(numbers.begin(), numbers.end(), int64_t(0)); };
    const int64_t all = sum(atoms), of_formula = sum(model.composition);
    const bool needs_number = model.mixture && model.mixture->depends_on_number && all > 0;
    for (size_t s = 0; s < atoms.size(); s++)
      if (atoms[s] * of_formula != model.composition[s] * all || (needs_number && all != of_formula))
        error->all(FLERR,
                   "Pair style equi: {} holds for the composition {} alone, for which its experts were mixed, and the "
                   "atoms are {} on step {}: {}",
                   model.file, equi::formula(model.composition, model.elements), equi::formula(atoms, model.elements),
                   update->ntimestep,
                   model.mixture ? "a run with these atoms has another potential; start it anew"
                                 : "convert the model for this composition (equi convert --composition)");
  }
}

/* ---------------------------------------------------------------------- */

void PairEqui::check_forces() {
  if (impl->is_direct()) {
    if (comm->me == 0)
      utils::logmesg(lmp, "  force check: not of direct forces, which are no derivatives of the energy\n");
    return;
  }
  // A fourth-order stencil with the steps of check_laws, within which the neighbor list stays valid.
  const bool is_double = impl->options.precision == equi::Precision::double_;
  constexpr int MAX_ATOMS = 4;

  // Owned plus ghost contributions of the last evaluation, summed at the owners by atom ID.
  tagint largest = 0, mine = 0;
  for (int i = 0; i < atom->nlocal; i++) mine = std::max(mine, atom->tag[i]);
  MPI_Allreduce(&mine, &largest, 1, MPI_LMP_TAGINT, MPI_MAX, world);

  double allowed = 0.0;
  int checked = 0;
  std::string fault;
  std::string table = "  force check: atom ID  component  force         difference\n";
  for (int k = 0; k < MAX_ATOMS; k++) {
    // The receiver with the smallest ID that is not below this point of an even distribution over all IDs.
    const tagint from = 1 + k * (largest / MAX_ATOMS);
    tagint best = MAXTAGINT, id = MAXTAGINT;
    int owner = -1;
    for (int i : impl->neighborhood.receiver)
      if (atom->tag[i] >= from && atom->tag[i] < best) {
        best = atom->tag[i];
        owner = i;
      }
    MPI_Allreduce(&best, &id, 1, MPI_LMP_TAGINT, MPI_MIN, world);
    if (id == MAXTAGINT) continue;
    const bool here = best == id;
    const int component = k % 3;

    double part = 0.0, analytic = 0.0;
    for (int i = 0; i < atom->nlocal + atom->nghost; i++)
      if (atom->tag[i] == id) part += impl->forces[i][component];
    MPI_Allreduce(&part, &analytic, 1, MPI_DOUBLE, MPI_SUM, world);

    sync_host_positions();
    const double start = here ? atom->x[owner][component] : 0.0;
    auto move_to = [&](double position) {
      sync_host_positions();
      if (here) atom->x[owner][component] = position;
      modified_host_positions();
      comm->forward_comm();
    };
    double difference = 0.0, tolerance = 0.0;
    const auto passes = [&](bool is_plain, const equi::DifferenceStep &step) {
      const double numeric = -equi::difference_quotient(step.length, [&](double shift) {
        move_to(start + shift);
        return total_energy(is_plain);
      });
      move_to(start);
      difference = std::fabs(numeric - analytic);
      tolerance = step.noise() * std::sqrt(static_cast<double>(atom->natoms)) +
                  equi::stencil_error(impl->options.precision) * std::max(1.0, std::fabs(analytic));
      return difference <= tolerance;
    };
    // Plain loops cannot read neighbors on a device.
    const bool has_plain = has_host_neighborhood(), can_be_fine = has_plain || is_double;
    const bool passed = passes(false, equi::coarse_step(impl->options.precision)) ||
                        (can_be_fine && passes(has_plain, equi::FINE_STEP));
    if (!passed && fault.empty())
      fault = fmt::format("forces are not minus the gradient of the energy: ID {}, {}: difference {:.3g} eV/Angstrom",
                          id, "xyz"[component], difference);
    table += fmt::format("               {:7}  {:9}  {:12.6f}  {:.2e}{}\n", id, "xyz"[component], analytic, difference,
                         passed ? "" : "  FAILED");
    allowed = std::max(allowed, tolerance);
    checked++;
  }
  if (comm->me == 0)
    utils::logmesg(lmp, "{}  force check: {} components, tolerance {:.1e} eV/Angstrom\n", table, checked, allowed);
  collective_try([&] {
    if (!fault.empty()) throw std::runtime_error(fault);
  });
}

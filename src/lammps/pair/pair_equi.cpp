// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// What LAMMPS calls: commands, setup, neighbor lists, the evaluation of a step and its results.
#include "src/lammps/pair/pair_equi_impl.h"

#include "src/evaluation/native_evaluators.h"
#include "src/lammps/faults/lammps_faults.h"

#include "atom.h"
#include "comm.h"
#include "error.h"
#include "force.h"
#include "memory.h"
#include "neigh_list.h"
#include "neighbor.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace LAMMPS_NS;

PairEqui::PairEqui(LAMMPS *lmp) : Pair(lmp), impl(new Impl(*this, lmp)) {
  single_enable = 0;
  restartinfo = 0;
  one_coeff = 1;
  manybody_flag = 1;
  no_virial_fdotr_compute = 1;    // the virial is summed over edges, which loses less precision
  centroidstressflag = CENTROID_AVAIL;
  unit_convert_flag = utils::get_supported_conversions(utils::ENERGY);
}

PairEqui::~PairEqui() {
  if (!allocated) return;
  memory->destroy(setflag);
  memory->destroy(cutsq);
}

void PairEqui::allocate() {
  allocated = 1;
  const int n = atom->ntypes;
  memory->create(setflag, n + 1, n + 1, "pair:setflag");
  memory->create(cutsq, n + 1, n + 1, "pair:cutsq");
  for (int i = 1; i <= n; i++)
    for (int j = i; j <= n; j++) setflag[i][j] = 0;
}

void PairEqui::report_exceptions(equi::Work work) {
  equi::local_try(error, world, "Pair style equi", work);
}

/* ----------------------------------------------------------------------
   commands
------------------------------------------------------------------------- */

void PairEqui::settings(int narg, char **arg) {
  report_exceptions([&] {
    impl->unset();
    impl->settings.command = equi::PairCommand::refused;
    impl->settings = equi::read_settings(lmp, narg, arg, kokkosable);
  });
}

void PairEqui::coeff(int narg, char **arg) {
  report_exceptions([&] {
    if (!allocated) allocate();
    impl->unset();
    impl->models.read(narg, arg);
    impl->setup_checks.new_coefficients();
    for (int i = 1; i <= atom->ntypes; i++)
      for (int j = i; j <= atom->ntypes; j++)
        setflag[i][j] = impl->models.has_species(i) && impl->models.has_species(j);
  });
}

// A style created by read_restart has default keywords.
void PairEqui::check_commands() {
  using Command = equi::PairCommand;
  const auto refuse = [&](const char *command) {
    error->all(FLERR, "Pair style equi: the last {} command was refused: give one that is accepted before a run",
               command);
  };
  if (impl->settings.command == Command::refused) refuse("pair_style");
  if (impl->models.command == Command::refused) refuse("pair_coeff");
  if (impl->models.command == Command::missing)
    error->all(FLERR, "Pair style equi: no pair_coeff command has named a model file");
}

/* ----------------------------------------------------------------------
   setup of a run
------------------------------------------------------------------------- */

void PairEqui::init_style() {
  report_exceptions([&] { prepare(); });
}

void PairEqui::prepare() {
  impl->is_set_up = false;
  check_commands();
  if (atom->tag_enable == 0) error->all(FLERR, "Pair style equi requires atom IDs");
  impl->atoms->read_units();
  impl->setup_checks.check();
  neighbor->add_request(this, NeighConst::REQ_FULL);
  if (!impl->models.fit_system()) {
    impl->unset();
    impl->models.read_for_system();
  }
  impl->setup_checks.check_images();
  if (!impl->has_runner()) make_evaluator();
  if (impl->wants_hessian) impl->derivatives->make_hessian(impl->kept_directions);
  if (impl->wants_moments) impl->derivatives->make_moments();
  if (impl->wants_observables) impl->observables->make();
  if (impl->wants_born_charges) impl->observables->make_born_charges();
  impl->atoms->reserve_buffers(impl->runner->exchange_bytes_per_row());
  impl->neighborhood_is_set = impl->bonds_are_checked = false;
  impl->is_set_up = true;
}

double PairEqui::init_one(int i, int j) {
  setflag[j][i] = setflag[i][j];
  impl->setup_checks.add_pair(i, j);
  return impl->models.cutoff();
}

bool PairEqui::is_for_gpus() const {
  return equi::num_devices() > 0;
}

std::unique_ptr<equi::PairRunner> PairEqui::make_runner(std::unique_ptr<equi::Evaluator> evaluator,
                                                        const equi::EvaluatorOptions &options) {
  return std::make_unique<equi::PairRunner>(lmp, std::move(evaluator), options, *impl->atoms, impl->models);
}

// The whole style changes on all ranks or on none: it gets no runner before all have been checked.
void PairEqui::make_evaluator() {
  const equi::PairEvaluators &evaluators = impl->evaluators;
  const equi::EvaluatorOptions options = evaluators.start();
  std::unique_ptr<equi::PairRunner> runner;
  std::unique_ptr<equi::Evaluator> plain;
  std::string description;
  equi::collective_try(error, world, "Pair style equi", [&] {
    runner = make_runner(evaluators.make(evaluators.maker(), options), options);
    description = runner->evaluator().describe();
    if (!impl->settings.check) return;
    equi::EvaluatorOptions comparison = equi::plain_options(options.memory_limit);
    comparison.wave_vectors = options.wave_vectors;
    comparison.open = options.open;
    plain = evaluators.make(equi::make_host_evaluator, comparison);
  });

  if (plain) impl->atoms->reserve_buffers(plain->exchange_bytes_per_row());

  impl->models.check_electrons();
  evaluators.log_models();
  if (comm->me == 0) utils::logmesg(lmp, description);
  std::unique_ptr<equi::SelfChecks> self_checks;
  if (plain) {
    self_checks = std::make_unique<equi::SelfChecks>(lmp, impl->settings, *runner, std::move(plain));
    self_checks->check_models(evaluators.maker());
  }
  impl->memory_is_logged = false;
  impl->self_checks = std::move(self_checks);
  impl->derivatives = std::make_unique<equi::PairDerivatives>(lmp, *runner, evaluators);
  impl->observables = std::make_unique<equi::PairObservables>(lmp, *runner, evaluators);
  impl->runner = std::move(runner);
}

/* ----------------------------------------------------------------------
   neighbor lists
------------------------------------------------------------------------- */

void PairEqui::check_setup() {
  check_commands();
  if (!impl->has_runner() || !impl->is_set_up)
    error->all(FLERR,
               "Pair style equi is not set up: its last setup failed, or pair_style or pair_coeff came after it; a run "
               "without the option pre no sets it up");
}

void PairEqui::update_neighborhood() {
  check_setup();
  equi::PairRunner &runner = *impl->runner;
  equi::AtomChecks &atom_checks = impl->atom_checks;
  impl->models.check_composition();
  impl->atoms->sync_host_atoms();
  // A list of this step is read even if it was read before, because its arrays may be new.
  const bool is_old = neighbor->ago != 0;
  if (is_old) atom_checks.check_listed_atoms(*list);
  if (is_old && update->ntimestep == update->firststep + 1) atom_checks.check_ghost_types(impl->neighborhood_is_set);
  const bool same_list = is_old && impl->neighborhood_is_set;
  // Monte Carlo fixes exchange the types of atoms and keep the list.
  if (same_list && atom_checks.has_same_types()) return;
  impl->neighborhood_is_set = false;
  const auto read = [&] {
    atom_checks.note_list(*list);
    impl->bond_checks.check_special_neighbors();
    runner.read_neighborhood();
  };
  int any = runner.exchange().active();
  if (same_list) {    // only this rank knows that types have changed, so nothing may be requested from the others
    runner.try_step([&] {
      read();
      if (runner.has_remote_rows() && !any)
        throw std::runtime_error("the type of an atom changed between NULL and an element without a new neighbor list");
      runner.use_neighborhood(any != 0);
    });
  } else {
    char subject[200];    // on the stack: there may be no memory
    std::snprintf(subject, sizeof subject, "Pair style equi on step %lld with %lld atoms on %d ranks",
                  static_cast<long long>(update->ntimestep), static_cast<long long>(atom->natoms), comm->nprocs);
    atom_checks.check_dropped_atoms();
    equi::collective_try(error, world, subject, read);
    const int mine = runner.has_remote_rows();
    MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, world);
    equi::collective_try(error, world, subject, [&] { runner.use_neighborhood(any != 0); });
    if (any) runner.try_step([&] { runner.exchange().set_ghosts(comm, *atom); });
    if (!impl->bonds_are_checked) impl->bond_checks.check_bonds(*impl->atoms);
    impl->bonds_are_checked = true;
  }
  impl->neighborhood_is_set = true;
  impl->derivatives->forget_neighborhood();
  impl->observables->forget_neighborhood();
}

void PairEqui::read_new_list() {
  report_exceptions([this] { update_neighborhood(); });
  neighbor->ago = 1;
}

void PairEqui::check_same_atoms(bool at_same_positions) {
  impl->atoms->sync_host_atoms();
  impl->atom_checks.check_same_atoms(*impl->atoms, at_same_positions);
}

/* ----------------------------------------------------------------------
   a step
------------------------------------------------------------------------- */

void PairEqui::compute(int eflag, int vflag) {
  ev_init(eflag, vflag, !kokkosable);    // package KOKKOS has arrays of its own
  impl->atoms->sync_for_step();
  evaluate();
  finish_first_evaluation();
}

void PairEqui::evaluate() {
  report_exceptions([&] { update_neighborhood(); });
  impl->atom_checks.check_hidden_atom(eflag_global && !eflag_atom && !vflag_either);
  const bool is_direct = impl->settings.has_direct_forces(), has_atom_virial = vflag_atom || cvflag_atom;
  if (is_direct && has_atom_virial)
    error->all(FLERR, "Pair style equi: with direct forces there is no virial of atoms");
  if (cvflag_atom && impl->models.has_ewald_sum())
    error->all(FLERR, "Pair style equi: an Ewald sum has no centroid stress and no heat flux: use stress/atom");
  equi::PairRunner &runner = *impl->runner;
  runner.exchange().restart_counting();
  const bool wants_virial = !is_direct && (vflag_global != 0 || impl->setup_checks.needs_virial());
  equi::EvaluationResult result;
  runner.try_step([&] { result = runner.run({wants_virial, eflag_atom != 0, has_atom_virial}); });
  impl->virial_trace = result.virial[0] + result.virial[1] + result.virial[2];
  const bool keeps_atoms = impl->models.models.size() > 1 || impl->wants_hessian || impl->wants_moments ||
                           impl->wants_observables || impl->wants_born_charges;
  impl->atom_checks.note_evaluation(*impl->atoms, keeps_atoms);
  impl->deviation.forget();
  if (impl->deviation.is_wanted()) impl->deviation.find(&runner, impl->atom_checks.evaluation_step());

  equi::ResultRows rows = runner.results();
  rows.unit = impl->atoms->energy_unit();
  if (eflag_global) eng_vdwl += rows.unit * result.energy;
  if (vflag_global)
    for (int k = 0; k < 6; k++) virial[k] += is_direct ? NAN : rows.unit * result.virial[k];
  runner.try_step([&] { impl->atoms->add_results(rows); });
}

void PairEqui::finish_first_evaluation() {
  report_exceptions([&] {
    if (!impl->memory_is_logged) impl->runner->log_exchange_and_memory(!impl->settings.reference);
    if (const std::string lines = impl->runner->evaluator().describe_system();
        !impl->memory_is_logged && !lines.empty() && comm->me == 0)
      utils::logmesg(lmp, lines);
    impl->memory_is_logged = true;
    impl->setup_checks.check_first_structure(*impl->runner, impl->virial_trace);
    if (impl->self_checks) {
      impl->self_checks->check_evaluation();
      impl->self_checks.reset();
    }
  });
}

double PairEqui::memory_usage() {
  double bytes = Pair::memory_usage();
  if (impl->runner)
    bytes += static_cast<double>(impl->runner->evaluator().memory_bytes()) + impl->derivatives->memory_bytes() +
             impl->observables->memory_bytes();
  return bytes;
}

/* ----------------------------------------------------------------------
   hooks of LAMMPS's communication
------------------------------------------------------------------------- */

int PairEqui::pack_forward_comm(int n, int *list, double *buf, int /*pbc_flag*/, int * /*pbc*/) {
  return impl->atoms->exchange().pack_forward(n, list, buf);
}

void PairEqui::unpack_forward_comm(int n, int first, double *buf) {
  impl->atoms->exchange().unpack_forward(n, first, buf);
}

int PairEqui::pack_reverse_comm(int n, int first, double *buf) {
  return impl->atoms->exchange().pack_reverse(n, first, buf);
}

void PairEqui::unpack_reverse_comm(int n, int *list, double *buf) {
  impl->atoms->exchange().unpack_reverse(n, list, buf);
}

/* ----------------------------------------------------------------------
   derivatives along directions, for commands and computes
------------------------------------------------------------------------- */

PairEqui &PairEqui::only_style(LAMMPS *lmp, const std::string &user) {
  auto *pair = dynamic_cast<PairEqui *>(lmp->force->pair);
  if (!pair) lmp->error->all(FLERR, "{} needs pair style equi as the only pair style", user);
  return *pair;
}

bool PairEqui::is_invariant() const {
  return impl->models.is_invariant();
}

void PairEqui::init_hessian(int kept_directions) {
  impl->wants_hessian = true;
  impl->kept_directions = std::max(impl->kept_directions, kept_directions);
  if (impl->has_runner()) impl->derivatives->make_hessian(impl->kept_directions);
}

void PairEqui::init_energy_moments() {
  impl->wants_moments = true;
  if (impl->has_runner()) impl->derivatives->make_moments();
}

equi::PairDerivatives &PairEqui::derivatives() {
  update_neighborhood();
  return *impl->derivatives;
}

PairEqui &PairEqui::style_with_observable(LAMMPS *lmp, const std::vector<std::string> &observables,
                                          const std::string &user) {
  // The only style, also under a hybrid style; or several parts of a hybrid style, numbered from 1 on.
  std::vector<Pair *> found = {lmp->force->pair_match("^equi", 0)};
  if (!found.front()) {
    found.clear();
    while (Pair *part = lmp->force->pair_match("^equi", 0, static_cast<int>(found.size()) + 1)) found.push_back(part);
  }
  std::string names;
  for (const std::string &observable : observables) {
    for (Pair *one : found) {
      auto *pair = dynamic_cast<PairEqui *>(one);
      if (pair && !pair->impl->models.models.empty() && pair->model().observable_offset(observable) >= 0) return *pair;
    }
    names += (names.empty() ? "" : " or ") + observable;
  }
  if (found.empty()) lmp->error->all(FLERR, "{} needs pair style equi", user);
  lmp->error->all(FLERR, "{}: no model of pair style equi has a {}", user, names);
}

void PairEqui::init_observables() {
  impl->wants_observables = true;
  if (impl->has_runner()) impl->observables->make();
}

void PairEqui::init_born_charges() {
  impl->wants_born_charges = true;
  if (impl->has_runner()) impl->observables->make_born_charges();
}

equi::PairObservables &PairEqui::observables() {
  update_neighborhood();
  return *impl->observables;
}

const equi::Model &PairEqui::model() const {
  return impl->models.models.front();
}

int PairEqui::num_models() const {
  return static_cast<int>(impl->models.models.size());
}

double PairEqui::energy_unit() const {
  return impl->atoms->energy_unit();
}

/* ----------------------------------------------------------------------
   deviations in a committee; fix pair sets the flag before the steps that it reads on
------------------------------------------------------------------------- */

const equi::CommitteeDeviation &PairEqui::deviation() {
  const bigint step = impl->atom_checks.evaluation_step();
  if (impl->models.models.size() > 1 && step == update->ntimestep) check_same_atoms(false);
  if (!impl->deviation.is_known()) impl->deviation.find(impl->runner.get(), step);
  return impl->deviation;
}

void *PairEqui::extract(const char *name, int &dim) {
  dim = 0;
  return impl->models.models.size() > 1 ? impl->deviation.flag(name) : nullptr;
}

void *PairEqui::extract_peratom(const char *name, int &num_columns) {
  num_columns = 0;
  return impl->models.models.size() > 1 ? impl->deviation.peratom(name) : nullptr;
}

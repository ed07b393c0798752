// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The pair style: setup, neighbor lists, evaluation of a step and its results.
#include "src/lammps/pair/pair_equi_impl.h"

#include "src/evaluation/committee.h"
#include "src/evaluation/native_evaluators.h"
#include "src/evaluation/reference_library.h"
#include "src/lammps/atoms/lammps_neighborhood.h"
#include "src/lammps/faults/lammps_faults.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "force.h"
#include "memory.h"
#include "neigh_list.h"
#include "neighbor.h"
#include "universe.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

using namespace LAMMPS_NS;

namespace {

// Numbers per atom.
constexpr int FORCE_WIDTH = 3, VIRIAL_WIDTH = 9;

// Sizes of messages about faults, which must not allocate memory: there may be none.
constexpr int SUBJECT_SIZE = 200, MESSAGE_SIZE = 1000;

#ifdef EQUI_DEVICE
constexpr auto make_device_evaluator = equi::make_device_evaluator;
#else
std::unique_ptr<equi::Evaluator> make_device_evaluator(const equi::Model &, const equi::EvaluatorOptions &) {
  throw std::runtime_error("kernels device needs a build with EQUI_DEVICE=ON");
}
#endif

}    // namespace

/* ---------------------------------------------------------------------- */

PairEqui::PairEqui(LAMMPS *lmp) : Pair(lmp), impl(new Impl(this, world)) {
  single_enable = 0;
  restartinfo = 0;
  one_coeff = 1;
  manybody_flag = 1;
  no_virial_fdotr_compute = 1;    // the virial is summed over edges, which loses less precision
  centroidstressflag = CENTROID_AVAIL;
  unit_convert_flag = utils::get_supported_conversions(utils::ENERGY);
}

PairEqui::~PairEqui() {
  if (copymode) return;
  if (allocated) {
    memory->destroy(setflag);
    memory->destroy(cutsq);
  }
}

void PairEqui::allocate() {
  allocated = 1;
  const int n = atom->ntypes;
  memory->create(setflag, n + 1, n + 1, "pair:setflag");
  memory->create(cutsq, n + 1, n + 1, "pair:cutsq");
  for (int i = 1; i <= n; i++)
    for (int j = i; j <= n; j++) setflag[i][j] = 0;
}

/* ---------------------------------------------------------------------- */

// Whether a periodic box has images of itself within this distance.
static bool has_image_within(const Domain &box, double cutoff) {
  const double lengths[3] = {box.xprd, std::hypot(box.xy, box.yprd), std::hypot(box.xz, box.yz, box.zprd)};
  const int periodic[3] = {box.xperiodic, box.yperiodic, box.zperiodic};
  for (int k = 0; k < 3; ++k)
    if (periodic[k] && lengths[k] < cutoff) return true;
  return false;
}

void PairEqui::init_style() {
  report_exceptions([&] { prepare(); });
}

void PairEqui::prepare() {
  impl->is_set_up = false;
  check_commands();
  if (atom->tag_enable == 0) error->all(FLERR, "Pair style equi requires atom IDs");

  const std::string units = update->unit_style;
  if (units == "metal")
    impl->energy_unit = 1.0;
  else if (units == "real")
    impl->energy_unit = utils::get_conversion_factor(utils::ENERGY, utils::METAL2REAL);
  else
    error->all(FLERR, "Pair style equi works with units metal or real, not {}", units);

  if (!impl->symbols_are_checked && comm->me == 0) check_symbols();
  impl->symbols_are_checked = true;
  check_timestep();
  check_exclusions();
  impl->has_pair.assign(static_cast<size_t>(atom->ntypes + 1) * (atom->ntypes + 1), 0);
  check_pressure();
  neighbor->add_request(this, NeighConst::REQ_FULL);
  make_models_for_system();
  // Checked before LAMMPS makes lists of all images, which may be too many in a small cell.
  collective_try([&] {
    for (const equi::Model &model : impl->models)
      if (equi::needs_all_pairs(model.layers)) {
        const double cutoff = equi::far_cutoff(model.layers);
        equi::check_all_pairs(!has_image_within(*domain, cutoff), cutoff);
      }
  });
  if (!impl->evaluator) make_evaluator();
  if (impl->wants_hessian) make_directional();
  if (impl->wants_moments) make_moments();
  share_buffer_sizes();
  impl->neighborhood_is_set = impl->bonds_are_checked = false;
  impl->is_set_up = true;
}

// Under a hybrid style LAMMPS sizes its buffers for the hybrid, which read the sizes of its parts before this one was
// known.
void PairEqui::share_buffer_sizes() {
  force->pair->comm_forward = std::max(force->pair->comm_forward, comm_forward);
  force->pair->comm_reverse = std::max(force->pair->comm_reverse, comm_reverse);
  force->pair->comm_reverse_off = std::max(force->pair->comm_reverse_off, comm_reverse_off);
}

double PairEqui::init_one(int i, int j) {
  setflag[j][i] = setflag[i][j];
  impl->has_pair[i * (atom->ntypes + 1) + j] = 1;
  return impl->cutoff();
}

/* ----------------------------------------------------------------------
   the evaluation for the elements in use, and what is said about it
------------------------------------------------------------------------- */

bool PairEqui::is_for_gpus() const {
  return equi::num_devices() > 0;
}

PairEqui::EvaluatorMaker *PairEqui::evaluator_maker() const {
  if (impl->reference) return equi::make_reference_evaluator;
  const bool on_device =
      impl->kernels == Impl::Kernels::automatic ? is_for_gpus() : impl->kernels == Impl::Kernels::device;
  return on_device ? make_device_evaluator : equi::make_host_evaluator;
}

// The mean of several models, each of which may use its share of the memory.
std::unique_ptr<equi::Evaluator> PairEqui::evaluator_of_models(EvaluatorMaker *make,
                                                               equi::EvaluatorOptions options) const {
  options.memory_limit /= static_cast<double>(impl->models.size());
  std::vector<std::unique_ptr<equi::Evaluator>> members;
  for (const equi::Model &model : impl->models) members.push_back(make(model.restricted_to(impl->symbols), options));
  if (members.size() == 1) return std::move(members.front());
  return std::make_unique<equi::Committee>(std::move(members));
}

void PairEqui::log_model(const equi::Model &model) {
  std::string elements;
  for (const std::string &symbol : impl->symbols) elements += " " + symbol;
  auto origin = [&](const char *key) {
    auto at = model.provenance.find(key);
    return at == model.provenance.end() ? std::string("unknown") : at->second;
  };
  if (comm->me == 0)
    utils::logmesg(lmp,
                   "Pair style equi: {}\n  {} {} model, source {}, license {}\n  {} of {} elements in use:{}\n"
                   "  cutoff {:.6g}, {} convolutions, evaluation: {}\n",
                   model.file, model.framework, model.architecture, origin("source"), origin("licence"),
                   impl->symbols.size(), model.elements.size(), elements, model.cutoff, model.num_convolutions(),
                   impl->reference ? "LibTorch reference" : "native");
  if (comm->me == 0 && model.mixture)
    utils::logmesg(
        lmp, "  a file for all systems, used for {}{}\n", model.mixture->describe(),
        model.composition.empty() ? "" : " and the composition " + equi::formula(model.composition, model.elements));
  if (model.offers_direct_forces && !impl->is_direct() && comm->me == 0)
    utils::logmesg(lmp, "  forces are derivatives of the energy; the file has direct ones, too (keyword forces)\n");
  for (const std::string &note : model.notes)
    if (comm->me == 0) utils::logmesg(lmp, "  {}\n", note);
  if (comm->me == 0 && model.self_check.empty() && !model.mixture)
    utils::logmesg(
        lmp, "  the file stores no values of {} to check it by: 'equi compare FILE.equi SOURCE --store' adds them\n",
        model.framework);
}

void PairEqui::make_evaluator() {
  const int partitions = universe->nprocs / comm->nprocs;
  const equi::NodePlace node = equi::node_place(world);
  const int ranks = partitions * node.num_ranks;
  const equi::ThreadPlan threads = equi::threads_per_rank(world, partitions);
  std::string about_threads;
  equi::DeviceIdentity device{};
  collective_try([&] {
    const int running = equi::start_kokkos(threads.number, universe->iworld * node.num_ranks + node.rank);
    if (running > 0) about_threads = equi::describe_threads(threads, running);
    device = equi::device_identity();
  });
  if (comm->me == 0 && !about_threads.empty()) utils::logmesg(lmp, "Pair style equi: {}\n", about_threads);
  const int sharing =
      equi::processes_on_device(equi::ranks_on_device(world, device), partitions, ranks, equi::num_devices());
  int most = 0;
  MPI_Allreduce(&sharing, &most, 1, MPI_INT, MPI_MAX, world);
  if (comm->me == 0 && equi::num_devices() > 0 && most > 1)
    error->warning(FLERR, "Pair style equi: {} ranks share a GPU: one rank for each is usually faster", most);
  // After Kokkos runs on all ranks, because it uses some memory, too.
  double share = 0.0;
  collective_try([&] { share = equi::memory_available(sharing); });
  // All ranks use the same number: that of the smallest share.
  MPI_Allreduce(&share, &impl->options.memory_limit, 1, MPI_DOUBLE, MPI_MIN, world);
  if (impl->memory_limit >= 0.0) impl->options.memory_limit = impl->memory_limit;
  // The whole style changes on all ranks or on none: it gets no evaluator before all have been checked.
  std::unique_ptr<equi::Evaluator> evaluator;
  std::string description;
  collective_try([&] {
    evaluator = evaluator_of_models(evaluator_maker(), impl->options);
    description = evaluator->describe();
    impl->plain.reset();
    if (impl->check)
      impl->plain = evaluator_of_models(equi::make_host_evaluator, equi::plain_options(impl->options.memory_limit));
  });

  const int num_models = static_cast<int>(impl->models.size());
  comm_forward = comm_reverse = comm_reverse_off =
      std::max(equi::LammpsExchange::buffer_size(evaluator->exchange_bytes_per_row()),
               std::max(FORCE_WIDTH + VIRIAL_WIDTH, FORCE_WIDTH * num_models));
  if (impl->plain) reserve_buffers(*impl->plain);

  for (const equi::Model &model : impl->models) log_model(model);
  if (impl->is_direct() && comm->me == 0)
    error->warning(FLERR,
                   "Pair style equi: with forces direct the forces are no derivatives of the energy: energy is not "
                   "conserved, and there is no virial");
  if (comm->me == 0) utils::logmesg(lmp, description);
  for (const equi::Model &model : impl->models) {
    if (!impl->check) break;
    check_stored_structures(model);
    if (evaluator_maker() == equi::make_host_evaluator) check_kernels(model.restricted_to(impl->symbols));
  }
  impl->forces_are_checked = !impl->check;
  impl->memory_is_logged = false;
  impl->memory_without_atoms = static_cast<double>(evaluator->memory_bytes());
  impl->evaluator = std::move(evaluator);
}

/* ---------------------------------------------------------------------- */

void PairEqui::update_neighborhood() {
  check_setup();
  check_composition();
  sync_host_atoms();
  const int nall = atom->nlocal + atom->nghost;
  // A list of this step is read even if it was read before, because its arrays may be new.
  const bool is_old = neighbor->ago != 0;
  if (is_old) check_listed_atoms();
  if (is_old && update->ntimestep == update->firststep + 1) check_ghost_types();
  const bool same_list = is_old && impl->neighborhood_is_set;
  // Monte Carlo fixes exchange the types of atoms and keep the list.
  if (same_list && std::equal(impl->atom_type.begin(), impl->atom_type.end(), atom->type)) return;
  impl->neighborhood_is_set = false;
  const auto read = [&] {
    impl->atom_type.assign(atom->type, atom->type + nall);
    impl->list_ids.assign(atom->tag, atom->tag + nall);
    impl->list_images.assign(atom->image, atom->image + atom->nlocal);
    impl->list_length = list->inum;
    impl->hidden_atom = find_hidden_atom();
    check_special_neighbors();
    read_neighbor_list();
  };
  int any = impl->exchange->active();
  const auto has_remote_rows = [&] { return impl->neighborhood.num_rows > impl->neighborhood.num_receivers; };
  if (same_list) {    // only this rank knows that types have changed, so nothing may be requested from the others
    run_on_this_rank([&] {
      read();
      if (has_remote_rows() && !any)
        throw std::runtime_error("the type of an atom changed between NULL and an element without a new neighbor list");
      use_neighborhood(any != 0);
    });
  } else {
    char subject[SUBJECT_SIZE];
    std::snprintf(subject, sizeof subject, "Pair style equi on step %lld with %lld atoms on %d ranks",
                  static_cast<long long>(update->ntimestep), static_cast<long long>(atom->natoms), comm->nprocs);
    check_dropped_atoms();
    equi::collective_try(error, world, subject, read);
    const int mine = has_remote_rows();
    MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, world);
    equi::collective_try(error, world, subject, [&] { use_neighborhood(any != 0); });
    if (any) run_on_this_rank([&] { impl->exchange->set_ghosts(comm, *atom); });
    if (!impl->bonds_are_checked) check_bonds();
  }
  impl->neighborhood_is_set = true;
  impl->directional_is_set = impl->moments_is_set = false;
}

void PairEqui::read_neighbor_list() {
  const equi::FullList full{list->inum, list->ilist, list->numneigh, list->firstneigh, 1};
  equi::build_neighborhood(*atom, full, impl->type_species, impl->neighborhood, impl->atom_row);
}

void PairEqui::use_neighborhood(bool is_exchanged) {
  impl->exchange->set_rows(&impl->atom_row, is_exchanged);
  impl->evaluator->set_neighborhood(impl->neighborhood);
}

const double *PairEqui::positions() {
  return atom->nlocal + atom->nghost > 0 ? &atom->x[0][0] : nullptr;
}

void PairEqui::evaluate() {
  report_exceptions([&] { update_neighborhood(); });
  check_hidden_atom();
  if (impl->is_direct() && (vflag_atom || cvflag_atom))
    error->all(FLERR, "Pair style equi: with direct forces there is no virial of atoms");
  impl->exchange->restart_counting();
  equi::EvaluationResult result;
  run_on_this_rank([&] { result = run_evaluator(); });
  impl->virial_trace = result.virial[0] + result.virial[1] + result.virial[2];
  impl->evaluation_step = update->ntimestep;
  impl->deviation_step = -1;
  if (impl->keeps_atoms()) {
    const int nall = atom->nlocal + atom->nghost;
    const auto *x = reinterpret_cast<const std::array<double, 3> *>(positions());
    impl->evaluated_ids.assign(atom->tag, atom->tag + nall);
    impl->evaluated_positions.assign(x, x + (has_host_neighborhood() ? nall : 0));
  }
  if (impl->wants_deviation) find_deviations();
  const double unit = impl->energy_unit;
  if (eflag_global) eng_vdwl += unit * result.energy;
  if (vflag_global)
    for (int k = 0; k < 6; k++) virial[k] += impl->is_direct() ? NAN : unit * result.virial[k];
}

// Between runs commands may change atoms, while ghosts and neighbor lists stay.
void PairEqui::check_same_atoms(bool at_same_positions) {
  const int nall = atom->nlocal + atom->nghost;
  const auto differ = [](const auto &a, const auto *b, int n) { return !std::equal(a.begin(), a.end(), b, b + n); };
  int is_other = differ(impl->evaluated_ids, atom->tag, nall), is_other_anywhere = 0;
  if (at_same_positions && has_host_neighborhood())
    is_other |= differ(impl->evaluated_positions, reinterpret_cast<const std::array<double, 3> *>(positions()), nall) ||
                differ(impl->atom_type, atom->type, nall);
  MPI_Allreduce(&is_other, &is_other_anywhere, 1, MPI_INT, MPI_MAX, world);
  if (is_other_anywhere)
    error->all(FLERR, "Pair style equi: atoms have changed since forces were last computed, on step {}: run 0 first",
               impl->evaluation_step);
}

bool PairEqui::wants_virial() const {
  return !impl->is_direct() && (vflag_global != 0 || !impl->start_is_checked);
}

equi::EvaluationResult PairEqui::run_evaluator() {
  const int nall = atom->nlocal + atom->nghost;
  equi::EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(positions());
  // At least one entry: a rank without atoms takes part in all exchanges, and a null pointer means that no forces are
  // requested.
  impl->forces.assign(nall + 1, {0.0, 0.0, 0.0});
  request.forces = reinterpret_cast<double(*)[3]>(impl->forces.data());
  request.virial = wants_virial();
  if (eflag_atom) {
    impl->energies.assign(nall + 1, 0.0);
    request.atom_energy = impl->energies.data();
  }
  if (vflag_atom || cvflag_atom) {
    impl->virials.assign(nall + 1, {});
    request.atom_virial = reinterpret_cast<double(*)[9]>(impl->virials.data());
  }

  const equi::EvaluationResult result = impl->evaluator->evaluate(request, *impl->exchange);
  if (!force->newton_pair) send_ghosts_home();
  return result;
}

/* ----------------------------------------------------------------------
   newton off: LAMMPS leaves alone what belongs to ghosts, so that their owners get it here
------------------------------------------------------------------------- */

void PairEqui::send_ghosts_home() {
  const int rows = impl->neighborhood.num_rows, nall = atom->nlocal + atom->nghost;
  equi::FeaturePieces<double> pieces;
  std::vector<double *> arrays = {reinterpret_cast<double *>(impl->forces.data())};
  impl->row_sums.assign(static_cast<size_t>(rows) * (FORCE_WIDTH + VIRIAL_WIDTH), 0.0);
  pieces.push_back({impl->row_sums.data(), FORCE_WIDTH});
  if (vflag_atom || cvflag_atom) {
    arrays.push_back(reinterpret_cast<double *>(impl->virials.data()));
    pieces.push_back({impl->row_sums.data() + static_cast<size_t>(rows) * FORCE_WIDTH, VIRIAL_WIDTH});
  }
  auto add = [](double *from, double *to, int width, bool clear) {
    for (int k = 0; k < width; k++) {
      to[k] += from[k];
      if (clear) from[k] = 0.0;
    }
  };
  for (size_t p = 0; p < pieces.size(); p++) {
    const size_t width = pieces[p].width;
    for (int g = atom->nlocal; g < nall; g++)
      if (impl->atom_row[g] >= 0)
        add(arrays[p] + g * width, pieces[p].data + impl->atom_row[g] * width, pieces[p].width, true);
  }
  impl->exchange->reverse(pieces);
  for (size_t p = 0; p < pieces.size(); p++) {
    const size_t width = pieces[p].width;
    for (int i = 0; i < impl->neighborhood.num_receivers; i++)
      add(pieces[p].data + i * width, arrays[p] + impl->neighborhood.receiver[i] * width, pieces[p].width, false);
  }
}

void PairEqui::compute(int eflag, int vflag) {
  ev_init(eflag, vflag);
  evaluate();

  const double unit = impl->energy_unit;
  const int nall = atom->nlocal + atom->nghost;
  double **f = atom->f;
  for (int i = 0; i < nall; i++)
    for (int k = 0; k < 3; k++) f[i][k] += unit * impl->forces[i][k];
  if (eflag_atom)
    for (int i = 0; i < atom->nlocal; i++) eatom[i] += unit * impl->energies[i];
  if (vflag_atom)
    for (int i = 0; i < nall; i++) {
      const std::array<double, 9> &v = impl->virials[i];
      for (int k = 0; k < 3; k++) vatom[i][k] += unit * v[k];
      for (int k = 3; k < 6; k++) vatom[i][k] += 0.5 * unit * (v[k] + v[k + 3]);
    }
  if (cvflag_atom)
    for (int i = 0; i < nall; i++)
      for (int k = 0; k < 9; k++) cvatom[i][k] += unit * impl->virials[i][k];
  finish_first_evaluation();
}

void PairEqui::finish_first_evaluation() {
  report_exceptions([&] {
    if (!impl->memory_is_logged) log_exchange_and_memory();
    if (!impl->start_is_checked) {
      check_pairs_of_types();
      check_start();
    }
    if (!impl->forces_are_checked) {
      check_system();
      check_forces();
      impl->plain.reset();
      impl->forces_are_checked = true;
    }
  });
}

void PairEqui::log_exchange_and_memory() {
  impl->memory_is_logged = true;
  const double mine[2] = {static_cast<double>(impl->evaluator->memory_bytes()) - impl->memory_without_atoms,
                          static_cast<double>(impl->neighborhood.num_receivers)};
  double all[2];
  MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, world);
  const equi::LammpsExchange::Traffic &traffic = impl->exchange->traffic();
  const double sent[2] = {traffic.bytes, static_cast<double>(traffic.messages)};
  double most[2];
  MPI_Allreduce(sent, most, 2, MPI_DOUBLE, MPI_MAX, world);
  const double moved[2] = {traffic.bytes, traffic.bytes_beside_work};
  double sum[2];
  MPI_Allreduce(moved, sum, 2, MPI_DOUBLE, MPI_SUM, world);
  std::string exchange = "not needed";
  if (impl->exchange->active())
    exchange = fmt::format(
        "of remote features through LAMMPS's communication ({}), at most {:.3f} MB/step and {:.0f} "
        "messages/step from a rank, {:.1f} % of the bytes beside other work",
        impl->exchange->describe(), most[0] * 1e-6, most[1], sum[0] > 0.0 ? 100.0 * sum[1] / sum[0] : 0.0);
  const double bytes = impl->reference ? 0.0 : impl->options.memory_limit;
  const std::string limit = bytes > 0.0 ? fmt::format("{:.4g} GB per rank", bytes * 1e-9) : "none";
  if (comm->me == 0)
    utils::logmesg(lmp,
                   "Pair style equi: exchange {}\n  memory: {:.1f} MB per rank for tables and weights, {:.1f} MB for "
                   "{:.0f} atoms, {:.1f} kB/atom, limit {}\n",
                   exchange, impl->memory_without_atoms * 1e-6, all[0] * 1e-6, all[1],
                   all[0] * 1e-3 / std::max(1.0, all[1]), limit);
}

/* ---------------------------------------------------------------------- */

// For work that communicates, or that other ranks may not know of: a fault ends all ranks.
void PairEqui::run_on_this_rank(equi::Work work) {
  try {
    work();
  } catch (const equi::MemoryLimitError &beyond) {
    const int num_atoms = impl->neighborhood.num_receivers;
    const double limit = impl->options.memory_limit, without = impl->memory_without_atoms;
    const bigint fitting = static_cast<bigint>(num_atoms * std::max(0.0, limit - without) / (beyond.bytes - without));
    char text[MESSAGE_SIZE];
    std::snprintf(text, sizeof text,
                  "Pair style equi: the %d atoms of a rank need %.4g GB on step %lld, and it may use %.4g (keyword "
                  "memory): %lld atoms per rank fit, about %lld on %d ranks",
                  num_atoms, beyond.bytes * 1e-9, static_cast<long long>(update->ntimestep), limit * 1e-9,
                  static_cast<long long>(fitting), static_cast<long long>(fitting) * comm->nprocs, comm->nprocs);
    equi::end_all_ranks(error, world, text);
  } catch (const equi::EvaluationError &fault) {
    char text[MESSAGE_SIZE], atoms[SUBJECT_SIZE] = "";
    const auto id = [&](int i) { return static_cast<long long>(atom->tag[i]); };
    if (fault.atom_i >= 0 && fault.atom_j >= 0)
      std::snprintf(atoms, sizeof atoms, ": IDs %lld and %lld at distance %.3g", id(fault.atom_i), id(fault.atom_j),
                    fault.distance);
    else if (fault.atom_i >= 0)
      std::snprintf(atoms, sizeof atoms, ": ID %lld", id(fault.atom_i));
    std::snprintf(text, sizeof text, "Pair style equi: %s%s on step %lld", fault.what(), atoms,
                  static_cast<long long>(update->ntimestep));
    equi::end_all_ranks(error, world, text);
  } catch (...) {
    impl->unset();    // an evaluation that stopped anywhere is not used again
    char subject[SUBJECT_SIZE];
    std::snprintf(subject, sizeof subject, "Pair style equi on step %lld with %d atoms on this rank",
                  static_cast<long long>(update->ntimestep), atom->nlocal);
    equi::local_try(error, world, subject, [] { throw; });
  }
}

void PairEqui::report_exceptions(equi::Work work) {
  equi::local_try(error, world, "Pair style equi", work);
}

void PairEqui::collective_try(equi::Work work) {
  equi::collective_try(error, world, "Pair style equi", work);
}

/* ---------------------------------------------------------------------- */

int PairEqui::pack_forward_comm(int n, int *list, double *buf, int /*pbc_flag*/, int * /*pbc*/) {
  return impl->exchange->pack_forward(n, list, buf);
}

void PairEqui::unpack_forward_comm(int n, int first, double *buf) {
  impl->exchange->unpack_forward(n, first, buf);
}

int PairEqui::pack_reverse_comm(int n, int first, double *buf) {
  return impl->exchange->pack_reverse(n, first, buf);
}

void PairEqui::unpack_reverse_comm(int n, int *list, double *buf) {
  impl->exchange->unpack_reverse(n, list, buf);
}

double PairEqui::memory_usage() {
  return Pair::memory_usage() + (impl->evaluator ? static_cast<double>(impl->evaluator->memory_bytes()) : 0.0) +
         (impl->directional ? static_cast<double>(impl->directional->memory_bytes()) : 0.0) +
         (impl->moments ? static_cast<double>(impl->moments->memory_bytes()) : 0.0);
}

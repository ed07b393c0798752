// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

#include "src/lammps/pair_equi_impl.h"

#include "src/evaluation/native_evaluators.h"
#include "src/evaluation/reference_library.h"
#include "src/evaluation/self_check.h"
#include "src/lammps/lammps_faults.h"
#include "src/lammps/lammps_label_map.h"
#include "src/lammps/lammps_neighborhood.h"
#include "src/model/chemical_elements.h"
#include "src/model/model_file.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "force.h"
#include "memory.h"
#include "neigh_list.h"
#include "neighbor.h"
#include "platform.h"
#include "universe.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

using namespace LAMMPS_NS;

namespace {

// Numbers per atom.
constexpr int FORCE_WIDTH = 3, VIRIAL_WIDTH = 9;

#ifdef EQUI_DEVICE
constexpr auto make_device_evaluator = equi::make_device_evaluator;
#else
std::unique_ptr<equi::Evaluator> make_device_evaluator(const equi::Model &, const equi::EvaluatorOptions &) {
  throw std::runtime_error("kernels device needs a build with EQUI_DEVICE=ON");
}
#endif

// The bytes of a model file, which is searched for as LAMMPS searches for potentials. The error says where.
std::string read_potential_file(const std::string &name) {
  const std::string path = utils::get_potential_file_path(name);
  if (!path.empty()) return equi::read_file_bytes(path);
  const char *variable = std::getenv("LAMMPS_POTENTIALS");
  try {
    return equi::read_file_bytes(name);
  } catch (const equi::ModelFileError &fault) {
    throw std::runtime_error(
        fmt::format("{}; it was searched for in {} and in LAMMPS_POTENTIALS ({}); 'equi convert' makes model files",
                    fault.what(), platform::current_directory(), variable ? variable : "not set"));
  }
}

}    // namespace

/* ---------------------------------------------------------------------- */

PairEqui::PairEqui(LAMMPS *lmp) : Pair(lmp), impl(new Impl(this)) {
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

/* ----------------------------------------------------------------------
   pair_style equi keyword value ...
------------------------------------------------------------------------- */

void PairEqui::settings(int narg, char **arg) {
  impl->unset();
  impl->pair_style = EquiCommand::refused;
  EquiSettings fresh;
  const std::string keywords =
      "precision, radial, reference, check, memory, deterministic, kernels, exchange, graphs, overlap";

  int k = 0;
  auto value = [&](const std::string &keyword, const std::string &choices) -> std::string {
    if (k >= narg) error->all(FLERR, "Pair style equi: keyword {} needs a value: {}", keyword, choices);
    return arg[k++];
  };
  auto yes_no = [&](const std::string &keyword) {
    const std::string v = value(keyword, "yes or no");
    if (v != "yes" && v != "no") error->all(FLERR, "Pair style equi: keyword {} must be yes or no, not {}", keyword, v);
    return v == "yes";
  };
  auto place = [&](const std::string &keyword, auto automatic, auto device, auto host) {
    const std::string choices = "auto, device or host", v = value(keyword, choices);
    if (v != "auto" && v != "device" && v != "host")
      error->all(FLERR, "Pair style equi: keyword {} must be {}, not {}", keyword, choices, v);
    return v == "auto" ? automatic : v == "device" ? device : host;
  };
  while (k < narg) {
    const std::string keyword = arg[k++];
    if (keyword == "precision") {
      const std::string choices = "single, mixed or double", v = value(keyword, choices);
      if (v == "single")
        fresh.options.precision = equi::Precision::single;
      else if (v == "mixed")
        fresh.options.precision = equi::Precision::mixed;
      else if (v == "double")
        fresh.options.precision = equi::Precision::double_;
      else
        error->all(FLERR, "Pair style equi: precision must be {}, not {}", choices, v);
    } else if (keyword == "radial") {
      // `table` is also a pair style, so that a hybrid style cuts its list of words there: the tolerance alone will do
      // as well.
      const std::string choices = "table TOLERANCE, TOLERANCE or exact", v = value(keyword, choices);
      if (v == "exact") {
        fresh.options.radial_exact = true;
      } else if (v == "table" || utils::is_double(v)) {
        const std::string number = v == "table" ? value("radial table", "a tolerance, for example 1e-6") : v;
        const double tolerance = utils::numeric(FLERR, number, false, lmp);
        if (!(tolerance > 0.0 && tolerance < 1.0))
          error->all(FLERR, "Pair style equi: the tolerance of radial tables must lie between 0 and 1, not {}", number);
        fresh.options.radial_exact = false;
        fresh.options.radial_tolerance = tolerance;
      } else {
        error->all(FLERR, "Pair style equi: radial must be {}, not {}", choices, v);
      }
    } else if (keyword == "reference") {
      fresh.reference = yes_no(keyword);
    } else if (keyword == "check") {
      fresh.check = yes_no(keyword);
    } else if (keyword == "memory") {
      const std::string choices = "GB per rank, auto or unlimited", v = value(keyword, choices);
      if (v == "auto" || v == "unlimited") {
        fresh.memory_limit = v == "auto" ? -1.0 : 0.0;
      } else {
        if (!utils::is_double(v) || !(utils::numeric(FLERR, v, false, lmp) > 0.0))
          error->all(FLERR, "Pair style equi: memory must be {}, not {}", choices, v);
        fresh.memory_limit = 1e9 * utils::numeric(FLERR, v, false, lmp);
      }
    } else if (keyword == "deterministic") {
      fresh.options.deterministic = yes_no(keyword);
    } else if (keyword == "kernels") {
      using Kernels = EquiSettings::Kernels;
      fresh.kernels = place(keyword, Kernels::automatic, Kernels::device, Kernels::host);
    } else if (keyword == "exchange") {
      using Mode = equi::ExchangeMode;
      fresh.exchange_mode = place(keyword, Mode::automatic, Mode::device, Mode::host);
      if (fresh.exchange_mode == Mode::device && !kokkosable)
        error->all(FLERR, "Pair style equi: exchange device needs the style equi/kk");
    } else if (keyword == "graphs") {
      fresh.options.graphs = yes_no(keyword);
    } else if (keyword == "overlap") {
      fresh.options.overlap = yes_no(keyword);
    } else {
      error->all(FLERR, "Pair style equi: unknown keyword {}; known are {}", keyword, keywords);
    }
  }
  fresh.pair_style = EquiCommand::accepted;
  static_cast<EquiSettings &>(*impl) = std::move(fresh);
}

/* ----------------------------------------------------------------------
   pair_coeff * * FILE symbol ...
------------------------------------------------------------------------- */

void PairEqui::coeff(int narg, char **arg) {
  if (!allocated) allocate();
  impl->unset();
  impl->pair_coeff = EquiCommand::refused;
  const int ntypes = atom->ntypes;
  if (narg < 3)
    error->all(FLERR, "Pair style equi: expected pair_coeff * * FILE and one element or NULL per atom type");
  if (std::strcmp(arg[0], "*") != 0 || std::strcmp(arg[1], "*") != 0)
    error->all(FLERR, "Pair style equi: pair_coeff must start with * *, not {} {}", arg[0], arg[1]);
  if (narg != 3 + ntypes)
    error->all(FLERR,
               "Pair style equi: pair_coeff names {} elements for {} atom types; one per type is needed, or NULL",
               narg - 3, ntypes);

  // Rank 0 reads, and all ranks parse the same bytes.
  EquiCoefficients fresh;
  std::string bytes;
  all_ranks_or_none([&] {
    if (comm->me == 0) bytes = read_potential_file(arg[2]);
  });
  bigint length = static_cast<bigint>(bytes.size());
  MPI_Bcast(&length, 1, MPI_LMP_BIGINT, 0, world);
  all_ranks_or_none([&] { bytes.resize(length); });
  // In pieces: MPI counts are int.
  for (bigint at = 0; at < length; at += MAXSMALLINT / 2)
    MPI_Bcast(&bytes[at], static_cast<int>(std::min<bigint>(length - at, MAXSMALLINT / 2)), MPI_CHAR, 0, world);
  all_ranks_or_none([&] {
    fresh.model = std::make_unique<equi::Model>(equi::parse_model(bytes, arg[2]));
    fresh.type_symbol.assign(ntypes + 1, "");
    fresh.type_species.assign(ntypes + 1, -1);
    for (int t = 1; t <= ntypes; t++) {
      const std::string symbol = arg[2 + t];
      if (symbol == "NULL") continue;
      if (fresh.model->species(symbol) < 0) {
        std::string known, meant;
        for (const std::string &e : fresh.model->elements) {
          known += " " + e;
          if (utils::lowercase(e) == utils::lowercase(symbol)) meant = fmt::format(": did you mean {}?", e);
        }
        throw std::runtime_error(fmt::format("{} does not know element {} (atom type {}){}; its elements are:{}",
                                             arg[2], symbol, t, meant, known));
      }
      auto at = std::find(fresh.symbols.begin(), fresh.symbols.end(), symbol);
      fresh.type_species[t] = static_cast<int>(at - fresh.symbols.begin());
      if (at == fresh.symbols.end()) fresh.symbols.push_back(symbol);
      fresh.type_symbol[t] = symbol;
    }
    if (fresh.symbols.empty()) throw std::runtime_error("pair_coeff maps all atom types to NULL");
  });

  fresh.pair_coeff = EquiCommand::accepted;
  static_cast<EquiCoefficients &>(*impl) = std::move(fresh);
  impl->symbols_are_checked = false;
  for (int i = 1; i <= ntypes; i++)
    for (int j = i; j <= ntypes; j++) setflag[i][j] = impl->type_species[i] >= 0 && impl->type_species[j] >= 0;
}

// Of a style that a restart file has made the keywords have their defaults.
void PairEqui::check_commands() {
  const auto refuse = [&](const char *command) {
    error->all(FLERR, "Pair style equi: the last {} command was refused: give one that is accepted before a run",
               command);
  };
  if (impl->pair_style == EquiCommand::refused) refuse("pair_style");
  if (impl->pair_coeff == EquiCommand::refused) refuse("pair_coeff");
  if (impl->pair_coeff == EquiCommand::missing)
    error->all(FLERR, "Pair style equi: no pair_coeff command has named a model file");
}

void PairEqui::check_setup() {
  check_commands();
  if (!impl->is_set_up)
    error->all(FLERR,
               "Pair style equi is not set up: its last setup failed, or pair_style or pair_coeff came after it; a run "
               "without the option pre no sets it up");
}

/* ---------------------------------------------------------------------- */

void PairEqui::init_style() {
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
  neighbor->add_request(this, NeighConst::REQ_FULL);
  if (!impl->evaluator) make_evaluator();
  if (impl->wants_hessian) make_directional();
  share_buffer_sizes();
  impl->neighborhood_is_set = false;
  impl->is_set_up = true;
}

// Under a hybrid style LAMMPS sizes its buffers for the hybrid, which asked its parts before this one knew.
void PairEqui::share_buffer_sizes() {
  force->pair->comm_forward = std::max(force->pair->comm_forward, comm_forward);
  force->pair->comm_reverse = std::max(force->pair->comm_reverse, comm_reverse);
  force->pair->comm_reverse_off = std::max(force->pair->comm_reverse_off, comm_reverse_off);
}

double PairEqui::init_one(int i, int j) {
  setflag[j][i] = setflag[i][j];
  return impl->model->cutoff;
}

// The wrong order of symbols gives wrong energies and no error: the data file knows better.
void PairEqui::check_symbols() {
  constexpr double TOLERANCE = 0.01;
  const auto is_mass_of = [](double mass, const std::string &symbol) {
    const double expected = equi::standard_atomic_mass(symbol);
    return std::fabs(mass - expected) <= TOLERANCE * expected;
  };
  std::vector<std::string> label(atom->ntypes + 1);    // of the types whose label is the symbol of an element
  if (atom->labelmapflag)
    for (const std::string &element : equi::chemical_symbols())
      if (const int t = atom->lmap->find(element, Atom::ATOM); t > 0) label[t] = element;
  for (int t = 1; t <= atom->ntypes; t++) {
    const std::string &symbol = impl->type_symbol[t];
    const double expected = symbol.empty() ? 0.0 : equi::standard_atomic_mass(symbol);
    if (expected == 0.0) continue;
    const double mass = atom->mass ? atom->mass[t] : expected;
    const bool label_fits = label[t].empty() || label[t] == symbol, mass_fits = is_mass_of(mass, symbol);
    if (label_fits && mass_fits) continue;
    std::string text = fmt::format("Atom type {} is mapped to {} but has ", t, symbol), likely;
    if (!label_fits) text += fmt::format("the label {}", likely = label[t]);
    if (!mass_fits) {
      text += fmt::format("{}mass {:.6g} instead of {:.6g}", label_fits ? "" : " and ", mass, expected);
      for (const std::string &other : impl->symbols)
        if (label_fits && is_mass_of(mass, other)) text += fmt::format(", which is that of {}", likely = other);
      if (likely.empty() && symbol == "H") text += " (an isotope?)";
    }
    if (!likely.empty()) text += ": pair_coeff names one symbol per type, in the order of the types";
    error->warning(FLERR, text);
  }
}

// The usual timestep of units real, 1, is a thousand times too long in those of metal.
void PairEqui::check_timestep() {
  constexpr double LONG_STEP = 0.02;    // ps: no vibration of atoms can be followed in steps of 20 fs
  const double dt = update->dt;
  if (std::strcmp(update->unit_style, "metal") != 0 || update->whichflag != 1 || update->nsteps == 0 ||
      dt < LONG_STEP || dt == impl->timestep_with_warning)
    return;
  impl->timestep_with_warning = dt;
  if (comm->me == 0)
    error->warning(FLERR,
                   "The timestep of {:.6g} ps ({:.6g} fs) is too long for the motion of atoms: with units metal it is "
                   "in ps, and 0.001 is usual",
                   dt, 1e3 * dt);
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
  return on_device ? make_device_evaluator : equi::make_kokkos_evaluator;
}

void PairEqui::make_evaluator() {
  const int partitions = universe->nprocs / comm->nprocs;
  const equi::NodePlace node = equi::node_place(world);
  const int ranks = partitions * node.num_ranks;
  const equi::ThreadPlan threads = equi::threads_per_rank(world, partitions);
  std::string about_threads;
  equi::DeviceIdentity device{};
  all_ranks_or_none([&] {
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
  // Once Kokkos runs on all ranks: that takes some memory, too.
  double share = 0.0;
  all_ranks_or_none([&] { share = equi::memory_available(sharing); });
  // The same number for all ranks: that of the smallest share.
  MPI_Allreduce(&share, &impl->options.memory_limit, 1, MPI_DOUBLE, MPI_MIN, world);
  if (impl->memory_limit >= 0.0) impl->options.memory_limit = impl->memory_limit;
  const equi::Model &model = *impl->model;
  // The whole style changes on all ranks or on none: it has no evaluator before it has been checked.
  std::unique_ptr<equi::Evaluator> evaluator;
  std::string description;
  all_ranks_or_none([&] {
    evaluator = evaluator_maker()(model.restricted_to(impl->symbols), impl->options);
    description = evaluator->describe();
  });

  comm_forward = comm_reverse = comm_reverse_off =
      std::max(equi::LammpsExchange::buffer_size(evaluator->exchange_bytes_per_row()), FORCE_WIDTH + VIRIAL_WIDTH);

  std::string elements;
  for (const std::string &symbol : impl->symbols) elements += " " + symbol;
  auto origin = [&](const char *key) {
    auto at = model.provenance.find(key);
    return at == model.provenance.end() ? std::string("unknown") : at->second;
  };
  if (comm->me == 0)
    utils::logmesg(lmp,
                   "Pair style equi: {}\n  {} {} model, source {}, license {}\n  {} of {} elements in use:{}\n"
                   "  cutoff {:.6g}, {} convolutions, evaluation: {}\n{}",
                   model.file, model.framework, model.architecture, origin("source"), origin("licence"),
                   impl->symbols.size(), model.elements.size(), elements, model.cutoff, model.num_convolutions(),
                   impl->reference ? "LibTorch reference" : "native", description);
  for (const std::string &note : model.notes)
    if (comm->me == 0) utils::logmesg(lmp, "  {}\n", note);
  if (impl->check) check_stored_structures();
  impl->forces_are_checked = !impl->check;
  impl->memory_is_logged = false;
  impl->memory_without_atoms = static_cast<double>(evaluator->memory_bytes());
  impl->evaluator = std::move(evaluator);
}

/* ---------------------------------------------------------------------- */

void PairEqui::update_neighborhood() {
  check_setup();
  // Also without a rebuild the arrays can be new: after another setup, or another instance of the list.
  const int nall = atom->nlocal + atom->nghost;
  const bool same_list = impl->neighborhood_is_set && neighbor->ago != 0 && impl->neighbor_builds == neighbor->ncalls &&
                         impl->neighborhood.num_atoms == nall;
  // Monte Carlo fixes exchange the types of atoms and keep the list.
  if (same_list && std::equal(impl->atom_type.begin(), impl->atom_type.end(), atom->type)) return;
  impl->neighborhood_is_set = false;
  const auto read = [&] {
    impl->atom_type.assign(atom->type, atom->type + nall);
    check_special_neighbors();
    read_neighbor_list();
  };
  int any = impl->exchange->active();
  const auto has_remote_rows = [&] { return impl->neighborhood.num_rows > impl->neighborhood.num_receivers; };
  if (same_list) {    // only this rank knows that types have changed, so nothing may be asked of the others
    run_on_this_rank([&] {
      read();
      if (has_remote_rows() && !any)
        throw std::runtime_error("the type of an atom changed between NULL and an element without a new neighbor list");
      use_neighborhood(any != 0);
    });
  } else {
    const std::string subject = fmt::format("Pair style equi on step {} with {} atoms on {} ranks", update->ntimestep,
                                            atom->natoms, comm->nprocs);
    equi::all_ranks_or_none(error, world, subject, read);
    const int mine = has_remote_rows();
    MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, world);
    equi::all_ranks_or_none(error, world, subject, [&] { use_neighborhood(any != 0); });
  }
  impl->neighborhood_is_set = true;
  impl->directional_is_set = false;
  impl->neighbor_builds = neighbor->ncalls;
}

/* ----------------------------------------------------------------------
   LAMMPS leaves special neighbors out of its lists, or marks them, where they are to interact with less than full
   weight. The model knows no bonds: it needs all pairs of the atoms it is used for.
------------------------------------------------------------------------- */

void PairEqui::check_special_neighbors() {
  // During a step a hybrid style puts the weights of pair_modify in place of those of special_bonds.
  const double *weight = force->special_lj;
  if (atom->molecular == Atom::ATOMIC || std::all_of(weight + 1, weight + 4, [](double w) { return w == 1.0; })) return;
  const std::vector<int> &species = impl->type_species;
  const auto refuse = [&](const std::string &pair, const std::string &given) {
    throw std::runtime_error(
        pair + ", and the model needs all pairs of its atoms with the weight 1, not " + given +
        ": use special_bonds lj/coul 1 1 1, or under a hybrid style weights that are neither 0 nor 1 (for example "
        "special_bonds lj/coul 1e-20 1e-20 1e-20) and pair_modify pair equi special lj/coul 1 1 1");
  };
  const std::string all = fmt::format("{:.6g} {:.6g} {:.6g}", weight[1], weight[2], weight[3]);
  for (int i = 0; i < atom->nlocal; i++) {
    if (species[atom->type[i]] < 0) continue;
    if (atom->molecular == Atom::TEMPLATE) {    // whose bonds are not listed by atom
      if (atom->nbonds > 0 && atom->molindex[i] >= 0 && atom->molatom[i] >= 0)
        refuse(fmt::format("atom ID {} belongs to a molecule with bonds", atom->tag[i]), all);
      continue;
    }
    // Three kinds, one after another: 1-2, 1-3 and 1-4 neighbors.
    for (int k = 0, s = 0; k < 3; k++)
      for (; s < atom->nspecial[i][k]; s++) {
        const int j = atom->map(atom->special[i][s]);    // -1: beyond all ghosts
        if (weight[k + 1] != 1.0 && j >= 0 && species[atom->type[j]] >= 0)
          refuse(fmt::format("atoms with IDs {} and {} are 1-{} neighbors through bonds", atom->tag[i],
                             atom->special[i][s], k + 2),
                 all);
      }
  }
}

void PairEqui::read_neighbor_list() {
  const equi::FullList full{list->inum, list->ilist, list->numneigh, list->firstneigh, 1};
  equi::build_neighborhood(*atom, full, impl->type_species, impl->neighborhood, impl->atom_row);
}

void PairEqui::use_neighborhood(bool is_exchanged) {
  impl->exchange->set_rows(comm, &impl->atom_row, impl->neighborhood.num_receivers, is_exchanged);
  impl->evaluator->set_neighborhood(impl->neighborhood);
}

const double *PairEqui::positions() {
  return atom->nlocal + atom->nghost > 0 ? &atom->x[0][0] : nullptr;
}

void PairEqui::evaluate() {
  update_neighborhood();
  impl->exchange->restart_counting();
  equi::EvaluationResult result;
  run_on_this_rank([&] { result = run_evaluator(); });
  const double unit = impl->energy_unit;
  if (eflag_global) eng_vdwl += unit * result.energy;
  if (vflag_global)
    for (int k = 0; k < 6; k++) virial[k] += unit * result.virial[k];
}

equi::EvaluationResult PairEqui::run_evaluator() {
  const int nall = atom->nlocal + atom->nghost;
  equi::EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(positions());
  // One entry at least: a rank without atoms takes part in all exchanges, and a null pointer means that no forces are
  // wanted.
  impl->forces.assign(nall + 1, {0.0, 0.0, 0.0});
  request.forces = reinterpret_cast<double(*)[3]>(impl->forces.data());
  request.virial = vflag_global != 0;
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
  if (!impl->memory_is_logged) {
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
  if (!impl->forces_are_checked) {
    check_forces();
    impl->forces_are_checked = true;
  }
}

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
      directional = evaluator_maker()(impl->model->restricted_to(impl->symbols), options);
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
  if (!impl->directional_is_set) impl->directional->set_neighborhood(impl->neighborhood);
  impl->directional_is_set = true;

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

    for (int d = 0; d < batch; d++) {
      const auto *tangents = impl->tangents.data() + static_cast<size_t>(nall + 1) * d;
      rows.assign(impl->neighborhood.num_rows + 1, {});
      for (int i = 0; i < nall; i++)
        if (atom_row[i] >= 0)
          for (int k = 0; k < 3; k++) rows[atom_row[i]][k] += tangents[i][k];
      impl->exchange->reverse(pieces());
      for (int i = 0; i < nlocal; i++)
        for (int k = 0; k < 3; k++)
          hv[done + d][i][k] = atom_row[i] >= 0 ? -impl->energy_unit * rows[atom_row[i]][k] : 0.0;
    }
  }
}

/* ---------------------------------------------------------------------- */

// What other ranks may not know of, or what communicates: a fault ends all ranks.
void PairEqui::run_on_this_rank(equi::Work work) {
  try {
    work();
  } catch (const equi::MemoryLimitError &beyond) {
    const int num_atoms = impl->neighborhood.num_receivers;
    const double limit = impl->options.memory_limit, without = impl->memory_without_atoms;
    const bigint fitting = static_cast<bigint>(num_atoms * std::max(0.0, limit - without) / (beyond.bytes - without));
    equi::end_all_ranks(
        error, world,
        fmt::format("Pair style equi: the {} atoms of a rank need {:.4g} GB on step {}, and it may use {:.4g} (keyword "
                    "memory): {} atoms per rank fit, about {} on {} ranks",
                    num_atoms, beyond.bytes * 1e-9, update->ntimestep, limit * 1e-9, fitting, fitting * comm->nprocs,
                    comm->nprocs));
  } catch (const equi::EvaluationError &fault) {
    std::string atoms;
    if (fault.atom_i >= 0 && fault.atom_j >= 0)
      atoms = fmt::format(": IDs {} and {} at distance {:.3g}", atom->tag[fault.atom_i], atom->tag[fault.atom_j],
                          fault.distance);
    else if (fault.atom_i >= 0)
      atoms = fmt::format(": ID {}", atom->tag[fault.atom_i]);
    equi::end_all_ranks(error, world,
                        fmt::format("Pair style equi: {}{} on step {}", fault.what(), atoms, update->ntimestep));
  } catch (...) {
    impl->unset();    // an evaluation that broke off anywhere is not used again
    equi::this_rank_or_none(
        error, world,
        fmt::format("Pair style equi on step {} with {} atoms on this rank", update->ntimestep, atom->nlocal),
        [] { throw; });
  }
}

void PairEqui::all_ranks_or_none(equi::Work work) {
  equi::all_ranks_or_none(error, world, "Pair style equi", work);
}

/* ----------------------------------------------------------------------
   check yes: the structures of the file, then forces of a few atoms of the system at hand by differences of energies
------------------------------------------------------------------------- */

void PairEqui::check_stored_structures() {
  std::string table = "  self-check: structure          atoms  energy/atom  force        stress\n", failed;
  all_ranks_or_none([&] {
    const std::vector<equi::CheckResult> results = equi::run_self_check(*impl->model, impl->options, evaluator_maker());
    for (const equi::CheckResult &r : results) {
      table += fmt::format("              {:18} {:5}  {:.2e}     {:.2e}     {:.2e}  {}\n", r.name, r.num_atoms,
                           r.energy_error, r.force_error, r.stress_error, r.passed ? "ok" : "FAILED");
      if (!r.passed) failed += " " + r.name;
    }
    if (results.empty()) table = "  self-check: the file stores no structures\n";
  });
  if (comm->me == 0) utils::logmesg(lmp, table);
  all_ranks_or_none([&] {
    if (!failed.empty())
      throw std::runtime_error("the model's stored energies, forces and stresses are not reproduced:" + failed);
  });
}

double PairEqui::energy_of_rank() {
  equi::EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(positions());
  return impl->evaluator->evaluate(request, *impl->exchange).energy;
}

double PairEqui::total_energy() {
  double mine = 0.0, all = 0.0;
  run_on_this_rank([&] { mine = energy_of_rank(); });
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, world);
  return all;
}

void PairEqui::check_forces() {
  // A fourth-order stencil. float32 energies of some hundred atoms carry noise of about 1e-6 eV, hence the wider step
  // there: the stencil's own error still is below 1e-6 eV/Angstrom, and within half a skin the neighbor list stays
  // valid.
  const bool is_double = impl->options.precision == equi::Precision::double_;
  const double step = is_double ? 1e-3 : 2e-2;
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
    // The receiver with the smallest ID not below an even spread over all IDs.
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

    double energy[4];
    constexpr double SHIFT[4] = {-2.0, -1.0, 1.0, 2.0};
    sync_host_positions();
    const double start = here ? atom->x[owner][component] : 0.0;
    auto move_to = [&](double position) {
      sync_host_positions();
      if (here) atom->x[owner][component] = position;
      modified_host_positions();
      comm->forward_comm();
    };
    for (int s = 0; s < 4; s++) {
      move_to(start + SHIFT[s] * step);
      energy[s] = total_energy();
    }
    move_to(start);
    const double numeric = -(energy[0] - 8.0 * energy[1] + 8.0 * energy[2] - energy[3]) / (12.0 * step);
    const double difference = std::fabs(numeric - analytic);
    // Rounding of the summed energy in the network's precision, a few units in the last place over all atoms, plus the
    // stencil's own error.
    const double rounding = (is_double ? 1e-15 : 1e-7) * 10.0 * std::sqrt(static_cast<double>(atom->natoms)) / step;
    const double tolerance = rounding + (is_double ? 1e-6 : 2e-4) * std::max(1.0, std::fabs(analytic));
    const bool passed = difference <= tolerance;
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
  all_ranks_or_none([&] {
    if (!fault.empty()) throw std::runtime_error(fault);
  });
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
         (impl->directional ? static_cast<double>(impl->directional->memory_bytes()) : 0.0);
}

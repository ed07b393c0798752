// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Makes evaluators on CPUs, on devices or by LibTorch, with the threads and the memory of a rank.
#include "src/lammps/evaluation/pair_evaluators.h"

#include "src/evaluation/committee.h"
#include "src/evaluation/native_evaluators.h"
#include "src/evaluation/reference_library.h"
#include "src/lammps/atoms/lammps_neighborhood.h"

#include "comm.h"
#include "error.h"
#include "universe.h"
#include "utils.h"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace LAMMPS_NS;

namespace equi {

namespace {

#ifdef EQUI_DEVICE
constexpr auto make_on_device = make_device_evaluator;
constexpr auto make_committee_on_device = make_device_committee;
#else
std::unique_ptr<Evaluator> make_on_device(const Model &, const EvaluatorOptions &) {
  throw std::runtime_error("kernels device needs a build with EQUI_DEVICE=ON");
}
std::unique_ptr<Evaluator> make_committee_on_device(std::vector<std::unique_ptr<Evaluator>>) {
  return nullptr;    // it has no members
}
#endif

}    // namespace

EvaluatorOptions PairEvaluators::start() const {
  const int partitions = universe->nprocs / comm->nprocs;
  const NodePlace node = node_place(world, partitions);
  const ThreadPlan threads = threads_per_rank(world, node.processes);
  std::string about_threads;
  DeviceIdentity device{};
  collective_try([&] {
    const int running = start_kokkos(threads.number, universe->iworld * node.num_ranks + node.rank);
    if (running > 0) about_threads = describe_threads(threads, running);
    device = device_identity();
  });
  if (!about_threads.empty()) log("Pair style equi: {}\n", about_threads);
  const int sharing = processes_on_device(ranks_on_device(world, device), partitions, node.processes, num_devices());
  const int most = reduce(sharing, MPI_INT, MPI_MAX);
  if (comm->me == 0 && num_devices() > 0 && most > 1)
    error->warning(FLERR,
                   "Pair style equi: {} ranks share a GPU: one rank for each is usually faster, and otherwise NVIDIA's "
                   "MPS lets their kernels run side by side",
                   most);
  // After Kokkos runs on all ranks, because it uses some memory, too.
  double share = 0.0;
  collective_try([&] { share = memory_available(sharing); });
  EvaluatorOptions options = settings_.options;
  // All ranks use the same number: that of the smallest share.
  options.memory_limit = reduce(share, MPI_DOUBLE, MPI_MIN);
  if (settings_.memory_limit >= 0.0) options.memory_limit = settings_.memory_limit;
  return options;
}

EvaluatorMaker *PairEvaluators::maker() const {
  if (settings_.reference) return make_reference_evaluator;
  using Kernels = PairSettings::Kernels;
  const bool on_device =
      settings_.kernels == Kernels::automatic ? is_for_gpus_() : settings_.kernels == Kernels::device;
  return on_device ? make_on_device : make_host_evaluator;
}

void PairEvaluators::check_observables(const Model &model) const {
  if (model.observables().empty()) throw std::invalid_argument(model.file + ": the model has no observables");
  if (model.observables() != models_.models.front().observables())
    throw std::invalid_argument(model.file + ": the models of the committee have different observables");
}

std::vector<std::unique_ptr<BornEvaluation>> PairEvaluators::make_born_charges(EvaluatorOptions options) const {
  options.memory_limit /= static_cast<double>(models_.models.size());
  options.precision = Precision::double_;
  EvaluatorMaker *make = settings_.reference ? make_reference_evaluator : make_host_evaluator;
  std::vector<std::unique_ptr<BornEvaluation>> members;
  for (const Model &model : models_.models) {
    check_observables(model);
    const Model derived =
        model.restricted_to(models_.symbols).with_charges_in_field(settings_.field).for_observable_derivatives();
    members.push_back(std::make_unique<BornEvaluation>(make(derived, options), derived));
  }
  return members;
}

std::vector<std::unique_ptr<Evaluator>> PairEvaluators::make_observables(EvaluatorOptions options) const {
  options.memory_limit /= static_cast<double>(models_.models.size());
  if (options.precision == Precision::tf32) options.precision = Precision::mixed;    // on CPUs
  EvaluatorMaker *make = settings_.reference ? make_reference_evaluator : make_host_evaluator;
  std::vector<std::unique_ptr<Evaluator>> members;
  for (const Model &model : models_.models) {
    check_observables(model);
    members.push_back(
        make(model.restricted_to(models_.symbols).with_charges_in_field(settings_.field).for_observables(), options));
  }
  return members;
}

std::unique_ptr<Evaluator> PairEvaluators::make(EvaluatorMaker *make, EvaluatorOptions options) const {
  options.memory_limit /= static_cast<double>(models_.models.size());
  std::vector<std::unique_ptr<Evaluator>> members;
  for (const Model &model : models_.models)
    members.push_back(make(model.restricted_to(models_.symbols).with_field(settings_.field), options));
  if (members.size() == 1) return std::move(members.front());
  if (make == make_on_device) return make_committee_on_device(std::move(members));
  return std::make_unique<Committee>(std::move(members));
}

std::unique_ptr<Evaluator> PairEvaluators::make_directional(EvaluatorMaker *make, EvaluatorOptions options,
                                                            const char *name) const {
  if (settings_.reference) error->all(FLERR, "Pair style equi: {} need reference no", name);
  options.directional = true;
  std::unique_ptr<Evaluator> made;
  std::string description;
  collective_try([&] {
    made = this->make(make, options);
    description = made->describe();
  });
  log("Pair style equi: {}\n{}", name, description);
  return made;
}

void PairEvaluators::log_models() const {
  if (comm->me != 0) return;
  for (const Model &model : models_.models) log_model(model);
  if (settings_.has_direct_forces())
    error->warning(FLERR,
                   "Pair style equi: with forces direct the forces are no derivatives of the energy: energy is not "
                   "conserved, and there is no virial");
}

void PairEvaluators::log_model(const Model &model) const {
  std::string elements;
  for (const std::string &symbol : models_.symbols) elements += " " + symbol;
  auto origin = [&](const char *key) {
    auto at = model.provenance.find(key);
    return at == model.provenance.end() ? std::string("unknown") : at->second;
  };
  log("Pair style equi: {}\n  {} {} model, source {}, license {}\n  {} of {} elements in use:{}\n"
      "  cutoff {:.6g}, {} convolutions, evaluation: {}\n",
      model.file, model.framework, model.architecture, origin("source"), origin("licence"), models_.symbols.size(),
      model.elements.size(), elements, model.cutoff, model.num_convolutions(),
      settings_.reference ? "LibTorch reference" : "native");
  if (model.mixture)
    log("  a file for all systems, used for {}{}\n", model.mixture->describe(),
        model.composition.empty() ? "" : " and the composition " + formula(model.composition, model.elements));
  if (model.offers_direct_forces && !settings_.has_direct_forces())
    log("  forces are derivatives of the energy; the file has direct ones, too (keyword forces)\n");
  if (const std::vector<std::string> observables = model.observables(); !observables.empty()) {
    std::string names;
    for (const std::string &name : observables)
      names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", name, model.unit_of(name));
    log("  the model also has: {}; computes equi/NAME print them\n", names);
    if (settings_.has_field())
      log("  its dipole is in a field of {:.6g} {:.6g} {:.6g} V/Angstrom\n", settings_.field[0], settings_.field[1],
          settings_.field[2]);
  }
  if (!model.has_mirror_symmetry)
    log("  equivariant under rotations only, SO(3): energies of mirror images may differ\n");
  if (model.provenance.count("properties"))
    log("  properties of the model, on every machine: {}\n", origin("properties"));
  for (const std::string &note : model.notes) log("  {}\n", note);
  if (model.self_check.empty() && !model.mixture)
    log("  the file stores no values of {} to check it by: 'equi compare FILE.equi SOURCE --store' adds them\n",
        model.framework);
}

}    // namespace equi

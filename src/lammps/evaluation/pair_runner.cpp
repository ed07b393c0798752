// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Evaluates steps and Hessian-vector products in host memory, and ends all ranks at faults of a step.
#include "src/lammps/evaluation/pair_runner.h"

#include "src/evaluation/committee.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "force.h"
#include "update.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

using namespace LAMMPS_NS;

namespace equi {

namespace {

// Sizes of messages about faults, which must not allocate memory: there may be none.
constexpr int SUBJECT_SIZE = 200, MESSAGE_SIZE = 1000;

}    // namespace

PairRunner::PairRunner(LAMMPS *lmp, std::unique_ptr<Evaluator> evaluator, const EvaluatorOptions &options,
                       PairAtoms &atoms, const PairModels &models)
    : PairPart(lmp),
      evaluator_(std::move(evaluator)),
      options_(options),
      atoms_(atoms),
      models_(models),
      memory_without_atoms_(static_cast<double>(evaluator_->memory_bytes())) {}

std::size_t PairRunner::exchange_bytes_per_row() const {
  const std::size_t of_results = FORCE_WIDTH + VIRIAL_WIDTH, of_committee = FORCE_WIDTH * models_.models.size();
  return std::max(evaluator_->exchange_bytes_per_row(), sizeof(double) * std::max(of_results, of_committee));
}

void PairRunner::try_step(Work work) {
  try {
    work();
  } catch (const MemoryLimitError &beyond) {
    const int num_atoms = neighborhood_.num_receivers;
    const double limit = options_.memory_limit, without = memory_without_atoms_;
    const bigint fitting = static_cast<bigint>(num_atoms * std::max(0.0, limit - without) / (beyond.bytes - without));
    char text[MESSAGE_SIZE];
    std::snprintf(text, sizeof text,
                  "Pair style equi: the %d atoms of a rank need %.4g GB on step %lld, and it may use %.4g (keyword "
                  "memory): %lld atoms per rank fit, about %lld on %d ranks",
                  num_atoms, beyond.bytes * 1e-9, static_cast<long long>(update->ntimestep), limit * 1e-9,
                  static_cast<long long>(fitting), static_cast<long long>(fitting) * comm->nprocs, comm->nprocs);
    end_all_ranks(error, world, text);
  } catch (const EvaluationError &fault) {
    char text[MESSAGE_SIZE], atoms[SUBJECT_SIZE] = "";
    const auto id = [&](int i) { return static_cast<long long>(atom->tag[i]); };
    if (fault.atom_i >= 0 && fault.atom_j >= 0)
      std::snprintf(atoms, sizeof atoms, ": IDs %lld and %lld at distance %.3g", id(fault.atom_i), id(fault.atom_j),
                    fault.distance);
    else if (fault.atom_i >= 0)
      std::snprintf(atoms, sizeof atoms, ": ID %lld", id(fault.atom_i));
    std::snprintf(text, sizeof text, "Pair style equi: %s%s on step %lld", fault.what(), atoms,
                  static_cast<long long>(update->ntimestep));
    end_all_ranks(error, world, text);
  } catch (...) {
    is_broken_ = true;
    char subject[SUBJECT_SIZE];
    std::snprintf(subject, sizeof subject, "Pair style equi on step %lld with %d atoms on this rank",
                  static_cast<long long>(update->ntimestep), atom->nlocal);
    local_try(error, world, subject, [] { throw; });
  }
}

void PairRunner::read_neighborhood() {
  atoms_.read_neighborhood(models_.type_species, neighborhood_, atom_row_);
}

void PairRunner::use_neighborhood(bool is_exchanged) {
  set_box();
  exchange().set_rows(&atom_row_, is_exchanged);
  evaluator_->set_neighborhood(neighborhood_);
}

void PairRunner::set_box() {
  neighborhood_.box.periodic = {domain->xperiodic != 0, domain->yperiodic != 0, domain->zperiodic != 0};
  const double *prd = domain->prd;
  neighborhood_.box.vectors = {{{prd[0], 0.0, 0.0}, {0.0, prd[1], 0.0}, {0.0, 0.0, prd[2]}}};
  if (!domain->triclinic) return;
  neighborhood_.box.vectors[1][0] = domain->xy;
  neighborhood_.box.vectors[2][0] = domain->xz;
  neighborhood_.box.vectors[2][1] = domain->yz;
}

const PeriodicBox &PairRunner::present_box() {
  set_box();
  return neighborhood_.box;
}

EvaluationRequest PairRunner::request_at_positions() {
  set_box();
  EvaluationRequest request;
  request.positions = atoms_.positions();
  request.image_shifts = image_shifts();
  return request;
}

bool PairRunner::has_field_of_charges() {
  if (!has_field_) has_field_ = models_.has_field_of_charges();
  return *has_field_;
}

const double (*PairRunner::image_shifts())[3] {
  if (!has_field_of_charges()) return nullptr;
  image_shifts_.assign(atoms_.num_all() + 1, {});
  for (int i = 0; i < atom->nlocal; i++) {
    const double zero[3] = {0.0, 0.0, 0.0};
    domain->unmap(zero, atom->image[i], image_shifts_[i].data());
  }
  return reinterpret_cast<const double(*)[3]>(image_shifts_.data());
}

EvaluationResult PairRunner::run(const StepRequest &wanted) {
  EvaluationRequest request = request_at_positions();
  // At least one entry: a rank without atoms takes part in all exchanges, and a null pointer means that no forces are
  // requested.
  const int size = atoms_.num_all() + 1;
  forces_.assign(size, {});
  request.forces = reinterpret_cast<double(*)[3]>(forces_.data());
  request.virial = wanted.virial;
  if (wanted.atom_energy) {
    energies_.assign(size, 0.0);
    request.atom_energy = energies_.data();
  }
  if (wanted.atom_virial) {
    virials_.assign(size, {});
    request.atom_virial = reinterpret_cast<double(*)[9]>(virials_.data());
  }
  const EvaluationResult result = evaluator_->evaluate(request, exchange());
  if (!force->newton_pair) send_ghosts_home(wanted.atom_virial);
  return result;
}

ResultRows PairRunner::results() const {
  ResultRows rows;
  rows.num_rows = atoms_.num_all();
  rows.num_energies = atom->nlocal;
  rows.forces = forces_.data()->data();
  rows.energies = energies_.data();
  rows.virials = virials_.data()->data();
  return rows;
}

double PairRunner::energy_by(Evaluator &evaluator) {
  EvaluationRequest request = request_at_positions();
  return evaluator.evaluate(request, exchange()).energy;
}

void PairRunner::log_exchange_and_memory(bool has_limit) const {
  const LammpsExchange::Traffic &traffic = exchange().traffic();
  const double bytes = sum(static_cast<double>(evaluator_->memory_bytes()) - memory_without_atoms_),
               num_atoms = sum(neighborhood_.num_receivers), most_bytes = largest(traffic.bytes),
               most_messages = largest(traffic.messages), moved = sum(traffic.bytes),
               beside_work = sum(traffic.bytes_beside_work), limit = has_limit ? options_.memory_limit : 0.0;
  std::string exchanged = "not needed";
  if (exchange().active())
    exchanged = fmt::format(
        "of remote features through LAMMPS's communication ({}), at most {:.3f} MB/step and {:.0f} "
        "messages/step from a rank, {:.1f} % of the bytes beside other work",
        exchange().describe(), most_bytes * 1e-6, most_messages, moved > 0.0 ? 100.0 * beside_work / moved : 0.0);
  log("Pair style equi: exchange {}\n  memory: {:.1f} MB per rank for tables and weights, {:.1f} MB for "
      "{:.0f} atoms, {:.1f} kB/atom, limit {}\n",
      exchanged, memory_without_atoms_ * 1e-6, bytes * 1e-6, num_atoms, bytes * 1e-3 / std::max(1.0, num_atoms),
      limit > 0.0 ? fmt::format("{:.4g} GB per rank", limit * 1e-9) : "none");
}

/* ----------------------------------------------------------------------
   newton off: LAMMPS leaves alone what belongs to ghosts, so that their owners get it here
------------------------------------------------------------------------- */

void PairRunner::send_ghosts_home(bool atom_virial) {
  const size_t num_rows = neighborhood_.num_rows;
  struct Array {
    double *of_atoms, *of_rows;
    int width;
  };
  row_values_.assign(num_rows * (FORCE_WIDTH + VIRIAL_WIDTH), 0.0);
  std::vector<Array> arrays = {{forces_.data()->data(), row_values_.data(), FORCE_WIDTH}};
  if (atom_virial)
    arrays.push_back({virials_.data()->data(), row_values_.data() + num_rows * FORCE_WIDTH, VIRIAL_WIDTH});
  FeaturePieces<double> pieces;
  for (const auto &[of_atoms, of_rows, width] : arrays) {
    pieces.push_back({of_rows, width});
    for (int g = atom->nlocal; g < atoms_.num_all(); g++)
      for (int k = 0; atom_row_[g] >= 0 && k < width; k++)
        of_rows[static_cast<size_t>(atom_row_[g]) * width + k] +=
            std::exchange(of_atoms[static_cast<size_t>(g) * width + k], 0.0);
  }
  exchange().reverse(pieces);
  for (const auto &[of_atoms, of_rows, width] : arrays)
    for (int i = 0; i < neighborhood_.num_receivers; i++)
      for (int k = 0; k < width; k++)
        of_atoms[static_cast<size_t>(neighborhood_.receiver[i]) * width + k] +=
            of_rows[static_cast<size_t>(i) * width + k];
}

void PairRunner::spread_to_copies(const double (*v)[3], double (*copies)[3]) {
  row_values_.assign(3 * (static_cast<size_t>(neighborhood_.num_rows) + 1), 0.0);
  const auto row = [this](int i) { return row_values_.data() + 3 * static_cast<size_t>(atom_row_[i]); };
  for (int i = 0; i < atom->nlocal; i++)
    if (atom_row_[i] >= 0) std::copy_n(v[i], 3, row(i));
  exchange().forward(FeaturePieces<double>{{row_values_.data(), 3}});
  for (int i = 0; i < atoms_.num_all(); i++)
    if (atom_row_[i] >= 0) std::copy_n(row(i), 3, copies[i]);
}

void PairRunner::sum_at_owners(int width, const std::function<void(int, double *)> &add,
                               const std::function<void(int, const double *)> &use) {
  row_values_.assign(width * (static_cast<size_t>(neighborhood_.num_rows) + 1), 0.0);
  const auto row = [&](int i) { return row_values_.data() + width * static_cast<size_t>(atom_row_[i]); };
  for (int i = 0; i < atoms_.num_all(); i++)
    if (atom_row_[i] >= 0) add(i, row(i));
  exchange().reverse(FeaturePieces<double>{{row_values_.data(), width}});
  for (int i = 0; i < atom->nlocal; i++) use(i, atom_row_[i] >= 0 ? row(i) : nullptr);
}

void PairRunner::sum_at_owners(const std::array<double, 3> *of_atoms, double factor, double (*of_owned)[3]) {
  sum_at_owners(
      3,
      [=](int i, double *row) {
        for (int k = 0; k < 3; k++) row[k] += of_atoms[i][k];
      },
      [=](int i, const double *row) {
        for (int k = 0; k < 3; k++) of_owned[i][k] = row ? factor * row[k] : 0.0;
      });
}

std::vector<std::vector<std::array<double, 3>>> PairRunner::forces_of_models() {
  const Committee &committee = *evaluator_->committee();
  const int num_models = committee.size();
  std::vector<std::vector<std::array<double, 3>>> forces(num_models);
  for (auto &of_model : forces) of_model.resize(atom->nlocal);
  const auto add = [&](int i, double *row) {
    for (int m = 0; m < num_models; m++)
      for (int k = 0; k < 3; k++) row[3 * m + k] += committee.forces(m)[i][k];
  };
  const auto use = [&](int i, const double *row) {
    for (int m = 0; row && m < num_models; m++) std::copy_n(row + 3 * m, 3, forces[m][i].data());
  };
  sum_at_owners(3 * num_models, add, use);
  return forces;
}

void PairRunner::multiply_hessian(Evaluator &directional, bool is_set, int count, const double (*const *v)[3],
                                  double (*const *hv)[3], bool same_positions) {
  if (!is_set) directional.set_neighborhood(neighborhood_);
  const size_t size = atoms_.num_all() + 1;
  for (int done = 0, batch; done < count; done += batch) {
    batch = same_positions ? std::min(count - done, directional.max_directions()) : 1;
    direction_.assign(size * batch, {});
    tangents_.assign(size * batch, {});
    const auto copies = reinterpret_cast<double(*)[3]>(direction_.data());
    for (int d = 0; d < batch; d++) spread_to_copies(v[done + d], copies + size * d);

    EvaluationRequest request = request_at_positions();
    request.direction = copies;
    request.force_tangents = reinterpret_cast<double(*)[3]>(tangents_.data());
    request.same_positions = same_positions;
    request.num_directions = batch;
    request.direction_distance = static_cast<int64_t>(size);
    directional.evaluate(request, exchange());
    same_positions = true;

    for (int d = 0; d < batch; d++) sum_at_owners(tangents_.data() + size * d, -1.0, hv[done + d]);
  }
}

PeriodicBox::Vectors PairRunner::strained_cell(const double strain[3][3]) {
  const auto cell = present_box().cell();
  PeriodicBox::Vectors direction{};
  for (int k = 0; k < 3; k++)
    for (int a = 0; a < 3; a++)
      for (int b = 0; b < 3; b++) direction[k][a] += strain[a][b] * cell[k][b];
  return direction;
}

EvaluationResult PairRunner::derive_by_strain(Evaluator &directional, bool is_set, const double strain[3][3],
                                              double (*force_tangents)[3]) {
  if (!is_set) directional.set_neighborhood(neighborhood_);
  direction_.assign(atoms_.num_all() + 1, {});
  tangents_.assign(atoms_.num_all() + 1, {});
  EvaluationRequest request = request_at_positions();
  for (int i = 0; i < atoms_.num_all(); i++)
    for (int a = 0; a < 3; a++)
      for (int b = 0; b < 3; b++) direction_[i][a] += strain[a][b] * request.positions[i][b];
  request.direction = reinterpret_cast<const double(*)[3]>(direction_.data());
  request.force_tangents = reinterpret_cast<double(*)[3]>(tangents_.data());
  request.virial = true;
  const auto cell_direction = strained_cell(strain);
  request.cell_direction = reinterpret_cast<const double(*)[3]>(cell_direction.data());
  const EvaluationResult result = directional.evaluate(request, exchange());
  sum_at_owners(tangents_.data(), 1.0, force_tangents);
  return result;
}

void PairRunner::energy_moments(Evaluator &directional, bool is_set, const double (*v)[3], double *energies,
                                double (*moments)[3]) {
  if (!is_set) directional.set_neighborhood(neighborhood_);
  const size_t size = atoms_.num_all() + 1;
  direction_.assign(size, {});
  tangents_.assign(size, {});
  std::vector<double> all_energies(size, 0.0);
  spread_to_copies(v, reinterpret_cast<double(*)[3]>(direction_.data()));
  EvaluationRequest request = request_at_positions();
  request.direction = reinterpret_cast<const double(*)[3]>(direction_.data());
  request.atom_energy = all_energies.data();
  request.energy_moments = reinterpret_cast<double(*)[3]>(tangents_.data());
  directional.evaluate(request, exchange());
  std::copy_n(all_energies.data(), atom->nlocal, energies);
  for (int i = 0; i < atom->nlocal; i++) std::copy_n(tangents_[i].data(), 3, moments[i]);
}

}    // namespace equi

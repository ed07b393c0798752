// SPDX-License-Identifier: MIT
// Evaluates the members of a committee and averages their results.
#include "src/evaluation/committee.h"

#include "src/base/owned_memory.h"

#include <algorithm>
#include <exception>

namespace equi {

namespace {

// A sum over the members, set to zero. It has at least one entry, because a null pointer means that it is not
// requested.
template <class Entry>
Entry *cleared(std::vector<Entry> &sums, int64_t size) {
  sums.assign(std::max<int64_t>(size, 1), Entry{});
  return sums.data();
}

// Adds the mean of the members to the caller's numbers.
template <int width>
void add_mean(const std::array<double, width> *sums, int64_t size, int num_members, double (*to)[width]) {
  for (int64_t a = 0; a < size; a++)
    for (int k = 0; k < width; k++) to[a][k] += sums[a][k] / num_members;
}

}    // namespace

Committee::Committee(std::vector<std::unique_ptr<Evaluator>> members)
    : members_(std::move(members)), energies_(members_.size()), forces_(members_.size()) {
  std::vector<const Evaluator *> lenders;
  for (const auto &member : members_)
    if (std::none_of(lenders.begin(), lenders.end(), [&](const Evaluator *l) { return member->borrow_edges(*l); }))
      lenders.push_back(member.get());
}

std::string Committee::describe() const {
  std::string text;
  for (int m = 0; m < size(); m++)
    text += "  member " + std::to_string(m + 1) + " of " + std::to_string(size()) + "\n" + members_[m]->describe();
  return text;
}

std::string Committee::describe_system() const {
  std::string text;
  for (const auto &member : members_) text += member->describe_system();
  return text;
}

void Committee::set_neighborhood(const Neighborhood &n) {
  num_atoms_ = n.num_atoms;
  for (const auto &member : members_) member->set_neighborhood(n);
}

EvaluationResult Committee::evaluate_members(bool has_forces,
                                             const std::function<EvaluationResult(int)> &evaluate_member) {
  EvaluationResult mean;
  std::exception_ptr fault;
  for (int m = 0; m < size(); m++) {
    try {
      const EvaluationResult result = evaluate_member(m);
      if (has_forces) energies_[m] = result.energy;
      mean.energy += result.energy / size();
      mean.energy_tangent += result.energy_tangent / size();
      for (int k = 0; k < 6; k++) {
        mean.virial[k] += result.virial[k] / size();
        mean.virial_tangent[k] += result.virial_tangent[k] / size();
      }
      mean.num_edges = std::max(mean.num_edges, result.num_edges);
    } catch (const EvaluationError &) {
      if (!fault) fault = std::current_exception();
    }
  }
  if (fault) std::rethrow_exception(fault);
  return mean;
}

EvaluationResult Committee::evaluate(const EvaluationRequest &request, GhostExchange &exchange) {
  const int64_t num_tangents = (request.num_directions - 1) * request.direction_distance + num_atoms_;
  EvaluationRequest own = request;
  if (request.atom_energy) own.atom_energy = cleared(atom_energy_, num_atoms_);
  if (request.atom_virial) own.atom_virial = reinterpret_cast<double(*)[9]>(cleared(atom_virial_, num_atoms_));
  if (request.force_tangents)
    own.force_tangents = reinterpret_cast<double(*)[3]>(cleared(force_tangents_, num_tangents));
  if (request.energy_moments) own.energy_moments = reinterpret_cast<double(*)[3]>(cleared(energy_moments_, num_atoms_));

  const EvaluationResult mean = evaluate_members(request.forces, [&](int m) {
    if (request.forces) own.forces = reinterpret_cast<double(*)[3]>(cleared(forces_[m], num_atoms_));
    return members_[m]->evaluate(own, exchange);
  });

  for (int a = 0; request.forces && a < num_atoms_; a++)
    for (int k = 0; k < 3; k++) {
      double sum = 0.0;
      for (const auto &forces : forces_) sum += forces[a][k];
      request.forces[a][k] += sum / size();
    }
  for (int a = 0; request.atom_energy && a < num_atoms_; a++) request.atom_energy[a] += atom_energy_[a] / size();
  if (request.atom_virial) add_mean<9>(atom_virial_.data(), num_atoms_, size(), request.atom_virial);
  if (request.force_tangents) add_mean<3>(force_tangents_.data(), num_tangents, size(), request.force_tangents);
  if (request.energy_moments) add_mean<3>(energy_moments_.data(), num_atoms_, size(), request.energy_moments);
  return mean;
}

int Committee::max_directions() const {
  int most = members_.front()->max_directions();
  for (const auto &member : members_) most = std::min(most, member->max_directions());
  return most;
}

std::size_t Committee::exchange_bytes_per_row() const {
  std::size_t widest = 0;
  for (const auto &member : members_) widest = std::max(widest, member->exchange_bytes_per_row());
  return widest;
}

std::size_t Committee::memory_bytes() const {
  std::size_t bytes = bytes_of(forces_, energy_moments_, atom_energy_, atom_virial_, force_tangents_);
  for (const auto &member : members_) bytes += member->memory_bytes();
  return bytes;
}

}    // namespace equi

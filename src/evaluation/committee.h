// SPDX-License-Identifier: MIT
// Several models as one: the means of their energies, forces, virials and second derivatives.
#ifndef EQUI_COMMITTEE_H
#define EQUI_COMMITTEE_H

#include "src/evaluation/evaluator.h"

#include <array>
#include <functional>
#include <memory>
#include <vector>

namespace equi {

class Committee : public Evaluator {
 public:
  // Members share their edges if that is possible (Evaluator::borrow_edges). There must be at least one member.
  explicit Committee(std::vector<std::unique_ptr<Evaluator>> members);

  std::string describe() const override;
  std::string describe_system() const override;
  void set_neighborhood(const Neighborhood &n) override;
  EvaluationResult evaluate(const EvaluationRequest &request, GhostExchange &exchange) override;
  int max_directions() const override;
  std::size_t exchange_bytes_per_row() const override;
  std::size_t memory_bytes() const override;
  const Committee *committee() const override { return this; }

  int size() const { return static_cast<int>(members_.size()); }
  Evaluator &member(int m) const { return *members_[m]; }
  // Calls evaluate_member(m) for one member after another, and returns the means. An EvaluationError of a member is
  // thrown after the last one, because other ranks wait for the exchanges of all. has_forces: whether energy() gets
  // the results.
  EvaluationResult evaluate_members(bool has_forces, const std::function<EvaluationResult(int m)> &evaluate_member);

  // Results of each member in the last evaluation with forces.
  double energy(int member) const { return energies_[member]; }    // eV, sum over this rank's receivers
  // [atoms] eV/Angstrom, ghosts included: contributions of this rank's receivers. Not of evaluate_members().
  const std::array<double, 3> *forces(int member) const { return forces_[member].data(); }

 private:
  std::vector<std::unique_ptr<Evaluator>> members_;
  int num_atoms_ = 0;
  std::vector<double> energies_;                              // [members]
  std::vector<std::vector<std::array<double, 3>>> forces_;    // [members][atoms]
  // Sums over the members.
  std::vector<std::array<double, 3>> energy_moments_;    // [atoms]
  std::vector<double> atom_energy_;                      // [atoms]
  std::vector<std::array<double, 9>> atom_virial_;       // [atoms]
  std::vector<std::array<double, 3>> force_tangents_;    // as in EvaluationRequest
};

}    // namespace equi

#endif

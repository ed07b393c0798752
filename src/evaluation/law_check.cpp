// SPDX-License-Identifier: MIT
// Checks laws that hold for the energy and the forces of every system.
#include "src/evaluation/law_check.h"

#include "src/evaluation/self_check.h"

#include <algorithm>
#include <cmath>

namespace equi {

namespace {

using Vectors = std::vector<std::array<double, 3>>;

struct Answer {
  double energy;    // over all ranks
  Vectors forces;
};

Answer answer_of(Evaluator &evaluator, const Vectors &positions, GhostExchange &exchange, const LawSystem &system) {
  Answer answer{0.0, Vectors(positions.size(), {0.0, 0.0, 0.0})};
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(positions.data());
  request.forces = reinterpret_cast<double(*)[3]>(answer.forces.data());
  answer.energy = system.sum(evaluator.evaluate(request, exchange).energy);
  if (system.sum_at_owners) system.sum_at_owners(answer.forces);
  return answer;
}

double largest_component(const Vectors &a, const LawSystem &system, const Vectors *b = nullptr) {
  double most = 0.0, sum = 0.0;
  for (size_t i = 0; i < a.size(); i++)
    for (int k = 0; k < 3; k++) {
      const double value = std::fabs(a[i][k] - (b ? (*b)[i][k] : 0.0));
      most = std::max(most, value);
      sum += value;
    }
  // max() loses NaN, but a sum does not.
  const double broken = system.sum(std::isfinite(sum) ? 0.0 : 1.0);
  return broken > 0.0 ? NAN : system.largest(most);
}

// The axis is no axis of a crystal, and no crystal has a symmetry with this angle.
constexpr double AXIS[3] = {2.0 / 7.0, 3.0 / 7.0, 6.0 / 7.0}, ANGLE = 1.1;

std::array<double, 3> turned(const std::array<double, 3> &v) {
  const double c = std::cos(ANGLE), s = std::sin(ANGLE);
  const double along = AXIS[0] * v[0] + AXIS[1] * v[1] + AXIS[2] * v[2];
  std::array<double, 3> result;
  for (int k = 0; k < 3; k++) {
    const int a = (k + 1) % 3, b = (k + 2) % 3;
    result[k] = c * v[k] + s * (AXIS[a] * v[b] - AXIS[b] * v[a]) + (1.0 - c) * along * AXIS[k];
  }
  return result;
}

Vectors turned(const Vectors &vectors) {
  Vectors result;
  for (const auto &v : vectors) result.push_back(turned(v));
  return result;
}

// Reverses the neighbors of each atom, and also the atoms if all rows are owned.
Neighborhood reversed(const Neighborhood &n, bool atoms_too) {
  Neighborhood result = n;
  const int last = n.num_receivers - 1;
  const auto other = [&](int i) { return atoms_too ? last - i : i; };
  result.first.assign(1, 0);
  result.sender_atom.clear();
  result.sender_row.clear();
  for (int i = 0; i <= last; i++) {
    result.receiver[i] = n.receiver[other(i)];
    for (int64_t c = n.first[other(i) + 1] - 1; c >= n.first[other(i)]; c--) {
      result.sender_atom.push_back(n.sender_atom[c]);
      result.sender_row.push_back(other(n.sender_row[c]));
    }
    result.first.push_back(static_cast<int64_t>(result.sender_atom.size()));
  }
  for (int r = 0; atoms_too && r <= last; r++) result.row_species[r] = n.row_species[other(r)];
  return result;
}

LawResult check_derivative(Evaluator &evaluator, Evaluator &plain, const LawSystem &system, const Answer &answer,
                           GhostExchange &exchange, const EvaluatorOptions &options, double num_atoms, double scale) {
  double along = 0.0;
  for (size_t i = 0; i < system.direction.size(); i++)
    for (int k = 0; k < 3; k++) along -= answer.forces[i][k] * system.direction[i][k];
  along = system.sum(along);
  const auto result = [&](Evaluator &of_energy, const DifferenceStep &step) {
    const double numeric = difference_quotient(step.length, [&](double shift) {
      Vectors moved = system.positions;
      for (size_t i = 0; i < moved.size(); i++)
        for (int k = 0; k < 3; k++) moved[i][k] += shift * system.direction[i][k];
      return answer_of(of_energy, moved, exchange, system).energy;
    });
    return LawResult{"difference quotient", "eV/Angstrom", std::fabs(numeric - along) / std::sqrt(num_atoms),
                     (step.noise() + stencil_error(options.precision)) * scale};
  };
  const LawResult found = result(evaluator, coarse_step(options.precision));
  return found.passed() ? found : result(plain, FINE_STEP);
}

}    // namespace

std::vector<LawResult> check_laws(Evaluator &evaluator, Evaluator &plain, const LawSystem &system,
                                  GhostExchange &exchange, const EvaluatorOptions &options) {
  const double num_atoms = std::max(1.0, system.sum(system.neighborhood->num_receivers));
  evaluator.set_neighborhood(*system.neighborhood);
  plain.set_neighborhood(*system.neighborhood);
  const Answer expected = answer_of(plain, system.positions, exchange, system);
  const Answer answer = answer_of(evaluator, system.positions, exchange, system);
  const double scale = std::max(1.0, largest_component(expected.forces, system));

  std::vector<LawResult> results;
  const auto compare = [&](const std::string &name, const Answer &found, const Answer &wanted,
                           const CheckTolerance &bars) {
    results.push_back(
        {name + ", energy", "eV/atom", std::fabs(found.energy - wanted.energy) / num_atoms, bars.energy * scale});
    results.push_back({name + ", forces", "eV/Angstrom", largest_component(found.forces, system, &wanted.forces),
                       bars.force * scale});
  };
  compare("plain loops", answer, expected, check_tolerance(options));

  // Tables depend only on distances, so the remaining difference is rounding, as with exact radial functions.
  EvaluatorOptions exact = options;
  exact.radial_exact = true;
  const CheckTolerance rounding = check_tolerance(exact);
  const Vectors turned_positions = turned(system.positions);
  Neighborhood with_turned_cell = *system.neighborhood;
  for (auto &vector : with_turned_cell.box.vectors) vector = turned(vector);
  evaluator.set_neighborhood(with_turned_cell);
  plain.set_neighborhood(with_turned_cell);
  compare("rotation", answer_of(evaluator, turned_positions, exchange, system),
          system.is_invariant ? Answer{answer.energy, turned(answer.forces)}
                              : answer_of(plain, turned_positions, exchange, system),
          system.is_invariant ? rounding : check_tolerance(options));

  const Neighborhood other = reversed(*system.neighborhood, !exchange.active());
  evaluator.set_neighborhood(other);
  compare("permutation", answer_of(evaluator, system.positions, exchange, system), answer, rounding);
  evaluator.set_neighborhood(*system.neighborhood);
  plain.set_neighborhood(*system.neighborhood);

  if (!system.has_direct_forces)
    results.push_back(check_derivative(evaluator, plain, system, answer, exchange, options, num_atoms, scale));
  answer_of(evaluator, system.positions, exchange, system);    // the last evaluation is that of the system
  return results;
}

}    // namespace equi

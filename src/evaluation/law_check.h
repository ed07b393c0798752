// SPDX-License-Identifier: MIT
// Laws that hold for the energy and the forces of every system, checked on a given system.
#ifndef EQUI_LAW_CHECK_H
#define EQUI_LAW_CHECK_H

#include "src/evaluation/evaluator.h"

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace equi {

// The steps of differences of the energy, Angstrom. The first step is for energies as computed, where float32 adds
// noise. If a pair crosses the cutoff within it, or an activation its kink, second derivatives jump. The difference is
// then wrong by their jump times the step. So a failure is checked again with a step that hardly any pair crosses, with
// energies in float64.
struct DifferenceStep {
  double length;      // Angstrom
  double rounding;    // relative rounding error of an energy
  // The error that rounding adds to the quotient, for the energy of an atom.
  constexpr double noise() const { return rounding * 10.0 / length; }
};
constexpr DifferenceStep coarse_step(Precision precision) {
  if (precision == Precision::double_) return {1e-3, 1e-15};
  return {1e-2, precision == Precision::tf32 ? 1e-5 : 1e-7};
}
constexpr DifferenceStep FINE_STEP{1e-5, 1e-15};
// The other errors of quotients, those of the stencil and of tables, eV/Angstrom.
constexpr double stencil_error(Precision precision) {
  return precision == Precision::double_ ? 1e-6 : precision == Precision::tf32 ? 1e-2 : 2e-4;
}
// The derivative by x at 0 of energy(x), of fourth order.
template <class Energy>
double difference_quotient(double step, const Energy &energy) {
  constexpr double SHIFT[4] = {-2.0, -1.0, 1.0, 2.0}, WEIGHT[4] = {1.0, -8.0, 8.0, -1.0};
  double sum = 0.0;
  for (int s = 0; s < 4; s++) sum += WEIGHT[s] * energy(SHIFT[s] * step) / (12.0 * step);
  return sum;
}

// The part of a system that this rank knows. All arrays are [atoms], ghosts included.
struct LawSystem {
  const Neighborhood *neighborhood;
  std::vector<std::array<double, 3>> positions;
  std::vector<std::array<double, 3>> direction;    // direction of the derivative, equal for all copies of an atom
  // Reductions over all ranks. On one rank they return their argument.
  std::function<double(double)> sum, largest;
  // Replaces forces on copies of atoms by their sums at the owned atoms, over all ranks, and by zeros elsewhere. The
  // order of neighbors decides which copy of a remote atom receives a force. Empty: nothing to sum.
  std::function<void(std::vector<std::array<double, 3>> &)> sum_at_owners;
  bool is_invariant = true;          // whether the model is invariant
  bool has_direct_forces = false;    // whether the model has direct forces
};

struct LawResult {
  std::string name;
  std::string unit;
  double measured, allowed;
  bool passed() const { return measured <= allowed; }    // false for NaN
};

// Compares the evaluator with `plain`, another evaluation of the same model (plain_options()): energy per atom and
// forces. Then it checks the evaluator's own laws:
//  - The atoms are turned together about a point; if the model is not invariant, the result is compared with plain's.
//  - The order of neighbors is reversed, and that of the atoms if no rank needs features of others.
//  - Unless forces are direct, a central difference of the energy along the direction is compared with the forces. If
// the evaluator seems to fail, the energy of plain is used.
// Allowed differences follow the precision and grow with the largest force where that exceeds 1 eV/Angstrom.
// Collective. Evaluators have the system's neighborhood afterwards.
std::vector<LawResult> check_laws(Evaluator &evaluator, Evaluator &plain, const LawSystem &system,
                                  GhostExchange &exchange, const EvaluatorOptions &options);

}    // namespace equi

#endif

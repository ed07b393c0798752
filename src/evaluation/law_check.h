// SPDX-License-Identifier: MIT
// Laws that hold for the energy and the forces of every system, checked on a system at hand.
#ifndef EQUI_LAW_CHECK_H
#define EQUI_LAW_CHECK_H

#include "src/evaluation/evaluator.h"

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace equi {

// The steps of differences of the energy, Angstrom. The first is for energies as they are, of which those of float32
// carry noise. Where a pair crosses the cutoff within it, or an activation its kink, second derivatives jump, and the
// difference errs by their jump times the step. So what fails is looked at once more with a step that hardly any pair
// crosses, by energies in float64.
struct DifferenceStep {
  double length;      // Angstrom
  double rounding;    // of an energy, relative
  // What rounding does to the quotient, for an energy of an atom.
  constexpr double noise() const { return rounding * 10.0 / length; }
};
constexpr DifferenceStep coarse_step(Precision precision) {
  return precision == Precision::double_ ? DifferenceStep{1e-3, 1e-15} : DifferenceStep{1e-2, 1e-7};
}
constexpr DifferenceStep FINE_STEP{1e-5, 1e-15};
// What else quotients may err by: the stencil's own error and that of tables, eV/Angstrom.
constexpr double stencil_error(Precision precision) {
  return precision == Precision::double_ ? 1e-6 : 2e-4;
}
// The derivative by x at 0 of energy(x), of fourth order.
template <class Energy>
double difference_quotient(double step, const Energy &energy) {
  constexpr double SHIFT[4] = {-2.0, -1.0, 1.0, 2.0}, WEIGHT[4] = {1.0, -8.0, 8.0, -1.0};
  double sum = 0.0;
  for (int s = 0; s < 4; s++) sum += WEIGHT[s] * energy(SHIFT[s] * step) / (12.0 * step);
  return sum;
}

// What this rank knows of a system. All arrays are [atoms], ghosts included.
struct LawSystem {
  const Neighborhood *neighborhood;
  std::vector<std::array<double, 3>> positions;
  std::vector<std::array<double, 3>> direction;    // of the differentiation, equal for all copies of an atom
  // Over all ranks. On one rank they return what they get.
  std::function<double(double)> sum, largest;
  // Replaces forces on copies of atoms by their sums at the owned atoms, over all ranks, and zeros at the others: to
  // which copy of an atom of another rank a force goes depends on the order of neighbors. Empty: nothing to sum.
  std::function<void(std::vector<std::array<double, 3>> &)> sum_at_owners;
  bool is_invariant = true;          // of the model
  bool has_direct_forces = false;    // of the model
};

struct LawResult {
  std::string name;
  std::string unit;
  double measured, allowed;
  bool passed() const { return measured <= allowed; }    // NaN is no pass
};

// The evaluator against plain, which is another evaluation of the same model (plain_options()): energy per atom
// and forces. Then against itself: the atoms turned together about a point (against plain, where the model is not
// invariant), their order and that of their neighbors reversed (of atoms where no rank needs features of others), and a
// central difference of the energy along the direction against the forces, unless these are direct; of plain's energy
// where that of the evaluator seems to fail. Bars follow the
// precision and grow with the largest force where that exceeds 1 eV/Angstrom. Collective. Evaluators know the system's
// neighborhood afterwards.
std::vector<LawResult> check_laws(Evaluator &evaluator, Evaluator &plain, const LawSystem &system,
                                  GhostExchange &exchange, const EvaluatorOptions &options);

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The laws that `check yes` tests, for evaluators that obey them and for others that do not.
#include "src/evaluation/law_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

using namespace equi;

namespace {

// A pair of atoms whose repulsion begins at a distance where its second derivative jumps.
class Pair : public Evaluator {
 public:
  explicit Pair(double share_of_forces) : share_(share_of_forces) {}
  std::string describe() const override { return ""; }
  void set_neighborhood(const Neighborhood &) override {}
  std::size_t exchange_bytes_per_row() const override { return 0; }
  std::size_t memory_bytes() const override { return 0; }
  EvaluationResult evaluate(const EvaluationRequest &request, GhostExchange &) override {
    constexpr double STRENGTH = 10.0;    // eV/Angstrom^2
    double vector[3], square = 0.0;
    for (int k = 0; k < 3; k++) {
      vector[k] = request.positions[1][k] - request.positions[0][k];
      square += vector[k] * vector[k];
    }
    const double distance = std::sqrt(square), inside = std::max(0.0, BEGIN - distance);
    for (int k = 0; k < 3; k++) {
      const double force = share_ * STRENGTH * (inside + FAR_FORCE) * vector[k] / distance;
      request.forces[0][k] -= force;
      request.forces[1][k] += force;
    }
    EvaluationResult result;
    result.energy = STRENGTH * (0.5 * inside * inside - FAR_FORCE * distance);
    return result;
  }
  static constexpr double BEGIN = 3.0;    // Angstrom

 private:
  static constexpr double FAR_FORCE = 0.1;
  double share_;
};

bool passes_differences(double share_of_forces, double distance, Precision precision) {
  Neighborhood n;
  n.num_atoms = n.num_receivers = n.num_interior = n.num_rows = 2;
  n.receiver = {0, 1};
  n.row_species = {0, 0};
  n.first = {0, 1, 2};
  n.sender_atom = n.sender_row = {1, 0};
  const auto alone = [](double number) { return number; };
  const LawSystem system{
      &n, {{0.1, 0.2, 0.3}, {0.1 + distance, 0.2, 0.3}}, {{-0.5, 0.3, 0.1}, {0.6, 0.2, -0.2}}, alone, alone, {}};
  EvaluatorOptions options;
  options.precision = precision;
  Pair evaluator(share_of_forces), plain(share_of_forces);
  NoExchange exchange;
  for (const LawResult &r : check_laws(evaluator, plain, system, exchange, options)) {
    if (r.name == "difference quotient") return r.passed();
    EXPECT_TRUE(r.passed()) << r.name;
  }
  ADD_FAILURE() << "no difference quotient";
  return false;
}

TEST(LawCheck, forces_that_are_not_the_gradient_fail_and_a_pair_at_the_cutoff_does_not) {
  for (const Precision precision : {Precision::double_, Precision::mixed}) {
    const double step = coarse_step(precision).length, error = precision == Precision::double_ ? 1e-5 : 1e-3;
    for (const double distance : {2.5, 3.5, Pair::BEGIN - 0.1 * step, Pair::BEGIN + 0.1 * step}) {
      EXPECT_TRUE(passes_differences(1.0, distance, precision)) << distance;
      EXPECT_FALSE(passes_differences(1.0 + error, distance, precision)) << distance;
    }
  }
}

}    // namespace

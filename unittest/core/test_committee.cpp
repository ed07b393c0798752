// SPDX-License-Identifier: MIT
// Committees of evaluators that check their requests and return numbers that the test knows.
#include "src/evaluation/committee.h"

#include <gtest/gtest.h>

using namespace equi;

namespace {

constexpr int NUM_ATOMS = 3;

// Counts the exchanges in which this rank takes part.
struct CountedExchange : NoExchange {
  int count = 0;
  void forward(const FeaturePieces<double> &) override { count++; }
};

// Each of its numbers is `value`, which needs two exchanges.
class Constant : public Evaluator {
 public:
  explicit Constant(double value, bool lends = true) : value_(value), lends_(lends) {}
  std::string describe() const override { return "value " + std::to_string(value_) + "\n"; }
  void set_neighborhood(const Neighborhood &) override {}
  int max_directions() const override { return 2 + static_cast<int>(value_); }
  std::size_t exchange_bytes_per_row() const override { return static_cast<std::size_t>(8 * value_); }
  std::size_t memory_bytes() const override { return 100; }
  bool borrow_edges(const Evaluator &other) override {
    const auto &lender = dynamic_cast<const Constant &>(other);
    if (lender.lends_) lender_ = &lender;
    return lender.lends_;
  }
  EvaluationResult evaluate(const EvaluationRequest &request, GhostExchange &exchange) override {
    for (int k = 0; k < 2; k++) exchange.forward(FeaturePieces<double>{});
    if (fails) throw EvaluationError("member fails", static_cast<int>(value_), -1, 0.0);
    const auto add = [&](double *numbers, int64_t count) {
      for (int64_t k = 0; numbers && k < count; k++) numbers[k] += value_;
    };
    add(request.atom_energy, NUM_ATOMS);
    add(request.forces ? request.forces[0] : nullptr, 3 * NUM_ATOMS);
    add(request.atom_virial ? request.atom_virial[0] : nullptr, 9 * NUM_ATOMS);
    for (int d = 0; request.force_tangents && d < request.num_directions; d++)
      add(request.along(d).force_tangents[0], 3 * NUM_ATOMS);
    EvaluationResult result;
    result.energy = result.energy_tangent = value_;
    for (double &component : result.virial) component = value_;
    result.num_edges = 7;
    return result;
  }

  bool fails = false;
  const Constant *lender() const { return lender_; }

 private:
  double value_;
  bool lends_;
  const Constant *lender_ = nullptr;
};

struct ThreeMembers : ::testing::Test {
  ThreeMembers() {
    std::vector<std::unique_ptr<Evaluator>> evaluators;
    for (double value : {1.0, 2.0, 6.0}) {    // their mean is 3
      evaluators.push_back(std::make_unique<Constant>(value, value == 1.0));
      members.push_back(static_cast<Constant *>(evaluators.back().get()));
    }
    committee = std::make_unique<Committee>(std::move(evaluators));
    Neighborhood n;
    n.num_atoms = NUM_ATOMS;
    committee->set_neighborhood(n);
  }
  std::vector<Constant *> members;
  std::unique_ptr<Committee> committee;
  CountedExchange exchange;
};

TEST_F(ThreeMembers, GiveTheirMean) {
  constexpr int DISTANCE = NUM_ATOMS + 2;    // between directions, with the caller's own numbers
  std::vector<double> energy(NUM_ATOMS, 10.0), force(3 * NUM_ATOMS, 20.0), virial(9 * NUM_ATOMS, 30.0);
  std::vector<double> tangents(3 * 2 * DISTANCE, 40.0);
  EvaluationRequest request;
  request.atom_energy = energy.data();
  request.forces = reinterpret_cast<double(*)[3]>(force.data());
  request.atom_virial = reinterpret_cast<double(*)[9]>(virial.data());
  request.force_tangents = reinterpret_cast<double(*)[3]>(tangents.data());
  request.num_directions = 2;
  request.direction_distance = DISTANCE;
  const EvaluationResult result = committee->evaluate(request, exchange);
  EXPECT_DOUBLE_EQ(result.energy, 3.0);
  EXPECT_DOUBLE_EQ(result.energy_tangent, 3.0);
  for (double component : result.virial) EXPECT_DOUBLE_EQ(component, 3.0);
  EXPECT_EQ(result.num_edges, 7);
  for (double e : energy) EXPECT_DOUBLE_EQ(e, 13.0);
  for (double f : force) EXPECT_DOUBLE_EQ(f, 23.0);
  for (double v : virial) EXPECT_DOUBLE_EQ(v, 33.0);
  for (int k = 0; k < 3 * 2 * DISTANCE; k++)
    EXPECT_DOUBLE_EQ(tangents[k], k % (3 * DISTANCE) < 3 * NUM_ATOMS ? 43.0 : 40.0) << k;
  EXPECT_EQ(exchange.count, 6);
  EXPECT_DOUBLE_EQ(committee->energy(2), 6.0);
  EXPECT_DOUBLE_EQ(committee->forces(1)[2][1], 2.0);
}

TEST_F(ThreeMembers, KeepForcesAndEnergiesThroughAnEvaluationWithoutForces) {
  std::vector<double> force(3 * NUM_ATOMS);
  EvaluationRequest request;
  request.forces = reinterpret_cast<double(*)[3]>(force.data());
  committee->evaluate(request, exchange);
  EXPECT_DOUBLE_EQ(committee->evaluate({}, exchange).energy, 3.0);
  EXPECT_DOUBLE_EQ(committee->energy(1), 2.0);
  EXPECT_DOUBLE_EQ(committee->forces(0)[0][0], 1.0);
}

TEST_F(ThreeMembers, TakePartInAllExchangesWhereOneFails) {
  members[0]->fails = members[2]->fails = true;
  try {
    committee->evaluate({}, exchange);
    FAIL() << "the fault is lost";
  } catch (const EvaluationError &fault) {
    EXPECT_EQ(fault.atom_i, 1);    // of the first atom
  }
  EXPECT_EQ(exchange.count, 6);
}

TEST_F(ThreeMembers, HaveTheWidestRowTheFewestDirectionsAndTheMemoryOfAll) {
  EXPECT_EQ(committee->exchange_bytes_per_row(), 48u);
  EXPECT_EQ(committee->max_directions(), 3);
  EXPECT_GE(committee->memory_bytes(), 300u);
  EXPECT_NE(committee->describe().find("member 3 of 3\nvalue 6"), std::string::npos);
}

TEST_F(ThreeMembers, BorrowEdgesOfThoseThatHaveTheirOwn) {
  EXPECT_EQ(members[0]->lender(), nullptr);
  EXPECT_EQ(members[1]->lender(), members[0]);
  EXPECT_EQ(members[2]->lender(), members[0]);
}

}    // namespace

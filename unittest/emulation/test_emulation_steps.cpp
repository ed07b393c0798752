// SPDX-License-Identifier: MIT
// What a step of DeviceEvaluation asks of a device: a replayed one launches a graph and waits at its ends, nothing
// else.
#include "kokkos/evaluation/device_evaluation.h"
#include "unittest/support/evaluator_laws.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

TEST(EmulatedSteps, a_replay_is_one_graph_between_two_waits) {
  const Model m = make_tiny_model({}).model();
  const ImageStructure s = random_structure(2, 3, 4).images(1.2 * m.cutoff);
  DeviceEvaluation<float, double> evaluator(m, {});
  DeviceNeighborhood neighborhood;
  copy_neighborhood(DeviceExec(), s.neighborhood, neighborhood);
  DeviceEvaluator &on_device = evaluator;
  on_device.set_neighborhood(neighborhood);
  DeviceBuffer<double> positions;
  std::vector<double> numbers;
  for (const Vector3 &p : s.positions) numbers.insert(numbers.end(), p.begin(), p.end());
  assign(DeviceExec(), positions, numbers);
  NoExchange none;
  std::vector<double> energies;
  const auto evaluate = [&] {
    emulation::counts() = {};
    energies.push_back(on_device.evaluate(DeviceRequest{positions.data(), nullptr, true, true, false}, none).energy);
    return emulation::counts();
  };

  const emulation::Counts plain = evaluate();
  EXPECT_GT(plain.launches, 20);
  EXPECT_GT(plain.allocations, 0);
  EXPECT_EQ(plain.captures, 0);

  const emulation::Counts recorded = evaluate();
  EXPECT_EQ(recorded.captures, 1);
  EXPECT_EQ(recorded.launches, plain.launches);
  EXPECT_EQ(recorded.allocations, 0);

  for (const emulation::Counts &replayed : {evaluate(), evaluate()}) {
    EXPECT_EQ(replayed.replays, 1);
    EXPECT_EQ(replayed.launches, 0);
    EXPECT_EQ(replayed.captures, 0);
    EXPECT_EQ(replayed.allocations, 0);
    EXPECT_EQ(replayed.fences, 2);
    EXPECT_GT(replayed.shuffles, 0);
  }
  for (const double energy : energies) EXPECT_EQ(energy, energies[0]);
}

}    // namespace

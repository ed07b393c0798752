// SPDX-License-Identifier: MIT
// Tests of the process as a whole: memory of a warm step, and results with other numbers of threads.
#include "kokkos/plan/evaluation_plan.h"
#include "kokkos/runtime/buffer.h"
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/allocation_counter.h"
#include "unittest/support/child_process.h"
#include "unittest/support/listed_memory.h"
#include "unittest/support/make_kokkos.h"
#include "unittest/support/model_cases.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace {

using namespace equi;
using namespace equi::testing;

// Allocations of the third step of the same structure.
long allocations_when_warm(const Model &model, int side, bool deterministic) {
  const ImageStructure images = random_structure(model.num_species(), 5, side).images(model.reach());
  // With tables: `radial exact` runs the radial network for checks and may allocate.
  const auto evaluator = make_kokkos(model, {Precision::mixed, false, deterministic});
  evaluator->set_neighborhood(images.neighborhood);
  std::vector<Vector3> forces(images.positions.size());
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
  request.forces = reinterpret_cast<double(*)[3]>(forces.data());
  request.virial = true;
  NoExchange none;
  for (int warm = 0; warm < 2; ++warm) evaluator->evaluate(request, none);
  const long before = num_allocations();
  evaluator->evaluate(request, none);
  return num_allocations() - before;
}

// Kokkos makes one allocation for each kernel that it starts. Allocations of ours would occur per tile, per layer or
// per atom, and would grow with the structure. Kernels are those of edges and energies, those of far edges, and a few
// for each stage.
TEST(HostEvaluationProcess, a_warm_step_allocates_nothing_but_what_kokkos_needs_to_start_kernels) {
  constexpr long MAX_KERNELS = 12, MAX_KERNELS_OF_FAR_EDGES = 5, MAX_KERNELS_OF_STAGE = 5;
  for (const TinyCase &c : all_cases()) {
    const Model model = c.model();
    const long of_edges = MAX_KERNELS + (far_cutoff(model.layers) > 0.0 ? MAX_KERNELS_OF_FAR_EDGES : 0);
    for (const bool deterministic : {false, true}) {
      const long small = allocations_when_warm(model, 4, deterministic),
                 stages = make_evaluation_plan(model, deterministic).stages.size();
      EXPECT_LE(small, of_edges + MAX_KERNELS_OF_STAGE * stages) << c.name;
      EXPECT_EQ(allocations_when_warm(model, 6, deterministic), small)
          << c.name << (deterministic ? ", deterministic" : "");
    }
  }
}

TEST(HostEvaluationProcess, allocations_are_counted) {
  const long before = num_allocations();
  Buffer<double> buffer;
  buffer.reserve(10);
  EXPECT_EQ(num_allocations() - before, 1);
}

// Aligned arrays must be listed, and vectors that grow with the atoms. Others are small, or constants.
TEST(HostEvaluationProcess, all_arrays_are_listed) {
  constexpr std::size_t LARGE = 512;
  int number = 0;
  for (const auto &cases : {all_cases(), ewald_cases(), potential_cases()})
    for (const TinyCase &c : cases)
      for (const EvaluatorOptions &options : options_of_arrays(number++)) {
        SCOPED_TRACE(c.name + (options.directional ? ", directional" : "") + (options.lean ? ", lean" : ""));
        const Model model = c.model();
        RecordedAllocations recorded;
        long before_steps = 0;
        expect_all_arrays_are_listed(
            [&] { return make_host_evaluator(model, options); }, model, options.directional,
            [&] { before_steps = num_allocations(); },
            [&] {
              AllocatedArrays arrays;
              for (const auto &[data, a] : recorded.take())
                arrays[data] = {a.bytes, a.alignment >= ALIGNMENT || (a.number >= before_steps && a.bytes >= LARGE)};
              return arrays;
            });
      }
}

TEST(HostEvaluationProcess, memory_grows_with_the_atoms_and_is_kept) {
  const Model model = make_tiny_model().model();
  const auto evaluator = make_kokkos(model, {Precision::mixed});
  const ImageStructure small = random_structure(2, 5, 2).images(model.reach()),
                       large = random_structure(2, 5, 6).images(model.reach());
  evaluate_whole(*evaluator, small);
  const size_t before = evaluator->memory_bytes();
  evaluate_whole(*evaluator, large);
  const size_t after = evaluator->memory_bytes();
  EXPECT_GT(after, before);
  // 216 atoms with some tens of neighbors: below the bound of 100 kB per atom on a model much larger than this one.
  EXPECT_LT(after - before, 216 * 100000u);
  evaluate_whole(*evaluator, small);
  EXPECT_GE(evaluator->memory_bytes(), after / 2);
  // Rows of the widest feature that ranks exchange.
  EXPECT_EQ(evaluator->exchange_bytes_per_row(), sizeof(float) * CHANNEL_PAD * (1 + 3 + 5));
}

TEST(HostEvaluationProcess, memory_limit_is_kept) {
  const Model model = make_tiny_model().model();
  // So many that the scratch of tiles, which does not count, is small.
  const ImageStructure s = random_structure(2, 5, 12).images(model.reach());
  for (const bool deterministic : {false, true}) {
    EvaluatorOptions options;
    options.deterministic = deterministic;
    auto evaluator = make_host_evaluator(model, options);
    evaluate_whole(*evaluator, s);
    const double held = static_cast<double>(evaluator->memory_bytes());
    options.lean = true;    // what an evaluation tries before it gives up
    evaluator = make_host_evaluator(model, options);
    evaluate_whole(*evaluator, s);
    const double least = static_cast<double>(evaluator->memory_bytes());
    options.lean = false;
    options.memory_limit = 0.9 * least;
    evaluator = make_host_evaluator(model, options);
    try {
      evaluate_whole(*evaluator, s);
      ADD_FAILURE() << "deterministic " << deterministic;
    } catch (const MemoryLimitError &e) {
      EXPECT_NEAR(e.bytes / least, 1.0, 0.05);
      EXPECT_LT(static_cast<double>(evaluator->memory_bytes()), options.memory_limit);
    }
    options.memory_limit = 1.01 * held;
    evaluator = make_host_evaluator(model, options);
    evaluate_whole(*evaluator, s);
    EXPECT_EQ(static_cast<double>(evaluator->memory_bytes()), held);
  }
}

// The memory of threads for lists of edges is as large as that of all atoms of a small structure. An evaluation whose
// memory is within a limit does not exceed it, whether values of edges are kept or not.
TEST(HostEvaluationProcess, memory_limit_counts_the_scratch_of_lists_of_edges) {
  for (const char *name : {"so2_of_fewer_m", "so2_of_order_6", "so2_with_attention"}) {
    const Model model = case_named(name).model();
    const ImageStructure images = random_structure(model.num_species(), 7, 2).images(model.reach());
    for (const bool deterministic : {false, true}) {
      EvaluatorOptions options;
      options.deterministic = deterministic;
      const auto free = make_host_evaluator(model, options);
      evaluate_whole(*free, images);
      const double held = static_cast<double>(free->memory_bytes());
      // From a limit that is refused to one that allows keeping all values.
      int refused = 0, passed = 0;
      for (double share = 0.5; share < 2.6; share += 0.1) {
        options.memory_limit = share * held;
        const auto limited = make_host_evaluator(model, options);
        try {
          evaluate_whole(*limited, images);
          passed++;
          EXPECT_LE(static_cast<double>(limited->memory_bytes()), options.memory_limit)
              << name << ", share " << share << ", deterministic " << deterministic;
        } catch (const MemoryLimitError &) {
          refused++;
        }
      }
      EXPECT_GT(refused, 0) << name;
      EXPECT_GT(passed, 0) << name;
    }
  }
}

// Every number of an evaluation, to the last bit.
std::string all_bits(bool deterministic) {
  std::string text;
  char number[40];
  const auto add = [&](double v) {
    std::snprintf(number, sizeof number, "%a ", v);
    text += number;
  };
  for (const TinyCase &c : all_cases()) {
    const Model model = c.model();
    const ImageStructure images = random_structure(model.num_species(), 5, 5).images(model.reach());
    for (const Precision p : {Precision::mixed, Precision::double_}) {
      const Evaluation e = evaluate_whole(*make_kokkos(model, {p, false, deterministic}), images);
      add(e.energy);
      for (const double v : e.virial) add(v);
      for (const Vector3 &f : e.forces)
        for (const double v : f) add(v);
      for (const auto &a : e.atom_virial)
        for (const double v : a) add(v);
      text += "\n";
    }
  }
  return text;
}

const bool IS_REGISTERED = [] {
  child_tasks()["deterministic"] = [] { return all_bits(true); };
  child_tasks()["default"] = [] { return all_bits(false); };
  return true;
}();

TEST(HostEvaluationProcess, deterministic_results_do_not_depend_on_the_number_of_threads) {
  ASSERT_TRUE(IS_REGISTERED);
  const std::string one = run_child("deterministic", 1);
  EXPECT_GT(one.size(), 100000u);
  EXPECT_EQ(one.find("nan"), std::string::npos);
  EXPECT_TRUE(one == all_bits(true)) << "1 and 2 threads";
  EXPECT_TRUE(one == run_child("deterministic", 3)) << "1 and 3 threads";
  // By default they may differ: otherwise this test would prove nothing.
  EXPECT_FALSE(run_child("default", 1) == all_bits(false));
}

TEST(HostEvaluationProcess, default_results_repeat_with_the_same_number_of_threads) {
  EXPECT_TRUE(run_child("default", 2) == all_bits(false));
}

}    // namespace

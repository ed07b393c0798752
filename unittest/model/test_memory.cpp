// SPDX-License-Identifier: MIT
// Evaluations with too little memory, at any place, with several numbers of threads. Each number of threads has a
// separate process: an exception that leaves a parallel region ends it.
#include "kokkos/runtime/buffer.h"
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/child_process.h"
#include "unittest/support/out_of_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

using namespace equi;
using namespace equi::testing;

TEST(FailingAllocation, is_the_one_that_was_asked_for) {
  const auto allocate = [](std::size_t size) {
    try {
      Buffer<char>().reserve(size);
      return true;
    } catch (const std::bad_alloc &) {
      return false;
    }
  };
  {
    const FailingAllocation failing(1);
    EXPECT_TRUE(allocate(10));
    EXPECT_FALSE(failing.has_failed());
    EXPECT_FALSE(allocate(10));
    EXPECT_TRUE(failing.has_failed());
    EXPECT_TRUE(allocate(10));
  }
  EXPECT_TRUE(allocate(10));
  {
    const FailingAllocation failing(0, true, 1000);
    EXPECT_TRUE(allocate(10));
    EXPECT_FALSE(allocate(1000));
    EXPECT_FALSE(allocate(1000));
    EXPECT_TRUE(allocate(10));
  }
  EXPECT_TRUE(allocate(1000));
}

TEST(Buffer, is_empty_after_it_could_not_grow) {
  Buffer<double> buffer;
  buffer.reserve(10);
  {
    const FailingAllocation failing(0);
    EXPECT_THROW(buffer.reserve(1000), std::bad_alloc);
  }
  EXPECT_EQ(buffer.bytes(), 0u);
  double *numbers = buffer.reserve(500);
  ASSERT_NE(numbers, nullptr);
  numbers[499] = 1.0;
}

struct Route {
  const char *name;
  EvaluatorOptions options;
};

// Together they use all paths through the host's evaluation: tables, exact functions, networks on features, densities,
// contractions, local networks, gathered senders, one direction and several kept ones.
std::vector<Route> routes() {
  std::vector<Route> all(8);
  all[0].name = "contraction_agnesi_density";
  all[1].name = "contraction_agnesi_density";
  all[1].options.precision = Precision::double_;
  all[1].options.radial_exact = true;
  all[2].name = "cutoffs_of_pairs";
  all[2].options.deterministic = true;
  all[3].name = "weights_of_features_norms_late_cutoff";
  all[4].name = "weights_of_features";
  all[4].options.deterministic = true;
  all[5].name = "parity_three_layers";
  all[5].options.directional = true;
  all[5].options.kept_directions = 2;
  all[6].name = "fully_connected";
  all[6].options.precision = Precision::double_;
  all[7].name = "local_of_2_layers";
  // An evaluator is made for each place, so tables are built quickly.
  for (Route &route : all) route.options.radial_tolerance = 0.05;
  return all;
}

// The number of places, as text.
std::string without_memory() {
  long places = 0;
  bool and_all_later = false;
  for (const Route &route : routes()) {
    const Model model = case_named(route.name).model();
    const ImageStructure images = random_structure(model.num_species(), 5).images(model.reach());
    and_all_later = !and_all_later;    // in turn
    places += expect_exceptions_without_memory([&] { return make_host_evaluator(model, route.options); }, images,
                                               route.options.directional, and_all_later, 30);
  }
  return std::to_string(places);
}

const bool IS_REGISTERED = [] {
  child_tasks()["without_memory"] = without_memory;
  return true;
}();

TEST(HostEvaluationMemory, what_cannot_be_allocated_is_an_exception_after_which_all_goes_on) {
  ASSERT_TRUE(IS_REGISTERED);
  for (const int num_threads : {1, 4}) {
    const std::string places = run_child("without_memory", num_threads);
    EXPECT_GE(std::atol(places.c_str()), 300) << num_threads << " threads";
  }
}

}    // namespace

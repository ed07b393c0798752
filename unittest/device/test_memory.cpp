// SPDX-License-Identifier: MIT
// Evaluations by the device kernels for which there is not enough memory, at any place.
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/out_of_memory.h"

#include <gtest/gtest.h>

namespace {

using namespace equi;
using namespace equi::testing;

// Kokkos makes strings for names of fences, also in destructors, where they may not fail: too small to be what there is
// no memory for.
constexpr std::size_t LARGER_THAN_NAMES = 128;

TEST(DeviceModelMemory, what_cannot_be_allocated_is_an_exception_after_which_all_goes_on) {
  long places = 0;
  const auto run = [&](const char *name, bool exact, bool directional) {
    const Model model = case_named(name).model();
    const ImageStructure images = random_structure(model.num_species(), 5).images(model.reach());
    EvaluatorOptions options;
    options.radial_exact = exact;
    options.directional = directional;
    options.radial_tolerance = 0.05;    // tables that are quickly built
    places += expect_exceptions_without_memory([&] { return make_device_evaluator(model, options); }, images,
                                               directional, false, 80, LARGER_THAN_NAMES);
  };
  for (const char *name : {"contraction_agnesi_density", "parity_three_layers"})
    for (const bool exact : {false, true})
      for (const bool directional : {false, true}) run(name, exact, directional);
  for (const char *name : {"weights_of_features", "so2_of_dipoles"}) run(name, false, true);
  EXPECT_GE(places, 300);
}

}    // namespace

// SPDX-License-Identifier: MIT
// The memory of evaluations by the device kernels: what they list, and too little of it at any place.
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/listed_memory.h"
#include "unittest/support/out_of_memory.h"

#include <gtest/gtest.h>
#include <Kokkos_Core.hpp>

#include <cstdint>
#include <mutex>
#include <string>

namespace {

using namespace equi;
using namespace equi::testing;

// Kokkos makes strings for names of fences, also in destructors, where they may not fail. Only larger allocations are
// therefore refused.
constexpr std::size_t LARGER_THAN_NAMES = 128;

TEST(DeviceModelMemory, what_cannot_be_allocated_is_an_exception_after_which_all_goes_on) {
  long places = 0;
  const auto run = [&](const char *name, bool exact, bool directional) {
    const Model model = case_named(name).model();
    const ImageStructure images = random_structure(model.num_species(), 5).images(model.reach());
    EvaluatorOptions options;
    options.radial_exact = exact;
    options.directional = directional;
    options.radial_tolerance = 0.05;    // tables that are built quickly
    places += expect_exceptions_without_memory([&] { return make_device_evaluator(model, options); }, images,
                                               directional, false, 80, LARGER_THAN_NAMES);
  };
  for (const char *name : {"contraction_agnesi_density", "parity_three_layers"})
    for (const bool exact : {false, true})
      for (const bool directional : {false, true}) run(name, exact, directional);
  for (const char *name : {"weights_of_features", "so2_of_dipoles"}) run(name, false, true);
  EXPECT_GE(places, 300);
}

// Records the Views that are allocated and not freed in its lifetime. Only one may exist at a time.
class RecordedViews {
  using Space = Kokkos::Tools::SpaceHandle;

 public:
  RecordedViews() : before_(Kokkos::Tools::Experimental::get_callbacks()) {
    arrays.clear();
    Kokkos::Tools::Experimental::set_allocate_data_callback(add);
    Kokkos::Tools::Experimental::set_deallocate_data_callback(remove);
  }
  ~RecordedViews() { Kokkos::Tools::Experimental::set_callbacks(before_); }
  RecordedViews(const RecordedViews &) = delete;
  RecordedViews &operator=(const RecordedViews &) = delete;
  const AllocatedArrays &views() const { return arrays; }

 private:
  // The numbers of a View follow its header.
  static const void *numbers(const void *view) {
    return static_cast<const char *>(view) + sizeof(Kokkos::Impl::SharedAllocationHeader);
  }
  // Results for the host have a fixed size and are no arrays.
  static void add(Space, const char *label, const void *view, std::uint64_t bytes) {
    const std::lock_guard<std::mutex> lock(of_arrays);
    arrays[numbers(view)] = {bytes, std::string("equi:buffer") == label || std::string("equi:staging") == label};
  }
  static void remove(Space, const char *, const void *view, std::uint64_t) {
    const std::lock_guard<std::mutex> lock(of_arrays);
    arrays.erase(numbers(view));
  }
  inline static std::mutex of_arrays;
  inline static AllocatedArrays arrays;
  Kokkos::Tools::Experimental::EventSet before_;
};

TEST(DeviceModelMemory, all_arrays_are_listed) {
  int number = 0;
  for (const auto &cases : {all_cases(), ewald_cases(), potential_cases()})
    for (const TinyCase &c : cases)
      for (const EvaluatorOptions &options : options_of_arrays(number++)) {
        SCOPED_TRACE(c.name + (options.directional ? ", directional" : "") + (options.lean ? ", lean" : ""));
        const Model model = c.model();
        const RecordedViews recorded;
        expect_all_arrays_are_listed([&] { return make_device_evaluator(model, options); }, model, options.directional,
                                     [] {}, [&] { return recorded.views(); });
      }
}

// Linears per species need scratch, and in crowded regions a batch has more edges than the average.
TEST(DeviceModelMemory, a_limit_holds_for_all_that_batches_take) {
  TinyModelOptions wide;
  wide.hidden = {"32x0e+32x1e+32x2e", "32x0e+32x1e+32x2e", "32x0e"};
  wide.embedding_channels = 32;
  TinyModelOptions per_species = wide;
  per_species.per_species_linear = true;
  const Structure liquid = random_structure(2, 5, 8);
  Structure drop = liquid;    // and a gas, which follows
  for (bool &p : drop.periodic) p = false;
  for (int i = drop.size() / 4; i < drop.size(); ++i)
    for (int k = 0; k < 3; ++k) drop.positions[i][k] = 6.0 * drop.positions[i][k] + 500.0;
  const auto expect_kept = [](const TinyModelOptions &layers, const Structure &structure, int batch) {
    const Model m = make_tiny_model(layers).model();
    const ImageStructure images = structure.images(m.reach());
    EvaluatorOptions options;
    options.precision = Precision::mixed;
    options.radial_tolerance = 0.05;    // tables that are built quickly
    options.batch = batch;
    const auto held = [&](double limit) {
      options.memory_limit = limit;
      const auto evaluator = make_device_evaluator(m, options);
      evaluate_whole(*evaluator, images);
      return static_cast<double>(evaluator->memory_bytes());
    };
    const double free = held(0.0);
    int num_kept = 0;
    for (const double share : {0.995, 0.97, 0.9, 0.8, 0.7, 0.6}) try {
        const double limit = share * free;
        EXPECT_LE(held(limit), limit) << share;
        num_kept++;
      } catch (const MemoryLimitError &) {
      }
    EXPECT_GE(num_kept, 2);
  };
  expect_kept(per_species, liquid, 512);
  expect_kept(wide, drop, 128);
}

}    // namespace

// SPDX-License-Identifier: MIT
// The layer potential in open systems, in slabs and in fields on a device: compared with HostEvaluation, differences
// and splits among ranks. model/test_open_potential.cpp has the laws of the host, test_torch.cpp the reference.
#include "unittest/support/boundary_cases.h"
#include "unittest/support/device_directional.h"
#include "unittest/support/system_sum_laws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

// Sums in another order, relative to the largest number of a kind. Displaced charges lose digits.
constexpr Closeness SUM = {1e-10, 1e-11};
// In float32 through a few layers.
constexpr Closeness FLOAT32 = {0.0, 3e-5};
// Differences of the best of several steps, relative to the largest number of a kind.
constexpr double DIFFERENCE = 2e-7;

class DeviceBoundary : public ::testing::TestWithParam<BoundaryCase> {
 protected:
  DeviceBoundary()
      : model(GetParam().model()),
        structure(GetParam().structure(model.num_species())),
        images(structure.images(model.reach())) {}
  EvaluatorOptions options(Precision precision = Precision::double_, bool is_directional = false) const {
    EvaluatorOptions options = directional(precision, true);
    options.directional = is_directional;
    options.open = GetParam().open;
    return options;
  }
  std::unique_ptr<Evaluator> make(const EvaluatorOptions &options) const {
    return make_device_evaluator(model, options);
  }

  const Model model;
  const Structure structure;
  const ImageStructure images;
};

TEST_P(DeviceBoundary, agrees_with_the_host_kernels) {
  const Evaluation host = evaluate_whole(*make_host_evaluator(model, options()), images);
  const auto device = make(options());
  for (const char *step : {"first", "recorded", "replayed"})
    expect_same(evaluate_whole(*device, images), host, SUM, step);
  expect_same(evaluate_whole(*make(options(Precision::mixed)), images), host, FLOAT32, "mixed");
}

TEST_P(DeviceBoundary, second_derivatives_agree_with_the_host_kernels) {
  const EvaluatorOptions along = options(Precision::double_, true);
  const std::vector<Vector3> direction = random_direction(structure.size(), 11);
  const Evaluation device = evaluate_whole(*make(along), images, &direction),
                   host = evaluate_whole(*make_host_evaluator(model, along), images, &direction);
  expect_same(device, host, SUM, "along a direction");
  const AllowedDifferences allowed = allowed_differences(SUM, host);
  double size = 1.0;
  for (const Vector3 &t : host.force_tangents)
    for (const double x : t) size = std::max(size, std::fabs(x));
  EXPECT_LE(largest_difference(device.force_tangents, host.force_tangents), 1e-10 * size);
  for (int k = 0; k < 6; ++k)
    EXPECT_NEAR(device.virial_tangent[k], host.virial_tangent[k], 1e-10 * size * structure.size());
  EXPECT_NEAR(device.energy_tangent, host.energy_tangent, structure.size() * allowed.force);
}

TEST_P(DeviceBoundary, ranks_agree_with_one_and_need_the_sums) {
  expect_ranks_agree_and_need_the_sums([&] { return make(options()); }, images, SUM);
}

TEST_P(DeviceBoundary, forces_and_virials_are_derivatives_of_the_energy) {
  EvaluatorOptions frozen = options();
  frozen.wave_vectors = WaveVectorSet::frozen;
  const auto evaluator = make(frozen);
  expect_forces_are_derivatives(*evaluator, structure, model.reach(), DIFFERENCE);
  expect_virials_are_derivatives(*evaluator, structure, model.reach(), DIFFERENCE);
}

TEST_P(DeviceBoundary, evaluations_repeat_to_the_last_bit_after_another_boundary) {
  const auto evaluator = make(options());
  const Evaluation first = evaluate_whole(*evaluator, images);
  BoundaryCase other = GetParam();
  for (const Boundary boundary : {Boundary::open, Boundary::slab, Boundary::periodic}) {
    other.boundary = boundary;
    const ImageStructure others = other.structure(model.num_species(), 9, 3).images(model.reach());
    const Evaluation host = evaluate_whole(*make_host_evaluator(model, options()), others);
    for (const char *step : {"first", "recorded", "replayed"})
      expect_same(evaluate_whole(*evaluator, others), host, SUM, step);
  }
  for (const char *step : {"first", "recorded", "replayed"})
    expect_same(evaluate_whole(*evaluator, images), first, {0.0}, step);
}

// The same neighborhood in another box: what is recorded for one must not be replayed for the other.
TEST_P(DeviceBoundary, may_change_within_a_neighborhood) {
  ImageStructure changing = images;
  const auto device = make(options()), host = make_host_evaluator(model, options());
  device->set_neighborhood(changing.neighborhood);
  host->set_neighborhood(changing.neighborhood);
  for (const bool is_slab : {true, true, true, false, false, false, true}) {
    changing.neighborhood.box.periodic = {is_slab, is_slab, false};
    for (int k = 0; k < 3; ++k) std::copy_n(structure.cell[k], 3, changing.neighborhood.box.vectors[k].data());
    expect_same(evaluate_in_last_neighborhood(*device, changing), evaluate_in_last_neighborhood(*host, changing), SUM,
                is_slab ? "slab" : "open");
  }
}

TEST_P(DeviceBoundary, a_field_acts_on_unwrapped_positions) {
  if (GetParam().field == std::array<double, 3>{}) return;
  std::vector<Vector3> shifts(images.positions.size());
  for (int i = 0; i < structure.size(); ++i) shifts[i] = {3.0 * (i % 3), -2.5 * (i % 2), 1.5 * i};
  const auto energy_and_forces = [&](Evaluator &evaluator, bool is_shifted) {
    std::vector<Vector3> forces(images.positions.size());
    EvaluationRequest request;
    request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
    request.forces = reinterpret_cast<double(*)[3]>(forces.data());
    if (is_shifted) request.image_shifts = reinterpret_cast<const double(*)[3]>(shifts.data());
    NoExchange none;
    evaluator.set_neighborhood(images.neighborhood);
    std::vector<double> numbers = {evaluator.evaluate(request, none).energy};
    for (const Vector3 &f : forces) numbers.insert(numbers.end(), f.begin(), f.end());
    return numbers;
  };
  const auto device = make(options()), host = make_host_evaluator(model, options());
  for (const bool is_shifted : {true, false, true}) {
    const std::vector<double> found = energy_and_forces(*device, is_shifted),
                              expected = energy_and_forces(*host, is_shifted);
    for (size_t k = 0; k < found.size(); ++k)
      EXPECT_NEAR(found[k], expected[k], 1e-10 * std::max(1.0, std::fabs(expected[0]))) << k;
  }
  EXPECT_GT(std::fabs(energy_and_forces(*device, true)[0] - energy_and_forces(*device, false)[0]), NOTICEABLE);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceBoundary, ::testing::ValuesIn(boundary_cases()),
                         [](const auto &info) { return info.param.name; });

}    // namespace

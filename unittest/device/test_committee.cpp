// SPDX-License-Identifier: MIT
// Committees on a device. Their results are the means of those of the members, which have the same neighbor list.
#include "kokkos/evaluation/device_evaluator.h"
#include "src/evaluation/committee.h"
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/evaluator_laws.h"

#include <gtest/gtest.h>

namespace {

using namespace equi;
using namespace equi::testing;

// The mean of a few numbers in float64.
constexpr Closeness MEAN = {1e-14, 1e-14};

// Members with different cutoffs, numbers of layers and kinds of layers.
std::vector<Model> members() {
  std::vector<Model> models;
  for (const char *name : {"rotations_only", "one_layer", "layer_norm"}) models.push_back(case_named(name).model());
  models[1].cutoff *= 0.8;
  return models;
}

std::unique_ptr<Evaluator> make_committee(const std::vector<Model> &models, const EvaluatorOptions &options) {
  std::vector<std::unique_ptr<Evaluator>> evaluators;
  for (const Model &model : models) evaluators.push_back(make_device_evaluator(model, options));
  return make_device_committee(std::move(evaluators));
}

// A structure with its neighbors in device memory.
struct OnDevice {
  explicit OnDevice(const ImageStructure &images) {
    copy_neighborhood(DeviceExec(), images.neighborhood, list);
    copy_to_device(DeviceExec(), positions.reserve(3 * images.positions.size()), images.positions.data()->data(),
                   3 * images.positions.size());
  }
  DeviceNeighborList list;
  DeviceBuffer<double> positions, direction;
};

std::vector<double> numbers(const double *from, int64_t size) {
  std::vector<double> on_host(size);
  copy_to_host(DeviceExec(), on_host.data(), from, size);
  return on_host;
}

class DeviceCommittees : public ::testing::Test {
 protected:
  DeviceCommittees() : structure(random_structure(2, 7, 3)), images(structure.images(models[0].reach())) {
    options.precision = Precision::double_;
    options.radial_tolerance = COARSE_TABLES;
  }
  // Evaluates each member alone on the device and all of them together, and compares what `numbers_of` reads.
  void expect_means(DeviceRequest request,
                    const std::function<std::vector<double>(const DeviceResults &)> &numbers_of) {
    OnDevice on_device(images);
    request.positions = on_device.positions.data();
    if (options.directional) {
      const std::vector<Vector3> v = random_direction(structure.size(), 5);
      std::vector<Vector3> of_images;
      for (const int owner : images.owner) of_images.push_back(v[owner]);
      copy_to_device(DeviceExec(), on_device.direction.reserve(3 * of_images.size()), of_images.data()->data(),
                     3 * of_images.size());
      request.directions = {on_device.direction.data(), 1, static_cast<int64_t>(of_images.size())};
    }
    NoExchange none;
    std::vector<double> sums;
    double energy = 0.0;
    for (const Model &model : models) {
      const auto made = make_device_evaluator(model, options);
      auto &evaluator = dynamic_cast<DeviceEvaluator &>(*made);
      evaluator.set_neighborhood(on_device.list, images.neighborhood.box);
      energy += evaluator.evaluate(request, none).energy / models.size();
      const std::vector<double> mine = numbers_of(evaluator.results());
      sums.resize(mine.size());
      for (size_t k = 0; k < mine.size(); ++k) sums[k] += mine[k];
    }
    const auto made = make_committee(models, options);
    auto &committee = dynamic_cast<DeviceEvaluator &>(*made);
    committee.set_neighborhood(on_device.list, images.neighborhood.box);
    for (const char *step : {"first", "warm", "replayed"}) {
      EXPECT_NEAR(committee.evaluate(request, none).energy, energy, MEAN.absolute + MEAN.relative * std::fabs(energy));
      const std::vector<double> means = numbers_of(committee.results());
      ASSERT_EQ(means.size(), sums.size());
      for (size_t k = 0; k < means.size(); ++k) EXPECT_EQ(means[k], sums[k] / models.size()) << step << " " << k;
    }
  }
  int64_t num_rows() const { return images.neighborhood.num_rows; }
  int64_t num_receivers() const { return images.neighborhood.num_receivers; }

  const std::vector<Model> models = members();
  const Structure structure;
  const ImageStructure images;
  EvaluatorOptions options;
};

TEST_F(DeviceCommittees, have_the_mean_forces_energies_and_virials) {
  expect_means({nullptr, {}, true, true, true}, [&](const DeviceResults &r) {
    std::vector<double> all = numbers(r.forces, 3 * num_rows());
    for (const double v : numbers(r.virial, 9 * num_rows())) all.push_back(v);
    for (const double e : numbers(r.energy, num_receivers())) all.push_back(e);
    return all;
  });
}

TEST_F(DeviceCommittees, have_the_mean_tangents) {
  options.directional = true;
  expect_means({nullptr, {}, true}, [&](const DeviceResults &r) { return numbers(r.tangents, 3 * num_rows()); });
}

TEST_F(DeviceCommittees, have_the_mean_energy_moments) {
  options.directional = options.energy_moments = true;
  DeviceRequest request;
  request.energy_moments = true;
  expect_means(request, [&](const DeviceResults &r) {
    std::vector<double> all(4 * num_receivers());
    for_energy_moments(
        r, num_receivers(), [&](int row, double e) { all[4 * row] = e; },
        [&](int row, int c, double moment) { all[4 * row + 1 + c] = moment; });
    return all;
  });
}

TEST_F(DeviceCommittees, agree_with_committees_of_host_kernels) {
  options.radial_exact = true;
  std::vector<std::unique_ptr<Evaluator>> of_host;
  for (const Model &model : models) of_host.push_back(make_host_evaluator(model, options));
  Committee host(std::move(of_host));
  const auto device = make_committee(models, options);
  expect_same(evaluate_whole(*device, images), evaluate_whole(host, images), ROUNDING, "mean");
  ASSERT_EQ(device->committee()->size(), host.size());
  for (int m = 0; m < host.size(); ++m)
    EXPECT_NEAR(device->committee()->energy(m), host.energy(m), structure.size() * ROUNDING.absolute);
}

TEST_F(DeviceCommittees, share_the_list) {
  OnDevice on_device(images);
  NoExchange none;
  const auto bytes_after = [&](Evaluator &evaluator) {
    auto &of_device = dynamic_cast<DeviceEvaluator &>(evaluator);
    of_device.set_neighborhood(on_device.list, images.neighborhood.box);
    DeviceRequest request;
    request.positions = on_device.positions.data();
    of_device.evaluate(request, none);
    return evaluator.memory_bytes();
  };
  std::size_t alone = 0;
  for (const Model &model : models) alone += bytes_after(*make_device_evaluator(model, options));
  const std::size_t means = num_receivers() * sizeof(double);
  EXPECT_NEAR(static_cast<double>(bytes_after(*make_committee(models, options))),
              static_cast<double>(alone - (models.size() - 1) * bytes_of(on_device.list)), 2.0 * means);
}

// All members take part in the exchanges, and the first error is thrown.
TEST_F(DeviceCommittees, report_an_error_after_all_members) {
  ImageStructure broken = images;
  broken.positions[3][1] = NAN;
  EXPECT_THROW(evaluate_whole(*make_committee(models, options), broken), EvaluationError);
  std::vector<int> rank(structure.size());
  for (int i = 0; i < structure.size(); ++i) rank[i] = i % 2;
  std::vector<RankPart> parts = split_structure(images, rank, 2);
  parts[1].positions[parts[1].neighborhood.receiver[0]][0] = NAN;
  std::vector<std::unique_ptr<Evaluator>> evaluators;
  for (int r = 0; r < 2; ++r) evaluators.push_back(make_committee(models, options));
  RankGroup group(parts);
  const Evaluation e = evaluate_ranks(evaluators, parts, structure.size(), group);
  ASSERT_TRUE(e.errors[1]);
  EXPECT_THROW(std::rethrow_exception(e.errors[1]), EvaluationError);
}

}    // namespace

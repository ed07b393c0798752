// SPDX-License-Identifier: MIT
// The layers ewald and potential on a device, compared with HostEvaluation and with differences. test_wave_sums.cpp
// compares their sums, and test_ewald.cpp of the level `model` the layers on hosts with LibTorch and differences.
#include "kokkos/evaluation/device_evaluation.h"
#include "src/evaluation/committee.h"
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/device_directional.h"
#include "unittest/support/system_sum_laws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

// The same sums in another order, in float64, relative to the largest number of their kind.
constexpr Closeness SUM_ORDER = {0.0, 1e-12};
constexpr double TANGENT_ORDER = 1e-11;
// In float32 through a few layers.
constexpr Closeness FLOAT32 = {0.0, 3e-5};
// The best of central differences with several steps, relative to the largest number of a kind.
constexpr double DIFFERENCES = 2e-7;

EvaluatorOptions plain(Precision precision = Precision::double_) {
  EvaluatorOptions options = directional(precision, true);
  options.directional = false;
  return options;
}

class DeviceEwaldLayer : public OfDirection {
 protected:
  void expect_tangents(const Evaluation &device, const Evaluation &host) const {
    const double largest = largest_force(host.force_tangents);
    EXPECT_LT(largest_difference(device.force_tangents, host.force_tangents), TANGENT_ORDER * largest);
    for (int k = 0; k < 6; ++k)
      EXPECT_NEAR(device.virial_tangent[k], host.virial_tangent[k],
                  TANGENT_ORDER * structure.size() * model.cutoff * largest);
    EXPECT_NEAR(device.energy_tangent, host.energy_tangent,
                TANGENT_ORDER * structure.size() * (1.0 + largest_force(host.forces)));
  }
};

TEST_P(DeviceEwaldLayer, agrees_with_the_host_kernels) {
  const Evaluation host = evaluate_whole(*make_host_evaluator(model, plain()), images);
  const auto device = make_device_evaluator(model, plain());
  for (const char *step : {"first", "recorded", "replayed"})
    expect_same(evaluate_whole(*device, images), host, SUM_ORDER, step);
  expect_same(evaluate_whole(*make_device_evaluator(model, plain(Precision::mixed)), images), host, FLOAT32, "mixed");
}

TEST_P(DeviceEwaldLayer, second_derivatives_agree_with_the_host_kernels) {
  const EvaluatorOptions options = directional(Precision::double_, true);
  const auto device = make_device_evaluator(model, options), host = make_host_evaluator(model, options);
  const Evaluation expected = evaluate_whole(*host, images, &direction);
  const Evaluation found = evaluate_whole(*device, images, &direction);
  expect_same(found, expected, SUM_ORDER, "along a direction");
  expect_tangents(found, expected);
  expect_tangents(evaluate_along_strain(*device, images, structure), evaluate_along_strain(*host, images, structure));
  const Evaluation mixed =
      evaluate_whole(*make_device_evaluator(model, directional(Precision::mixed)), images, &direction);
  EXPECT_LT(largest_difference(mixed.force_tangents, expected.force_tangents),
            FLOAT32_NETWORK * std::max(1.0, largest_force(expected.force_tangents)));
}

TEST_P(DeviceEwaldLayer, ranks_agree_with_one_and_need_the_sum) {
  const EvaluatorOptions options = directional(Precision::double_, true);
  const Evaluation whole = evaluate_whole(*make_device_evaluator(model, options), images, &direction);
  for_splits(options, Wanted::all, [&](const Evaluation &e, int num_ranks, RankGroup &) {
    expect_same(e, whole, {1e-11, 1e-12}, std::to_string(num_ranks) + " ranks");
    expect_tangents(e, whole);
  });
  const std::vector<RankPart> parts = split_structure(images, {0, 1, 0, 1, 1, 0, 1, 0}, 2);
  std::vector<std::unique_ptr<Evaluator>> evaluators;
  for (int r = 0; r < 2; ++r) evaluators.push_back(make_device_evaluator(model, options));
  RankGroup muted(parts);
  muted.mute_sum = true;
  EXPECT_GT(std::fabs(evaluate_ranks(evaluators, parts, structure.size(), muted).energy - whole.energy), NOTICEABLE);
}

// The number of wave vectors changes while layers are replayed. In `frozen` only the cell changes.
TEST_P(DeviceEwaldLayer, follows_the_cell_from_step_to_step) {
  for (const WaveVectorSet set : {WaveVectorSet::of_file, WaveVectorSet::frozen}) {
    EvaluatorOptions options = plain();
    options.wave_vectors = set;
    const auto device = make_device_evaluator(model, options), host = make_host_evaluator(model, options);
    for (const double by : {0.0, 0.0, 0.1, -0.1, 0.2, 0.2, 0.0}) {
      const ImageStructure moved = strained(structure, by).images(model.reach());
      expect_same(evaluate_whole(*device, moved), evaluate_whole(*host, moved), SUM_ORDER, std::to_string(by));
    }
    // The same list with another cell.
    ImageStructure wide = structure.images(1.2 * model.reach());
    device->set_neighborhood(wide.neighborhood);
    host->set_neighborhood(wide.neighborhood);
    for (const double scale : {1.0, 1.02, 0.97, 1.1, 1.0}) {
      ImageStructure scaled = wide;
      for (Vector3 &r : scaled.positions)
        for (double &x : r) x *= scale;
      for (int k = 0; k < 3; ++k)
        for (int a = 0; a < 3; ++a) wide.neighborhood.box.vectors[k][a] = scale * structure.cell[k][a];
      expect_same(evaluate_in_last_neighborhood(*device, scaled), evaluate_in_last_neighborhood(*host, scaled),
                  SUM_ORDER, "scale " + std::to_string(scale));
    }
  }
}

// The larger steps of best_difference().
constexpr std::initializer_list<double> STEPS = {4e-3, 2e-3};

TEST_P(DeviceEwaldLayer, forces_and_virials_are_derivatives_of_the_energy) {
  EvaluatorOptions options = plain();
  options.wave_vectors = WaveVectorSet::frozen;
  const auto device = make_device_evaluator(model, options);
  const Evaluation e = evaluate_whole(*device, images);
  const auto by_direction = [&](double h) {
    Structure s = structure;
    for (int i = 0; i < s.size(); ++i)
      for (int a = 0; a < 3; ++a) s.positions[i][a] += h * direction[i][a];
    return energy_of(*device, s, model.reach());
  };
  double work = 0.0, of_strain = 0.0, size = structure.size() * std::max(1.0, largest_force(e.forces));
  for (int i = 0; i < structure.size(); ++i)
    for (int a = 0; a < 3; ++a) work -= e.forces[i][a] * direction[i][a];
  EXPECT_LE(best_difference(by_direction, work, STEPS), DIFFERENCES * size);
  constexpr int FIRST[6] = {0, 1, 2, 0, 0, 1}, SECOND[6] = {0, 1, 2, 1, 2, 2};
  for (int c = 0; c < 6; ++c) {
    of_strain -= (c < 3 ? 1.0 : 2.0) * STRAIN[FIRST[c]][SECOND[c]] * e.virial[c];
    size = std::max(size, std::fabs(e.virial[c]));
  }
  const auto by_strain = [&](double h) { return energy_of(*device, strained(structure, h), model.reach()); };
  EXPECT_LE(best_difference(by_strain, of_strain, STEPS), DIFFERENCES * size);
}

INSTANTIATE_TEST_SUITE_P(, DeviceEwaldLayer, ::testing::ValuesIn(ewald_cases()),
                         [](const auto &info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Potential, DeviceEwaldLayer, ::testing::ValuesIn(potential_cases()),
                         [](const auto &info) { return info.param.name; });

// A model of each layer; that with dipoles has three sums of potentials, which share their tables.
class DeviceEwald : public ::testing::TestWithParam<const char *> {
 protected:
  static bool is_potential() { return std::string(GetParam()) == "potential"; }
  static std::vector<TinyCase> cases() { return is_potential() ? potential_cases() : ewald_cases(); }
  static TinyCase chosen() { return is_potential() ? cases().back() : cases().front(); }
};
INSTANTIATE_TEST_SUITE_P(, DeviceEwald, ::testing::Values("ewald", "potential"),
                         [](const auto &info) { return std::string(info.param); });

TEST_P(DeviceEwald, of_other_numbers_of_atoms_agrees_with_the_host) {
  const Model model = chosen().model();
  const auto device = make_device_evaluator(model, plain()), host = make_host_evaluator(model, plain());
  const auto compare = [&](const Structure &s, const std::string &what) {
    const ImageStructure images = s.images(model.reach());
    expect_same(evaluate_whole(*device, images), evaluate_whole(*host, images), SUM_ORDER, what);
  };
  for (const int side : {3, 1, 4}) compare(random_structure(model.num_species(), 3, side), std::to_string(side));
  Structure tall;
  for (int i = 0; i < 5; ++i) {
    tall.positions.push_back({0.3 * i, 1.9 * (i % 2), 2.3 * i});
    tall.species.push_back(i % model.num_species());
  }
  const double cell[3][3] = {{4.0, 0.0, 0.0}, {0.0, 4.0, 0.0}, {0.0, 0.0, 100.0}};
  for (int k = 0; k < 3; ++k) std::copy_n(cell[k], 3, tall.cell[k]);
  compare(tall, "tall");
  tall.positions.resize(1);
  tall.species.resize(1);
  compare(tall, "one atom");
  tall.positions.clear();
  tall.species.clear();
  compare(tall, "no atoms");
}

TEST_P(DeviceEwald, recorded_steps_change_no_bit) {
  const Model model = chosen().model();
  EvaluatorOptions options = plain(Precision::mixed);
  DeviceEvaluation<float> recorded(model, options);
  options.graphs = false;
  DeviceEvaluation<float> counted(model, options);
  const ImageStructure images = random_structure(model.num_species(), 7).images(model.reach());
  recorded.set_neighborhood(images.neighborhood);
  counted.set_neighborhood(images.neighborhood);
  for (const double by : {0.0, 1e-3, 2e-3, 3e-3}) {
    ImageStructure moved = images;
    for (Vector3 &r : moved.positions) r[0] += by;
    expect_same(evaluate_in_last_neighborhood(recorded, moved), evaluate_in_last_neighborhood(counted, moved), {0.0},
                std::to_string(by));
  }
}

TEST_P(DeviceEwald, committees_have_the_mean) {
  std::vector<std::unique_ptr<Evaluator>> on_device, on_host;
  const Model model = chosen().model(), other = ewald_cases()[3].model();
  for (const Model &member : {model, other}) {
    on_device.push_back(make_device_evaluator(member, plain()));
    on_host.push_back(make_host_evaluator(member, plain()));
  }
  Committee host(std::move(on_host));
  const auto device = make_device_committee(std::move(on_device));
  const ImageStructure images = random_structure(2, 7).images(std::max(model.reach(), other.reach()));
  expect_same(evaluate_whole(*device, images), evaluate_whole(host, images), ROUNDING, "mean");
}

// What a first evaluation is known to need includes the tables.
TEST_P(DeviceEwald, memory_is_planned_for_the_tables) {
  TinyCase with = chosen(), without = with;
  without.options.ewald_width = without.options.potential_width = 0.0;
  const ImageStructure images = random_structure(2, 3, 5).images(with.model().reach());
  for (const bool is_host : {true, false}) {
    const auto make = [&](const TinyCase &c, double limit) {
      EvaluatorOptions options = plain();
      options.memory_limit = limit;
      return is_host ? make_host_evaluator(c.model(), options) : make_device_evaluator(c.model(), options);
    };
    const auto used = [&](const TinyCase &c) {
      const auto evaluator = make(c, 0.0);
      evaluate_whole(*evaluator, images);
      return static_cast<double>(evaluator->memory_bytes());
    };
    const auto planned = [&](const TinyCase &c) {
      try {
        evaluate_whole(*make(c, 1.0), images);
      } catch (const MemoryLimitError &e) {
        return e.bytes;
      }
      return 0.0;
    };
    const double more = used(with) - used(without);
    EXPECT_GT(more, 125 * 2 * 16 * 20);
    EXPECT_GE(planned(with) - planned(without), 0.9 * more) << is_host;
    EXPECT_LE(planned(with) - planned(without), 3.0 * more) << is_host;
  }
}

TEST_P(DeviceEwald, needs_a_cell_and_states_what_it_found) {
  const Model model = chosen().model();
  const auto evaluator = make_device_evaluator(model, plain());
  Structure open = random_structure(model.num_species(), 7);
  EXPECT_EQ(evaluator->describe_system(), "");
  open.periodic[1] = false;
  EXPECT_THROW(energy_of(*evaluator, open, model.reach()), EvaluationError);
  energy_of(*evaluator, random_structure(model.num_species(), 7), model.reach());
  const std::string lines = evaluator->describe_system();
  const std::vector<std::string> of_ewald = {"wave vectors within 3.3/Angstrom", "WARNING", "background"},
                                 of_potential = {"potentials of multipoles: ", "wave vectors within 2.7/Angstrom"};
  for (const std::string &part : is_potential() ? of_potential : of_ewald)
    EXPECT_NE(lines.find(part), std::string::npos) << part << " in " << lines;
  for (const char *part : {"kspace", "MB per rank"})
    EXPECT_NE(lines.find(part), std::string::npos) << part << " in " << lines;
}

TEST_P(DeviceEwald, charges_that_are_not_finite_are_an_error) {
  Model model = chosen().model();
  for (Layer &layer : model.layers)
    if (auto *ewald = std::get_if<Ewald>(&layer))
      ewald->weights[0] = NAN;
    else if (auto *potential = std::get_if<Potential>(&layer))
      potential->factors[0][0] = NAN;
  EXPECT_THROW(energy_of(*make_device_evaluator(model, plain()), random_structure(2, 7), model.reach()),
               EvaluationError);
}

}    // namespace

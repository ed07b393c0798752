// SPDX-License-Identifier: MIT
// DeviceEvaluation on Kokkos's default execution space: the evaluators that obey the laws of evaluator_laws.cpp, and
// comparisons with HostEvaluation and the framework.
#include "kokkos/evaluation/device_evaluation.h"
#include "kokkos/layers/convolution/convolution_constants.h"
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/direct_forces.h"
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/framework_answers.h"
#include "unittest/support/linear_chain.h"
#include "unittest/support/sharp_attention.h"

#include <gtest/gtest.h>

namespace {

using namespace equi;
using namespace equi::testing;

// The same sums in another order, in float64, relative to the largest number of their kind.
constexpr Closeness SUM_ORDER = {0.0, 1e-12};
// In float32 through a few layers.
constexpr Closeness FLOAT32 = {0.0, 3e-5};

EvaluatorOptions options_of(Precision precision, bool radial_exact = false) {
  EvaluatorOptions options;
  options.precision = precision;
  options.radial_exact = radial_exact;
  // The same polynomials in float64 on both back ends: tables that the host does not split.
  if (precision == Precision::double_) options.radial_tolerance = 0.1 * SPLIT_TOLERANCE;
  return options;
}

// Numbers of channels around the lanes of a device, and each option alone.
std::vector<TinyCase> channel_cases() {
  std::vector<TinyCase> cases(7);
  cases[0].name = "odd_multiplicities";
  cases[0].options.hidden = {"37x0e+19x1e+5x2e", "50x0e+1x1e", "7x0e"};
  cases[0].options.embedding_channels = 33;
  cases[1].name = "parity";
  cases[1].keeps_parity = true;
  cases[1].options.parity = true;
  cases[1].options.hidden = {"5x0e+2x0o+3x1o+2x1e+2x2e", "4x0e+3x1o+1x2o", "5x0e"};
  cases[2].name = "per_species_linear";
  cases[2].options.per_species_linear = true;
  cases[2].options.elements = {"Na", "Cl", "K"};
  cases[2].options.hidden = {"6x0e+3x1e", "17x0e+3x1e", "5x0e"};
  cases[3].name = "biases_and_deep_readout";
  cases[3].keeps_parity = true;    // two layers form only products of two harmonics of equal l
  cases[3].options.biases = true;
  cases[3].options.readout_hidden = {9, 40};
  cases[4].name = "order_3";
  cases[4].mirror_change = 1e-7;
  cases[4].options.lmax_edge = 3;
  cases[4].options.hidden = {"4x0e+3x1e+2x2e+2x3e", "4x0e+2x1e+1x3e", "5x0e"};
  cases[5].name = "order_4";
  cases[5].options.lmax_edge = 4;
  cases[5].options.hidden = {"4x0e+3x1e+2x2e+2x3e+18x4e", "4x0e+2x4e", "5x0e"};
  cases[6].name = "one_layer_r_power_polynomial";
  cases[6].keeps_parity = true;    // only distances enter
  cases[6].options.hidden = {"5x0e"};
  cases[6].options.r_power = true;
  cases[6].options.xplor = false;
  return cases;
}

class DeviceModel : public ::testing::TestWithParam<TinyCase> {
 protected:
  DeviceModel() : model(GetParam().model()), images(random_structure(model.num_species(), 7).images(model.reach())) {}
  const Model model;
  const ImageStructure images;
};

TEST_P(DeviceModel, agrees_with_the_host_kernels) {
  for (const bool exact : {false, true}) {
    const EvaluatorOptions options = options_of(Precision::double_, exact);
    auto device = make_device_evaluator(model, options), host = make_host_evaluator(model, options);
    expect_same(evaluate_whole(*device, images), evaluate_whole(*host, images), SUM_ORDER, exact ? "exact" : "table");
  }
}

TEST_P(DeviceModel, float32_agrees_with_float64) {
  const auto reference = make_host_evaluator(model, options_of(Precision::double_));
  const Evaluation expected = evaluate_whole(*reference, images);
  expect_same(evaluate_whole(*make_device_evaluator(model, options_of(Precision::mixed)), images), expected, FLOAT32,
              "mixed");
}

INSTANTIATE_TEST_SUITE_P(, DeviceModel, ::testing::ValuesIn(evaluator_law_cases()),
                         [](const auto &info) { return info.param.name; });

TEST(DeviceModelRun, folded_linears_agree_with_each_layer_as_it_is) {
  for (const Chain &chain : all_chains()) {
    const Model m = with_chain(chain);
    const ImageStructure images = random_structure(m.num_species(), 3).images(m.reach());
    EvaluatorOptions options = options_of(Precision::double_, true);
    const auto device = make_device_evaluator(m, options);
    options.folds = false;
    const auto host = make_host_evaluator(m, options);
    expect_same(evaluate_whole(*device, images), evaluate_whole(*host, images), SUM_ORDER, "folded");
  }
}

// More atoms than a batch holds, a size that fills no batch, and a second neighborhood for the same evaluator.
TEST(DeviceModelRun, batches_do_not_show) {
  TinyModelOptions tiny;
  tiny.per_species_linear = true;
  const auto expect_batches = [](const Model &m, bool exact) {
    const EvaluatorOptions options = options_of(Precision::double_, exact);
    auto device = make_device_evaluator(m, options), host = make_host_evaluator(m, options);
    for (const int side : {7, 3, 8}) {
      const ImageStructure images = random_structure(m.num_species(), 3, side).images(m.reach());
      expect_same(evaluate_whole(*device, images), evaluate_whole(*host, images), SUM_ORDER,
                  "side " + std::to_string(side));
    }
  };
  for (const bool exact : {false, true}) expect_batches(make_tiny_model(tiny).model(), exact);
  expect_batches(case_named("weights_of_features").model(), false);
  // An emulated GPU would be slow, and process all of these edges of a layer together.
  if (DeviceTraits<>::ON_HOST) expect_batches(case_named("so2_of_fewer_m").model(), false);
}

// One candidate is missing at one of its two ends, so backward and gather stay two passes.
TEST(DeviceModelRun, edges_without_reverse_ones_agree_with_the_host_kernels) {
  const Model model = make_tiny_model(TinyModelOptions()).model();
  const EvaluatorOptions options = options_of(Precision::double_);
  ImageStructure images = random_structure(model.num_species(), 5, 3).images(model.reach());
  const auto is_reversible = [&] {
    const DeviceExec exec;
    DeviceNeighborhood n;
    copy_neighborhood(exec, images.neighborhood, n);
    transpose_neighborhood(exec, n.num_receivers, n);
    return has_reverse_candidates(exec, n);
  };
  const auto device = make_device_evaluator(model, options), host = make_host_evaluator(model, options);
  EXPECT_TRUE(is_reversible());
  expect_same(evaluate_whole(*device, images), evaluate_whole(*host, images), SUM_ORDER, "all");

  Neighborhood &n = images.neighborhood;
  int64_t c = n.first[4];
  while (n.sender_row[c] == 4) c++;
  ASSERT_LT(c, n.first[5]);
  n.sender_atom.erase(n.sender_atom.begin() + c);
  n.sender_row.erase(n.sender_row.begin() + c);
  for (int i = 5; i <= n.num_receivers; ++i) n.first[i]--;
  EXPECT_FALSE(is_reversible());
  expect_same(evaluate_whole(*device, images), evaluate_whole(*host, images), SUM_ORDER, "one is missing");
}

// Whether work of a few microseconds may have ended before an exchange checks it.
#if defined(__CUDACC__) || defined(__HIPCC__)
constexpr bool WORK_MAY_END_EARLY = true;
#else
constexpr bool WORK_MAY_END_EARLY = false;
#endif

// Two slabs of a wide structure: most receivers of each depend on no other rank.
TEST(DeviceModelRun, exchanges_beside_other_work_do_not_change_a_bit) {
  const Structure structure = random_structure(2, 5, 6);
  const Model m = make_tiny_model({}).model();
  const ImageStructure images = structure.images(m.reach());
  std::vector<int> rank(structure.size());
  for (int i = 0; i < structure.size(); i++) rank[i] = i >= structure.size() / 2;
  const std::vector<RankPart> parts = split_structure(images, rank, 2);
  for (const RankPart &p : parts) {
    ASSERT_GT(p.neighborhood.num_interior, 0);
    ASSERT_LT(p.neighborhood.num_interior, p.neighborhood.num_receivers);
  }
  const auto run = [&](bool overlap) {
    EvaluatorOptions options = options_of(Precision::double_);
    options.overlap = overlap;
    std::vector<std::unique_ptr<Evaluator>> ranks;
    for (int r = 0; r < 2; r++) ranks.push_back(make_device_evaluator(m, options));
    RankGroup group(parts);
    const Evaluation e = evaluate_ranks(ranks, parts, structure.size(), group);
    for (const auto &error : e.errors) EXPECT_FALSE(error);
    for (int r = 0; r < 2; r++) {
      if (overlap && WORK_MAY_END_EARLY)
        EXPECT_LE(group.calls_beside_work(r), group.calls(r));
      else
        EXPECT_EQ(group.calls_beside_work(r), overlap ? group.calls(r) : 0);
    }
    EXPECT_GT(group.calls(0), 0);
    return e;
  };
  const Evaluation beside = run(true);
  expect_same(beside, run(false), {0.0}, "without overlap");
  const auto host = make_host_evaluator(m, options_of(Precision::double_));
  expect_same(beside, evaluate_whole(*host, images), SUM_ORDER, "the host on one rank");
}

TEST(DeviceModelRun, a_limit_of_memory_makes_batches_smaller) {
  const Model m = make_tiny_model().model();
  const ImageStructure images = random_structure(2, 3, 8).images(m.reach());
  EvaluatorOptions options = options_of(Precision::double_);
  const auto free = make_device_evaluator(m, options);
  const Evaluation expected = evaluate_whole(*free, images);
  const std::size_t held = free->memory_bytes();
  options.memory_limit = 0.98 * static_cast<double>(held);
  const auto limited = make_device_evaluator(m, options);
  expect_same(evaluate_whole(*limited, images), expected, SUM_ORDER, "limited");
  EXPECT_LT(limited->memory_bytes(), held);
  options.memory_limit = 0.2 * static_cast<double>(held);
  EXPECT_THROW(evaluate_whole(*make_device_evaluator(m, options), images), MemoryLimitError);
}

// Precision tf32 rounds the products of SO(2) convolutions, and is refused where there are none.
TEST(DeviceModelRun, tf32_is_near_double_and_for_so2_convolutions) {
  const auto evaluate = [](const Model &m, const ImageStructure &images, Precision precision) {
    return evaluate_whole(*make_device_evaluator(m, options_of(precision)), images);
  };
  const Model none = make_tiny_model(TinyModelOptions()).model();
  EXPECT_THROW(make_device_evaluator(none, options_of(Precision::tf32)), std::invalid_argument);
  for (const char *name : {"so2_of_fewer_m", "so2_with_grid_networks"}) {
    const Model m = case_named(name).model();
    EXPECT_THROW(make_host_evaluator(m, options_of(Precision::tf32)), std::invalid_argument);
    if (DeviceTraits<>::ON_HOST) {
      EXPECT_THROW(make_device_evaluator(m, options_of(Precision::tf32)), std::invalid_argument);
      continue;
    }
    const ImageStructure images = random_structure(m.num_species(), 7).images(m.reach());
    const Evaluation expected = evaluate(m, images, Precision::double_);
    const double mixed = largest_difference(evaluate(m, images, Precision::mixed).forces, expected.forces),
                 rounded = largest_difference(evaluate(m, images, Precision::tf32).forces, expected.forces);
    EXPECT_LT(rounded, 1e-2) << name;
    EXPECT_GT(rounded, 3.0 * mixed) << name;
  }
}

// What is kept of edges takes the memory that is left; a lower limit removes the adjoints of senders by edge, too.
TEST(DeviceModelRun, edges_are_evaluated_again_where_memory_is_limited) {
  const auto bytes_of_part = [](const Evaluator &evaluator, const std::string &part) {
    double sum = 0.0;
    evaluator.for_memory([&](const char *name, const void *, std::size_t bytes) {
      if (part == name) sum += static_cast<double>(bytes);
    });
    return sum;
  };
  for (const char *name : {"so2_of_fewer_m", "so2_with_products", "so2_with_attention"}) {
    const Model m = case_named(name).model();
    const ImageStructure images = random_structure(m.num_species(), 7).images(m.reach());
    EvaluatorOptions options = options_of(Precision::double_);
    options.batch = 2;    // part of the batches
    DeviceEvaluation<double> keeping(m, options);
    const Evaluation expected = evaluate_whole(keeping, images);
    const char *const values = "values kept of edges", *const adjoints = "adjoints of senders, by edge";
    const double all = static_cast<double>(keeping.memory_bytes()), of_values = bytes_of_part(keeping, values),
                 of_adjoints = bytes_of_part(keeping, adjoints);
    ASSERT_GT(of_values, of_adjoints) << name;
    ASSERT_GT(of_adjoints, 0.0) << name;
    int num_with_some = 0, num_without_adjoints = 0;
    for (double limit = all; num_without_adjoints == 0; limit -= 0.45 * of_adjoints) {
      options.memory_limit = limit;
      DeviceEvaluation<double> limited(m, options);
      expect_same(evaluate_whole(limited, images), expected, SUM_ORDER, std::string(name) + ", limited");
      expect_same(evaluate_in_last_neighborhood(limited, images), expected, SUM_ORDER, std::string(name) + ", warm");
      EXPECT_EQ(limited.num_slices(), 1) << name;
      EXPECT_LE(static_cast<double>(limited.memory_bytes()), limit) << name;
      const double kept = bytes_of_part(limited, values);
      if (bytes_of_part(limited, adjoints) == 0.0)
        num_without_adjoints++;
      else if (kept > 0.1 * of_values && kept < 0.9 * of_values)
        num_with_some++;
    }
    EXPECT_GT(num_with_some, 2) << name;
  }
}

// Candidates beyond the cutoff do not count: with a wide skin there are several times as many as edges.
TEST(DeviceModelRun, memory_is_planned_for_edges_and_again_when_they_become_more) {
  constexpr double SKIN = 2.0;
  for (const char *name : {"parity_three_layers", "so2_of_fewer_m"}) {
    const bool has_so2 = std::string(name) == "so2_of_fewer_m";
    const Model m = case_named(name).model();
    const Structure structure = random_structure(m.num_species(), 3, has_so2 ? 4 : 8);
    const ImageStructure near = structure.images(m.reach()), wide = structure.images(m.reach() + SKIN);
    ASSERT_GT(wide.neighborhood.sender_atom.size(), 2 * near.neighborhood.sender_atom.size());
    // Denser than `wide`, for which its list is still valid.
    ImageStructure dense = wide;
    for (Vector3 &x : dense.positions)
      for (double &component : x) component *= 0.93;
    EvaluatorOptions options = options_of(Precision::double_);
    options.graphs = false;
    DeviceEvaluation<double> free(m, options), free_when_dense(m, options);
    const Evaluation expected = evaluate_whole(free, wide), expected_dense = evaluate_whole(free_when_dense, dense);
    ASSERT_GT(expected_dense.num_edges, 1.1 * expected.num_edges);
    // All of free's arrays fit, as do those for a few more edges.
    options.memory_limit = 1.05 * static_cast<double>(free.memory_bytes());
    DeviceEvaluation<double> limited(m, options);
    expect_same(evaluate_whole(limited, wide), expected, SUM_ORDER, std::string(name) + ", wide");
    EXPECT_EQ(limited.num_slices(), 1) << name;
    EXPECT_GE(limited.memory_bytes(), free.memory_bytes()) << name;
    EXPECT_LE(static_cast<double>(limited.memory_bytes()), options.memory_limit) << name;
    // The same list, without a call of set_neighborhood().
    options.memory_limit = 0.98 * static_cast<double>(free_when_dense.memory_bytes());
    DeviceEvaluation<double> moved(m, options);
    expect_same(evaluate_whole(moved, wide), expected, SUM_ORDER, std::string(name) + ", before it moves");
    const std::size_t before = moved.memory_bytes();
    expect_same(evaluate_in_last_neighborhood(moved, dense), expected_dense, SUM_ORDER, std::string(name) + ", dense");
    EXPECT_GT(moved.memory_bytes(), before) << name;
    EXPECT_LE(static_cast<double>(moved.memory_bytes()), options.memory_limit) << name;
  }
}

// The first of all atoms with too many neighbors is named.
TEST(DeviceModelRun, more_neighbors_than_the_model_takes_are_refused) {
  Model m = make_tiny_model(TinyModelOptions()).model();
  const ImageStructure images = random_structure(m.num_species(), 7).images(m.reach());
  const auto error_of = [&](Evaluator &evaluator) -> std::pair<std::string, int> {
    try {
      evaluate_whole(evaluator, images);
    } catch (const EvaluationError &e) {
      return {e.what(), e.atom_i};
    }
    return {"", -1};
  };
  bool is_refused = false, is_accepted = false;
  for (const int most : {1, 12, 16, 20, 24, 1000}) {
    m.max_neighbors = most;
    const EvaluatorOptions options = options_of(Precision::double_);
    const auto device = make_device_evaluator(m, options), host = make_host_evaluator(m, options);
    const auto expected = error_of(*host);
    for (const char *step : {"first", "warm", "replayed"}) EXPECT_EQ(error_of(*device), expected) << most << step;
    (expected.second < 0 ? is_accepted : is_refused) = true;
  }
  EXPECT_TRUE(is_refused && is_accepted);
}

// The least memory for an evaluation: adjoints of senders are gathered slice by slice.
TEST(DeviceModelRun, slices_do_not_show) {
  using InDouble = DeviceEvaluation<double>;
  const auto with_limit = [](const Model &m, double bytes) {
    EvaluatorOptions options = options_of(Precision::double_);
    options.memory_limit = bytes;
    return std::make_unique<InDouble>(m, options);
  };
  const auto needed = [](const auto &f) {
    try {
      f();
    } catch (const MemoryLimitError &e) {
      return e.bytes;
    }
    return 0.0;
  };
  for (const char *name :
       {"odd_multiplicities", "parity_three_layers", "biases_and_deep_readout", "weights_of_features", "so2_of_m_0",
        "messages_read_by_norm_scale", "messages_read_by_later", "messages_read_by_convolution"}) {
    const std::vector<TinyCase> cases = evaluator_law_cases();
    const auto found = std::find_if(cases.begin(), cases.end(), [&](const TinyCase &c) { return c.name == name; });
    ASSERT_NE(found, cases.end()) << name;
    if (!DeviceTraits<>::ON_HOST && found->options.so2_lmax >= 0) continue;    // an emulated GPU would be slow
    const Model m = found->model();
    const Structure structure = random_structure(m.num_species(), 3, 8);
    const ImageStructure images = structure.images(m.reach());
    const auto free = with_limit(m, 0.0);
    const Evaluation expected = evaluate_whole(*free, images);
    EXPECT_EQ(free->num_slices(), 1) << name;
    // A little more than the least possible memory.
    constexpr double ROOM = 1.011;
    const double least = needed([&] { evaluate_whole(*with_limit(m, 1.0), images); });
    ASSERT_GT(least, 0.0) << name;
    const auto limited = with_limit(m, ROOM * least);
    expect_same(evaluate_whole(*limited, images), expected, SUM_ORDER, name);
    EXPECT_GT(limited->num_slices(), 1) << name;

    if (!found->options.message_reader.empty()) continue;    // the fewer receivers of a rank are one slice
    std::vector<int> rank(structure.size());
    for (int i = 0; i < structure.size(); i++) rank[i] = i % 7 == 0;
    const std::vector<RankPart> parts = split_structure(images, rank, 2);
    std::vector<std::unique_ptr<Evaluator>> ranks;
    for (int r = 0; r < 2; r++) ranks.push_back(with_limit(m, 1.0));
    RankGroup refused(parts);
    const auto errors = evaluate_ranks(ranks, parts, structure.size(), refused).errors;
    for (int r = 0; r < 2; r++) {
      const double least_of_rank = needed([&] { std::rethrow_exception(errors[r]); });
      ranks[r] = with_limit(m, ROOM * least_of_rank);
    }
    RankGroup group(parts);
    const Evaluation e = evaluate_ranks(ranks, parts, structure.size(), group);
    for (const auto &error : e.errors) ASSERT_FALSE(error) << name;
    expect_same(e, expected, SUM_ORDER, name + std::string(", 2 ranks"));
    EXPECT_GT(dynamic_cast<InDouble &>(*ranks[0]).num_slices(), 1) << name;
  }
}

class DeviceDirectForces : public ::testing::TestWithParam<TinyCase> {};

TEST_P(DeviceDirectForces, are_those_of_plain_loops) {
  const auto make = [](Precision precision, bool exact) {
    return [=](const Model &m) { return make_device_evaluator(m, options_of(precision, exact)); };
  };
  expect_direct_forces(make(Precision::double_, true), GetParam(), ROUNDING);
  expect_direct_forces(make(Precision::mixed, false), GetParam(), FLOAT32);
}

INSTANTIATE_TEST_SUITE_P(, DeviceDirectForces, ::testing::ValuesIn(direct_force_cases()), name_of_case);

class DeviceSharpAttention : public ::testing::TestWithParam<SharpCase> {};

TEST_P(DeviceSharpAttention, is_a_softmax_for_any_scores) {
  expect_sharp_attention(make_device_evaluator, GetParam());
}

INSTANTIATE_TEST_SUITE_P(, DeviceSharpAttention, ::testing::ValuesIn(sharp_cases()), name_of_sharp_case);

TEST(DeviceModelReference, mixed_by_tables_is_near_the_framework) {
  expect_all_answers([](const Model &m) { return make_device_evaluator(m, options_of(Precision::mixed)); },
                     MIXED_REFERENCE);
}

TEST(DeviceModelReference, double_by_tables_is_near_the_framework) {
  expect_all_answers([](const Model &m) { return make_device_evaluator(m, options_of(Precision::double_)); },
                     TABLE_REFERENCE);
}

}    // namespace

namespace equi {
namespace testing {

std::vector<EvaluatorKind> evaluator_kinds() {
  const auto maker = [](Precision precision) {
    return [=](const Model &m, double radial_tolerance) {
      EvaluatorOptions options = options_of(precision);
      options.radial_tolerance = radial_tolerance;
      return make_device_evaluator(m, options);
    };
  };
  // Exact radial functions are evaluated on the host: DeviceModel compares them. In float32 NOTICEABLE is below the
  // rounding, but evaluations repeat to the last bit.
  return {{"double_table", maker(Precision::double_), SUM_ORDER, TABLE, NOTICEABLE, true},
          {"mixed_table", maker(Precision::mixed), FLOAT32, FLOAT32, NOTICEABLE, false}};
}

std::vector<TinyCase> evaluator_law_cases() {
  std::vector<TinyCase> cases = channel_cases();
  for (TinyCase &c : all_cases()) cases.push_back(c);
  return cases;
}

}    // namespace testing
}    // namespace equi

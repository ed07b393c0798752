// SPDX-License-Identifier: MIT
// Steps that are recorded and replayed: the rules of DeviceRecorder, and that DeviceEvaluation obeys them.
#include "kokkos/evaluation/device_evaluation.h"
#include "kokkos/runtime/device_recorder.h"
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/two_rank_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;
using Host = Kokkos::DefaultHostExecutionSpace;
using InMixed = DeviceEvaluation<float>;
using InDouble = DeviceEvaluation<double>;

// What the recorder did with a step: memory that must not grow shows it.
class RecorderTest : public ::testing::Test {
 protected:
  bool is_recorded(int kind, const DeviceRecorder<Host>::Arguments &arguments, const DeviceRecorder<Host>::Extents &e) {
    recorder.begin_step(kind, arguments, e);
    return run_refuses();
  }
  bool run_refuses() {
    bool refuses = false;
    recorder.run(exec, [&] {
      try {
        buffer.reserve(++size * 100);
      } catch (const std::logic_error &) {
        refuses = true;
      }
    });
    recorder.end_step();
    return refuses;
  }
  DeviceRecorder<Host> recorder;
  DeviceBuffer<double, Host> buffer;
  int64_t size = 0;
  Host exec;
};

TEST_F(RecorderTest, a_step_is_recorded_once_its_sizes_were_met) {
  EXPECT_FALSE(is_recorded(0, {}, {10, 20, 30, 40}));
  EXPECT_TRUE(is_recorded(0, {}, {10, 20, 30, 40}));
  EXPECT_FALSE(is_recorded(0, {}, {10, 20, 30, 40})) << "is replayed";
  recorder.forget();
  EXPECT_TRUE(is_recorded(0, {}, {9, 20, 29, 40}));
  recorder.forget();
  EXPECT_FALSE(is_recorded(0, {}, {9, 20, 29, 41})) << "is larger";
  EXPECT_TRUE(is_recorded(0, {}, {10, 20, 30, 41})) << "each size was met, if not together";
}

TEST_F(RecorderTest, kinds_and_arguments_are_told_apart) {
  const int a = 0, b = 0;
  EXPECT_FALSE(is_recorded(0, {&a}, {}));
  EXPECT_TRUE(is_recorded(0, {&a}, {}));
  EXPECT_FALSE(is_recorded(1, {&a}, {})) << "another kind has not been met";
  EXPECT_TRUE(is_recorded(0, {&a}, {})) << "the other kind may have moved memory";
  EXPECT_TRUE(is_recorded(0, {&b}, {})) << "other memory";
  EXPECT_FALSE(is_recorded(0, {&b}, {}));
  EXPECT_TRUE(is_recorded(1, {&b}, {}));
}

TEST_F(RecorderTest, plain_steps_and_inner_work_are_not_recorded) {
  recorder.begin_plain_step();
  EXPECT_FALSE(run_refuses());
  recorder.begin_step(0, {}, {});
  recorder.end_step();
  recorder.begin_step(0, {}, {});
  int calls = 0;
  recorder.run(exec, [&] {
    recorder.run(exec, [&] { calls++; });
    recorder.run(exec, [&] { calls++; });
  });
  EXPECT_EQ(calls, 2);
}

TEST_F(RecorderTest, copies_are_refused) {
  double number = 0.0;
  recorder.begin_step(0, {}, {});
  recorder.end_step();
  recorder.begin_step(0, {}, {});
  EXPECT_THROW(recorder.run(exec, [&] { copy_to_host(exec, &number, &number, 1); }), std::logic_error);
  recorder.begin_step(0, {}, {});
  EXPECT_THROW(recorder.run(exec, [&] { copy_to_device(exec, &number, &number, 1); }), std::logic_error)
      << "a step that was not ended is recorded again";
}

TEST_F(RecorderTest, sizes_of_a_step_that_was_not_ended_were_not_met) {
  EXPECT_FALSE(is_recorded(0, {}, {10}));
  EXPECT_TRUE(is_recorded(0, {}, {10}));
  recorder.begin_step(1, {}, {20});
  EXPECT_FALSE(is_recorded(1, {}, {20})) << "its memory may be missing";
  EXPECT_FALSE(is_recorded(0, {}, {10})) << "so may that of another kind";
  EXPECT_TRUE(is_recorded(1, {}, {20}));
}

Evaluation evaluate_at(Evaluator &evaluator, const ImageStructure &s, double scale) {
  std::vector<Vector3> positions = s.positions;
  for (Vector3 &p : positions)
    for (double &x : p) x *= scale;
  Evaluation sum = make_evaluation(s.neighborhood.num_receivers, 1);
  std::mutex mutex;
  NoExchange none;
  add_rank(evaluator, positions, s.owner, none, mutex, sum);
  return sum;
}

class DeviceRecorderModel : public ::testing::TestWithParam<TinyCase> {};

// Candidates with a skin; more of them are edges at one step than at another. Edges of SO(2) convolutions are counted.
TEST_P(DeviceRecorderModel, recorded_steps_change_no_bit) {
  const Model m = GetParam().model();
  const bool has_so2 = GetParam().options.so2_lmax >= 0;
  const Structure structure = random_structure(m.num_species(), 7);
  const ImageStructure near = structure.images(m.reach()), wide = structure.images(1.2 * m.reach());
  EvaluatorOptions options;
  InMixed recorded(m, options);
  options.graphs = false;
  InMixed counted(m, options);
  for (const ImageStructure *s : {&wide, &near, &wide}) {
    recorded.set_neighborhood(s->neighborhood);
    counted.set_neighborhood(s->neighborhood);
    EXPECT_EQ(recorded.counts_edges(), has_so2);
    EXPECT_TRUE(counted.counts_edges());
    std::vector<int64_t> num_edges;
    for (const double scale : {1.0, 0.93, 1.05, 1.0}) {
      const Evaluation expected = evaluate_at(counted, *s, scale);
      expect_same(evaluate_at(recorded, *s, scale), expected, {0.0}, "scale " + std::to_string(scale));
      num_edges.push_back(expected.num_edges);
    }
    if (s == &wide && m.nearest.count == 0) {    // else there are as many as an atom sees
      EXPECT_GT(num_edges[1], num_edges[2]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, DeviceRecorderModel, ::testing::ValuesIn(evaluator_law_cases()),
                         [](const auto &info) { return info.param.name; });

// Each evaluation of forces and virials is the third of three at the same neighborhood. The first two have the atoms
// somewhat farther apart and closer. The three are done plainly, recorded, and replayed.
class ThirdStep : public Evaluator {
 public:
  explicit ThirdStep(std::unique_ptr<Evaluator> evaluator) : evaluator_(std::move(evaluator)) {}
  std::string describe() const override { return evaluator_->describe(); }
  void set_neighborhood(const Neighborhood &n) override {
    num_atoms_ = n.num_atoms;
    evaluator_->set_neighborhood(n);
  }
  EvaluationResult evaluate(const EvaluationRequest &request, GhostExchange &exchange) override {
    for (const double scale : {1.02, 0.97}) {
      EvaluationRequest moved = request;
      std::vector<std::array<double, 3>> positions(num_atoms_), forces(num_atoms_);
      std::vector<std::array<double, 9>> virials(num_atoms_);
      for (int i = 0; i < num_atoms_; ++i)
        for (int k = 0; k < 3; ++k) positions[i][k] = scale * request.positions[i][k];
      // Typed pointers over arrays of arrays, which have the same memory layout.
      moved.positions = reinterpret_cast<const double(*)[3]>(positions.data());
      moved.forces = reinterpret_cast<double(*)[3]>(forces.data());
      moved.atom_virial = reinterpret_cast<double(*)[9]>(virials.data());
      moved.atom_energy = nullptr;
      evaluator_->evaluate(moved, exchange);
    }
    return evaluator_->evaluate(request, exchange);
  }
  std::size_t exchange_bytes_per_row() const override { return evaluator_->exchange_bytes_per_row(); }
  std::size_t memory_bytes() const override { return evaluator_->memory_bytes(); }

 private:
  std::unique_ptr<Evaluator> evaluator_;
  int num_atoms_ = 0;
};

TEST(DeviceRecorderRun, ranks_change_no_bit) {
  for (const Model &m : {make_tiny_model({}).model(), case_named("weights_of_features").model()}) {
    const Structure structure = random_structure(2, 5, 4);
    const ImageStructure images = structure.images(m.reach());
    std::vector<int> rank(structure.size());
    for (int i = 0; i < structure.size(); i++) rank[i] = i >= structure.size() / 2;
    const std::vector<RankPart> parts = split_structure(images, rank, 3);    // the last one is empty
    const auto run = [&](bool graphs, bool overlap) {
      EvaluatorOptions options;
      options.graphs = graphs;
      options.overlap = overlap;
      std::vector<std::unique_ptr<Evaluator>> ranks;
      for (int r = 0; r < 3; r++) ranks.push_back(std::make_unique<ThirdStep>(std::make_unique<InMixed>(m, options)));
      RankGroup group(parts);
      const Evaluation e = evaluate_ranks(ranks, parts, structure.size(), group);
      for (const auto &error : e.errors) EXPECT_FALSE(error);
      return e;
    };
    const Evaluation expected = run(false, true);
    expect_same(run(true, true), expected, {0.0}, "beside exchanges");
    expect_same(run(true, false), expected, {0.0}, "after exchanges");
  }
}

TEST(DeviceRecorderRun, what_needs_the_host_is_counted) {
  const Model m = make_tiny_model({}).model();
  const ImageStructure small = random_structure(2, 3, 4).images(1.2 * m.reach()),
                       large = random_structure(2, 3, 17).images(m.reach());
  EvaluatorOptions options;
  options.precision = Precision::double_;
  std::size_t held = 0;
  const auto counts_edges = [&](const ImageStructure &s) {
    InDouble evaluator(m, options);
    evaluator.set_neighborhood(s.neighborhood);
    evaluate_at(evaluator, s, 1.0);
    held = evaluator.memory_bytes();
    return evaluator.counts_edges();
  };
  EXPECT_TRUE(counts_edges(large));
  EXPECT_FALSE(counts_edges(small));
  options.memory_limit = 0.99 * static_cast<double>(held);
  EXPECT_TRUE(counts_edges(small)) << "of which there are fewer than candidates";
  options.memory_limit = 0.0;
  options.radial_exact = true;
  EXPECT_TRUE(counts_edges(small));
}

// The names of the calls of Kokkos during a step, with memory and waiting.
std::vector<std::string> &calls() {
  static std::vector<std::string> names;
  return names;
}

TEST(DeviceRecorderRun, steps_launch_the_same_and_wait_at_their_ends_only) {
  if (!DeviceTraits<>::ON_HOST) GTEST_SKIP() << "a replayed graph names none of its launches";
  namespace Tools = Kokkos::Tools::Experimental;
  const auto launch = [](const char *name, uint32_t, uint64_t *) { calls().emplace_back(name); };
  const auto wait = [](const char *name, uint32_t, uint64_t *) {
    const std::string reason = name;
    const bool is_for_callbacks = reason.find("Kokkos Profile Tool Fence") != std::string::npos;
    const bool is_for_checks = reason == "equi: memory is handed out again";    // only in builds with EQUI_DEBUG
    if (!is_for_callbacks && !is_for_checks) calls().push_back("waits: " + reason);
  };
  const Model m = make_tiny_model({}).model();
  const ImageStructure s = random_structure(2, 3, 4).images(1.2 * m.reach());
  InMixed evaluator(m, {});
  evaluator.set_neighborhood(s.neighborhood);
  std::vector<std::vector<std::string>> steps;
  std::vector<int64_t> num_edges;
  for (const double scale : {1.0, 1.0, 0.95, 1.05}) {
    Tools::set_begin_parallel_for_callback(launch);
    Tools::set_begin_parallel_reduce_callback(launch);
    Tools::set_begin_parallel_scan_callback(launch);
    Tools::set_begin_fence_callback(wait);
    Tools::set_allocate_data_callback(
        [](Kokkos_Profiling_SpaceHandle, const char *, const void *, uint64_t) { calls().emplace_back("allocates"); });
    calls().clear();
    num_edges.push_back(evaluate_at(evaluator, s, scale).num_edges);
    steps.push_back(std::move(calls()));
    Tools::set_callbacks({});
  }
  EXPECT_NE(num_edges[2], num_edges[3]);
  EXPECT_EQ(std::count(steps[1].begin(), steps[1].end(), "allocates"), 0);
  for (int k : {2, 3}) EXPECT_EQ(steps[k], steps[1]);
  const auto place = [&](const char *name) {
    return std::find(steps[1].begin(), steps[1].end(), name) - steps[1].begin();
  };
  const auto first = place("waits: equi: positions ready for the own instance"),
             last = place("waits: equi: results of a step");
  ASSERT_LT(last, static_cast<std::ptrdiff_t>(steps[1].size()));
  ASSERT_LT(first, last);
  EXPECT_GT(last - first, 20);
  for (auto k = first + 1; k < last; ++k) EXPECT_NE(steps[1][k].rfind("waits: ", 0), 0u) << steps[1][k];
}

// Other ranks, which send zeros: to count what a step launches.
class Silence : public NoExchange {
 public:
  Silence(int num_receivers, int num_rows) : num_receivers_(num_receivers), num_rows_(num_rows) {}
  using NoExchange::forward;
  void forward(const FeaturePieces<double> &rows) override {
    for (const auto &[data, width] : rows)
      std::fill(data + static_cast<int64_t>(num_receivers_) * width, data + static_cast<int64_t>(num_rows_) * width,
                0.0);
  }
  bool active() const override { return true; }

 private:
  int num_receivers_, num_rows_;
};

// LAMMPS has many ghosts that no receiver sees, for example at a surface.
TEST(DeviceRecorderRun, few_receivers_among_many_remote_rows_take_few_launches) {
  if (!DeviceTraits<>::ON_HOST) GTEST_SKIP() << "a replayed graph names none of its launches";
  const Model m = make_tiny_model({}).model();
  const Structure whole = random_structure(2, 3, 4);
  std::vector<int> rank(whole.size(), 0);
  rank[0] = 1;
  const RankPart part = split_structure(whole.images(m.reach()), rank, 2)[1];
  const auto num_launches = [&](int num_unseen) {
    Neighborhood n = part.neighborhood;
    n.num_rows += num_unseen;
    n.row_species.resize(n.num_rows, 0);
    EvaluatorOptions options;
    options.precision = Precision::double_;
    options.radial_tolerance = 0.05;    // tables that are built quickly
    InDouble evaluator(m, options);
    evaluator.set_neighborhood(n);
    std::vector<Vector3> forces(n.num_atoms);
    EvaluationRequest request;
    request.positions = reinterpret_cast<const double(*)[3]>(part.positions.data());
    request.forces = reinterpret_cast<double(*)[3]>(forces.data());
    Silence others(n.num_receivers, n.num_rows);
    Kokkos::Tools::Experimental::set_begin_parallel_for_callback(
        [](const char *name, uint32_t, uint64_t *) { calls().emplace_back(name); });
    calls().clear();
    evaluator.evaluate(request, others);
    Kokkos::Tools::Experimental::set_callbacks({});
    return calls().size();
  };
  EXPECT_LT(num_launches(300), num_launches(0) + 10);    // some clear rows
}

// No memory grows with a sum of several sizes.
TEST(DeviceRecorderRun, sizes_that_were_met_one_by_one_are_enough_together) {
  const Model m = make_tiny_model({}).model();
  const Structure whole = random_structure(2, 3, 4);
  std::vector<int> rank(whole.size(), 0);
  rank[0] = 1;
  const std::vector<RankPart> parts = split_structure(whole.images(m.reach()), rank, 2);
  EvaluatorOptions options;
  options.precision = Precision::double_;
  options.radial_tolerance = 0.05;    // tables that are built quickly
  InDouble evaluator(m, options);
  const auto evaluate = [&](const RankPart &part, int num_unseen) {
    Neighborhood n = part.neighborhood;
    n.num_rows += num_unseen;
    n.row_species.resize(n.num_rows, 0);
    evaluator.set_neighborhood(n);
    std::vector<Vector3> forces(n.num_atoms);
    EvaluationRequest request;
    request.positions = reinterpret_cast<const double(*)[3]>(part.positions.data());
    request.forces = reinterpret_cast<double(*)[3]>(forces.data());
    request.virial = true;
    Silence others(n.num_receivers, n.num_rows);
    evaluator.evaluate(request, others);
  };
  const int num_unseen = 1000;
  const int more = parts[0].neighborhood.num_rows - parts[1].neighborhood.num_rows;
  evaluate(parts[0], 0);
  evaluate(parts[1], num_unseen + std::max(0, more));
  EXPECT_NO_THROW(evaluate(parts[0], num_unseen - std::max(0, -more)));
}

}    // namespace

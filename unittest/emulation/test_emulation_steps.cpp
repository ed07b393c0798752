// SPDX-License-Identifier: MIT
// The requests of a step of DeviceEvaluation to a device: a replayed step launches a graph and waits at its ends, and
// does nothing else. A step ends with an error if the device refuses anything.
#include "bench/launch_counter.h"
#include "kokkos/evaluation/device_evaluation.h"
#include "kokkos/layers/readout/device_readout.h"
#include "kokkos/runtime/device_queue.h"
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/evaluator_laws.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

// Steps of a small system whose neighborhood and positions are on the device.
class EmulatedSteps : public ::testing::Test {
 protected:
  EmulatedSteps() : model(make_tiny_model({}).model()), images(random_structure(2, 3, 4).images(1.2 * model.reach())) {}
  void make(bool graphs = true) {
    EvaluatorOptions options;
    options.graphs = graphs;
    evaluator = std::make_unique<DeviceEvaluation<float>>(model, options);
  }
  void set_neighborhood() {
    copy_neighborhood(DeviceExec(), images.neighborhood, neighborhood);
    evaluator->set_neighborhood(neighborhood, images.neighborhood.box);
  }
  // The energy with all positions multiplied by this factor.
  double evaluate(double scale = 1.0) {
    std::vector<double> numbers;
    for (const Vector3 &p : images.positions)
      for (const double x : p) numbers.push_back(scale * x);
    assign(DeviceExec(), positions, numbers);
    emulation::counts() = {};
    NoExchange none;
    return evaluator->evaluate(DeviceRequest{positions.data(), {}, true, true, false}, none).energy;
  }
  // Whether work reports an error if launches are refused (emulation.h). What kernels do with numbers that others did
  // not write does not matter.
  template <class Work>
  bool is_error(int64_t taken, int64_t refused, const Work &work) {
    bool has_thrown = false;
    emulation::refuse_launches(taken, refused);
    emulation::reports_of([&] {
      try {
        work();
      } catch (const std::exception &e) {
        has_thrown = true;
        const std::string text = e.what();
        EXPECT_TRUE(text.find("the GPU has refused a kernel or a call: invalid configuration") != std::string::npos ||
                    text.find("the launch of a kernel failed") != std::string::npos)
            << text;
      }
      if (!has_thrown) return;
      Kokkos::fence("test: what is still queued");
      evaluator.reset();
      neighborhood = {};
      positions = {};
    });
    cudaGetLastError();    // cuBLAS leaves it set
    return has_thrown;
  }

  const Model model;
  const ImageStructure images;
  DeviceNeighborhood neighborhood;
  DeviceBuffer<double> positions;
  std::unique_ptr<DeviceEvaluator> evaluator;
};

TEST_F(EmulatedSteps, a_replay_is_one_graph_between_two_waits) {
  make();
  set_neighborhood();
  std::vector<double> energies{evaluate()};
  const emulation::Counts plain = emulation::counts();
  EXPECT_GT(plain.launches, 20);
  EXPECT_GT(plain.allocations, 0);
  EXPECT_EQ(plain.captures, 0);

  energies.push_back(evaluate());
  const emulation::Counts recorded = emulation::counts();
  EXPECT_EQ(recorded.captures, 1);
  EXPECT_EQ(recorded.launches, plain.launches);
  EXPECT_EQ(recorded.allocations, 0);

  for (int n = 0; n < 2; n++) {
    energies.push_back(evaluate());
    const emulation::Counts replayed = emulation::counts();
    EXPECT_EQ(replayed.replays, 1);
    EXPECT_EQ(replayed.launches, 0);
    EXPECT_EQ(replayed.captures, 0);
    EXPECT_EQ(replayed.allocations, 0);
    EXPECT_EQ(replayed.fences, 2);
    EXPECT_GT(replayed.shuffles, 0);
  }
  for (const double energy : energies) EXPECT_EQ(energy, energies[0]);
}

TEST_F(EmulatedSteps, the_memory_of_graphs_is_counted) {
  make();
  set_neighborhood();
  evaluate();
  const std::size_t before = evaluator->memory_bytes();
  evaluate();
  EXPECT_EQ(evaluator->memory_bytes() - before, 5000u * emulation::counts().launches);
}

TEST_F(EmulatedSteps, counting_launches_leaves_the_next_steps_recorded) {
  make();
  set_neighborhood();
  int launches;
  {
    const LaunchCounter counter;
    evaluate();
    launches = counter.launches();
    EXPECT_GT(emulation::counts().fences, launches) << "Kokkos waits before each launch that it tells of";
  }
  EXPECT_GT(launches, 20);
  evaluate();
  EXPECT_EQ(emulation::counts().captures, 1);
  evaluate();
  EXPECT_EQ(emulation::counts().replays, 1);
  EXPECT_EQ(emulation::counts().fences, 2);
}

// The steps of an edge are fused: besides dense products and its radial network, a layer has four launches forward and
// six backward.
TEST(EmulatedSo2Steps, so2_convolutions_have_few_launches) {
  const Model model = case_named("so2_of_fewer_m").model();
  ASSERT_TRUE(std::none_of(model.layers.begin(), model.layers.end(), [](const Layer &layer) {
    const So2Convolution *so2 = std::get_if<So2Convolution>(&layer);
    return so2 && (so2->attention.heads > 0 || so2->radial_linear > 0);
  }));
  const int num_layers = model.num_convolutions();
  const ImageStructure images = random_structure(model.num_species(), 7).images(model.reach());
  DeviceEvaluation<float> evaluator(model, {});
  evaluator.set_neighborhood(images.neighborhood);
  const auto launches = [&](bool forces) {
    std::vector<Vector3> of_atoms(images.positions.size());
    EvaluationRequest request;
    request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
    if (forces) request.forces = reinterpret_cast<double(*)[3]>(of_atoms.data());
    NoExchange none;
    const LaunchCounter counter("equi:so2_");
    evaluator.evaluate(request, none);
    return counter.launches();
  };
  launches(true);    // warm
  const int forward = launches(false), both = launches(true);
  EXPECT_LE(forward, 4 * num_layers);
  EXPECT_LE(both - forward, 6 * num_layers);
  EXPECT_GT(forward, 0);
}

// From the construction of an evaluation to the end of its first step.
TEST_F(EmulatedSteps, each_launch_that_is_refused_is_an_error) {
  for (const bool graphs : {true, false}) {
    int64_t refused = 0;
    do {
      const bool has_thrown = is_error(refused, 1, [&] {
        make(graphs);
        set_neighborhood();
        evaluate();
      });
      ASSERT_NE(has_thrown, emulation::is_refusing()) << "launch " << refused;
      refused++;
    } while (!emulation::is_refusing());
    EXPECT_GT(refused, 60);
    emulation::refuse_launches(0, 0);
  }
}

TEST_F(EmulatedSteps, a_recording_that_lacks_a_launch_is_not_used) {
  make(false);
  set_neighborhood();
  const double expected[] = {evaluate(1.01), evaluate(0.98)};
  for (int64_t refused = 0; !emulation::is_refusing(); refused++) {
    make();
    set_neighborhood();
    evaluate(1.02);
    EXPECT_FALSE(is_error(refused, 1, [&] { EXPECT_EQ(evaluate(1.01), expected[0]); }));
    EXPECT_EQ(evaluate(0.98), expected[1]);
    EXPECT_EQ(emulation::counts().replays, emulation::is_refusing() ? 1 : 0);
  }
  emulation::refuse_launches(0, 0);
  make();
  set_neighborhood();
  evaluate(1.02);
  EXPECT_TRUE(is_error(10, 10000, [&] { evaluate(1.01); })) << "also those in the place of the recording";
  emulation::refuse_launches(0, 0);
}

// Two slabs, most atoms of which depend on no other rank. Besides features, positions are sent to the device and
// results come back.
TEST_F(EmulatedSteps, ranks_exchange_the_rows_of_their_border_through_pinned_memory) {
  const Structure structure = random_structure(2, 5, 6);
  std::vector<int> rank(structure.size());
  for (int i = 0; i < structure.size(); i++) rank[i] = i >= structure.size() / 2;
  const std::vector<RankPart> parts = split_structure(structure.images(model.reach()), rank, 2);
  std::vector<std::unique_ptr<Evaluator>> ranks;
  for (int r = 0; r < 2; r++) ranks.push_back(std::make_unique<DeviceEvaluation<float>>(model, EvaluatorOptions()));
  RankGroup group(parts);
  for (const bool same_positions : {false, true}) {    // the second time without a new neighborhood
    emulation::counts() = {};
    for (const auto &error :
         evaluate_ranks(ranks, parts, structure.size(), group, nullptr, same_positions ? Wanted::tangents : Wanted::all)
             .errors)
      EXPECT_FALSE(error);
  }
  int64_t most = 0, beside = 0;
  for (int r = 0; r < 2; r++) {
    const Neighborhood &n = parts[r].neighborhood;
    ASSERT_GT(n.num_interior, n.num_receivers / 4);
    const auto bytes_per_row = static_cast<int64_t>(ranks[r]->exchange_bytes_per_row());
    most += group.calls(r) / 2 * (n.num_rows - n.num_interior) * bytes_per_row;
    // Positions, forces, atoms' virials and energies.
    beside += (3 * n.num_atoms + 14 * n.num_rows) * static_cast<int64_t>(sizeof(double));
  }
  const emulation::Counts &counts = emulation::counts();
  EXPECT_GT(counts.pinned_bytes, most / 2);
  EXPECT_LE(counts.pinned_bytes, most);
  EXPECT_LE(counts.pageable_bytes, beside);
}

// ---- what must exist before a step

TEST(EmulatedDevices, without_a_gpu_there_is_a_reason_in_words) {
  const auto reason = [](int number) {
    try {
      check_devices(number);
    } catch (const std::exception &e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(reason(0), "");
  EXPECT_EQ(reason(7), "") << "devices are taken in turn";
  emulation::set_devices(0, cudaErrorNoDevice);
  EXPECT_NE(reason(0).find("needs an NVIDIA GPU: no CUDA-capable device is detected"), std::string::npos) << reason(0);
  EXPECT_EQ(num_devices(), 0);
  emulation::set_devices(0, cudaErrorInsufficientDriver);
  EXPECT_NE(reason(0).find("the driver is for CUDA 11.4 and older, the build for CUDA 13.0"), std::string::npos)
      << reason(0);
  emulation::set_devices(2, cudaSuccess, 7, 5);
  EXPECT_NE(reason(3).find("architecture 80 and newer ones (CMAKE_CUDA_ARCHITECTURES), GPU 1 (emulated GPU) has 75"),
            std::string::npos)
      << reason(3);
  emulation::set_devices(1, cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "what was asked left no error";
}

TEST(EmulatedDevices, they_are_told_apart_by_more_than_their_numbers) {
  EXPECT_NE(device_identity(), DeviceIdentity{});
  EXPECT_EQ(device_identity(), device_identity());
}

TEST(EmulatedDevices, some_memory_is_left_to_others) {
  std::size_t unused, all;
  ASSERT_EQ(cudaMemGetInfo(&unused, &all), cudaSuccess);
  EXPECT_EQ(memory_available(1), static_cast<double>(unused) - 1e9);
  EXPECT_EQ(memory_available(2), 0.5 * (static_cast<double>(unused) - 1e9));
  // Each process has workspaces and neighbor lists of its own.
  EXPECT_EQ(memory_available(8), 0.125 * (static_cast<double>(unused) - 3.2e9));
}

// Kokkos would refuse the launch, at the first step.
TEST(EmulatedDevices, networks_beyond_their_shared_memory_are_refused_when_they_are_made) {
  const FeatureGroup group{Irrep{0, 1}, 16, 0, 1};
  const auto make = [&](auto t, int width) {
    Network network;
    for (const auto &[rows, cols] : {std::pair{16, width}, std::pair{width, 1}})
      network.weights.push_back({rows, cols, std::vector<double>(static_cast<size_t>(rows) * cols)});
    const DeviceReadout<decltype(t)> readout(DeviceExec(), network, group, 0);
  };
  EXPECT_NO_THROW(make(float(), 1600));
  EXPECT_THROW(make(float(), 1800), std::runtime_error);
  EXPECT_NO_THROW(make(Dual<float>(), 800));
  EXPECT_THROW(make(Dual<float>(), 900), std::runtime_error);
}

// ---- dense products

TEST(EmulatedDense, each_instance_has_a_workspace_of_its_own) {
  const DeviceExec instance = make_own_instance();
  DeviceBuffer<double> a, b, c;
  assign(DeviceExec(), a, std::vector<double>{1.0, 2.0});
  assign(DeviceExec(), b, std::vector<double>{3.0, 4.0});
  c.reserve(1);
  const auto multiply = [&] { device_gemm(instance, false, 1, 1, 2, a.data(), b.data(), false, c.data()); };
  const std::size_t before = emulation::num_allocations();
  EXPECT_THROW(multiply(), std::logic_error);
  {
    const DeviceDense of_default((DeviceExec())), of_instance(instance);
    EXPECT_EQ(emulation::num_allocations(), before + 2);
    {
      const DeviceDense again(instance);
      EXPECT_EQ(emulation::num_allocations(), before + 2);
    }
    multiply();
    instance.fence("test: a product");
    double product = 0.0;
    copy_to_host(DeviceExec(), &product, c.data(), 1);
    EXPECT_EQ(product, 11.0);
  }
  EXPECT_EQ(emulation::num_allocations(), before);
  EXPECT_THROW(multiply(), std::logic_error);
}

// More branches than run concurrently, each with two products that add up, in a recording and without one.
TEST(EmulatedDense, branches_come_between_earlier_and_later_work) {
  constexpr int NUM = 6;
  const DeviceExec exec = make_own_instance();
  const DeviceDense dense(exec);
  DeviceBuffer<double> a, b, c, sum;
  a.reserve(1);
  b.reserve(1);
  c.reserve(NUM);
  sum.reserve(1);
  double number = 0.0;
  const auto work = [&] {
    device_fill(exec, a.data(), 1, 3.0);
    device_fill(exec, b.data(), 1, 5.0);
    {
      const DenseBranches branches(exec);
      for (const bool add : {false, true})
        for (int k = 0; k < NUM; k++)
          device_gemm(exec, false, 1, 1, 1, a.data(), b.data(), add, c.data() + k, nullptr, k);
    }
    Kokkos::parallel_for("test:sum", DeviceRange(exec, 0, 1),
                         [=, c = c.data(), sum = sum.data(), a = a.data()](int64_t) {
                           *sum = *a = 0.0;
                           for (int k = 0; k < NUM; k++) *sum += c[k];
                         });
    device_zero(exec, c.data(), NUM);
  };
  const auto expect_sum = [&](const std::string &what) {
    copy_to_host(exec, &number, sum.data(), 1);
    EXPECT_EQ(number, NUM * 2 * 15.0) << what;
  };
  for (int n = 0; n < 5; n++) {
    work();
    expect_sum("not recorded");
  }
  DeviceGraph<DeviceExec> graph;
  graph.record(exec, work);
  expect_sum("recorded");
  for (int n = 0; n < 5; n++) {
    graph.replay(exec, [] { ADD_FAILURE() << "was not recorded"; });
    expect_sum("replayed");
  }
}

// A capture continues after a refused product, and so do other products.
TEST(EmulatedDense, branches_end_where_a_product_fails) {
  const DeviceExec exec = make_own_instance();
  const DeviceDense dense(exec);
  DeviceBuffer<double> a, b, c;
  assign(exec, a, std::vector<double>{3.0});
  assign(exec, b, std::vector<double>{5.0});
  c.reserve(3);
  const auto multiply = [&](int k, int64_t rows = 1) {
    device_gemm(exec, false, rows, 1, 1, a.data(), b.data(), false, c.data() + k, nullptr, k);
  };
  DeviceGraph<DeviceExec> graph;
  graph.record(exec, [&] {
    EXPECT_THROW(
        {
          const DenseBranches branches(exec);
          multiply(1);
          multiply(2, int64_t(1) << 40);
        },
        std::length_error);
    multiply(0);
    const DenseBranches branches(exec);
    EXPECT_THROW(DenseBranches within(exec), std::logic_error);
    multiply(2);
  });
  graph.replay(exec, [] { ADD_FAILURE() << "was not recorded"; });
  std::vector<double> numbers(3);
  copy_to_host(exec, numbers.data(), c.data(), 3);
  EXPECT_EQ(numbers, std::vector<double>(3, 15.0));
}

// A rank without interior atoms queues nothing that messages could travel next to.
TEST(QueuedWork, is_busy_only_while_work_is_queued) {
  QueuedWork<> queued;
  EXPECT_FALSE(queued.is_busy());
  queued.begin();
  EXPECT_TRUE(queued.is_busy());
  queued.cancel();
  EXPECT_FALSE(queued.is_busy());
  queued.begin();
  const DeviceExec exec;
  queued.end(exec);
  exec.fence("work has ended");
  EXPECT_FALSE(queued.is_busy());
}

}    // namespace

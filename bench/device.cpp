// SPDX-License-Identifier: MIT
// Measures the evaluation on a device without LAMMPS, on a jittered rock salt crystal. It prints the difference from
// the evaluation on the host, the times of layers, and the times of whole evaluations of energy, forces and virial. The
// tables are CSV (bench/gpu.py writes them to files). BATCH: receivers of a launch, 0 for the default.
//
//   bench_device FILE.equi ELEMENT ELEMENT check  PRECISION [CELLS per side]
//   bench_device FILE.equi ELEMENT ELEMENT directions PRECISION [CELLS per side]
//   bench_device FILE.equi ELEMENT ELEMENT layers PRECISION [CELLS per side]
//   bench_device FILE.equi ELEMENT ELEMENT steps  PRECISION [SECONDS in all [BATCH]]
//   bench_device FILE.equi ELEMENT ELEMENT memory PRECISION [CELLS per side]
//   bench_device FILE.equi ELEMENT ELEMENT parts PRECISION [CELLS per side [BATCH]]
#include "bench/launch_counter.h"
#include "bench/rock_salt.h"
#include "bench/whole_evaluation.h"
#include "kokkos/geometry/device_edges.h"
#include "kokkos/layers/convolution/device_convolution.h"
#include "kokkos/plan/evaluation_plan.h"
#include "src/evaluation/native_evaluators.h"
#include "src/model/model_file.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace {

using namespace equi;
using bench::evaluate, bench::Results;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The shortest time of a call of f on the device, in seconds, measured in turns of about 0.1 s.
template <class F>
double shortest(const F &f) {
  constexpr double TURN = 0.1;
  constexpr int TURNS = 5;
  const DeviceExec exec;
  auto turn = [&](int calls) {
    exec.fence();
    const auto begin = Clock::now();
    for (int k = 0; k < calls; ++k) f();
    exec.fence();
    return seconds_since(begin) / calls;
  };
  turn(1);
  const int calls = std::max(1, static_cast<int>(TURN / turn(1)));
  double best = turn(calls);
  for (int k = 1; k < TURNS; ++k) best = std::min(best, turn(calls));
  return best;
}

// Compares with the host's kernels in float64. Prints the largest differences: eV/atom, eV/Angstrom, and eV of the
// virial per atom.
void check(const Model &model, const EvaluatorOptions &options, const char *precision, int cells) {
  const ImageStructure s = jittered_rock_salt(cells, model.reach());
  EvaluatorOptions in_double;
  in_double.precision = Precision::double_;
  const auto host = make_host_evaluator(model, in_double), device = make_device_evaluator(model, options);
  host->set_neighborhood(s.neighborhood);
  device->set_neighborhood(s.neighborhood);
  // The second evaluation of a small system is recorded, the third one replayed.
  const Results expected = evaluate(*host, s), found = evaluate(*device, s), again = evaluate(*device, s),
                third = evaluate(*device, s);
  const int num_atoms = s.neighborhood.num_receivers;
  double force = 0.0, virial = 0.0;
  for (size_t a = 0; a < s.positions.size(); ++a)
    for (int k = 0; k < 3; ++k) force = std::max(force, std::fabs(found.forces[a][k] - expected.forces[a][k]));
  for (int k = 0; k < 6; ++k) virial = std::max(virial, std::fabs(found.sums.virial[k] - expected.sums.virial[k]));
  const auto repeats_in = [&](const Results &other) {
    return found.sums.energy == other.sums.energy && found.forces == other.forces;
  };
  const bool repeats = repeats_in(again) && repeats_in(third);
  std::printf("precision,atoms,energy,force,virial,repeats\n%s,%d,%.3e,%.3e,%.3e,%s\n", precision, num_atoms,
              std::fabs(found.sums.energy - expected.sums.energy) / num_atoms, force, virial / num_atoms,
              repeats ? "yes" : "no");
}

// The derivatives of the forces along several directions, as many at a time as the evaluation accepts after values were
// kept. Prints the largest difference from the host's results in float64, one direction after the other, relative to
// the largest component.
void directions(const Model &model, EvaluatorOptions options, const char *precision, int cells) {
  constexpr int NUM = 4;
  const ImageStructure s = jittered_rock_salt(cells, model.reach());
  const size_t num_atoms = s.positions.size();
  EvaluatorOptions in_double;
  in_double.precision = Precision::double_;
  in_double.directional = options.directional = true;
  options.kept_directions = NUM;
  const auto host = make_host_evaluator(model, in_double), device = make_device_evaluator(model, options);
  host->set_neighborhood(s.neighborhood);
  device->set_neighborhood(s.neighborhood);
  using Vectors = std::vector<std::array<double, 3>>;
  Vectors direction(NUM * num_atoms);
  std::mt19937 random(1);
  std::uniform_real_distribution<double> component(-1.0, 1.0);
  for (int d = 0; d < NUM; ++d)
    for (size_t a = 0; a < num_atoms; ++a) {    // images come after their atoms
      auto &v = direction[d * num_atoms + a];
      if (a < static_cast<size_t>(s.neighborhood.num_receivers))
        for (double &k : v) k = component(random);
      else
        v = direction[d * num_atoms + s.owner[a]];
    }
  // Computes `together` directions at a time; those after the first ones at known positions.
  const auto tangents_of = [&](Evaluator &evaluator, int together) {
    Vectors tangents(NUM * num_atoms);
    NoExchange none;
    EvaluationRequest request;
    request.positions = reinterpret_cast<const double(*)[3]>(s.positions.data());
    request.direction_distance = static_cast<int64_t>(num_atoms);
    for (int d = 0; d < NUM; d += request.num_directions) {
      request.direction = reinterpret_cast<const double(*)[3]>(direction.data() + d * num_atoms);
      request.force_tangents = reinterpret_cast<double(*)[3]>(tangents.data() + d * num_atoms);
      request.same_positions = d > 0;
      request.num_directions = d > 0 ? std::min(together, NUM - d) : 1;
      evaluator.evaluate(request, none);
    }
    return tangents;
  };
  const int together = device->max_directions();
  const Vectors expected = tangents_of(*host, 1), found = tangents_of(*device, together),
                again = tangents_of(*device, together);
  double difference = 0.0, largest = 0.0;
  for (size_t a = 0; a < found.size(); ++a)
    for (int k = 0; k < 3; ++k) {
      difference = std::max(difference, std::fabs(found[a][k] - expected[a][k]));
      largest = std::max(largest, std::fabs(expected[a][k]));
    }
  std::printf("precision,atoms,together,tangent,repeats\n%s,%d,%d,%.3e,%s\n", precision, s.neighborhood.num_receivers,
              together, difference / largest, found == again ? "yes" : "no");
}

// Times of single convolutions with their radial functions: outputs, adjoints of edges, adjoints of senders, and the
// last two in one kernel. The last number is zero if there is no such kernel.
template <class T>
void layers(const Model &model, const EvaluatorOptions &options, const char *precision, int cells) {
  const ImageStructure s = jittered_rock_salt(cells, model.reach());
  const EvaluationPlan plan = make_evaluation_plan(model, true);
  const DeviceExec exec;
  DeviceEdges<T> edges(exec, model.lmax_edge, model.num_species(), model.cutoff, model.pair_cutoff);
  const int num_atoms = s.neighborhood.num_receivers;
  DeviceNeighborhood neighborhood;
  copy_neighborhood(exec, s.neighborhood, neighborhood);
  transpose_neighborhood(exec, num_atoms, neighborhood);
  DeviceBuffer<double> positions;
  const int64_t size = 3 * static_cast<int64_t>(s.positions.size());
  copy_to_device(exec, positions.reserve(size), s.positions.data()->data(), size);
  edges.set_neighborhood(exec, neighborhood, {0, num_atoms}, {0, num_atoms}, true);
  edges.build(exec, positions.data());
  DeviceConvScratch<T> scratch;
  std::mt19937 random(1);
  std::uniform_real_distribution<T> number(-1, 1);
  auto fill = [&](DeviceBuffer<T> &buffer, int64_t n) {
    std::vector<T> values(n);
    for (T &v : values) v = number(random);
    assign(exec, buffer, values);
  };
  std::printf(
      "precision,layer,atoms,edges,forward_ns_per_edge,backward_ns_per_edge,gather_ns_per_edge,fused_ns_per_edge\n");
  int index = 0;
  for (const Layer &layer : model.layers) {
    const auto *c = std::get_if<Convolution>(&layer);
    if (!c) continue;
    const FeatureLayout &in = plan.features[c->input].layout, &out = plan.features[c->output].layout;
    const bool is_fixed = plan.features[c->input].storage == Storage::fixed;
    const int64_t rows = is_fixed ? model.num_species() : num_atoms;
    const DeviceConvolution<T> convolution(exec, *c, in, out, model.num_species(), options);
    DeviceBuffer<T> x, x_adj, y, y_adj;
    fill(x, rows * in.row_size());
    fill(x_adj, num_atoms * in.row_size());
    fill(y, num_atoms * out.row_size());
    fill(y_adj, num_atoms * out.row_size());
    const FeatureRows<T> x_rows{x.data(), rows, 0}, y_rows{y.data(), num_atoms, 0},
        y_adj_rows{y_adj.data(), num_atoms, 0};
    const DeviceBatchEdges receivers = edges.receivers(0, 0, num_atoms, is_fixed),
                           senders = edges.senders(0, 0, num_atoms);
    const auto prepare = [&](const DeviceBatchEdges &batch, bool with_coupled, bool of_senders) {
      convolution.prepare(exec, batch, edges.distance(), edges.pair(), edges.harmonics(), with_coupled,
                          {x_rows, is_fixed, of_senders, 0, 0}, nullptr, scratch);
    };
    const double forward = shortest([&] {
      prepare(receivers, true, false);
      convolution.forward(exec, receivers, x_rows, y_rows, 0, scratch);
    });
    const double backward = shortest([&] {
      prepare(receivers, false, false);
      convolution.backward(exec, receivers, x_rows, y_adj_rows, 0, edges.adjoint(),
                           is_fixed ? FeatureRows<T>{} : FeatureRows<T>{x_adj.data(), rows, 0}, scratch);
    });
    const double gather = is_fixed ? 0.0 : shortest([&] {
      prepare(senders, true, true);
      convolution.gather_senders(exec, senders, x_rows, y_adj_rows, {x_adj.data(), num_atoms, 0}, 0, scratch);
    });
    const double fused = is_fixed || !convolution.can_fuse() ? 0.0 : shortest([&] {
      prepare(receivers, true, false);
      convolution.fused(exec, receivers, x_rows, y_adj_rows, num_atoms, edges.adjoint(), {x_adj.data(), num_atoms, 0},
                        scratch);
    });
    const double ns = 1e9 / static_cast<double>(edges.capacity());
    std::printf("%s,%d,%d,%ld,%.4f,%.4f,%.4f,%.4f\n", precision, index++, num_atoms,
                static_cast<long>(edges.capacity()), ns * forward, ns * backward, ns * gather, ns * fused);
    std::fflush(stdout);
  }
}

// The shortest time of an evaluation in seconds, after a few warm-up evaluations.
double shortest_evaluation(Evaluator &evaluator, const ImageStructure &s) {
  double best = 1e300;
  int evaluations = 0;
  for (const auto turn = Clock::now(); evaluations < 3 || (seconds_since(turn) < 1.0 && evaluations < 100);
       ++evaluations) {
    const auto one = Clock::now();
    evaluate(evaluator, s);
    best = std::min(best, seconds_since(one));
  }
  return best;
}

// Sizes grow until the memory or the time is used up. Launches are counted in an evaluation that is not replayed. Small
// systems are timed with and without graphs.
void steps(const Model &model, EvaluatorOptions options, const char *precision, double seconds) {
  const auto begin = Clock::now();
  options.memory_limit = 0.95 * memory_available(1);
  const auto evaluator = make_device_evaluator(model, options);
  options.graphs = false;
  auto without_graphs = make_device_evaluator(model, options);
  std::printf(
      "precision,batch,atoms,edges,ms_per_evaluation,us_per_atom,ns_per_edge,kB_per_atom,launches,ms_without_graphs\n");
  double longest = 0.0;
  for (int cells = 2; seconds_since(begin) + 8.0 * longest < seconds; cells = cells < 5 ? cells + 1 : cells * 7 / 5) {
    const auto size_begin = Clock::now();
    const ImageStructure s = jittered_rock_salt(cells, model.reach());
    evaluator->set_neighborhood(s.neighborhood);
    const int num_atoms = s.neighborhood.num_receivers;
    int64_t num_edges = 0;
    int launches = 0;
    try {
      const LaunchCounter counter;
      num_edges = evaluate(*evaluator, s).sums.num_edges;
      launches = counter.launches();
    } catch (const MemoryLimitError &) {
      break;
    }
    const double best = shortest_evaluation(*evaluator, s);
    std::printf("%s,%d,%d,%ld,%.4f,%.4f,%.3f,%.2f,%d,", precision, options.batch, num_atoms,
                static_cast<long>(num_edges), 1e3 * best, 1e6 * best / num_atoms,
                1e9 * best / static_cast<double>(num_edges),
                1e-3 * static_cast<double>(evaluator->memory_bytes()) / num_atoms, launches);
    if (num_atoms <= RECORDED_ATOMS) {
      without_graphs->set_neighborhood(s.neighborhood);
      std::printf("%.4f", 1e3 * shortest_evaluation(*without_graphs, s));
    } else {
      without_graphs.reset();    // its memory is needed
    }
    std::printf("\n");
    std::fflush(stdout);
    longest = seconds_since(size_begin);
  }
}

// The smallest memory with which an evaluation works. Only the edges are evaluated.
void memory(const Model &model, EvaluatorOptions options, const char *precision, int cells) {
  const ImageStructure s = jittered_rock_salt(cells, model.reach());
  options.memory_limit = 1.0;
  const auto evaluator = make_device_evaluator(model, options);
  const double without_atoms = static_cast<double>(evaluator->memory_bytes());
  evaluator->set_neighborhood(s.neighborhood);
  try {
    evaluate(*evaluator, s);
  } catch (const MemoryLimitError &e) {
    const int num_atoms = s.neighborhood.num_receivers;
    std::printf("precision,atoms,MB_for_tables,least_kB_per_atom\n%s,%d,%.1f,%.2f\n", precision, num_atoms,
                1e-6 * without_atoms, 1e-3 * (e.bytes - without_atoms) / num_atoms);
  }
}

// What evaluations use memory for, in bytes per atom: with all features kept, with EvaluatorOptions::lean, and under
// the smallest limit with which an evaluation works.
void parts(const Model &model, EvaluatorOptions options, const char *precision, int cells) {
  const ImageStructure s = jittered_rock_salt(cells, model.reach());
  const double num_atoms = s.neighborhood.num_receivers;
  constexpr double ROOM = 1.02;    // of a limit: FILLED of the evaluation
  options.memory_limit = 1.0;
  double least = 0.0;
  try {
    const auto refused = make_device_evaluator(model, options);
    refused->set_neighborhood(s.neighborhood);
    evaluate(*refused, s);
  } catch (const MemoryLimitError &e) {
    least = ROOM * e.bytes;
  }
  std::printf("precision,atoms,mode,part,bytes_per_atom\n");
  for (const std::string mode : {"full", "lean", "least"}) {
    options.lean = mode == "lean";
    options.memory_limit = mode == "least" ? least : 0.0;
    const auto evaluator = make_device_evaluator(model, options);
    const double without_atoms = static_cast<double>(evaluator->memory_bytes());
    evaluator->set_neighborhood(s.neighborhood);
    evaluate(*evaluator, s);
    const auto print = [&](const char *name, double bytes) {
      std::printf("%s,%.0f,%s,%s,%.0f\n", precision, num_atoms, mode.c_str(), name, bytes / num_atoms);
    };
    for (const MemoryPart &part : memory_parts(*evaluator)) print(part.name, static_cast<double>(part.bytes));
    print("all without tables", static_cast<double>(evaluator->memory_bytes()) - without_atoms);
  }
}

}    // namespace

int main(int argc, char **argv) {
  const std::vector<std::string> precisions = {"mixed", "double", "tf32"};
  const auto precision = std::find(precisions.begin(), precisions.end(), argc > 5 ? argv[5] : "");
  const std::string task = argc > 4 ? argv[4] : "";
  const std::vector<std::string> tasks = {"check", "directions", "layers", "steps", "memory", "parts"};
  if (precision == precisions.end() || std::find(tasks.begin(), tasks.end(), task) == tasks.end()) {
    std::fprintf(stderr,
                 "usage: bench_device FILE.equi ELEMENT ELEMENT check|directions|layers|steps|memory|parts "
                 "mixed|double|tf32 [NUMBER [BATCH]]\n");
    return 1;
  }
  try {
    start_kokkos(0, 0);
    const Model model = read_model(argv[1]).restricted_to({argv[2], argv[3]});
    EvaluatorOptions options;
    options.precision = static_cast<Precision>(precision - precisions.begin());
    const double number = argc > 6 ? std::atof(argv[6]) : 0.0;
    options.batch = argc > 7 ? std::atoi(argv[7]) : 0;
    const int cells = number > 0.0 ? static_cast<int>(number) : task == "check" ? 3 : task == "directions" ? 2 : 8;
    if (task == "check")
      check(model, options, argv[5], cells);
    else if (task == "directions")
      directions(model, options, argv[5], cells);
    else if (task == "memory")
      memory(model, options, argv[5], number > 0.0 ? cells : 20);
    else if (task == "parts")
      parts(model, options, argv[5], cells);
    else if (task == "steps")
      steps(model, options, argv[5], number > 0.0 ? number : 60.0);
    else if (options.precision == Precision::double_)
      layers<double>(model, options, argv[5], cells);
    else
      layers<float>(model, options, argv[5], cells);
  } catch (const std::exception &e) {
    std::fprintf(stderr, "bench_device: %s\n", e.what());
    return 1;
  }
  return 0;
}

// SPDX-License-Identifier: MIT
// Measures whole evaluations of energy, forces and virial on CPUs without LAMMPS, on a jittered rock salt crystal. It
// prints time, memory, and the operations of the model as its layers count them (kokkos/plan/operation_count.h).
// Threads are those of OpenMP. The time is that of the processor, divided by the threads. Other programs on the machine
// disturb it less than the wall time. If one thread waits for another, it is too small.
//
//   bench_evaluation FILE.equi ELEMENT ELEMENT PRECISION [CELLS per side [MEMORY [BATCH ...]]]
//
// MEMORY: the limit of the memory in MB, 0: none; lean: none, with EvaluatorOptions::lean.
// BATCH: numbers of atoms that are evaluated at a time (EvaluatorOptions::batch). Each is timed in turn.
#include "bench/peak.h"
#include "bench/rock_salt.h"
#include "bench/whole_evaluation.h"
#include "kokkos/plan/linear_folds.h"
#include "kokkos/plan/operation_count.h"
#include "kokkos/runtime/host_exec.h"
#include "src/evaluation/native_evaluators.h"
#include "src/generator/kernel_schedule.h"
#include "src/model/model_file.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace equi;
using bench::evaluate, bench::Results;

constexpr int EVALUATIONS = 5;

// Processor time in seconds per thread.
template <class F>
double seconds(const F &f) {
  const std::clock_t begin = std::clock();
  f();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / HostExec().concurrency();
}

void time_batches(const Model &model, EvaluatorOptions options, const ImageStructure &s,
                  const std::vector<int> &batches) {
  std::vector<std::unique_ptr<Evaluator>> evaluators;
  for (const int batch : batches) {
    options.batch = batch;
    evaluators.push_back(make_host_evaluator(model, options));
    evaluators.back()->set_neighborhood(s.neighborhood);
    evaluate(*evaluators.back(), s);
  }
  std::vector<double> best(batches.size(), 1e300);
  for (int turn = 0; turn < EVALUATIONS; ++turn)
    for (size_t k = 0; k < batches.size(); ++k)
      best[k] = std::min(best[k], seconds([&] { evaluate(*evaluators[k], s); }));
  for (size_t k = 0; k < batches.size(); ++k)
    std::printf("batches of %d atoms: %.1f us per atom\n", batches[k], 1e6 * best[k] / s.neighborhood.num_receivers);
}

template <class T>
double peak() {
  return bench::peak_gflops<T>(best_instruction_set(), HostExec().concurrency());
}

}    // namespace

int main(int argc, char **argv) {
  const std::vector<std::string> precisions = {"mixed", "double"};
  const auto precision = std::find(precisions.begin(), precisions.end(), argc > 4 ? argv[4] : "");
  if (precision == precisions.end()) {
    std::fprintf(stderr,
                 "usage: bench_evaluation FILE.equi ELEMENT ELEMENT mixed|double [CELLS [MB|lean [BATCH ...]]]\n");
    return 1;
  }
  try {
    start_kokkos(0, 0);
    const Model model = read_model(argv[1]).restricted_to({argv[2], argv[3]});
    EvaluatorOptions options;
    options.precision = static_cast<Precision>(precision - precisions.begin());
    options.lean = argc > 6 && std::string(argv[6]) == "lean";
    options.memory_limit = argc > 6 ? 1e6 * std::atof(argv[6]) : 0.0;
    const ImageStructure s = jittered_rock_salt(argc > 5 ? std::atoi(argv[5]) : 3, model.reach());
    const auto evaluator = make_host_evaluator(model, options);
    const double constants = static_cast<double>(evaluator->memory_bytes());
    evaluator->set_neighborhood(s.neighborhood);
    Results results = evaluate(*evaluator, s);
    double best = 1e300;
    for (int k = 0; k < EVALUATIONS; ++k) best = std::min(best, seconds([&] { results = evaluate(*evaluator, s); }));
    double force = 0.0;
    for (const std::array<double, 3> &f : results.forces)
      for (const double component : f) force += component * component;
    const double atoms = s.neighborhood.num_receivers, edges = static_cast<double>(results.sums.num_edges),
                 bytes = static_cast<double>(evaluator->memory_bytes()) - constants;
    const Model folded = fold_linears(model);
    const Operations operations = count_operations(folded, make_evaluation_plan(folded, false), AVX512_TARGET)
                                      .total()
                                      .per_atom_with(edges / atoms);
    const double rate = 1e-9 * operations.both() * atoms / best;
    const double bound = options.precision == Precision::double_ ? peak<double>() : peak<float>();
    std::printf("%s%.0f atoms, %.1f edges per atom, energy %.15g eV, sum of squared forces %.12g\n",
                evaluator->describe().c_str(), atoms, edges / atoms, results.sums.energy, force);
    std::printf("%.1f us per atom, %.2f us per edge; %.1f MB of constants, %.2f kB per atom, %.2f kB per edge\n",
                1e6 * best / atoms, 1e6 * best / edges, 1e-6 * constants, 1e-3 * bytes / atoms, 1e-3 * bytes / edges);
    std::printf("%.2f MFLOP per atom forward, %.2f backward; %.1f GFLOP/s of at most %.1f in registers (%.0f %%)\n",
                1e-6 * operations.forward, 1e-6 * operations.backward, rate, bound, 100.0 * rate / bound);
    for (const MemoryPart &part : memory_parts(*evaluator))
      std::printf("%8.0f B per atom: %s\n", static_cast<double>(part.bytes) / atoms, part.name);
    std::vector<int> batches;
    for (int k = 7; k < argc; ++k) batches.push_back(std::atoi(argv[k]));
    time_batches(model, options, s, batches);
  } catch (const std::exception &e) {
    std::fprintf(stderr, "bench_evaluation: %s\n", e.what());
    return 1;
  }
  return 0;
}

// SPDX-License-Identifier: MIT
// Answers the questions of `equi compile`, `equi schedule` and `equi plot` about the kernels that a model needs and
// about its radial functions. It looks up the libraries of kernels that a user has made like the plugin.
//
//   equi_kernels missing FILE.equi                     keys of the kernels that a model needs beyond those of the build
//   equi_kernels schedule TARGET FILE.equi             a table of a model's kernels
//   equi_kernels library TARGET KEY FILE.equi FILE     writes one of them as the text of a library
//   equi_kernels flags TARGET                          compiler options for such texts
//   equi_kernels place TARGET KEY                      the file in which the plugin looks for a library; then, if a
//                                                      variable of the environment was passed over, a line that says so
//   equi_kernels check TARGET KEY [FILE.equi]          "missing", "good", or "broken: " and why
//   equi_kernels machine RANKS                         this machine as a run on RANKS ranks sees it: lines KEY VALUE
//   equi_kernels radial FILE.equi RECEIVER SENDER N    radial functions of two elements, see model_radial.h
//   equi_kernels store TARGET KEY LIBRARY [FILE.equi]  puts LIBRARY in its place; an error if the plugin refuses it
//   equi_kernels selfcheck FILE.equi                   checks of a model on this machine, see model_check.h
//   equi_kernels try FILE.equi                         whether the pair style reads and evaluates it, see model_check.h
//   equi_kernels operations FILE.equi                  operations of a model's layers, see print_operations()
//
// TARGET: avx2, avx512 or neon, for a schedule also warp32 or wave64. KEY: key of a path group, as 1_01_10_11, or of a
// contraction of the model FILE.equi.
#include "kokkos/kernel_libraries/kernel_cache.h"
#include "kokkos/kernel_libraries/kernel_library.h"
#include "src/base/host_resources.h"
#include "src/model/model_file.h"
#include "tools/model_check.h"
#include "tools/model_kernels.h"
#include "tools/model_radial.h"

#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace equi;

InstructionSet set_of(const std::string &target) {
  for (const InstructionSet set : INSTRUCTION_SETS)
    if (set != InstructionSet::generic && target == instruction_set_name(set)) return set;
  throw std::invalid_argument("expected the target avx2, avx512 or neon, found '" + target + "'");
}

const char *flags_of(InstructionSet set) {
  return set == InstructionSet::avx2     ? EQUI_FLAGS_AVX2
         : set == InstructionSet::avx512 ? EQUI_FLAGS_AVX512
                                         : EQUI_FLAGS_NEON;
}

std::string place_of(const std::string &target, const std::string &key) {
  const KernelCache cache = kernel_cache();
  const std::string file = kernel_library_file(cache, instruction_set_name(set_of(target)), key);
  if (file.empty())
    throw std::runtime_error("no cache folder: set HOME or XDG_CACHE_HOME" +
                             (cache.note.empty() ? "" : " (" + cache.note + ")"));
  return file;
}

// The library of a kernel is loaded and its kernels are called if the CPU has the instruction set; otherwise the
// library is only inspected.
KernelLibraryFound found_for(const std::string &target, const std::string &key, const std::string &model_file) {
  const InstructionSet set = set_of(target);
  const std::string file = place_of(target, key);
  if (!instruction_set_available(set)) {
    const OpenedFile opened = open_kernel_library(file);
    if (opened.descriptor >= 0) close(opened.descriptor);
    return {nullptr, opened.fault.empty() ? "" : file + " is not used: " + opened.fault};
  }
  if (!model_file.empty())
    for (const Layer &layer : read_all_layers(model_file).layers)
      if (const auto product = polynomials(layer)) {
        const ContractionSchedule schedule = make_contraction_schedule(*product);
        if (schedule.key() == key) return find_kernel_library(set, schedule);
      }
  return find_kernel_library(set, PathGroupShape::from_key(key));
}

bool is_there(const std::string &target, const std::string &key) {
  return access(place_of(target, key).c_str(), F_OK) == 0;
}

// cpu: the best instruction set of the CPU. kernels: the instruction set of the kernels that a run uses. products: that
// of its dense products, if another. built: all sets that the build has and the CPU can run. threads: threads of each
// rank. A value that is empty has no line.
void print_machine(int ranks) {
  const int cores = count_cores(affinity_mask());
  const ThreadPlan plan = plan_threads(std::getenv("OMP_NUM_THREADS"),
                                       static_cast<int>(std::min<double>(cores, core_quota())), cores, ranks);
  std::string built;
  for (const InstructionSet set : INSTRUCTION_SETS)
    if (instruction_set_available(set)) built += (built.empty() ? "" : " ") + std::string(instruction_set_name(set));
  const auto line = [](const char *key, const std::string &value) {
    if (!value.empty()) std::printf("%s %s\n", key, value.c_str());
  };
  const InstructionSet best = best_instruction_set(), kernels = vector_set(best);
  line("cpu", instruction_set_name(vector_set(best_instruction_set(false))));
  line("kernels", instruction_set_name(kernels));
  line("products", best == kernels ? "" : instruction_set_name(best));
  line("built", built);
  line("cores", std::to_string(cores));
  line("quota", std::to_string(std::min<double>(cores, core_quota())));
  line("memory", std::to_string(shared_memory_limit()));
  line("threads", std::to_string(plan.number));
  line("threads_note", describe_threads(plan, plan.number));
  line("cache", kernel_cache().folder);
  line("cache_note", kernel_cache().note);
}

void run(const std::vector<std::string> &words) {
  const std::string verb = words.empty() ? "" : words[0];
  const auto word = [&](size_t k) { return k < words.size() ? words[k] : ""; };
  if (verb == "missing" && words.size() == 2) {
    for (const std::string &key : missing_kernels(read_all_layers(words[1]))) std::printf("%s\n", key.c_str());
  } else if (verb == "schedule" && words.size() == 3) {
    print_schedule(read_all_layers(words[2]), kernel_target(words[1]));
  } else if (verb == "library" && words.size() == 5) {
    set_of(words[1]);    // refuses the target of a GPU
    std::ofstream stream(words[4]);
    stream << kernel_library_of(words[2], read_all_layers(words[3]), kernel_target(words[1]));
    stream.close();
    if (!stream) throw std::runtime_error("cannot write " + words[4]);
  } else if (verb == "flags" && words.size() == 2) {
    std::printf("%s\n", flags_of(set_of(words[1])));
  } else if (verb == "place" && words.size() == 3) {
    std::printf("%s\n", place_of(words[1], words[2]).c_str());
    const std::string note = kernel_cache().note;
    if (!note.empty()) std::printf("%s\n", note.c_str());
  } else if (verb == "check" && (words.size() == 3 || words.size() == 4)) {
    const std::string fault = found_for(words[1], words[2], word(3)).fault;
    if (!fault.empty())
      std::printf("broken: %s\n", fault.c_str());
    else
      std::printf("%s\n", is_there(words[1], words[2]) ? "good" : "missing");
  } else if (verb == "machine" && words.size() == 2) {
    print_machine(std::stoi(words[1]));
  } else if (verb == "radial" && words.size() == 5) {
    print_radial(read_model(words[1]), words[2], words[3], std::stoi(words[4]));
  } else if (verb == "selfcheck" && words.size() == 2) {
    print_model_check(read_model(words[1]));
  } else if (verb == "try" && words.size() == 2) {
    try_model_file(words[1]);
  } else if (verb == "operations" && words.size() == 2) {
    print_operations(read_all_layers(words[1]));
  } else if (verb == "store" && (words.size() == 4 || words.size() == 5)) {
    store_kernel_library(words[3], place_of(words[1], words[2]));
    const std::string fault = found_for(words[1], words[2], word(4)).fault;
    if (!fault.empty()) throw std::runtime_error(fault);
  } else {
    throw std::invalid_argument(
        "usage: equi_kernels missing FILE.equi | schedule TARGET FILE.equi | library TARGET KEY FILE.equi FILE | "
        "flags TARGET | machine RANKS | radial FILE.equi RECEIVER SENDER N | place TARGET KEY | check TARGET KEY "
        "[FILE.equi] | selfcheck FILE.equi | try FILE.equi | operations FILE.equi | store TARGET KEY LIBRARY "
        "[FILE.equi]");
  }
}

}    // namespace

// In libequi.so with EQUI_SHARED; equi_kernels_main.cpp calls it.
extern "C" int equi_kernels_main(int argc, char **argv) {
  try {
    run({argv + 1, argv + argc});
  } catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}

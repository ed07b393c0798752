// SPDX-License-Identifier: MIT
// Times of the two forms of Gaunt products (contraction_schedule.h), for products of orders L and L to L. Kernels are
// generated at run time or generic. It also prints the form that a model uses.
//
//   bench_gaunt [LAST TEXT]    L = 1 to LAST (8), with generated text up to TEXT (6): that of trees compiles for
//   minutes
#include "kokkos/kernel_libraries/kernel_library.h"
#include "kokkos/layers/contraction/host_contraction.h"
#include "src/algebra/gaunt_product.h"
#include "src/generator/kernel_generator.h"

#include <dlfcn.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace equi;

constexpr int ROWS = 8;    // fits in the second-level cache

// Compiles the kernels of a schedule like `equi compile`.
const KernelLibrary &compile(const ContractionSchedule &schedule, const std::filesystem::path &folder) {
  const bool is_avx512 = best_instruction_set() == InstructionSet::avx512;
  const std::string source = folder / (schedule.key() + ".cpp"), library = folder / (schedule.key() + ".so");
  const KernelTarget &target = is_avx512 ? AVX512_TARGET : AVX2_TARGET;
  std::ofstream(source) << as_library(generate_contraction(schedule, target), {{}, {}, {schedule.key()}, {}, {}},
                                      target);
  const std::string command = std::string("c++ ") + (is_avx512 ? EQUI_FLAGS_AVX512 : EQUI_FLAGS_AVX2) + " -I" +
                              EQUI_INCLUDES + " " + source + " -o " + library;
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
  void *handle = dlopen(library.c_str(), RTLD_NOW);
  if (!handle) throw std::runtime_error(dlerror());
  return *static_cast<const KernelLibrary *>(dlsym(handle, "equi_kernels"));
}

// Nanoseconds per row of 16 channels, forward and backward.
struct Time {
  double forward = 1e30, backward = 1e30;
  double both() const { return forward + backward; }
};

template <class T>
class Form {
 public:
  Form(int l, GauntForm form)
      : product_(gaunt_product(CHANNEL_PAD, l, l, l)),
        in_(product_.irreps_in),
        out_(product_.irreps_out),
        op_({product_.polynomials(), {in_}, out_, 1, form}),
        kernels_(host_kernels<T>(best_instruction_set())),
        scratch_(op_.scratch_bytes(kernels_)) {
    std::mt19937 engine;
    std::uniform_real_distribution<double> uniform(-1.0, 1.0);
    for (auto *numbers : {&x_, &y_}) {
      numbers->resize(static_cast<size_t>(ROWS) * (numbers == &x_ ? in_ : out_).row_size());
      for (T &v : *numbers) v = static_cast<T>(uniform(engine));
    }
  }
  const ContractionSchedule &schedule() const { return op_.constants().schedule; }
  void take(const ContractionKernel<T> *kernel) {
    op_.select_kernel([kernel](const ContractionSchedule &) { return kernel; });
  }
  // One turn, of about a millisecond. The backward pass replaces its input, which is restored.
  void time(Time &shortest) {
    const int order[ROWS] = {0, 1, 2, 3, 4, 5, 6, 7}, begin[] = {0, ROWS};
    const AlignedVector<T> kept = x_;
    const auto turn = [&](double &best, const auto &run) {
      using Clock = std::chrono::steady_clock;
      int calls = 0;
      double seconds = 0.0;
      while (seconds < 1e-3) {
        std::copy(kept.begin(), kept.end(), x_.begin());
        const Clock::time_point start = Clock::now();
        run(SpeciesOrder{order, begin});
        seconds += std::chrono::duration<double>(Clock::now() - start).count();
        ++calls;
      }
      best = std::min(best, 1e9 * seconds / calls / ROWS);
    };
    const FeatureRows<T> x{x_.data(), ROWS, 0}, y{y_.data(), ROWS, 0};
    turn(shortest.forward, [&](SpeciesOrder o) { op_.forward(kernels_, {x}, y, o, scratch_.data()); });
    turn(shortest.backward, [&](SpeciesOrder o) { op_.backward(kernels_, {x}, y, o, scratch_.data()); });
  }

 private:
  ChannelwiseProduct product_;
  FeatureLayout in_, out_;
  HostContraction<T> op_;
  const HostKernels<T> &kernels_;
  AlignedVector<char> scratch_;
  AlignedVector<T> x_, y_;
};

// The two forms are timed in turns.
template <class T>
void compare(const char *kernels, int l, Form<T> &tree, Form<T> &grid, bool takes_grid) {
  Time of_tree, of_grid;
  for (int turn = 0; turn < 50; ++turn) {
    tree.time(of_tree);
    grid.time(of_grid);
  }
  std::printf("%d  %-9s  %s  %9.1f %9.1f  %9.1f %9.1f  %6.2f  %s\n", l, kernels, sizeof(T) == 4 ? "float32" : "float64",
              of_tree.forward, of_tree.backward, of_grid.forward, of_grid.backward, of_grid.both() / of_tree.both(),
              takes_grid ? "grid" : "tree");
  std::fflush(stdout);
}

template <class T>
void run(int l, const KernelLibrary *of_tree, const KernelLibrary *of_grid) {
  Form<T> tree(l, GauntForm::tree), grid(l, GauntForm::grid), taken(l, GauntForm::faster);
  const bool takes_grid = taken.schedule().grid.has_value();
  if (of_tree) {
    const auto kernel = [](const KernelLibrary &library) -> const ContractionKernel<T> * {
      if constexpr (sizeof(T) == 4)
        return library.float_contractions.kernels[0];
      else
        return library.double_contractions.kernels[0];
    };
    tree.take(kernel(*of_tree));
    grid.take(kernel(*of_grid));
    compare("generated", l, tree, grid, takes_grid);
  }
  tree.take(nullptr);
  grid.take(nullptr);
  compare("generic", l, tree, grid, takes_grid);
}

}    // namespace

int main(int argc, char **argv) {
  const int last = argc > 1 ? std::atoi(argv[1]) : 8, last_text = argc > 2 ? std::atoi(argv[2]) : 6;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("bench_gaunt_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::printf("%s, ns per atom and 16 channels, shortest of 50 turns\n", instruction_set_name(best_instruction_set()));
  std::printf("L  kernels    numbers  tree: forward backward  grid: forward backward  grid/tree  taken\n");
  for (int l = 1; l <= last; ++l) {
    const auto schedule = [l](GauntForm form) {
      return make_contraction_schedule(gaunt_product(1, l, l, l).polynomials(), form);
    };
    const bool has_text = l <= last_text && best_instruction_set() != InstructionSet::generic;
    const KernelLibrary *of_tree = has_text ? &compile(schedule(GauntForm::tree), folder) : nullptr,
                        *of_grid = has_text ? &compile(schedule(GauntForm::grid), folder) : nullptr;
    run<float>(l, of_tree, of_grid);
    run<double>(l, of_tree, of_grid);
  }
  std::filesystem::remove_all(folder);
  return 0;
}

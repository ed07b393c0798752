// SPDX-License-Identifier: MIT
// Measures the convolution on this CPU, for the tensor products of common models and for single paths. It prints
// nanoseconds per edge and the distance from the bounds of the machine. A Google Benchmark program with additional
// options:
//   --equi_list         prints the problems as lines of JSON and ends
//   --equi_isa=NAME     avx512, avx2, neon or generic instead of the best one that the CPU has
//   --equi_neighbors=N  neighbors per atom of the crystal, 1 to 26 (default)
//   --equi_graph=FILE   the edges of a file of bench/graphs.py instead of the crystal's
//   --equi_flush        measures with caches flushed before each evaluation too, the counter "cold_ns/edge"
// Names: problem/direction/type/kernels/threads:N, and peak/type/threads:N, triad/threads:N.
#include "bench/on_threads.h"
#include "bench/peak.h"
#include "kokkos/kernel_libraries/kernel_library.h"
#include "kokkos/layers/convolution/convolution_constants.h"
#include "kokkos/plan/operation_count.h"
#include "src/algebra/spherical_harmonics.h"
#include "src/evaluation/native_evaluators.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace equi {
namespace bench {
namespace {

// The path (l1, l2, l3) exists for each input block, harmonic and output irrep that obey the triangle rule and parity.
// uvu: each path has its own output block, with the multiplicity of its input block. uvw: all paths to a block share
// it.
struct Problem {
  const char *name, *in, *harmonics, *out;
  Connection connection = Connection::uvu;
};
constexpr Problem PROBLEMS[] = {
    {"sevennet0-first", "128x0e", "0e+1e+2e", "0e+1e+2e"},
    {"sevennet0-middle", "128x0e+64x1e+32x2e", "0e+1e+2e", "0e+1e+2e"},
    {"sevennet0-last", "128x0e+64x1e+32x2e", "0e+1e+2e", "0e"},
    {"l3i5-middle", "128x0e+64x1e+32x2e+32x3e", "0e+1e+2e+3e", "0e+1e+2e+3e"},
    {"mace-medium", "128x0e+128x1o", "0e+1o+2e+3o", "0e+1o+2e"},
    {"mace-large", "128x0e+128x1o+128x2e", "0e+1o+2e+3o", "0e+1o+2e+3o"},
    {"nequip-water", "32x0o+32x0e+32x1o+32x1e", "0e+1o", "0o+0e+1o+1e"},
    {"nequip-aspirin", "64x0o+64x0e+64x1o+64x1e", "0e+1o", "0o+0e+1o+1e"},
    {"nequip-lips", "32x0o+32x0e+32x1o+32x1e+32x2o+32x2e", "0e+1o+2e", "0o+0e+1o+1e+2o+2e"},
    {"nequip-toluene", "64x0o+64x0e+64x1o+64x1e+64x2o+64x2e", "0e+1o+2e", "0o+0e+1o+1e+2o+2e"},
    {"nequip-benzene", "64x0o+64x0e+64x1o+64x1e+64x2o+64x2e+64x3o+64x3e", "0e+1o+2e+3o", "0o+0e+1o+1e+2o+2e+3o+3e"},
    {"uvw-tetris-1", "1x0e+1x1o+1x2e+1x3o", "0e+1o+2e+3o", "64x0e+24x1e+24x1o+16x2e+16x2o", Connection::uvw},
    {"uvw-tetris-2", "64x0e+24x1e+24x1o+16x2e+16x2o", "0e+1o+2e", "1x0o+6x0e", Connection::uvw},
    {"uvw-diffdock-1", "10x1o+10x1e+48x0e+48x0o", "0e+1o", "10x1o+10x1e+48x0e+48x0o", Connection::uvw},
    {"uvw-diffdock-2", "10x1o+10x1e+48x0e+48x0o", "0e+1o+2e", "10x1o+10x1e+48x0e+48x0o", Connection::uvw},
    {"path-111", "128x1e", "1e", "1e"},
    {"path-212", "128x2e", "1e", "2e"},
    {"path-313", "128x3e", "1e", "3e"},
    {"path-333", "128x3e", "3e", "3e"},
    {"path-535", "128x5e", "3e", "5e"},
    {"path-553", "128x5e", "5e", "3e"},
    {"path-636", "128x6e", "3e", "6e"},
    {"path-747", "128x7e", "4e", "7e"},
    {"path-777", "128x7e", "7e", "7e"},
};

constexpr double CUTOFF = 5.0;    // Angstrom
// Atoms per call of a kernel, the largest number in an evaluation (kokkos/evaluation/host_evaluation.cpp).
constexpr int TILE = 64;
constexpr int COLD_REPEATS = 3;

struct Graph {
  std::vector<int64_t> edge_begin{0};    // [atoms + 1]
  std::vector<int> sender;
  std::vector<double> vector;    // [edges][3]
  double cutoff = CUTOFF;

  int num_atoms() const { return static_cast<int>(edge_begin.size()) - 1; }
  int num_edges() const { return static_cast<int>(sender.size()); }
};

// A simple cubic crystal as in rock salt, with slightly displaced atoms; the first three shells have 26 neighbors.
Graph make_crystal(int num_neighbors) {
  constexpr int CELLS = 8, NUM_ATOMS = CELLS * CELLS * CELLS;
  constexpr double SPACING = 2.82, DISPLACEMENT = 0.02;    // Angstrom
  std::mt19937 random(2);
  std::uniform_real_distribution<double> move(-DISPLACEMENT, DISPLACEMENT);
  std::vector<double> moved(3 * NUM_ATOMS);
  for (double &m : moved) m = move(random);
  const auto wrapped = [](int cell) { return (cell + CELLS) % CELLS; };
  Graph graph;
  for (int i = 0; i < NUM_ATOMS; ++i) {
    int found = 0;
    for (int k = 0; k < 27 && found < num_neighbors; ++k) {
      const int step[3] = {k / 9 - 1, k / 3 % 3 - 1, k % 3 - 1};
      const int at[3] = {i / (CELLS * CELLS), i / CELLS % CELLS, i % CELLS};
      if (k == 13) continue;    // the atom itself
      const int j = (wrapped(at[0] + step[0]) * CELLS + wrapped(at[1] + step[1])) * CELLS + wrapped(at[2] + step[2]);
      graph.sender.push_back(j);
      for (int c = 0; c < 3; ++c) graph.vector.push_back(SPACING * step[c] + moved[3 * j + c] - moved[3 * i + c]);
      ++found;
    }
    graph.edge_begin.push_back(graph.num_edges());
  }
  return graph;
}

// bench/graphs.py describes the format of the file.
Graph read_graph(const char *file) {
  Graph graph;
  std::ifstream stream(file, std::ios::binary);
  const auto read = [&](auto *to, size_t count) {
    stream.read(reinterpret_cast<char *>(to), static_cast<std::streamsize>(count * sizeof(*to)));
  };
  int64_t size[2] = {0, 0};
  read(size, 2);
  if (!stream) throw std::runtime_error(std::string(file) + " is no graph");
  graph.edge_begin.resize(size[0] + 1);
  graph.sender.resize(size[1]);
  graph.vector.resize(3 * size[1]);
  read(&graph.cutoff, 1);
  read(graph.edge_begin.data(), graph.edge_begin.size());
  read(graph.sender.data(), graph.sender.size());
  read(graph.vector.data(), graph.vector.size());
  if (!stream) throw std::runtime_error(std::string(file) + " ends too early");
  return graph;
}

struct Settings {
  InstructionSet set = best_instruction_set();
  Graph graph;
  bool is_flushing = false;
};
Settings &settings() {
  static Settings s;
  return s;
}
const Graph &graph() {
  return settings().graph;
}

// Writes to more memory than all caches hold, on each thread.
void flush_caches(int threads) {
  static std::vector<std::vector<char>> lines;
  const long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const size_t size = std::max<long>(2 * l3, 64 << 20);
  lines.resize(threads);
  on_threads(threads, [&](int t) {
    lines[t].resize(size);
    for (size_t k = 0; k < size; k += 64) lines[t][k]++;
  });
}

// Outputs of one irrep are adjacent. The radial network has the widths of SevenNet-0's and random weights.
Convolution make_convolution(const Problem &problem) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  Convolution convolution{0, 1, {}, {}};
  TensorProduct &product = convolution.product;
  product.irreps_in = Irreps::parse(problem.in);
  const Irreps harmonics = Irreps::parse(problem.harmonics), wanted = Irreps::parse(problem.out);
  product.lmax_edge = harmonics.lmax();
  const bool is_uvw = problem.connection == Connection::uvw;
  std::vector<IrrepBlock> out;
  if (is_uvw) out.assign(wanted.begin(), wanted.end());
  for (int k = 0; k < wanted.size(); ++k)
    for (int i = 0; i < product.irreps_in.size(); ++i)
      for (const IrrepBlock &y : harmonics) {
        const IrrepBlock &from = product.irreps_in[i], &to = wanted[k];
        if (from.irrep.p * y.irrep.p != to.irrep.p) continue;
        if (to.irrep.l < std::abs(from.irrep.l - y.irrep.l) || to.irrep.l > from.irrep.l + y.irrep.l) continue;
        product.paths.push_back({i, y.irrep.l, is_uvw ? k : static_cast<int>(out.size()), 1.0, problem.connection});
        if (!is_uvw) out.push_back({from.mul, to.irrep});
      }
  product.irreps_out = Irreps(out);
  product.validate();
  for (size_t q = 0; q < product.paths.size(); ++q)
    product.paths[q].scale = product.component_scale(static_cast<int>(q));

  RadialFunction &radial = convolution.radial;
  radial.basis.cutoff = graph().cutoff;
  radial.basis.prefactor = std::sqrt(2.0 / graph().cutoff);
  constexpr int WIDTHS[] = {8, 64, 64};
  for (int n = 1; n <= WIDTHS[0]; ++n) radial.basis.wave_numbers.push_back(n * 3.14159265358979 / graph().cutoff);
  radial.network.activation = Activation::silu;
  radial.network.activation_scale = 1.68;
  for (int k = 0; k < 3; ++k) {
    Matrix w{WIDTHS[k], k < 2 ? WIDTHS[k + 1] : product.num_weights(), {}};
    for (int n = 0; n < w.rows * w.cols; ++n) w.data.push_back(normal(random) / std::sqrt(w.rows));
    radial.network.weights.push_back(w);
  }
  return convolution;
}

template <class T>
EvaluatorOptions table_options() {
  EvaluatorOptions options;
  options.precision = sizeof(T) == sizeof(double) ? Precision::double_ : Precision::mixed;
  return options;
}

// A problem in the kernels' memory, with the data of each thread.
template <class T>
class Case {
 public:
  explicit Case(const Problem &problem)
      : convolution_(make_convolution(problem)),
        in_(convolution_.product.irreps_in),
        out_(convolution_.product.irreps_out),
        op_(convolution_, in_, out_, 1, table_options<T>()),
        kernels_(host_kernels<T>(settings().set)) {
    std::mt19937 random(2);
    make_edges();
    std::normal_distribution<double> normal;
    const auto fill = [&](AlignedVector<T> &v, const FeatureLayout &layout) {
      v.assign(static_cast<size_t>(graph().num_atoms()) * layout.row_size(), T(0));
      for (int b = 0; b < layout.num_blocks(); ++b) {
        const FeatureBlock &block = layout.block(b);
        const FeatureGroup &group = layout.group(block.group);
        T *row = v.data() + static_cast<size_t>(graph().num_atoms()) * group.offset + block.channel;
        for (int k = 0; k < graph().num_atoms() * group.irrep.dim(); ++k, row += group.channels)
          for (int u = 0; u < block.mul; ++u) row[u] = static_cast<T>(normal(random));
      }
    };
    fill(x_, in_);
    fill(out_adj_, out_);
    result_.resize(out_adj_.size());
    x_adj_.resize(x_.size());
    threads_.resize(HostExec().concurrency());
  }

  // Returns the number of path groups that then have a generated kernel.
  int select(bool is_generated) {
    op_.product().select_kernels(settings().set, is_generated);
    return num_path_groups() - op_.num_generic_path_groups();
  }
  int num_path_groups() const { return op_.view().num_path_groups; }

  void forward(int threads) {
    on_threads(threads, [&](int t) {
      for_tiles(t, threads, [&](int first, int count) {
        Thread &thread = threads_[t];
        const ConvEdges<T> edges = tile_edges(thread, first, count);
        kernels_.forward(op_.view(), edges, x_.data(), graph().num_atoms(), result_.data(), graph().num_atoms(), first,
                         thread.scratch.data());
      });
    });
  }

  // As in an evaluation, each thread adds to its own x_adj, and these are summed at the end.
  void backward(int threads) {
    const size_t size = x_adj_.size();
    on_threads(threads, [&](int t) {
      Thread &thread = threads_[t];
      T *x_adj = threads == 1 ? x_adj_.data() : thread.x_adj.reserve(size);
      std::fill_n(x_adj, size, T(0));
      for_tiles(t, threads, [&](int first, int count) {
        const ConvEdges<T> edges = tile_edges(thread, first, count);
        T *y_adj = thread.y_adj.reserve(edge_count(first, count) * op_.view().num_y);
        kernels_.backward(op_.view(), edges, x_.data(), graph().num_atoms(), out_adj_.data(), graph().num_atoms(),
                          first, y_adj, x_adj, graph().num_atoms(), graph().sender.data(), thread.scratch.data());
      });
    });
    if (threads == 1) return;
    on_threads(threads, [&](int t) {
      const size_t begin = size * t / threads, end = size * (t + 1) / threads;
      std::copy(threads_[0].x_adj.data() + begin, threads_[0].x_adj.data() + end, x_adj_.data() + begin);
      for (int k = 1; k < threads; ++k)
        for (size_t i = begin; i < end; ++i) x_adj_[i] += threads_[k].x_adj.data()[i];
    });
  }

  // Operations per edge: the multiply-adds of the best known schedule, whatever this kernel does. Padding does not
  // count.
  double flops(bool is_backward) const {
    const int rows = coefficients_in<T>(op_.rows_per_bin());
    double n = 0.0;
    for_path_groups([&](const PathGroupSchedule &u, int mul, int outputs) {
      const Operations operations = path_group_operations(u, mul, rows, outputs);
      n += is_backward ? operations.backward : operations.forward;
    });
    return n;
  }
  // Bytes per edge if each tensor were read or written once: table, features, harmonics, and 24 for an edge's position
  // in the table.
  double tensor_bytes(bool is_backward) const {
    const double features = x_.size() + result_.size() + (is_backward ? x_.size() : 0);
    const double edge = op_.view().num_y * sizeof(T) * (is_backward ? 2 : 1) + 24;
    return (features * sizeof(T) + op_.num_rows() * op_.columns() * sizeof(T)) / graph().num_edges() + edge;
  }
  // Bytes per edge that a kernel loads and stores, mostly in the caches: rows of the table and of the other atom.
  double load_bytes(bool is_backward) const {
    double n = 0.0;
    for_path_groups([&](const PathGroupSchedule &u, int mul, int outputs) {
      n += static_cast<double>(mul) * sizeof(T) *
           (op_.rows_per_bin() * (u.shape.is_uvw() ? outputs : u.paths.size()) +
            (2 * u.shape.l1 + 1) * (is_backward ? 3 : 1));
    });
    return n;
  }
  std::string table() const {
    return "degree " + std::to_string(coefficients_in<T>(op_.rows_per_bin()) - 1) + ", " +
           std::to_string(op_.radial_set().table(0).num_knots) + " knots";
  }

 private:
  struct alignas(ALIGNMENT) Thread {
    Buffer<T> fraction, bins_per_length, y_adj, x_adj, radial;
    Buffer<int> table_row;
    Buffer<char> scratch;
  };

  void make_edges() {
    const int lmax = convolution_.product.lmax_edge, num_y = (lmax + 1) * (lmax + 1);
    std::vector<double> y(num_y);
    for (int e = 0; e < graph().num_edges(); ++e) {
      const double *v = graph().vector.data() + 3 * e;
      distance_.push_back(static_cast<T>(std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])));
      spherical_harmonics(lmax, v, y.data(), nullptr);
      for (const double value : y) y_.push_back(static_cast<T>(value));
    }
  }

  int64_t edge_count(int first, int count) const {
    return graph().edge_begin[first + count] - graph().edge_begin[first];
  }

  // Calls f(first atom, number of atoms) for the tiles of one thread.
  template <class F>
  static void for_tiles(int t, int threads, const F &f) {
    const int end = static_cast<int>(int64_t(graph().num_atoms()) * (t + 1) / threads);
    for (int first = static_cast<int>(int64_t(graph().num_atoms()) * t / threads); first < end; first += TILE)
      f(first, std::min(TILE, end - first));
  }

  // Locating the edges in the table is part of the convolution, as the radial network is in a framework.
  ConvEdges<T> tile_edges(Thread &thread, int first, int count) {
    const int64_t begin = graph().edge_begin[first], n = edge_count(first, count);
    int *table_row = thread.table_row.reserve(n);
    T *fraction = thread.fraction.reserve(n), *bins_per_length = thread.bins_per_length.reserve(n);
    const RadialRows<T> rows =
        op_.radial(distance_.data() + begin, nullptr, n, 0, n, thread.radial.reserve(n * op_.scratch_per_edge()),
                   table_row, fraction, bins_per_length);
    const ConvEdges<T> edges{count,
                             graph().edge_begin.data() + first,
                             graph().sender.data(),
                             y_.data(),
                             rows.table,
                             rows.rows,
                             table_row,
                             fraction,
                             bins_per_length,
                             op_.rows_per_bin()};
    thread.scratch.reserve(kernels_.scratch_bytes(op_.view(), edges));
    return edges;
  }

  template <class F>
  void for_path_groups(const F &f) const {
    const TensorProduct &product = convolution_.product;
    const std::vector<ProductPathGroup> path_groups = path_groups_of(product);
    for (size_t u = 0; u < path_groups.size(); ++u)
      f(op_.product().schedules()[u], product.irreps_in[path_groups[u].block].mul,
        product.irreps_out[product.paths[path_groups[u].paths[0]].out].mul);
  }

  Convolution convolution_;
  FeatureLayout in_, out_;
  ConvolutionConstants<T> op_;
  const HostKernels<T> &kernels_;
  std::vector<T> distance_;
  AlignedVector<T> y_, x_, out_adj_, result_, x_adj_;
  std::vector<Thread> threads_;
};

// Tables are costly to build and use much memory, so the benchmarks of one case follow one another.
template <class T>
Case<T> &shared_case(const Problem &problem) {
  static const Problem *present = nullptr;
  static std::unique_ptr<Case<T>> shared;
  if (present != &problem) {
    shared.reset();
    shared = std::make_unique<Case<T>>(problem);
    present = &problem;
  }
  return *shared;
}

// Measured at the first call.
template <class T>
double shared_peak(int threads) {
  static std::map<int, double> peaks;
  const auto found = peaks.find(threads);
  if (found != peaks.end()) return found->second;
  return peaks[threads] = peak_gflops<T>(settings().set, threads);
}

template <class T>
void run_convolution(benchmark::State &state, const Problem &problem, bool is_backward, bool is_generated,
                     int threads) {
  Case<T> &c = shared_case<T>(problem);
  const int num_generated = c.select(is_generated);
  if (is_generated && num_generated == 0) return state.SkipWithError("no generated kernel");
  const auto run = [&] { is_backward ? c.backward(threads) : c.forward(threads); };
  run();    // buffers grow in the first call
  // The counters are those of the fastest iteration: other processes on the machine can only make it slower.
  double best = 1e30;
  const auto time = [&] {
    const auto begin = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  for (auto _ : state) best = std::min(best, time());
  const double edges = graph().num_edges(), flops = c.flops(is_backward), gflops = 1e-9 * edges * flops / best;
  state.counters["ns/edge"] = 1e9 * best / edges;
  if (settings().is_flushing) {
    double cold = 1e30;
    for (int k = 0; k < COLD_REPEATS; ++k) {
      flush_caches(threads);
      cold = std::min(cold, time());
    }
    state.counters["cold_ns/edge"] = 1e9 * cold / edges;
  }
  state.counters["GFLOP/s"] = gflops;
  state.counters["peak"] = shared_peak<T>(threads);
  state.counters["of_peak"] = gflops / shared_peak<T>(threads);
  state.counters["flop/edge"] = flops;
  state.counters["B/edge"] = c.tensor_bytes(is_backward);
  state.counters["loadB/edge"] = c.load_bytes(is_backward);
  std::string label = c.table();
  if (is_generated && num_generated < c.num_path_groups())
    label += ", " + std::to_string(c.num_path_groups() - num_generated) + " path groups generic";
  state.SetLabel(label);
}

template <class T>
const char *type_name() {
  return sizeof(T) == sizeof(float) ? "float" : "double";
}

template <class T>
void add_convolutions(const Problem &problem, const std::vector<int> &thread_counts) {
  // A benchmark is not registered, rather than skipped, if no path group has a generated kernel: most programs read an
  // error as a failure.
  const TensorProduct product = make_convolution(problem).product;
  bool has_generated = false;
  for (const ProductPathGroup &path_group : path_groups_of(product)) {
    has_generated |= path_group.shape.is_uvw() ? find_uvw_kernel<T>(settings().set, path_group.shape) != nullptr
                                               : find_path_group_kernel<T>(settings().set, path_group.shape) != nullptr;
  }
  for (const bool is_generated : {true, false})
    for (const bool is_backward : {false, true})
      for (const int threads : thread_counts) {
        if (is_generated && !has_generated) continue;
        const std::string name = std::string(problem.name) + (is_backward ? "/backward/" : "/forward/") +
                                 type_name<T>() + (is_generated ? "/generated" : "/generic") +
                                 "/threads:" + std::to_string(threads);
        benchmark::RegisterBenchmark(name.c_str(), run_convolution<T>, problem, is_backward, is_generated, threads)
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
      }
}

// The bounds repeat their measurement themselves, so one iteration is enough.
void add_bound(const std::string &name, const char *unit, const std::function<double()> &measure) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [unit, measure](benchmark::State &state) {
                                 for (auto _ : state) state.counters[unit] = measure();
                               })
      ->Iterations(1)
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

void add_all() {
  std::vector<int> thread_counts = {1};
  if (HostExec().concurrency() > 1) thread_counts.push_back(HostExec().concurrency());
  for (const int threads : thread_counts) {
    const std::string suffix = "/threads:" + std::to_string(threads);
    add_bound("peak/float" + suffix, "GFLOP/s", [=] { return shared_peak<float>(threads); });
    add_bound("peak/double" + suffix, "GFLOP/s", [=] { return shared_peak<double>(threads); });
    add_bound("triad" + suffix, "GB/s", [=] { return triad_gbytes(threads); });
  }
  for (const Problem &problem : PROBLEMS) {
    add_convolutions<float>(problem, thread_counts);
    add_convolutions<double>(problem, thread_counts);
  }
}

void print_problems() {
  for (const Problem &p : PROBLEMS) {
    std::printf("{\"name\": \"%s\", \"in\": \"%s\", \"harmonics\": \"%s\", \"out\": \"%s\", ", p.name, p.in,
                p.harmonics, p.out);
    std::printf("\"connection\": \"%s\", ", p.connection == Connection::uvw ? "uvw" : "uvu");
    std::printf("\"weights\": %d, \"atoms\": %d, \"edges\": %d}\n", make_convolution(p).product.num_weights(),
                graph().num_atoms(), graph().num_edges());
  }
}

// Returns the value of one of the additional options and removes it from the arguments; null if it is missing.
const char *take_option(int &argc, char **argv, const char *name) {
  const size_t length = std::strlen(name);
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], name, length) == 0 && (argv[i][length] == '=' || argv[i][length] == '\0')) {
      const char *value = argv[i] + length + (argv[i][length] == '=');
      std::move(argv + i + 1, argv + argc, argv + i);
      --argc;
      return value;
    }
  return nullptr;
}

int run(int argc, char **argv) {
  int num_neighbors = 26;
  if (const char *value = take_option(argc, argv, "--equi_neighbors")) {
    num_neighbors = std::atoi(value);
    if (num_neighbors < 1 || num_neighbors > 26) {
      std::fprintf(stderr, "--equi_neighbors: expected 1 to 26, found '%s'\n", value);
      return 2;
    }
  }
  const char *file = take_option(argc, argv, "--equi_graph");
  settings().graph = file ? read_graph(file) : make_crystal(num_neighbors);
  settings().is_flushing = take_option(argc, argv, "--equi_flush") != nullptr;
  if (const char *value = take_option(argc, argv, "--equi_isa")) {
    const auto *set = std::find_if(std::begin(INSTRUCTION_SETS), std::end(INSTRUCTION_SETS), [&](InstructionSet s) {
      return instruction_set_available(s) && std::strcmp(value, instruction_set_name(s)) == 0;
    });
    if (set == std::end(INSTRUCTION_SETS)) {
      std::fprintf(stderr, "--equi_isa: expected an instruction set of this CPU, found '%s'\n", value);
      return 2;
    }
    settings().set = *set;
  }
  if (take_option(argc, argv, "--equi_list")) {
    print_problems();
    return 0;
  }
  // The kernels that were made only for this program are stored in a separate cache folder.
  setenv("XDG_CACHE_HOME", EQUI_BENCH_KERNELS, 1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  start_kokkos(0, 0);
  benchmark::AddCustomContext("equi_isa", instruction_set_name(settings().set));
  add_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}    // namespace
}    // namespace bench
}    // namespace equi

int main(int argc, char **argv) {
  try {
    return equi::bench::run(argc, argv);
  } catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

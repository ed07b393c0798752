// SPDX-License-Identifier: MIT
// A schedule describes how the convolution kernels compute a tensor product. It is a static analysis. The generic
// kernels walk its tables, and the generator writes the same steps as code.
//
// A *path group* is an input block of order l1 with all uvu paths (l2, l3) that start from it: it loads the sender's
// channels once for all of them. A uvw path is a path group by itself. The multiplicities are not part of a path group.
//
// Forward, per edge: out[m3] += sum_m1 M[m1,m3] w x[m1] with the *coupled harmonics* M[m1,m3] = sum_m2 C y[m2], which
// are computed once per edge for all channels. Backward, per receiver: the *coupled cotangent* D[m1,m2] = sum_m3 C
// g[m3] is computed once for all edges; per edge S[m1] = sum_m2 y[m2] D[m1,m2], x_adj += w S, dE/dr += w' S.x,
// y_adj[m2] += w sum_m1 x[m1] D[m1,m2]. Many entries of M and D are equal up to their sign, above all after a path's
// couplings are divided by the largest of them (PathSchedule::scale). Each distinct one is computed once.
//
// uvw: z[m3] = sum_m1 M[m1,m3] x[m1] once per edge and sender's channel u, then out[w,m3] += sum_u W[u,w] z[u,m3].
// Backward h[u,m3] = sum_w W[u,w] g[w,m3], dE/dr = sum W'[u,w] z[u,m3] g[w,m3], and the above with h instead of g:
// x_adj[m1] = sum_m2 y[m2] D[m1,m2], y_adj[m2] = sum_m1 x[m1] D[m1,m2], now per edge. Lanes always run over u.
#ifndef EQUI_KERNEL_SCHEDULE_H
#define EQUI_KERNEL_SCHEDULE_H

#include "src/algebra/tensor_product.h"
#include "src/generator/kernel_layout.h"

#include <string>
#include <vector>

namespace equi {

struct PathGroupShape {
  int l1 = 0;
  struct Path {
    int l2, l3;
    bool operator<(const Path &o) const { return l2 != o.l2 ? l2 < o.l2 : l3 < o.l3; }
    bool operator==(const Path &o) const { return l2 == o.l2 && l3 == o.l3; }
  };
  std::vector<Path> paths;    // sorted; one for uvw
  Connection connection = Connection::uvu;
  bool is_uvw() const { return connection == Connection::uvw; }

  // "1_01_10_11": l1, then l2 and l3 of each path; "uvw_1_11". Empty if an order above 9 has no digit.
  std::string key() const;
  // The shape with this key. Throws std::invalid_argument for another text.
  static PathGroupShape from_key(const std::string &key);
};

// A path group of a tensor product and the order of its paths (indices into product.paths).
struct ProductPathGroup {
  int block;    // block of the input
  PathGroupShape shape;
  std::vector<int> paths;
};
// In the order of input blocks.
std::vector<ProductPathGroup> path_groups_of(const TensorProduct &product);

// sum of coefficient * input[index]
struct LinearForm {
  struct Term {
    int index;
    double coefficient;
    bool operator==(const Term &o) const { return index == o.index && coefficient == o.coefficient; }
  };
  std::vector<Term> terms;
};

struct PathSchedule {
  int l2, l3;
  double scale;    // the largest coupling; the entries below are divided by it, radial weights are multiplied by it

  // Nonzero M[m1,m3] = sign * coupled (index into PathGroupSchedule::coupled).
  struct Entry {
    int m1, m3, coupled, sign;
  };
  std::vector<Entry> m;
  bool weight_last;           // forward: w (M x) instead of M (w x), fewer products where l3 < l1
  bool weight_last_gather;    // the same for the transposed direction, w (M g) instead of M (w g)

  // Distinct D over the components of g, and nonzero D[m1,m2] = sign * d, sorted by d.
  std::vector<LinearForm> d;
  struct DEntry {
    int m1, m2, d, sign;
  };
  std::vector<DEntry> d_entries;
  int num_couplings;                                              // nonzero Clebsch-Gordan coefficients
  bool is_diagonal() const { return l2 == 0; }                    // M = 1
  bool is_scalar_product() const { return l3 == 0 && l2 > 0; }    // D[m1,m2] = +-g at m1 = m2, the same sign for all
};

struct PathGroupSchedule {
  PathGroupShape shape;
  std::vector<PathSchedule> paths;    // as shape.paths
  std::vector<LinearForm> coupled;    // distinct entries of M over the harmonics, indexed by l^2 + m
  int num_d() const;

  // Runs of paths [first, last) that one pass over an atom's edges computes together. Forward, their accumulators stay
  // in registers. Backward, their D and the sums by their harmonics do. On a CPU D is in memory, and one pass computes
  // all paths.
  struct Run {
    int first, last;
  };
  std::vector<Run> forward_runs, backward_runs;

  // Numbers that a GPU lane with this number of channels holds during such a pass: the above, the sender's components
  // and the products of one path.
  int forward_numbers(const Run &run, int channels = 1) const;
  int backward_numbers(const Run &run, int channels = 1) const;
  // Channels of a GPU lane: two if the paths are so few and small that the numbers of both fit.
  int lane_channels = 1;
  // Harmonics with l2 > 0 that the run's paths read; its backward pass differentiates by them. Sorted.
  std::vector<int> harmonics(const Run &run) const;
  Run whole() const { return {0, static_cast<int>(paths.size())}; }

  // uvw: channels of the output that one pass over the edges computes together (a divisor of UVW_BLOCK). Forward, their
  // accumulators stay in registers; backward, their cotangents do. A GPU's backward pass computes all channels, this
  // number at a time.
  int forward_outputs = 0, backward_outputs = 0;

  // Multiply-adds per edge and channel of the sender, by direction, including radial weights from tables of
  // `rows_per_bin` rows. outputs: channels of the output of a uvw path.
  int forward_products(int rows_per_bin, int outputs = 0) const;
  int backward_products(int rows_per_bin, int outputs = 0) const;
  // The part of forward_products() of a uvw path that is not the sums over W.
  int coupling_products() const;
};

// The hardware that a schedule is made for.
struct KernelTarget {
  const char *name;
  int lanes;            // numbers of float32 per register; GPU: threads in step, each with one channel
  int registers;        // registers that a kernel may fill; GPU: of 32 bits, per lane
  int products;         // multiply-adds per cycle of a core; GPU: of a multiprocessor
  int addresses = 0;    // GPU: registers for addresses and all else that is not a number of the kernel
  bool is_device() const { return addresses > 0; }
  // A GPU's kernels are one text for both types: the runs of float32 are those that fit with float64.
  int numbers() const { return is_device() ? (registers - addresses) / 2 : registers; }
};
// A core with AVX2 or AVX-512 has two units for multiply-adds, a large one with NEON has four.
constexpr KernelTarget AVX2_TARGET{"avx2", 8, 16, 16}, AVX512_TARGET{"avx512", 16, 32, 32},
    NEON_TARGET{"neon", 4, 32, 16};
// With 128 registers per lane, four warps (CUDA) or waves (HIP) share a scheduler. A wave keeps values that are the
// same for all of its lanes, like addresses, in separate registers.
constexpr KernelTarget WARP32_TARGET{"warp32", 32, 128, 128, 40}, WAVE64_TARGET{"wave64", 64, 128, 64, 24};
// The target with this name; throws std::invalid_argument with the list of known names.
const KernelTarget &kernel_target(const std::string &name);

// Throws std::invalid_argument if a path violates the triangle rule. of_duals: the runs of a GPU's kernels of duals.
PathGroupSchedule make_path_group_schedule(const PathGroupShape &shape, const KernelTarget &target,
                                           bool of_duals = false);

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Convolutions on random edges, for tests of the kernels, with the result of TensorProduct, edge by edge, and the same
// problem in the kernels' own memory.
#ifndef EQUI_TEST_KERNEL_PROBLEM_H
#define EQUI_TEST_KERNEL_PROBLEM_H

#include "kokkos/kernel_libraries/kernel_library.h"
#include "kokkos/layers/convolution/convolution_constants.h"
#include "src/algebra/spherical_harmonics.h"
#include "unittest/support/packed_feature.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace equi {
namespace testing {

// Rows for the interpolation of a radial weight: exact, and those of the tables of a type of numbers.
template <class T>
std::vector<int> all_rows_per_bin() {
  if (sizeof(Real<T>) == sizeof(double)) return {2, SEPTIC_ROWS};
  return {2, CUBIC_ROWS, QUINTIC_ROWS};
}

// Receivers with these numbers of edges: none, one, more than a block of 16, several blocks.
constexpr int EDGES_OF_RECEIVER[] = {17, 0, 1, 40, 3};
constexpr int NUM_RECEIVERS = 5, NUM_SENDERS = 7;

struct KernelProblem {
  std::string name;
  Convolution convolution{0, 1, {}, {}};
  std::vector<int64_t> edge_begin;    // [NUM_RECEIVERS + 1]
  std::vector<int> sender;            // [E]
  std::vector<double> distance;       // [E]
  std::vector<double> y;              // [E][num_y]
  Rows x, g;                          // inputs of senders, cotangents of receivers

  const TensorProduct &product() const { return convolution.product; }
  int num_edges() const { return static_cast<int>(sender.size()); }
  int num_y() const { return (product().lmax_edge + 1) * (product().lmax_edge + 1); }
};

// Radial functions, edges, features and cotangents for the product of p.
inline void fill_kernel_problem(KernelProblem &p, std::mt19937 &random) {
  std::normal_distribution<double> normal;
  const TensorProduct &product = p.product();
  const int lmax_edge = product.lmax_edge;
  RadialFunction &radial = p.convolution.radial;
  radial.basis.cutoff = 4.0;
  radial.basis.prefactor = 0.5;
  for (int n = 1; n <= 4; ++n) radial.basis.wave_numbers.push_back(n * 3.14159265358979 / radial.basis.cutoff);
  radial.network.activation = Activation::silu;
  radial.network.activation_scale = 1.68;
  const int widths[3] = {4, 6, static_cast<int>(product.num_weights())};
  for (int k = 0; k < 2; ++k) {
    Matrix w{widths[k], widths[k + 1], {}};
    for (int n = 0; n < w.rows * w.cols; ++n) w.data.push_back(normal(random) / std::sqrt(w.rows));
    radial.network.weights.push_back(w);
  }

  std::uniform_real_distribution<double> distance(0.7, 3.9);
  p.edge_begin.push_back(0);
  for (const int count : EDGES_OF_RECEIVER) {
    for (int e = 0; e < count; ++e) {
      // The last sender has no edge.
      p.sender.push_back(static_cast<int>(random() % (NUM_SENDERS - 1)));
      p.distance.push_back(distance(random));
      const double direction[3] = {normal(random), normal(random), normal(random)};
      p.y.resize(p.y.size() + p.num_y());
      spherical_harmonics(lmax_edge, direction, p.y.data() + p.y.size() - p.num_y(), nullptr);
    }
    p.edge_begin.push_back(static_cast<int64_t>(p.sender.size()));
  }
  const auto random_rows = [&](int rows, int dim) {
    Rows r(rows, std::vector<double>(dim));
    for (auto &row : r)
      for (double &v : row) v = normal(random);
    return r;
  };
  p.x = random_rows(NUM_SENDERS, product.irreps_in.dim());
  p.g = random_rows(NUM_RECEIVERS, product.irreps_out.dim());
}

// Every path from `in` by harmonics to lmax_edge to orders up to lmax_out, sorted by the output's irrep, so that
// outputs of one irrep are adjacent. natural: only paths with an even sum of orders.
inline KernelProblem make_kernel_problem(const std::string &in, int lmax_edge, int lmax_out, unsigned seed,
                                         bool natural = false) {
  KernelProblem p;
  p.name = in + " by harmonics to " + std::to_string(lmax_edge);
  std::mt19937 random(seed);
  TensorProduct &product = p.convolution.product;
  product.irreps_in = Irreps::parse(in);
  product.lmax_edge = lmax_edge;
  std::vector<IrrepBlock> out;
  for (int l3 = 0; l3 <= lmax_out; ++l3)
    for (int i = 0; i < product.irreps_in.size(); ++i)
      for (int l2 = 0; l2 <= lmax_edge; ++l2) {
        const IrrepBlock &block = product.irreps_in[i];
        if (l2 < std::abs(block.irrep.l - l3) || l2 > block.irrep.l + l3) continue;
        if (natural && (block.irrep.l + l2 + l3) % 2 != 0) continue;
        product.paths.push_back({i, l2, static_cast<int>(out.size()), 0.5 + 0.1 * static_cast<double>(random() % 10)});
        out.push_back({block.mul, {l3, 1}});
      }
  product.irreps_out = Irreps(out);

  fill_kernel_problem(p, random);
  return p;
}

// Every uvw path from `in` by harmonics (of natural parity, or even) to `out`; `uvu`: block 0 also has uvu paths,
// before and after them.
inline KernelProblem make_uvw_problem(const std::string &in, int lmax_edge, const std::string &out, unsigned seed,
                                      bool parity = false, bool uvu = false) {
  KernelProblem p;
  p.name = in + " fully connected by harmonics to " + std::to_string(lmax_edge) + " to " + out;
  std::mt19937 random(seed);
  TensorProduct &product = p.convolution.product;
  product.irreps_in = Irreps::parse(in);
  product.lmax_edge = lmax_edge;
  const Irreps wanted = Irreps::parse(out);
  std::vector<IrrepBlock> blocks(wanted.begin(), wanted.end());
  const auto add_uvu = [&](int l2) {
    const IrrepBlock &block = product.irreps_in[0];
    product.paths.push_back({0, l2, static_cast<int>(blocks.size()), 0.8});
    blocks.push_back({block.mul, {block.irrep.l + l2, block.irrep.p * (parity && l2 % 2 ? -1 : 1)}});
  };
  if (uvu) add_uvu(1);
  for (int k = 0; k < wanted.size(); ++k)
    for (int i = 0; i < product.irreps_in.size(); ++i)
      for (int l2 = 0; l2 <= lmax_edge; ++l2) {
        const Irrep &from = product.irreps_in[i].irrep, &to = wanted[k].irrep;
        if (l2 < std::abs(from.l - to.l) || l2 > from.l + to.l) continue;
        if (from.p * (parity && l2 % 2 ? -1 : 1) != to.p) continue;
        product.paths.push_back({i, l2, k, 0.5 + 0.1 * static_cast<double>(random() % 10), Connection::uvw});
      }
  if (uvu) add_uvu(0);
  product.irreps_out = Irreps(blocks);
  product.validate();
  fill_kernel_problem(p, random);
  return p;
}

// Multiplicities 1, 5, 13, 16, 33, 48 around the padding of 16 channels. All path groups with generated kernels, and
// higher orders and other sets of paths, which have none. Neighboring blocks of one irrep, which share their memory; an
// input block that starts no path; uvw paths alone, with parity, and next to uvu paths.
inline const std::vector<KernelProblem> &kernel_problems() {
  static const std::vector<KernelProblem> problems = [] {
    std::vector<KernelProblem> all = {make_kernel_problem("13x0e", 0, 0, 1),
                                      make_kernel_problem("48x0e+33x1e+16x2e", 2, 2, 2),
                                      make_kernel_problem("1x0e+5x1e+13x2e+16x3e", 3, 3, 3),
                                      make_kernel_problem("5x1e+13x1e+2x0e+1x1o+33x0e", 1, 2, 4),
                                      make_kernel_problem("2x4e+3x5e+1x6e+1x1e", 6, 6, 5),
                                      make_kernel_problem("33x3e+5x6e+3x0e", 1, 2, 6),
                                      make_kernel_problem("5x0e+13x1e+33x2e+16x3e", 3, 0, 7),
                                      make_kernel_problem("33x0e+5x1e", 1, 1, 8),
                                      make_kernel_problem("5x0e+17x1e", 1, 1, 9, true),
                                      make_kernel_problem("1x0e+13x1e+5x2e", 2, 2, 10, true),
                                      make_kernel_problem("16x0e+33x1e+13x2e+5x3e", 3, 3, 11, true),
                                      make_kernel_problem("5x0e+16x1e+3x2e", 3, 2, 12, true),
                                      make_uvw_problem("33x0e+5x1e+13x2e", 2, "5x0e+13x1e+1x2e+33x2e", 13),
                                      make_uvw_problem("5x1o+1x0e+13x1e", 2, "13x1o+5x0e+33x0o+3x1e", 14, true),
                                      make_uvw_problem("2x4e+5x3e+13x0e", 4, "3x0e+2x4e+5x3e", 15),
                                      make_uvw_problem("13x1e+33x0e+5x1e", 2, "5x1e+17x1e+33x0e", 16, false, true)};
    return all;
  }();
  return problems;
}

inline bool has_uvw(const KernelProblem &p) {
  const auto &paths = p.product().paths;
  return std::any_of(paths.begin(), paths.end(), [](const auto &q) { return q.connection == Connection::uvw; });
}

inline EvaluatorOptions kernel_options(int rows_per_bin) {
  EvaluatorOptions options;
  options.radial_exact = rows_per_bin == 2;
  // Few cubic bins reach a loose tolerance; only quintic ones reach a tight one.
  options.radial_tolerance = rows_per_bin == CUBIC_ROWS ? 1e-2 : rows_per_bin == SEPTIC_ROWS ? SPLIT_TOLERANCE : 1e-8;
  if (rows_per_bin == SEPTIC_ROWS) options.precision = Precision::double_;
  return options;
}

// Weights and their derivatives by distance at r, by the functions of src/.
class ReferenceWeights {
 public:
  ReferenceWeights(const KernelProblem &p, int rows_per_bin) : function_(p.convolution.radial), rows_(rows_per_bin) {
    const double share = rows_ == SEPTIC_ROWS ? 1.0 - SPLIT_SHARE : 1.0;
    if (rows_ > 2) table_ = RadialTable::build(function_, rows_ - 1, share * kernel_options(rows_).radial_tolerance);
  }
  void operator()(double r, std::vector<double> &w, std::vector<double> &dw) const {
    const int n = function_.num_outputs();
    w.assign(n, 0.0);
    dw.assign(n, 0.0);
    if (rows_ == 2) {
      std::vector<double> both(2 * n);
      function_.derivatives(r, 1, -1, both.data());
      w.assign(both.begin(), both.begin() + n);
      dw.assign(both.begin() + n, both.end());
      return;
    }
    int row;
    double value[MAX_TABLE_DEGREE + 1], derivative[MAX_TABLE_DEGREE + 1];
    table_.coefficients(r, row, value, derivative);
    for (int k = 0; k < rows_; ++k)
      for (int c = 0; c < n; ++c) {
        w[c] += value[k] * table_.rows[static_cast<size_t>(row + k) * n + c];
        dw[c] += derivative[k] * table_.rows[static_cast<size_t>(row + k) * n + c];
      }
  }

 private:
  RadialFunction function_;
  int rows_;
  RadialTable table_;
};

struct KernelAnswer {
  Rows out, x_adj;
  Rows w_adj;    // [E][num_weights]
  Rows y_adj;    // [E][num_y], slot 0 the derivative by distance
};

// rows_per_bin 1: the exact weights as weights of edges, and a harmonic of order 0 that is not 1; slot 0 of y_adj is
// the derivative by it.
constexpr double SCALAR_HARMONIC = 0.75;

inline const KernelAnswer &reference_answer(int problem, int rows_per_bin) {
  static std::map<std::pair<int, int>, KernelAnswer> answers;
  auto found = answers.find({problem, rows_per_bin});
  if (found != answers.end()) return found->second;
  const KernelProblem &p = kernel_problems()[problem];
  const ReferenceWeights weights(p, std::max(2, rows_per_bin));
  KernelAnswer a;
  a.out.assign(NUM_RECEIVERS, std::vector<double>(p.product().irreps_out.dim(), 0.0));
  a.x_adj.assign(NUM_SENDERS, std::vector<double>(p.product().irreps_in.dim(), 0.0));
  std::vector<double> w, dw;
  for (int i = 0; i < NUM_RECEIVERS; ++i)
    for (int64_t e = p.edge_begin[i]; e < p.edge_begin[i + 1]; ++e) {
      const int j = p.sender[e];
      std::vector<double> harmonics(p.y.begin() + e * p.num_y(), p.y.begin() + (e + 1) * p.num_y());
      if (rows_per_bin == 1) harmonics[0] = SCALAR_HARMONIC;
      const double *y = harmonics.data();
      weights(p.distance[e], w, dw);
      p.product().forward(p.x[j].data(), y, w.data(), a.out[i].data());
      std::vector<double> y_adj(p.num_y(), 0.0), w_adj(w.size(), 0.0);
      p.product().backward(p.x[j].data(), y, w.data(), p.g[i].data(), a.x_adj[j].data(), y_adj.data(), w_adj.data());
      if (rows_per_bin > 1) y_adj[0] = 0.0;
      for (size_t c = 0; rows_per_bin > 1 && c < w.size(); ++c) y_adj[0] += w_adj[c] * dw[c];
      a.y_adj.push_back(y_adj);
      a.w_adj.push_back(w_adj);
    }
  return answers[{problem, rows_per_bin}] = a;
}

// The problem in the memory of the kernels. Everything that a kernel may not read is NaN; the edges begin at a number
// that is not 0.
template <class T>
class KernelCase {
 public:
  // Path groups use the kernels that find_path_group_kernel() gives for `set`, or the generic kernel.
  KernelCase(int problem, int rows_per_bin, InstructionSet set, bool is_generated)
      : p(kernel_problems()[problem]),
        in(p.product().irreps_in),
        out(p.product().irreps_out),
        constants(shared_constants(problem, rows_per_bin)) {
    constants.tables().select_kernels(set, is_generated);
    x = pack<T>(p.product().irreps_in, p.x);
    g = pack<T>(p.product().irreps_out, p.g);
    y = nan_vector<T>(FIRST_EDGE * p.num_y());
    for (const double v : p.y) y.push_back(static_cast<T>(v));
    sender.assign(FIRST_EDGE, -1);
    sender.insert(sender.end(), p.sender.begin(), p.sender.end());
    for (const int64_t b : p.edge_begin) begin.push_back(FIRST_EDGE + b);
    set_distances(p.distance);
  }

  void set_distances(const std::vector<double> &r) {
    table = find_weights(r, table_row, fraction, bins_per_length, radial_scratch);
  }

  // Edges of receivers first .. first + count - 1.
  ConvEdges<T> edges(int first, int count) const {
    const int64_t skipped = begin[first] - FIRST_EDGE;
    return {count,
            begin.data() + first,
            sender.data(),
            y.data(),
            table.table,
            table.rows,
            table_row.data() + skipped,
            fraction.data() + skipped,
            bins_per_length.data() + skipped,
            constants.rows_per_bin()};
  }

  // The kernels' scratch, filled with NaN; a canary after it shows whether a kernel writes beyond it.
  class Scratch {
   public:
    Scratch(const HostKernels<T> &kernels, const ConvolutionView<T> &tables, const ConvEdges<T> &edges)
        : size_(kernels.scratch_bytes(tables, edges)), bytes_(size_ + 64) {
      std::memset(bytes_.data(), 0xff, bytes_.size());
    }
    ~Scratch() {
      for (size_t k = size_; k < size_ + 64; ++k)
        EXPECT_EQ(static_cast<unsigned char>(bytes_[k]), 0xffu) << "beyond the scratch";
    }
    void *data() { return bytes_.data(); }

   private:
    size_t size_;
    AlignedVector<char> bytes_;
  };

  AlignedVector<T> forward(const HostKernels<T> &kernels, int first = 0, int count = NUM_RECEIVERS) const {
    AlignedVector<T> result = nan_vector<T>(NUM_RECEIVERS * out.row_size());
    Scratch scratch(kernels, constants.view(), edges(first, count));
    kernels.forward(constants.view(), edges(first, count), x.data(), NUM_SENDERS, result.data(), NUM_RECEIVERS, first,
                    scratch.data());
    return result;
  }

  // x_adj is added to, and may be null. Returns y_adj.
  AlignedVector<T> backward(const HostKernels<T> &kernels, AlignedVector<T> *x_adj, int first = 0,
                            int count = NUM_RECEIVERS) const {
    AlignedVector<T> y_adj = nan_vector<T>((begin[first + count] - begin[first]) * p.num_y() + 1);
    Scratch scratch(kernels, constants.view(), edges(first, count));
    kernels.backward(constants.view(), edges(first, count), x.data(), NUM_SENDERS, g.data(), NUM_RECEIVERS, first,
                     y_adj.data(), x_adj ? x_adj->data() : nullptr, NUM_SENDERS, sender.data(), scratch.data());
    EXPECT_TRUE(std::isnan(y_adj.back())) << "beyond y_adj";
    y_adj.pop_back();
    return y_adj;
  }

  // Adds to x_adj.
  void backward_gather(const HostKernels<T> &kernels, AlignedVector<T> &x_adj) const {
    const TransposedEdges t = transposed_edges();
    std::vector<int> rows;
    AlignedVector<T> tfraction, tbins, tscratch;
    const RadialRows<T> ttable = find_weights(t.distance, rows, tfraction, tbins, tscratch);
    const ConvEdges<T> transposed{
        NUM_SENDERS, t.begin.data(), t.receiver.data(), t.y.data(),   ttable.table,
        ttable.rows, rows.data(),    tfraction.data(),  tbins.data(), constants.rows_per_bin()};
    Scratch scratch(kernels, constants.view(), transposed);
    kernels.backward_gather(constants.view(), transposed, nullptr, 0, 0, g.data(), NUM_RECEIVERS, x_adj.data(),
                            NUM_SENDERS, 0, scratch.data());
  }

  // By weights of edges: forward, then backward or a gather, with the derivatives by the weights in their places. A
  // gather computes none by the harmonics.
  KernelAnswer with_edge_weights(const HostKernels<T> &kernels, bool gathered) const {
    constexpr int64_t MARGIN = 64;
    const TransposedEdges t = transposed_edges();
    const int num_edges = p.num_edges();
    const std::vector<EdgeColumn> &columns = constants.tables().edge_columns();
    const auto number = [&](int64_t row, const EdgeColumn &c) {
      return MARGIN + row * constants.view().weights_row + c.column;
    };
    AlignedVector<T> weights(num_edges * constants.view().weights_row + 2 * MARGIN, T(0)),
        fraction(num_edges, T(SCALAR_HARMONIC)), bins(num_edges, T(1));
    std::fill_n(weights.begin(), MARGIN, T(NAN));
    std::fill_n(weights.end() - MARGIN, MARGIN, T(NAN));
    std::vector<int> rows(num_edges);
    const ReferenceWeights exact(p, 2);
    std::vector<double> w, dw;
    for (int k = 0; k < num_edges; ++k) {
      rows[k] = k;
      exact(p.distance[gathered ? t.edge[k] : k], w, dw);
      for (size_t c = 0; c < columns.size(); ++c)
        weights[number(k, columns[c])] = static_cast<T>(columns[c].scale * w[c]);
    }
    ConvEdges<T> edges{NUM_RECEIVERS,
                       begin.data(),
                       sender.data(),
                       y.data(),
                       nullptr,
                       0,
                       rows.data(),
                       fraction.data(),
                       bins.data(),
                       1,
                       weights.data() + MARGIN,
                       weights.data() + MARGIN};
    if (gathered) {
      edges.num_atoms = NUM_SENDERS;
      edges.edge_begin = t.begin.data();
      edges.other_row = t.receiver.data();
      edges.y = t.y.data();
    }
    Scratch scratch(kernels, constants.view(), edges);
    AlignedVector<T> y_adj(num_edges * p.num_y()), x_adj = zero_x_adj(),
                                                   result = nan_vector<T>(NUM_RECEIVERS * out.row_size());
    KernelAnswer found;
    if (!gathered) {
      kernels.forward(constants.view(), edges, x.data(), NUM_SENDERS, result.data(), NUM_RECEIVERS, 0, scratch.data());
      found.out = unpack<T>(p.product().irreps_out, result, NUM_RECEIVERS);
    }
    if (gathered)
      kernels.backward_gather(constants.view(), edges, x.data(), NUM_SENDERS, 0, g.data(), NUM_RECEIVERS, x_adj.data(),
                              NUM_SENDERS, 0, scratch.data());
    else
      kernels.backward(constants.view(), edges, x.data(), NUM_SENDERS, g.data(), NUM_RECEIVERS, 0, y_adj.data(),
                       x_adj.data(), NUM_SENDERS, sender.data(), scratch.data());

    found.x_adj = unpack<T>(p.product().irreps_in, x_adj, NUM_SENDERS);
    found.w_adj.assign(num_edges, std::vector<double>(columns.size()));
    for (int k = 0; k < num_edges; ++k) {
      found.y_adj.emplace_back(y_adj.begin() + k * p.num_y(), y_adj.begin() + (k + 1) * p.num_y());
      for (size_t c = 0; c < columns.size(); ++c) {
        T &v = weights[number(k, columns[c])];
        found.w_adj[gathered ? t.edge[k] : k][c] = columns[c].scale * v;
        v = 0;
      }
    }
    for (size_t n = 0; n < weights.size(); ++n) {
      if (n < MARGIN || n >= weights.size() - MARGIN)
        EXPECT_TRUE(std::isnan(weights[n])) << "beyond the weights";
      else
        EXPECT_EQ(weights[n], T(0)) << "padding";
    }
    return found;
  }

  AlignedVector<T> zero_x_adj() const { return AlignedVector<T>(x.size(), T(0)); }

  const KernelProblem &p;
  FeatureLayout in, out;
  ConvolutionConstants<T> &constants;
  AlignedVector<T> x, g, y, fraction, bins_per_length, radial_scratch;
  std::vector<int> sender, table_row;
  std::vector<int64_t> begin;
  RadialRows<T> table{};

 private:
  static constexpr int FIRST_EDGE = 3;

  // The edges in the order of senders.
  struct TransposedEdges {
    std::vector<int64_t> begin = {0};
    std::vector<int> receiver, edge;    // edge: of the problem
    std::vector<double> distance;
    AlignedVector<T> y;
  };
  TransposedEdges transposed_edges() const {
    TransposedEdges t;
    for (int j = 0; j < NUM_SENDERS; ++j) {
      for (int i = 0; i < NUM_RECEIVERS; ++i)
        for (int64_t e = p.edge_begin[i]; e < p.edge_begin[i + 1]; ++e) {
          if (p.sender[e] != j) continue;
          t.receiver.push_back(i);
          t.edge.push_back(static_cast<int>(e));
          t.distance.push_back(p.distance[e]);
          for (int k = 0; k < p.num_y(); ++k) t.y.push_back(y[(FIRST_EDGE + e) * p.num_y() + k]);
        }
      t.begin.push_back(static_cast<int64_t>(t.receiver.size()));
    }
    return t;
  }

  // Tables are costly to build, and the same for all instruction sets.
  static ConvolutionConstants<T> &shared_constants(int problem, int rows_per_bin) {
    static std::map<std::pair<int, int>, std::unique_ptr<ConvolutionConstants<T>>> made;
    auto &constants = made[{problem, rows_per_bin}];
    if (!constants) {
      const KernelProblem &p = kernel_problems()[problem];
      constants = std::make_unique<ConvolutionConstants<T>>(p.convolution, FeatureLayout(p.product().irreps_in),
                                                            FeatureLayout(p.product().irreps_out), 1,
                                                            kernel_options(rows_per_bin));
      EXPECT_EQ(coefficients_in<T>(constants->rows_per_bin()), rows_per_bin) << p.name;
    }
    return *constants;
  }

  // Like ConvolutionConstants::radial, but rows are between NaN.
  RadialRows<T> find_weights(const std::vector<double> &r, std::vector<int> &rows, AlignedVector<T> &fraction,
                             AlignedVector<T> &bins, AlignedVector<T> &scratch) const {
    constexpr int64_t MARGIN = 64;
    const int64_t n = static_cast<int64_t>(r.size());
    const int64_t size =
        constants.exact() ? n * constants.scratch_per_edge() : constants.num_rows() * constants.columns();
    const bool is_copied = !constants.exact() && !scratch.empty();    // the rows of a table do not depend on distances
    if (!is_copied) scratch = nan_vector<T>(size + 2 * MARGIN);
    rows.resize(n);
    fraction = bins = nan_vector<T>(n);
    RadialRows<T> found = constants.radial(r.data(), nullptr, n, 0, n, scratch.data() + MARGIN, rows.data(),
                                           fraction.data(), bins.data());
    if (!constants.exact() && !is_copied) std::copy_n(constants.table_rows(), size, scratch.data() + MARGIN);
    found.table = scratch.data() + MARGIN;
    return found;
  }
};

}    // namespace testing
}    // namespace equi

#endif

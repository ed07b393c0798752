// SPDX-License-Identifier: MIT
// Compares the kernels of a model with tensor products that are evaluated component by component from Clebsch-Gordan
// coefficients (tensor_product.h). These share neither schedules nor code with any kernel.
#include "kokkos/kernel_libraries/kernel_check.h"
#include "kokkos/kernel_libraries/kernel_library.h"
#include "kokkos/kernel_libraries/random_bins.h"
#include "kokkos/runtime/buffer.h"
#include "src/evaluation/native_evaluators.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

namespace equi {

namespace {

// Rounding of sums of some thousand terms of either sign, in units of epsilon of the largest sum.
constexpr double ROUNDING = 200.0;
constexpr int NUM_EDGES = 17, NUM_SENDERS = 2, CHANNELS = 2 * CHANNEL_PAD;

// The largest difference relative to the largest expected number; NaN if any number is NaN.
class Largest {
 public:
  void add(double found, double expected) {
    most_ = std::max(most_, std::fabs(expected));
    const double difference = std::fabs(found - expected);
    if (!(difference <= difference_)) difference_ = difference;
  }
  double value() const { return difference_ / std::max(most_, std::numeric_limits<double>::min()); }

 private:
  double most_ = 0.0, difference_ = 0.0;
};

// One receiver's edges with the paths of one group, whose weights come from a table.
template <class T>
class GroupReference {
 public:
  GroupReference(const PathGroupShape &shape, InstructionSet set)
      : product_(product_of(shape)),
        in_(product_.irreps_in),
        out_(product_.irreps_out),
        tables_(product_, in_, out_),
        kernels_(host_kernels<T>(set)) {
    tables_.select_kernels(set);
    num_y_ = tables_.view().num_y;
    fill(x_, static_cast<size_t>(NUM_SENDERS) * in_.row_size());
    fill(g_, out_.row_size());
    table_.resize(static_cast<size_t>(RANDOM_ROWS) * tables_.columns());
    fill_random_bins(tables_, engine_, table_.data());
    fill(y_, static_cast<size_t>(NUM_EDGES) * num_y_);
    fill(fraction_, NUM_EDGES);
    for (int e = 0; e < NUM_EDGES; ++e) {
      y_[e * num_y_] = T(1);    // tables do not include the harmonic of order 0
      fraction_[e] *= T(0.5);
      sender_.push_back(e % NUM_SENDERS);
      bin_.push_back(e % RANDOM_BINS * ROWS_OF_RANDOM_BIN);
    }
  }

  // The largest difference of forward and backward passes; what: the path or the derivative that has it.
  double difference(int rows_per_bin, std::string &what) const {
    AlignedVector<T> out(g_.size(), T(0)), x_adj(x_.size(), T(0)), y_adj(y_.size(), T(0));
    run_kernels(rows_per_bin, out, x_adj, y_adj);

    const int num_in = product_.irreps_in.dim(), num_out = product_.irreps_out.dim();
    std::vector<double> expected(num_out, 0.0), expected_x(static_cast<size_t>(NUM_SENDERS) * num_in, 0.0);
    const std::vector<double> g = unpacked(product_.irreps_out, out_, g_, 1, 0);
    Largest of_y;
    std::vector<double> w(product_.num_weights()), dw(w.size());
    for (int e = 0; e < NUM_EDGES; ++e) {
      const std::vector<double> x = unpacked(product_.irreps_in, in_, x_, NUM_SENDERS, sender_[e]);
      const std::vector<double> y(y_.begin() + e * num_y_, y_.begin() + (e + 1) * num_y_);
      read_weights(e, rows_per_bin, w, dw);
      product_.forward(x.data(), y.data(), w.data(), expected.data());
      std::vector<double> found_y(num_y_, 0.0), w_adj(w.size(), 0.0);
      product_.backward(x.data(), y.data(), w.data(), g.data(), &expected_x[sender_[e] * num_in], found_y.data(),
                        w_adj.data());
      found_y[0] = 0.0;    // its place holds the derivative with respect to the fraction
      for (size_t k = 0; k < w.size(); ++k) found_y[0] += w_adj[k] * dw[k];
      for (int k = 0; k < num_y_; ++k) of_y.add(y_adj[e * num_y_ + k], found_y[k]);
    }
    Largest of_x;
    for (int s = 0; s < NUM_SENDERS; ++s) {
      const std::vector<double> found = unpacked(product_.irreps_in, in_, x_adj, NUM_SENDERS, s);
      for (int k = 0; k < num_in; ++k) of_x.add(found[k], expected_x[s * num_in + k]);
    }
    double most = 0.0;
    const auto note = [&](const std::string &name, double value) {
      if (value <= most) return;    // false for NaN
      most = value;
      what = name;
    };
    const std::vector<double> found = unpacked(product_.irreps_out, out_, out, 1, 0);
    for (const TensorProductPath &path : product_.paths) {
      Largest of_path;
      const int first = product_.irreps_out.offset(path.out), last = first + product_.irreps_out[path.out].dim();
      for (int k = first; k < last; ++k) of_path.add(found[k], expected[k]);
      note("path " + std::to_string(product_.irreps_in[0].irrep.l) + " x " + std::to_string(path.l2) + " -> " +
               std::to_string(product_.irreps_out[path.out].irrep.l),
           of_path.value());
    }
    note("derivative by features", of_x.value());
    note("derivative by edges", of_y.value());
    return most;
  }

 private:
  static TensorProduct product_of(const PathGroupShape &shape) {
    TensorProduct product;
    product.irreps_in = Irreps(std::vector<IrrepBlock>{{CHANNELS, {shape.l1, 1}}});
    std::vector<IrrepBlock> out;
    for (const PathGroupShape::Path &path : shape.paths) {
      product.lmax_edge = std::max(product.lmax_edge, path.l2);
      product.paths.push_back({0, path.l2, static_cast<int>(out.size()), 1.0, shape.connection});
      out.push_back({shape.is_uvw() ? UVW_BLOCK + 1 : CHANNELS, {path.l3, 1}});
    }
    product.irreps_out = Irreps(out);
    return product;
  }

  void fill(AlignedVector<T> &numbers, size_t count) {
    std::uniform_real_distribution<double> uniform(-1.0, 1.0);
    numbers.resize(count);
    for (T &v : numbers) v = static_cast<T>(uniform(engine_));
  }

  // Computes the weights of the product at edge e and their derivatives with respect to the fraction.
  void read_weights(int e, int rows_per_bin, std::vector<double> &w, std::vector<double> &dw) const {
    const double f = fraction_[e];
    for (size_t k = 0; k < w.size(); ++k) {
      const WeightColumn &column = tables_.table_columns()[k];
      const T *bin = table_.data() + RANDOM_ROWS * column.first + static_cast<int64_t>(bin_[e]) * column.stride;
      w[k] = dw[k] = 0.0;
      for (int n = coefficients_in<T>(rows_per_bin) - 1; n >= 0; --n) {
        dw[k] = dw[k] * f + w[k];
        w[k] = w[k] * f + coefficient_of(bin, column, n, rows_per_bin, tables_.layout());
      }
      w[k] /= column.scale;
      dw[k] /= column.scale;
    }
  }

  void run_kernels(int rows_per_bin, AlignedVector<T> &out, AlignedVector<T> &x_adj, AlignedVector<T> &y_adj) const {
    const int64_t edge_begin[] = {0, NUM_EDGES};
    const AlignedVector<T> bins_per_length(NUM_EDGES, T(1));
    ConvEdges<T> e{};
    e.num_atoms = 1;
    e.edge_begin = edge_begin;
    e.other_row = sender_.data();
    e.y = y_.data();
    e.fraction = fraction_.data();
    e.bins_per_length = bins_per_length.data();
    e.rows_per_bin = rows_per_bin;
    e.table_row = bin_.data();
    e.table = table_.data();
    e.table_rows = RANDOM_ROWS;
    const ConvolutionView<T> &view = tables_.view();
    AlignedVector<char> scratch(kernels_.scratch_bytes(view, e));
    kernels_.forward(view, e, x_.data(), NUM_SENDERS, out.data(), 1, 0, scratch.data());
    kernels_.backward(view, e, x_.data(), NUM_SENDERS, g_.data(), 1, 0, y_adj.data(), x_adj.data(), NUM_SENDERS,
                      sender_.data(), scratch.data());
  }

  // Row r of a feature with `rows` rows, in the order of irreps.h.
  static std::vector<double> unpacked(const Irreps &irreps, const FeatureLayout &layout, const AlignedVector<T> &packed,
                                      int64_t rows, int64_t r) {
    std::vector<double> row(irreps.dim());
    for (int b = 0; b < irreps.size(); ++b) {
      const FeatureBlock &block = layout.block(b);
      const FeatureGroup &group = layout.group(block.group);
      const int dim = irreps[b].irrep.dim();
      for (int u = 0; u < irreps[b].mul; ++u)
        for (int m = 0; m < dim; ++m)
          row[irreps.offset(b) + u * dim + m] =
              packed[rows * group.offset + r * group.width() + m * group.stride() + block.channel + u];
    }
    return row;
  }

  std::mt19937 engine_{26};
  TensorProduct product_;
  FeatureLayout in_, out_;
  ConvolutionTables<T> tables_;
  const HostKernels<T> &kernels_;
  int num_y_ = 0;
  AlignedVector<T> x_, g_, table_, y_, fraction_;
  std::vector<int> sender_, bin_;
};

template <class T>
KernelCheck check_group(const PathGroupShape &shape, InstructionSet set) {
  KernelCheck check;
  check.name = shape.key() + (sizeof(T) == 4 ? " float" : " double");
  check.allowed = ROUNDING * std::numeric_limits<T>::epsilon();
  const GroupReference<T> reference(shape, set);
  for (const int rows : {CUBIC_ROWS, FINE_ROWS<T>}) {
    std::string what;
    const double difference = reference.difference(rows, what);
    if (!(difference <= check.difference)) check.difference = difference;
    if (!(difference <= check.allowed) && check.fault.empty())
      check.fault = what + " differs from the sum over Clebsch-Gordan coefficients";
  }
  return check;
}

template <class K>
KernelList<K> list_with(const K *const &kernel) {
  return {kernel ? 1 : 0, &kernel};
}

// Compares the kernels that an evaluation uses with the generic ones: all their functions, including those with
// derivatives. Empty if all kernels are generic.
std::string fault_of_found(const PathGroupShape &shape, InstructionSet set) {
  if (shape.key().empty()) return "";
  KernelLibrary library{};
  const auto *uvw = shape.is_uvw() ? find_uvw_kernel<float>(set, shape) : nullptr;
  const auto *uvw_double = shape.is_uvw() ? find_uvw_kernel<double>(set, shape) : nullptr;
  const auto *of_float = shape.is_uvw() ? nullptr : find_path_group_kernel<float>(set, shape);
  const auto *of_double = shape.is_uvw() ? nullptr : find_path_group_kernel<double>(set, shape);
  const auto *dual = shape.is_uvw() ? nullptr : find_path_group_kernel<Dual<float>>(set, shape);
  const auto *dual_double = shape.is_uvw() ? nullptr : find_path_group_kernel<Dual<double>>(set, shape);
  if (std::string fault = kernel_library_fault(set, shape.key()); !fault.empty()) return fault;
  if (!uvw && !of_float) return "";
  library.float_uvw = list_with(uvw);
  library.double_uvw = list_with(uvw_double);
  library.float_path_groups = list_with(of_float);
  library.double_path_groups = list_with(of_double);
  library.dual_float_path_groups = list_with(dual);
  library.dual_double_path_groups = list_with(dual_double);
  return fault_of_kernels(library, shape, set);
}

std::string fault_of_found(const ContractionSchedule &schedule, InstructionSet set) {
  const auto *of_float = find_contraction_kernel<float>(set, schedule);
  const auto *of_double = find_contraction_kernel<double>(set, schedule);
  if (std::string fault = kernel_library_fault(set, schedule.key()); !fault.empty()) return fault;
  if (!of_float) return "";
  KernelLibrary library{};
  library.float_contractions = list_with(of_float);
  library.double_contractions = list_with(of_double);
  return fault_of_kernels(library, schedule, set);
}

}    // namespace

std::vector<std::string> host_instruction_sets() {
  std::vector<std::string> names;
  for (const InstructionSet set : INSTRUCTION_SETS)
    if (instruction_set_available(set)) names.emplace_back(instruction_set_name(set));
  return names;
}

std::vector<KernelCheck> check_kernels(const Model &model, const std::string &instruction_set) {
  const InstructionSet set =
      instruction_set.empty() ? best_instruction_set() : instruction_set_of_name(instruction_set);
  std::vector<KernelCheck> checks;
  std::set<std::string> is_done;
  const auto add_found = [&](const std::string &key, const std::string &fault) {
    KernelCheck check;
    check.name = key + " all functions";
    check.fault = fault;
    checks.push_back(check);
  };
  for (const Layer &layer : model.layers) {
    if (const auto *convolution = std::get_if<Convolution>(&layer))
      for (const ProductPathGroup &group : path_groups_of(convolution->product)) {
        std::string key = group.shape.key();
        if (!key.empty() && !is_done.insert(key).second) continue;
        add_found(key, fault_of_found(group.shape, set));
        checks.push_back(check_group<float>(group.shape, set));
        checks.push_back(check_group<double>(group.shape, set));
      }
    if (const auto product = polynomials(layer)) {
      const ContractionSchedule schedule = make_contraction_schedule(*product);
      if (is_done.insert(schedule.key()).second) add_found(schedule.key(), fault_of_found(schedule, set));
    }
  }
  return checks;
}

}    // namespace equi

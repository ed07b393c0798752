// SPDX-License-Identifier: MIT
// Compares all functions of a library's kernels with the generic kernels, on random numbers.
#include "kokkos/kernel_libraries/kernel_check.h"

#include "kokkos/kernel_libraries/random_bins.h"
#include "kokkos/runtime/buffer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <type_traits>
#include <vector>

namespace equi {

namespace {

// The two kernels add the same products in different orders. For thousands of terms of either sign, the rounding is
// some units of the last place of the largest sum. A wrong coupling, sign or component changes a result by far more.
constexpr double ROUNDING = 200.0;    // in units of epsilon

// No edge, one, and more than a block of 16; several senders, and more than one channel block.
constexpr int EDGES_OF_ATOM[] = {17, 0, 1};
constexpr int NUM_ATOMS = 3, NUM_EDGES = 18, NUM_SENDERS = 2, CHANNELS = 2 * CHANNEL_PAD;
constexpr int DIRECTIONS = 2;

template <class R>
using Numbers = AlignedVector<R>;

class Random {
 public:
  template <class R>
  Numbers<R> numbers(size_t count) {
    std::uniform_real_distribution<double> uniform(-1.0, 1.0);
    Numbers<R> all(count);
    for (R &v : all) v = static_cast<R>(uniform(engine_));
    return all;
  }
  std::mt19937 &engine() { return engine_; }

 private:
  std::mt19937 engine_{20};
};

template <class R>
bool agree(const Numbers<R> &found, const Numbers<R> &expected) {
  double most = 0.0;
  for (const R v : expected) most = std::max(most, std::fabs(static_cast<double>(v)));
  const double tolerance = ROUNDING * std::numeric_limits<R>::epsilon() * most;
  for (size_t k = 0; k < found.size(); ++k)
    if (!(std::fabs(static_cast<double>(found[k]) - static_cast<double>(expected[k])) <= tolerance))    // NaN fails
      return false;
  return true;
}

// Results of forward, backward and gather of one kernel.
template <class R>
struct Answers {
  Numbers<R> out, x_adj, y_adj, weights_adj, gathered;
};

// A convolution with one path group on random edges.
template <class T>
class PathGroupCase {
  using R = Real<T>;

 public:
  PathGroupCase(const PathGroupShape &shape, InstructionSet set)
      : product_(product_of(shape)),
        in_(product_.irreps_in, IS_DUAL<T> ? 1 + DIRECTIONS : 1),
        out_(product_.irreps_out, IS_DUAL<T> ? 1 + DIRECTIONS : 1),
        tables_(product_, in_, out_),
        kernels_(host_kernels<T>(set)) {
    Random random;
    const size_t num_y = tables_.view().num_y;
    x_ = random.numbers<R>(static_cast<size_t>(NUM_SENDERS) * in_.row_size());
    g_ = random.numbers<R>(static_cast<size_t>(NUM_ATOMS) * out_.row_size());
    table_.resize(static_cast<size_t>(RANDOM_ROWS) * tables_.columns());
    fill_random_bins(tables_, random.engine(), table_.data());
    weights_ = random.numbers<R>(PLANES<T> * weights_size());
    const Numbers<R> y = random.numbers<R>(2 * NUM_EDGES * num_y), f = random.numbers<R>(2 * NUM_EDGES);
    for (size_t k = 0; k < NUM_EDGES * num_y; ++k) y_.push_back(make_number<T>(y[2 * k], y[2 * k + 1]));
    edge_begin_ = {0};
    for (const int count : EDGES_OF_ATOM) edge_begin_.push_back(edge_begin_.back() + count);
    for (int e = 0; e < NUM_EDGES; ++e) {
      fraction_.push_back(make_number<T>(f[2 * e] / 2, f[2 * e + 1]));
      bins_per_length_.push_back(R(1));
      sender_.push_back(e % NUM_SENDERS);
      receiver_.push_back(e % NUM_ATOMS);
      bin_.push_back(e % RANDOM_BINS * ROWS_OF_RANDOM_BIN);
      number_.push_back(e);
    }
  }

  const PathGroupShape &shape() const { return tables_.schedules()[0].shape; }

  // Results of a kernel, or of the generic one. With duals the tangents are those of one direction.
  template <class Kernel>
  Answers<R> answers(Kernel ConvPathGroup<T>::*place, Kernel kernel, int rows_per_bin) const {
    ConvPathGroup<T> path_group = tables_.path_groups()[0];
    path_group.*place = kernel;
    const ConvolutionView<T> tables = tables_with(path_group);
    ConvEdges<T> e = edges(rows_per_bin);
    Answers<R> a = empty();
    if (rows_per_bin == 1) e.weights_adj = make_pointer<T>(a.weights_adj.data(), weights_size());
    if constexpr (IS_DUAL<T>) e.direction = DIRECTIONS - 1;
    forward(tables, e, a);
    backward(tables, e, a);
    e.other_row = receiver_.data();
    e.weights_adj = {};
    gather(tables, e, a);
    return a;
  }

  // Results of forward in all directions. With a kernel, its function for moving edges computes all at once. With
  // the generic one, directions are computed one by one, with a row of its own for each edge's sender.
  Answers<R> moving_answers(const PathGroupKernel<T> *kernel) const {
    ConvPathGroup<T> path_group = tables_.path_groups()[0];
    path_group.kernel = kernel;
    const ConvolutionView<T> tables = tables_with(path_group);
    // The tangents of each direction are different multiples of the same numbers.
    AlignedVector<T> y, fraction;
    for (int d = 0; d < DIRECTIONS; ++d) {
      append_with_tangents(R(1 + d), y_, y);
      append_with_tangents(R(1 + d), fraction_, fraction);
    }
    // One edge reads its sender's tangents unchanged, and others add those in direction 0.
    Numbers<R> factor(DIRECTIONS * NUM_EDGES, R(0));
    for (int e = 0; e < NUM_EDGES; ++e) factor[(DIRECTIONS - 1) * NUM_EDGES + e] = R(0.1) * R(e - 5);
    ConvEdges<T> e = edges(FINE_ROWS<T>);
    e.y = y.data();
    e.fraction = fraction.data();
    Answers<R> a = empty();
    if (kernel) {
      e.moving_directions = DIRECTIONS;
      e.y_distance = y_.size();
      e.fraction_distance = fraction_.size();
      e.sender_factor = factor.data();
      forward(tables, e, a);
    } else {
      e.other_row = number_.data();
      const Numbers<R> x = tangent_rows(factor);
      for (; e.direction < DIRECTIONS; ++e.direction, e.y += y_.size(), e.fraction += fraction_.size())
        kernels_.forward(tables, e, x.data(), NUM_EDGES, a.out.data(), NUM_ATOMS, 0, scratch(tables, e).data());
    }
    return a;
  }

  // The tangents of edges that do not move, in all directions. With a kernel, its rigid functions compute all at
  // once; with the generic one, directions are computed one by one.
  Answers<R> rigid_answers(const PathGroupKernel<T> *kernel) const {
    ConvPathGroup<T> path_group = tables_.path_groups()[0];
    path_group.kernel = kernel;
    const ConvolutionView<T> tables = tables_with(path_group);
    AlignedVector<T> y, fraction;
    append_with_tangents(R(0), y_, y);
    append_with_tangents(R(0), fraction_, fraction);
    ConvEdges<T> e = edges(FINE_ROWS<T>);
    e.y = y.data();
    e.fraction = fraction.data();
    Answers<R> a = empty();
    const int64_t size = static_cast<int64_t>(a.y_adj.size());
    if (kernel) {
      e.rigid_directions = DIRECTIONS;
      e.y_adj_distance = size / PLANES<T> / DIRECTIONS;
      forward(tables, e, a);
      backward(tables, e, a);
    } else {
      for (e.direction = 0; e.direction < DIRECTIONS; ++e.direction) {
        forward(tables, e, a);
        backward(tables, e, a, e.direction * size / DIRECTIONS);
      }
    }
    // The rigid functions write no values.
    clear_values(out_, NUM_ATOMS, a.out);
    clear_values(in_, NUM_SENDERS, a.x_adj);
    for (int64_t k = 0; k < size; k += PLANES<T>) a.y_adj[k] = R(0);
    return a;
  }

 private:
  ConvolutionView<T> tables_with(const ConvPathGroup<T> &path_group) const {
    ConvolutionView<T> tables = tables_.view();
    tables.path_groups = &path_group;
    return tables;
  }
  // Appends the numbers with multiples of their tangents.
  static void append_with_tangents(R factor, const AlignedVector<T> &numbers, AlignedVector<T> &to) {
    for (const T v : numbers) to.push_back(make_number<T>(value_of(v), factor * tangent_of(v)));
  }

  static TensorProduct product_of(const PathGroupShape &shape) {
    TensorProduct product;
    product.irreps_in = Irreps(std::vector<IrrepBlock>{{CHANNELS, {shape.l1, 1}}});
    std::vector<IrrepBlock> out;
    // A uvw path has enough outputs to fill one block of its table and begin another.
    const int outputs = shape.is_uvw() ? UVW_BLOCK + 1 : CHANNELS;
    for (const PathGroupShape::Path &path : shape.paths) {
      product.lmax_edge = std::max(product.lmax_edge, path.l2);
      product.paths.push_back({0, path.l2, static_cast<int>(out.size()), 1.0, shape.connection});
      out.push_back({outputs, {path.l3, 1}});
    }
    product.irreps_out = Irreps(out);
    return product;
  }

  size_t weights_size() const { return static_cast<size_t>(NUM_EDGES) * tables_.view().weights_row; }

  Answers<R> empty() const {
    const size_t num_directions = IS_DUAL<T> ? DIRECTIONS : 1;
    Answers<R> a;
    a.out.assign(g_.size(), R(0));
    a.x_adj.assign(x_.size(), R(0));
    a.y_adj.assign(PLANES<T> * num_directions * y_.size(), R(0));
    a.weights_adj.assign(weights_.size(), R(0));
    // The number of senders equals that of receivers.
    a.gathered.assign(static_cast<size_t>(NUM_ATOMS) * in_.row_size(), R(0));
    return a;
  }

  // For each edge the sender's row, with tangents as PathGroupCall::sender_factor defines them.
  Numbers<R> tangent_rows(const Numbers<R> &factor) const {
    const FeatureGroup &group = in_.group(0);
    Numbers<R> rows;
    for (int e = 0; e < NUM_EDGES; ++e) {
      const auto row = x_.begin() + static_cast<int64_t>(sender_[e]) * group.width();
      rows.insert(rows.end(), row, row + group.width());
      R *to = rows.data() + static_cast<int64_t>(e) * group.width();
      for (int m = 0; m < group.irrep.dim(); ++m, to += group.stride())
        for (int d = 0; d < DIRECTIONS; ++d)
          for (int c = 0; c < group.channels; ++c)
            to[group.tangents(d) + c] += factor[d * NUM_EDGES + e] * to[group.tangents(0) + c];
    }
    return rows;
  }

  ConvEdges<T> edges(int rows_per_bin) const {
    ConvEdges<T> e{};
    e.num_atoms = NUM_ATOMS;
    e.edge_begin = edge_begin_.data();
    e.other_row = sender_.data();
    e.y = y_.data();
    e.fraction = fraction_.data();
    e.bins_per_length = bins_per_length_.data();
    e.rows_per_bin = rows_per_bin;
    if (rows_per_bin == 1) {
      e.table_row = number_.data();
      e.weights = make_pointer<T>(const_cast<R *>(weights_.data()), weights_size());    // this call only reads them
    } else {
      e.table_row = bin_.data();
      e.table = table_.data();
      e.table_rows = RANDOM_ROWS;
    }
    return e;
  }

  AlignedVector<char> scratch(const ConvolutionView<T> &tables, const ConvEdges<T> &e) const {
    return AlignedVector<char>(kernels_.scratch_bytes(tables, e));
  }
  void forward(const ConvolutionView<T> &tables, const ConvEdges<T> &e, Answers<R> &a) const {
    kernels_.forward(tables, e, x_.data(), NUM_SENDERS, a.out.data(), NUM_ATOMS, 0, scratch(tables, e).data());
  }
  // first: number of y_adj with which the results begin.
  void backward(const ConvolutionView<T> &tables, const ConvEdges<T> &e, Answers<R> &a, int64_t first = 0) const {
    kernels_.backward(tables, e, x_.data(), NUM_SENDERS, g_.data(), NUM_ATOMS, 0,
                      reinterpret_cast<T *>(a.y_adj.data() + first), a.x_adj.data(), NUM_SENDERS, sender_.data(),
                      scratch(tables, e).data());
  }
  void gather(const ConvolutionView<T> &tables, const ConvEdges<T> &e, Answers<R> &a) const {
    kernels_.backward_gather(tables, e, nullptr, 0, 0, g_.data(), NUM_ATOMS, a.gathered.data(), NUM_ATOMS, 0,
                             scratch(tables, e).data());
  }

  static void clear_values(const FeatureLayout &layout, int64_t rows, Numbers<R> &feature) {
    for (const FeatureGroup &group : layout.groups()) {
      for (int64_t r = 0; r < rows * group.irrep.dim(); ++r)
        std::fill_n(feature.begin() + rows * group.offset + r * group.stride(), group.channels, R(0));
    }
  }

  TensorProduct product_;
  FeatureLayout in_, out_;
  ConvolutionTables<T> tables_;
  const HostKernels<T> &kernels_;
  Numbers<R> x_, g_, table_, weights_, bins_per_length_;
  AlignedVector<T> y_, fraction_;
  std::vector<int64_t> edge_begin_;
  std::vector<int> sender_, receiver_, bin_, number_;
};

template <class T>
std::string name_of(const std::string &function) {
  return std::string("its ") + function + " for " + (sizeof(Real<T>) == 4 ? "float" : "double") +
         (IS_DUAL<T> ? " with derivatives" : "");
}

// Describes the first wrong array of the answers, by its name; else empty.
template <class T>
std::string fault_of_answers(const Answers<Real<T>> &found, const Answers<Real<T>> &expected, const std::string &kind) {
  const auto differs = [&](const std::string &function) {
    return name_of<T>(kind + function) + " differs from that of the generic kernel";
  };
  if (!agree(found.out, expected.out)) return differs("forward");
  if (!agree(found.x_adj, expected.x_adj) || !agree(found.y_adj, expected.y_adj) ||
      !agree(found.weights_adj, expected.weights_adj))
    return differs("backward");
  if (!agree(found.gathered, expected.gathered)) return differs("gather");
  return "";
}

// The only kernel of a list, or what is wrong with the list.
template <class K>
std::string fault_of_list(const KernelList<K> &list, const std::string &key) {
  if (list.count != 1 || !list.kernels || !list.kernels[0] || !list.kernels[0]->key || key != list.kernels[0]->key)
    return "it lacks the kernel " + key;
  return "";
}

template <class T>
std::string fault_of_path_group(const KernelList<PathGroupKernel<T>> &list, const PathGroupShape &shape,
                                InstructionSet set) {
  std::string fault = fault_of_list(list, shape.key());
  if (!fault.empty()) return fault;
  const PathGroupKernel<T> &kernel = *list.kernels[0];
  const bool has_cubic = kernel.forward[1] && kernel.backward[1] && kernel.gather[1];
  constexpr bool NEEDS_CUBIC = std::is_same_v<T, float>;
  const bool takes_directions = kernel.moving_forward && kernel.rigid_forward && kernel.rigid_backward;
  if (!kernel.couple_harmonics || !kernel.forward[0] || !kernel.backward[0] || !kernel.forward[2] ||
      !kernel.backward[2] || !kernel.gather[2] || (IS_DUAL<T> && !takes_directions) || (NEEDS_CUBIC && !has_cubic))
    return name_of<T>("kernel") + " lacks a function";
  const PathGroupCase<T> path_group(shape, set);
  using Place = const PathGroupKernel<T> *;
  const auto answers = [&](Place place, int rows) {
    return path_group.answers(&ConvPathGroup<T>::kernel, place, rows);
  };
  for (const int rows : {1, CUBIC_ROWS, FINE_ROWS<T>}) {
    if (!NEEDS_CUBIC && rows == CUBIC_ROWS) continue;
    fault = fault_of_answers<T>(answers(&kernel, rows), answers(nullptr, rows), "");
    if (!fault.empty()) return fault;
  }
  if constexpr (IS_DUAL<T>) {
    fault = fault_of_answers<T>(path_group.moving_answers(&kernel), path_group.moving_answers(nullptr), "moving ");
    if (fault.empty())
      fault = fault_of_answers<T>(path_group.rigid_answers(&kernel), path_group.rigid_answers(nullptr), "rigid ");
  }
  return fault;
}

template <class T>
std::string fault_of_uvw(const KernelList<UvwKernel<T>> &list, const PathGroupShape &shape, InstructionSet set) {
  std::string fault = fault_of_list(list, shape.key());
  if (!fault.empty()) return fault;
  const UvwKernel<T> &kernel = *list.kernels[0];
  constexpr bool NEEDS_CUBIC = std::is_same_v<T, float>;
  for (const int k : {1, 2})
    if (!kernel.couple_harmonics ||
        ((NEEDS_CUBIC || k == 2) && !(kernel.forward[k] && kernel.backward[k] && kernel.gather[k])))
      return name_of<T>("kernel") + " lacks a function";
  const PathGroupCase<T> path_group(shape, set);
  using Place = const UvwKernel<T> *;
  for (const int rows : {CUBIC_ROWS, FINE_ROWS<T>}) {
    if (!NEEDS_CUBIC && rows == CUBIC_ROWS) continue;
    fault =
        fault_of_answers<T>(path_group.answers(&ConvPathGroup<T>::uvw_kernel, static_cast<Place>(&kernel), rows),
                            path_group.answers(&ConvPathGroup<T>::uvw_kernel, static_cast<Place>(nullptr), rows), "");
    if (!fault.empty()) return fault;
  }
  return "";
}

// One channel block of some atoms, whose order differs from that of their rows.
template <class T>
std::string fault_of_contraction(const KernelList<ContractionKernel<T>> &list, const ContractionSchedule &schedule,
                                 InstructionSet set) {
  std::string fault = fault_of_list(list, schedule.key());
  if (!fault.empty()) return fault;
  const ContractionKernel<T> &kernel = *list.kernels[0];
  if (!kernel.forward || !kernel.backward) return name_of<T>("kernel") + " lacks a function";
  const int rows[] = {1, 0, 4, 2, 3}, count = 5;
  Random random;
  const std::optional<SphereGridView> grid = schedule.grid ? std::optional(schedule.grid->view()) : std::nullopt;
  const Numbers<T> coefficients =
      random.numbers<T>(grid ? schedule.grid->table.size() : static_cast<size_t>(schedule.num_entries()) * CHANNEL_PAD);

  struct Feature {
    std::vector<int> dim, stride;
    std::vector<int64_t> width;
    Numbers<T> numbers;
    std::vector<T *> data;
    Feature(const std::vector<int> &l, int count, Random &random) {
      int64_t size = 0;
      for (const int each : l) {
        dim.push_back(2 * each + 1);
        stride.push_back(CHANNEL_PAD);
        width.push_back(dim.back() * CHANNEL_PAD);
        size += width.back() * count;
      }
      numbers = random.numbers<T>(static_cast<size_t>(size));
      int64_t first = 0;
      for (const int64_t w : width) {
        data.push_back(numbers.data() + first);
        first += w * count;
      }
    }
    ContractionFeature<T> feature() const { return {data.data(), width.data(), stride.data()}; }
  };
  const HostKernels<T> &kernels = host_kernels<T>(set);
  for (const bool is_backward : {false, true}) {
    Numbers<T> answer[2];
    for (const bool is_generic : {false, true}) {
      Random same;
      Feature x(schedule.in_l, count, same), out(schedule.out_l, count, same);
      const ContractionCall<T> call{count, rows, x.feature(), out.feature(), coefficients.data()};
      const ContractionView<T> tables{schedule.nodes.data(),
                                      schedule.outputs.data(),
                                      static_cast<int>(schedule.nodes.size()),
                                      x.dim.data(),
                                      out.dim.data(),
                                      static_cast<int>(x.dim.size()),
                                      static_cast<int>(out.dim.size()),
                                      schedule.num_inputs(),
                                      schedule.num_outputs(),
                                      grid ? &*grid : nullptr};
      AlignedVector<char> scratch(kernels.contraction_scratch_bytes(tables));
      if (is_generic)
        (is_backward ? kernels.contraction_backward : kernels.contraction_forward)(tables, call, scratch.data());
      else
        (is_backward ? kernel.backward : kernel.forward)(call);
      answer[is_generic] = is_backward ? x.numbers : out.numbers;
    }
    if (!agree(answer[0], answer[1]))
      return name_of<T>(is_backward ? "backward" : "forward") + " differs from that of the generic kernel";
  }
  return "";
}

// The first fault of several checks.
template <class... F>
std::string first_fault(const F &...check) {
  std::string fault;
  (void)((fault = check(), fault.empty()) && ...);
  return fault;
}

}    // namespace

std::string fault_of_kernels(const KernelLibrary &library, const PathGroupShape &shape, InstructionSet set) {
  if (shape.is_uvw())
    return first_fault([&] { return fault_of_uvw(library.float_uvw, shape, set); },
                       [&] { return fault_of_uvw(library.double_uvw, shape, set); });
  return first_fault([&] { return fault_of_path_group(library.float_path_groups, shape, set); },
                     [&] { return fault_of_path_group(library.double_path_groups, shape, set); },
                     [&] { return fault_of_path_group(library.dual_float_path_groups, shape, set); },
                     [&] { return fault_of_path_group(library.dual_double_path_groups, shape, set); });
}

std::string fault_of_kernels(const KernelLibrary &library, const ContractionSchedule &schedule, InstructionSet set) {
  return first_fault([&] { return fault_of_contraction(library.float_contractions, schedule, set); },
                     [&] { return fault_of_contraction(library.double_contractions, schedule, set); });
}

}    // namespace equi

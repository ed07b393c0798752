// SPDX-License-Identifier: MIT
// SO(2) convolutions on a device: matrices, scratch and the sequence of kernels in each pass.
#include "kokkos/layers/so2_convolution/device_so2_convolution.h"

#include "kokkos/device_kernels/device_dense.h"
#include "kokkos/layer_interface/device_edge_rows.h"
#include "kokkos/layers/so2_convolution/device_so2_kernels.h"
#include "src/numbers/number_types.h"

#include <algorithm>
#include <type_traits>

namespace equi {

namespace {

// The generators between neighboring |m| of each order (So2Turn).
template <class R>
std::vector<So2Turn<R>> turns_of(int lmax) {
  std::vector<So2Turn<R>> turns(so2_turns_before(lmax + 1));
  for (const So2Generator<R> &g : Rotations::generators<R>(lmax, lmax)) {
    const int m = std::abs(g.m), n = std::abs(g.n);
    if (m < n || (m == n && g.m < 0)) continue;    // follows from another entry
    So2Turn<R> &turn = turns[so2_turns_before(g.l) + m - 1];
    if (g.k == 1)
      turn.y = g.value;
    else
      (g.k == 0 ? turn.x : turn.z)[g.m < 0][g.n < 0] = g.value;
  }
  return turns;
}

// [[W, W'], [-W', W]], or only W for m = 0; row by row.
template <class R>
void add_matrix(const Matrix &same, const Matrix *other, std::vector<R> &to) {
  for (int sign = 0; sign < (other ? 2 : 1); sign++)
    for (int i = 0; i < same.rows; i++) {
      const auto add = [&](const Matrix &m, double factor) {
        for (int j = 0; j < m.cols; j++) to.push_back(static_cast<R>(factor * m(i, j)));
      };
      if (sign == 1) add(*other, -1.0);
      add(same, 1.0);
      if (other && sign == 0) add(*other, 1.0);
    }
}

}    // namespace

template <class T>
DeviceSo2Convolution<T>::DeviceSo2Convolution(const DeviceExec &exec, const So2Convolution &layer,
                                              const FeatureLayout &input, const FeatureLayout &in,
                                              const FeatureLayout &out, int num_species,
                                              const EvaluatorOptions &options)
    : DeviceSo2Convolution(exec, layer, So2Linears(layer, in), input, in, out, num_species, options) {}

template <class T>
DeviceSo2Convolution<T>::DeviceSo2Convolution(const DeviceExec &exec, const So2Convolution &layer, So2Linears padded,
                                              const FeatureLayout &input, const FeatureLayout &in,
                                              const FeatureLayout &out, int num_species,
                                              const EvaluatorOptions &options)
    : input_(input),
      in_(in),
      out_(out),
      has_edge_rows_(options.energy_moments),
      channels_in_(padded.channels_in),
      factors_row_(padded.factors_row),
      first_(padded.first),
      radial_linear_(layer.radial_linear),
      lmax_(layer.lmax),
      depends_on_frame_(layer.depends_on_frame()),
      has_tf32_(options.precision == Precision::tf32),
      host_network_(EdgeNetwork<T>::for_distances(layer.radial, in, num_species, network_columns(padded.columns),
                                                  padded.factors_row, options, 1, best_instruction_set(),
                                                  DENSE_MULTIPLE)),
      network_(exec, host_network_, false),
      description_(describe_so2_convolution(layer, host_network_.describe())),
      heads_(layer.attention.heads),
      scores_(layer.attention.channels),
      head_size_(padded.head_size),
      score_epsilon_(static_cast<R>(layer.attention.epsilon)) {
  std::vector<R> data;
  std::vector<So2ProductTerm<R>> terms;
  for (So2PaddedLinear &linear : padded.linears) {
    Linear made{{}, {}, -1, static_cast<int64_t>(terms.size()), static_cast<int64_t>(linear.product.size()), -1, 0};
    for (const So2ProductTerm<double> &t : linear.product)
      terms.push_back({{t.l[0], t.l[1], t.l[2]}, {t.m[0], t.m[1], t.m[2]}, static_cast<R>(t.value)});
    for (size_t m = 0; m < linear.weights.size(); m++) {
      made.weights.push_back(static_cast<int64_t>(data.size()));
      add_matrix(linear.weights[m][0], m == 0 ? nullptr : &linear.weights[m][1], data);
    }
    if (!linear.bias.empty()) made.bias = static_cast<int64_t>(data.size());
    data.insert(data.end(), linear.bias.begin(), linear.bias.end());
    made.points = static_cast<int64_t>(data.size());
    made.num_points = linear.at_points.to_points.rows;
    for (const Matrix *part : {&linear.at_points.to_points, &linear.at_points.from_points})
      data.insert(data.end(), part->data.begin(), part->data.end());
    linear.weights.clear();
    made.layout = std::move(linear);
    linears_.push_back(std::move(made));
  }
  score_data_ = static_cast<int64_t>(data.size());
  const So2Attention &a = layer.attention;
  for (const std::vector<double> *part : {&a.weight, &a.bias, &a.vector})
    data.insert(data.end(), part->begin(), part->end());
  assign(exec, data_, data);
  assign(exec, terms_, terms);
  assign(exec, score_places_, padded.score_places);
  const Rotations rotations(layer.lmax);
  assign(exec, recursion_begin_, rotations.begin());
  assign(exec, recursion_terms_, rotations.terms());
  assign(exec, turns_, turns_of<R>(layer.lmax));
}

// ---- scratch
template <class T>
int64_t DeviceSo2Convolution<T>::values_size(int64_t count) const {
  int64_t size = 0;
  for (const Linear &linear : linears_) size += PLANES<T> * count * linear.layout.out.size();
  return size;
}

template <class T>
std::pair<typename DeviceSo2Convolution<T>::Work, int64_t> DeviceSo2Convolution<T>::work(R *first, int64_t count,
                                                                                         bool backward,
                                                                                         R *values) const {
  int64_t size = 0;
  const auto take = [&](const So2Shape &shape) {
    R *const array = first ? first + size : nullptr;
    size += PLANES<T> * count * shape.size();
    return array;
  };
  Work w{};
  w.has_outputs = backward && values;
  w.in.push_back(take(first_));
  for (const Linear &linear : linears_) {
    const So2Shape &out = linear.layout.out;
    w.out.push_back(values ? values : take(out));
    if (values) values += PLANES<T> * count * out.size();
    const bool has_factors = radial_linear_ > 0 && w.in.size() == radial_linear_;
    w.in.push_back(linear.has_step() || has_factors ? take(linear.layout.gated()) : w.out.back());
  }
  w.messages = heads_ > 0 ? take(linears_.back().layout.gated()) : w.in.back();
  w.scores = first ? first + size : nullptr;
  size += PLANES<T> * count * padded(heads_);
  if (!backward) return {w, size};
  for (const Linear &linear : linears_)
    w.of_made.push_back(linear.has_product() || linear.has_points() ? take(linear.layout.out) : nullptr);
  w.of_messages = take(linears_.back().layout.gated());
  return {w, size};
}

template <class T>
typename DeviceSo2Convolution<T>::Work DeviceSo2Convolution<T>::work(const Edges &edges, bool backward,
                                                                     const DeviceSo2Values<R> &values,
                                                                     Scratch &scratch) const {
  const int64_t count = edges.count;
  R *const kept = values.kept.of_layer(values.before, values_size(1), edges.batch.first, count);
  return work(scratch.so2.work.reserve(work(nullptr, count, backward, kept).second), count, backward, kept).first;
}

// Size of what make_edges() stores per edge besides its rotations: numbers, and rows.
constexpr int EDGE_NUMBERS = 6, EDGE_ROWS = 3;

template <class T>
void DeviceSo2Convolution<T>::for_edge_scratch(Scratch &scratch, int64_t num_edges, const ArrayVisitor &f) const {
  const int64_t n = std::min(num_edges, CHUNK), size = rotations_size(lmax_);
  f(scratch.so2.rows, EDGE_ROWS * n);
  f(scratch.so2.numbers, (size + EDGE_NUMBERS) * n);
  if (!IS_FLOAT64) f(scratch.so2.exact, size * n);
  f(scratch.so2.work, work(nullptr, n, true, nullptr).second);
  if (has_edge_rows_) f(scratch.edge_rows, 2 * n * in_.row_size());
  f(scratch.network, network_.scratch_size(n));
  f(scratch.weights, network_.weights_size(n));
}

// ---- edges
template <class T>
typename DeviceSo2Convolution<T>::Edges DeviceSo2Convolution<T>::make_edges(const DeviceExec &exec,
                                                                            const DeviceBatchEdges &chunk,
                                                                            const DeviceSo2Geometry<T> &geometry,
                                                                            const DeviceNetworkInput<R> &input,
                                                                            Scratch &scratch) const {
  const int64_t n = chunk.count, size = rotations_size(lmax_);
  Edges e{};
  e.batch = chunk;
  e.count = n;
  e.of_senders = input.of_senders;
  int *const rows = scratch.so2.rows.reserve(EDGE_ROWS * n);
  e.own_row = rows;
  e.other_row = rows + n;
  e.out_row = rows + 2 * n;
  e.rotations = scratch.so2.numbers.reserve((size + EDGE_NUMBERS) * n);
  e.cutoff = e.rotations + size * n;
  e.cutoff_slope = e.cutoff + n;
  e.cutoff_adj = e.cutoff_slope + n;
  e.torque = e.cutoff_adj + n;
  DoubleOf<T> *exact;
  if constexpr (IS_FLOAT64)
    exact = e.rotations;
  else
    exact = scratch.so2.exact.reserve(size * n);
  e.x = input.x;
  EdgeRowsKernel edge_rows = network_.rows(chunk, geometry.pair, input, e.own_row, e.other_row);
  if (has_edge_rows_) {
    Kokkos::parallel_for("equi:so2_rows", DeviceRange(exec, 0, n), edge_rows);
    e.x = copy_edge_rows<R>(exec, chunk, geometry.distance, geometry.unit, e.other_row, e.own_row, input_, input.x,
                            input.direction, in_, scratch.edge_rows);
    edge_rows.of_edges = true;
  }
  Kokkos::parallel_for(
      "equi:so2_edges", DeviceRange(exec, 0, n),
      So2EdgeKernel<T>{edge_rows, geometry.distance, geometry.unit, network_.bases(), network_.has_bases_of_pairs(),
                       RotationRecursion{lmax_, recursion_begin_.data(), recursion_terms_.data()}, e.out_row, exact,
                       e.rotations, e.cutoff, e.cutoff_slope});
  R *const factors = scratch.weights.reserve(network_.weights_size(n));
  e.factors = {linears_[radial_linear_].layout.in, make_pointer<T>(factors, network_.weights_plane(n))};
  network_.forward(
      exec, DeviceNetworkEdges<T>{chunk, geometry.distance, geometry.pair, e.own_row, e.other_row, e.x, e.of_senders},
      scratch.network.reserve(network_.scratch_size(n)), factors);
  return e;
}

template <class T>
template <class F>
void DeviceSo2Convolution<T>::for_chunks(const DeviceExec &exec, const DeviceBatchEdges &batch,
                                         const DeviceSo2Geometry<T> &geometry, const DeviceNetworkInput<R> &input,
                                         Scratch &scratch, const F &f) const {
  for (int64_t first = 0; first < batch.count; first += CHUNK) {
    DeviceBatchEdges chunk = batch;
    chunk.first += first;
    chunk.count = std::min(CHUNK, batch.count - first);
    f(make_edges(exec, chunk, geometry, input, scratch));
  }
}

template <class T>
So2Frames<T> DeviceSo2Convolution<T>::frames(const Edges &edges, const FeatureLayout &layout,
                                             FeatureRows<const R> rows) const {
  So2Frames<T> made{lmax_, layout.group(0).channels, edges.rotations, {}};
  for (int l = 0; rows.data && l <= lmax_; l++) made.x[l] = const_cast<R *>(rows.group(layout.group(l)));
  return made;
}

template <class T>
So2RotateBackKernel<T> DeviceSo2Convolution<T>::rotation_back(const Edges &edges, const FeatureLayout &layout,
                                                              FeatureRows<R> rows, So2Shape shape, const R *u) const {
  So2RotateBackKernel<T> kernel{};
  kernel.out = frames(edges, layout, rows);
  kernel.batch = edges.batch;
  kernel.shape = shape;
  kernel.count = edges.count;
  kernel.u = u;
  return kernel;
}

template <class T>
void DeviceSo2Convolution<T>::rotate_back(const DeviceExec &exec, const char *label,
                                          const So2RotateBackKernel<T> &kernel) const {
  const int64_t threads = static_cast<int64_t>(kernel.batch.num_atoms) * kernel.out.channels * (lmax_ + 1);
  Kokkos::parallel_for(label, DeviceRange(exec, 0, threads), kernel);
}

// ---- forward
template <class T>
const typename DeviceSo2Convolution<T>::R *DeviceSo2Convolution<T>::bias(const Linear &linear) const {
  return linear.bias < 0 ? nullptr : data_.data() + linear.bias;
}

template <class T>
void DeviceSo2Convolution<T>::multiply(const DeviceExec &exec, const Linear &linear, bool transpose, int64_t count,
                                       const R *from, R *to) const {
  const So2Shape &in = transpose ? linear.layout.out : linear.layout.in,
                 &out = transpose ? linear.layout.in : linear.layout.out;
  const int64_t rows = PLANES<T> * count;
  for (size_t k = 0; k < linear.weights.size(); k++) {
    const int m = static_cast<int>(k);
    device_gemm(exec, transpose, rows, static_cast<int>(out.width(m)), static_cast<int>(in.width(m)),
                from + rows * in.before(m), data_.data() + linear.weights[k], false, to + rows * out.before(m), nullptr,
                0, has_tf32_);
  }
}

template <class T>
void DeviceSo2Convolution<T>::make_output(const DeviceExec &exec, const Edges &edges, size_t k,
                                          const Work &work) const {
  const int64_t count = edges.count, width = linears_[k].layout.out.width(0);
  if (k > 0 && k == radial_linear_)
    Kokkos::parallel_for("equi:so2_factors", DeviceRange(exec, 0, count * factors_row_),
                         So2FactorsKernel<T>{edges.factors, count, work.out[k - 1], work.in[k]});
  multiply(exec, linears_[k], false, count, work.in[k], work.out[k]);
  if (linears_[k].bias >= 0 && !adds_bias_later(k))
    Kokkos::parallel_for("equi:so2_bias", DeviceRange(exec, 0, count * width),
                         So2BiasKernel<T>{width, bias(linears_[k]), make_pointer<T>(work.out[k], count * width)});
}

template <class T>
void DeviceSo2Convolution<T>::make_values(const DeviceExec &exec, const Edges &edges, const Work &work) const {
  const int64_t count = edges.count;
  if (!work.has_outputs)
    Kokkos::parallel_for("equi:so2_input", DeviceRange(exec, 0, count * first_.channels),
                         So2InputKernel<T>{frames(edges, in_, edges.x),
                                           {edges.sender_row(), edges.receiver_row()},
                                           first_factors(edges),
                                           first_,
                                           count,
                                           work.in[0]});
  for (size_t k = work.has_outputs ? linears_.size() - 1 : 0; k < linears_.size(); k++) {
    const So2PaddedLinear &linear = linears_[k].layout;
    if (!work.has_outputs) make_output(exec, edges, k, work);
    if (linear.has_gate)
      Kokkos::parallel_for("equi:so2_gate", DeviceRange(exec, 0, count * linear.out.channels),
                           So2GateKernel<T>{gate(k, count, work.out[k], work.in[k + 1])});
    if (linears_[k].has_product())
      Kokkos::parallel_for("equi:so2_product", DeviceRange(exec, 0, count * linear.gated().channels),
                           So2BilinearKernel<T>{product(linears_[k], count, work.out[k], work.in[k + 1], nullptr)});
    if (linears_[k].has_points())
      Kokkos::parallel_for("equi:so2_points", DeviceRange(exec, 0, count * linear.gated().channels),
                           So2PointsKernel<T>{at_points(linears_[k], count, work.out[k], work.in[k + 1], nullptr)});
  }
}

template <class T>
void DeviceSo2Convolution<T>::make_scores(const DeviceExec &exec, const So2AttentionCall<T> &call) const {
  Kokkos::parallel_for("equi:so2_scores", DeviceRange(exec, 0, call.count * heads_), So2ScoreKernel<T>{call});
}

template <class T>
So2Sums<T> DeviceSo2Convolution<T>::sums(FeatureRows<const R> rows) const {
  So2Sums<T> sums{lmax_, out_.group(0).channels, heads_, head_size_, {}};
  // dot products only read them
  for (int l = 0; l <= lmax_; l++) sums.x[l] = const_cast<R *>(rows.group(out_.group(l)));
  return sums;
}

template <class T>
So2BilinearCall<T> DeviceSo2Convolution<T>::product(const Linear &linear, int64_t count, const R *z, R *h,
                                                    R *z_adj) const {
  const So2PaddedLinear &layout = linear.layout;
  return {layout.out,
          layout.gated(),
          count,
          layout.scalars,
          layout.gates,
          terms_.data() + linear.first_term,
          static_cast<int>(linear.num_terms),
          z,
          h,
          z_adj};
}

template <class T>
So2PointsCall<T> DeviceSo2Convolution<T>::at_points(const Linear &linear, int64_t count, const R *z, R *h,
                                                    R *z_adj) const {
  const So2PaddedLinear &layout = linear.layout;
  const int components = layout.at_points.to_points.cols;
  const R *const to = data_.data() + linear.points;
  return {layout.out,
          layout.gated(),
          layout.mul,
          count,
          linear.num_points,
          components,
          layout.at_points.at_points,
          layout.scalars,
          layout.at_points.has_scalars,
          to,
          to + static_cast<int64_t>(linear.num_points) * components,
          z,
          h,
          z_adj};
}

template <class T>
So2AttentionCall<T> DeviceSo2Convolution<T>::attention(const Edges &edges, const Work &work, So2Softmax<T> softmax,
                                                       R *messages, R *z_adj) const {
  const R *const data = data_.data() + score_data_;
  return {linears_.front().layout.out,
          linears_.back().layout.gated(),
          edges.count,
          heads_,
          scores_,
          head_size_,
          score_places_.data(),
          data,
          data + scores_,
          data + 2 * scores_,
          score_epsilon_,
          edges.cutoff,
          work.out.front(),
          work.out.back(),
          make_pointer<T>(work.scores, edges.count * heads_),
          edges.out_row,
          softmax,
          messages,
          z_adj,
          edges.cutoff_adj};
}

template <class T>
So2BiasedGate<T> DeviceSo2Convolution<T>::gate(size_t k, int64_t count, R *z, R *h) const {
  const So2PaddedLinear &linear = linears_[k].layout;
  return {{linear.out, linear.gated(), linear.mul, count, linear.scalars, linear.gates, z, h},
          adds_bias_later(k) ? bias(linears_[k]) : nullptr};
}

template <class T>
void DeviceSo2Convolution<T>::forward(const DeviceExec &exec, const DeviceBatchEdges &batch,
                                      const DeviceSo2Geometry<T> &geometry, const DeviceNetworkInput<R> &input,
                                      FeatureRows<R> y, So2Softmax<T> softmax, DeviceSo2Values<R> values,
                                      Scratch &scratch) const {
  const auto scale_sums = [&](const char *label, bool divides) {
    const So2Sums<T> made = sums(y);
    const int64_t threads = static_cast<int64_t>(batch.num_atoms) * made.components() * made.channels;
    Kokkos::parallel_for(label, DeviceRange(exec, 0, threads), So2ScaleSumsKernel<T>{made, softmax, divides});
  };
  for_chunks(exec, batch, geometry, input, scratch, [&](const Edges &edges) {
    const Work w = work(edges, false, values, scratch);
    make_values(exec, edges, w);
    if (heads_ > 0) {
      const So2AttentionCall<T> call = attention(edges, w, softmax, w.messages, nullptr);
      const bool is_first = edges.batch.first == batch.first;
      make_scores(exec, call);
      Kokkos::parallel_for("equi:so2_softmax", DeviceRange(exec, 0, static_cast<int64_t>(batch.num_atoms) * heads_),
                           So2SoftmaxKernel<T>{call, edges.batch, is_first});
      if (!is_first) scale_sums("equi:so2_scale_sums", false);
      Kokkos::parallel_for("equi:so2_attention", DeviceRange(exec, 0, call.count * heads_),
                           So2AttentionKernel<T>{call, false});
    }
    So2RotateBackKernel<T> kernel = rotation_back(edges, out_, y, linears_.back().layout.gated(), w.messages);
    kernel.factor = edges.cutoff;
    kernel.bias = bias_of_messages();
    rotate_back(exec, "equi:so2_messages", kernel);
  });
  if (heads_ > 0 && batch.count > 0) scale_sums("equi:so2_divide_sums", true);
}

// ---- backward
template <class T>
void DeviceSo2Convolution<T>::begin_backward(const DeviceExec &exec, int num_atoms, FeatureRows<const R> y,
                                             FeatureRows<const R> y_adj, So2Softmax<T> softmax) const {
  launch_on_lanes(exec, "equi:so2_dots", static_cast<int64_t>(num_atoms) * heads_,
                  So2Dot<T>{sums(y), sums(y_adj), softmax.dot});
}

template <class T>
void DeviceSo2Convolution<T>::find_messages_adjoint(const DeviceExec &exec, const Edges &edges,
                                                    FeatureRows<const R> y_adj, const Work &work) const {
  launch_on_lanes(
      exec, "equi:so2_messages_adjoint", edges.count,
      So2MessagesAdjoint<T>{frames(edges, out_, y_adj), edges.out_row, linears_.back().layout.gated(), edges.count,
                            work.messages, bias_of_messages(), edges.cutoff, edges.of_senders ? nullptr : turns_.data(),
                            work.of_messages, edges.cutoff_adj, edges.torque});
}

template <class T>
typename DeviceSo2Convolution<T>::R *DeviceSo2Convolution<T>::find_input_adjoint(const DeviceExec &exec,
                                                                                 const Edges &edges,
                                                                                 So2Softmax<T> softmax,
                                                                                 const Work &work) const {
  R *adjoint = work.of_messages;
  for (size_t k = 0; k < linears_.size(); k++)
    if (work.of_made[k]) device_zero(exec, work.of_made[k], PLANES<T> * edges.count * linears_[k].layout.out.size());
  if (heads_ > 0)
    launch_on_lanes(exec, "equi:so2_attention_adjoint", edges.count,
                    So2AttentionAdjoint<T>{attention(edges, work, softmax, adjoint, work.of_made.front())});
  for (size_t k = linears_.size(); k-- > 0;) {
    const So2PaddedLinear &linear = linears_[k].layout;
    R *of_z = adjoint;
    if (linears_[k].has_product()) {
      of_z = work.of_made[k];
      Kokkos::parallel_for("equi:so2_product_adjoint", DeviceRange(exec, 0, edges.count * linear.gated().channels),
                           So2BilinearAdjointKernel<T>{product(linears_[k], edges.count, work.out[k], adjoint, of_z)});
    }
    if (linears_[k].has_points()) {
      of_z = work.of_made[k];
      Kokkos::parallel_for("equi:so2_points_adjoint", DeviceRange(exec, 0, edges.count * linear.gated().channels),
                           So2PointsAdjointKernel<T>{at_points(linears_[k], edges.count, work.out[k], adjoint, of_z)});
    }
    if (linear.has_gate) {
      of_z = work.out[k];
      Kokkos::parallel_for("equi:so2_gate_adjoint", DeviceRange(exec, 0, edges.count * linear.out.channels),
                           So2GateAdjointKernel<T>{gate(k, edges.count, of_z, adjoint)});
    }
    adjoint = work.in[k];    // the input of the linear is no longer needed
    multiply(exec, linears_[k], true, edges.count, of_z, adjoint);
    if (k == 0 || k != radial_linear_) continue;
    // A pass that needs adjoints of senders' features needs no other adjoints.
    const DeviceRange range(exec, 0, edges.count * factors_row_);
    const So2FactorsKernel<T> kernel{edges.factors, edges.count, edges.of_senders ? adjoint : work.out[k - 1], adjoint};
    if (edges.of_senders)
      Kokkos::parallel_for("equi:so2_factors", range, kernel);
    else
      Kokkos::parallel_for("equi:so2_factors_adjoint", range, So2FactorsAdjointKernel<T>{kernel});
  }
  return adjoint;
}

template <class T>
void DeviceSo2Convolution<T>::backward(const DeviceExec &exec, const DeviceBatchEdges &batch,
                                       const DeviceSo2Geometry<T> &geometry, const DeviceNetworkInput<R> &input,
                                       FeatureRows<const R> y_adj, So2Softmax<T> softmax,
                                       const DeviceSo2Adjoints<T> &adjoints, DeviceSo2Values<R> values,
                                       Scratch &scratch) const {
  for_chunks(exec, batch, geometry, input, scratch, [&](const Edges &edges) {
    const int64_t count = edges.count;
    const Work w = work(edges, true, values, scratch);
    make_values(exec, edges, w);
    if (heads_ > 0) {
      const So2AttentionCall<T> call = attention(edges, w, softmax, w.messages, nullptr);
      make_scores(exec, call);
      Kokkos::parallel_for("equi:so2_attention", DeviceRange(exec, 0, count * heads_),
                           So2AttentionKernel<T>{call, true});
    }
    find_messages_adjoint(exec, edges, y_adj, w);
    R *const adjoint = find_input_adjoint(exec, edges, softmax, w);
    if (!edges.of_senders) {
      FeatureRows<R> senders = adjoints.senders;
      senders.first = edges.batch.first;
      launch_on_lanes(exec, "equi:so2_input_adjoint", count,
                      So2InputAdjoint<T>{frames(edges, in_, edges.x),
                                         {edges.sender_row(), edges.receiver_row()},
                                         first_factors(edges),
                                         first_,
                                         count,
                                         adjoint,
                                         adjoints.own.data != nullptr,
                                         frames(edges, in_, senders),
                                         turns_.data(),
                                         edges.torque,
                                         {edges.batch, lmax_, adjoints.num_y, depends_on_frame_, edges.rotations,
                                          edges.cutoff_slope, edges.cutoff_adj, adjoints.edges}});
    }
    if (adjoints.own.data) {
      So2RotateBackKernel<T> kernel = rotation_back(edges, in_, adjoints.own, first_, adjoint);
      kernel.first = edges.of_senders ? 0 : channels_in_;
      if (edges.of_senders) kernel.factors = first_factors(edges);
      rotate_back(exec, "equi:so2_adjoints", kernel);
    }
    if (edges.of_senders) return;
    network_.backward(exec, count, scratch.network.data(), scratch.weights.data());
    network_.add_distance_adjoints(exec, edges.batch, scratch.network.data(), adjoints.edges, adjoints.num_y);
  });
}

template <class T>
void DeviceSo2Convolution<T>::gather_senders(const DeviceExec &exec, const DeviceBatchEdges &batch,
                                             FeatureRows<const R> of_edges, FeatureRows<R> x_adj) const {
  gather_edge_rows(exec, "equi:so2_gather", batch, in_, of_edges, x_adj);
}

EQUI_INSTANTIATE_NUMBERS(DeviceSo2Convolution)

}    // namespace equi

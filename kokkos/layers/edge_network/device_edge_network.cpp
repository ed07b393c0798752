// SPDX-License-Identifier: MIT
// Radial weights of edges on a device, from networks that read features of the edge's atoms.
#include "kokkos/layers/edge_network/device_edge_network.h"

#include "kokkos/device_kernels/device_dense.h"
#include "kokkos/layer_interface/device_activation.h"
#include "src/numbers/number_types.h"

#include <utility>

namespace equi {

namespace {

// A number of T from a float64 value and its derivative along a direction.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T rounded(double value, double tangent) {
  return make_number<T>(static_cast<Real<T>>(value), static_cast<Real<T>>(tangent));
}

// The functions of the basis, their derivatives with respect to the distance, and the cutoff function with its
// derivative.
template <class T>
struct BasisKernel {
  DeviceNetworkEdges<T> edges;
  const BasisFunctions *bases;
  bool per_pair, with_cutoff;
  int num_basis, num_inputs;
  Pointer<T> inputs, slopes, cutoff;
  KOKKOS_FUNCTION void operator()(int64_t c) const {
    const int64_t position = edges.batch.first + c;
    if (!edges.batch.contains(position)) return;
    const int64_t e = edges.batch.edge_at(position);
    const BasisFunctions &basis = bases[per_pair ? edges.pair[e] : 0];
    const double r = static_cast<double>(value_of(edges.distance[e])),
                 along = static_cast<double>(tangent_of(edges.distance[e]));
    basis.derivatives(r, PLANES<T>, -1, [&](int n, const Jet &b) {
      put(inputs, c * num_inputs + n, rounded<T>(b.d[0], b.d[1] * along));
      put(slopes, c * num_basis + n, rounded<T>(b.d[1], b.d[2] * along));
    });
    if (!with_cutoff) return;
    const Jet f = basis.cutoff_function(r, -1);
    put(cutoff, 2 * c, rounded<T>(f.d[0], f.d[1] * along));
    put(cutoff, 2 * c + 1, rounded<T>(f.d[1], f.d[2] * along));
  }
};

// The same from tables, function by function.
template <class T>
struct TablesKernel {
  using R = Real<T>;
  DeviceNetworkEdges<T> edges;
  DeviceRadialSet::Finder find;
  const R *powers;
  int coefficients, functions, num_inputs;
  Pointer<T> inputs, slopes;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int64_t c = n / functions, position = edges.batch.first + c;
    if (!edges.batch.contains(position)) return;
    const int64_t e = edges.batch.edge_at(position);
    const RadialTable::BinPosition at = find.bin_of(static_cast<double>(value_of(edges.distance[e])), edges.pair[e]);
    const EdgeTableRow<T> row{powers + static_cast<int64_t>(at.bin) * coefficients * functions,
                              coefficients,
                              functions,
                              static_cast<R>(at.fraction),
                              static_cast<R>(at.bins_per_length),
                              static_cast<R>(tangent_of(edges.distance[e]))};
    row.set(n % functions, inputs + c * num_inputs, slopes + c * functions);
  }
};

// The part of the inputs that comes from one atom: a row of its species, a constant, or channels of its features.
template <class T>
struct AtomInputsKernel {
  using R = Real<T>;
  DeviceBatchEdges batch;
  const int *pair;
  int num_species;
  bool of_sender;
  const R *constants;    // [species][size], or null:
  const R *features;     // the first channel in row 0
  const int *row;
  int width, tangents;    // numbers in a row, and from values to tangents
  int first, size, num_inputs;
  Pointer<T> inputs;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int64_t c = n / size;
    const int u = static_cast<int>(n % size);
    if (!batch.contains(batch.first + c)) return;
    T value;
    if (constants) {
      const int p = pair[batch.edge_at(batch.first + c)];
      value = T(constants[static_cast<int64_t>(of_sender ? p % num_species : p / num_species) * size + u]);
    } else {
      value = make_pointer<const T>(features, tangents)[static_cast<int64_t>(row[c]) * width + u];
    }
    put(inputs, c * num_inputs + first + u, value);
  }
};

// The adjoints of features of the batch's own atoms. One thread computes each, in the order of the atom's edges.
template <class R>
struct AtomAdjointsKernel {
  DeviceBatchEdges batch;
  const R *inputs_adj;    // at the part's first column
  int64_t num_rows;
  int size, planes, num_inputs, width, channels;
  R *x_adj;    // the first channel in the batch's first row
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int64_t a = n / (planes * size);
    const int plane = static_cast<int>(n / size % planes), u = static_cast<int>(n % size);
    R sum = 0;
    for (int64_t position = batch.begin[a]; position < batch.begin[a + 1]; position++)
      sum += inputs_adj[(plane * num_rows + position - batch.first) * num_inputs + u];
    x_adj[a * width + plane * channels + u] += sum;
  }
};

// The inputs of the last product and their adjoints. The adjoint of the cutoff function replaces the function.
template <class T>
struct LastInputsKernel {
  LastInputsRow<T> row;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    row.set(n / row.last_width, static_cast<int>(n % row.last_width), row.factor(n / row.last_width));
  }
};
template <class T>
struct LastInputsAdjointKernel {
  LastInputsRow<T> row;
  Pointer<T> h_adj;
  KOKKOS_FUNCTION void operator()(int64_t c) const {
    const T of_cutoff = row.backward(c, h_adj);
    if (row.with_cutoff) put(row.cutoff, 2 * c, of_cutoff);
  }
};

template <class T>
struct ActivatedWeightsKernel {
  ActivatedWeightsRow<T> row;
  Pointer<T> weights;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    row.set(n / row.width, static_cast<int>(n % row.width), row.factor(n / row.width), weights);
  }
};
template <class T>
struct ActivatedWeightsAdjointKernel {
  ActivatedWeightsRow<T> row;
  Pointer<const T> weights_adj;
  Pointer<T> h_adj;
  KOKKOS_FUNCTION void operator()(int64_t c) const {
    const T of_cutoff = row.backward(c, weights_adj, h_adj);
    if (row.with_cutoff) put(row.cutoff, 2 * c, of_cutoff);
  }
};

// The steps of a gate, on all numbers.
template <class T>
struct GateProductsKernel {
  GatedWeightsRow<T> row;
  KOKKOS_FUNCTION void operator()(int64_t n) const { row.product(n / row.n, static_cast<int>(n % row.n)); }
};
template <class T>
struct GatedWeightsKernel {
  GatedWeightsRow<T> row;
  Pointer<T> weights;
  KOKKOS_FUNCTION void operator()(int64_t n) const { row.set(n / row.n, static_cast<int>(n % row.n), weights); }
};
template <class T>
struct GatedWeightsAdjointKernel {
  GatedWeightsRow<T> row;
  Pointer<const T> weights_adj;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    row.backward(n / row.n, static_cast<int>(n % row.n), weights_adj);
  }
};
template <class T>
struct GateProductsAdjointKernel {
  GatedWeightsRow<T> row;
  KOKKOS_FUNCTION void operator()(int64_t n) const { row.product_backward(n / row.n, static_cast<int>(n % row.n)); }
};
template <class T>
struct QueryAdjointsKernel {
  GatedWeightsRow<T> row;
  Pointer<T> inputs_adj;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    row.add_query(n / row.n, static_cast<int>(n % row.n), inputs_adj);
  }
};

template <class T>
struct DistanceAdjointsKernel {
  DeviceBatchEdges batch;
  int num_basis, num_inputs;
  bool with_cutoff;
  Pointer<T> inputs_adj, slopes, cutoff;
  DoubleOf<T> *distance_adj;
  int stride;
  KOKKOS_FUNCTION void operator()(int64_t c) const {
    if (!batch.contains(batch.first + c)) return;
    T sum = with_cutoff ? cutoff[2 * c] * cutoff[2 * c + 1] : T(0);
    for (int n = 0; n < num_basis; n++) sum += inputs_adj[c * num_inputs + n] * slopes[c * num_basis + n];
    distance_adj[batch.edge_at(batch.first + c) * stride] += static_cast<DoubleOf<T>>(sum);
  }
};

}    // namespace

template <class T>
DeviceEdgeNetwork<T>::DeviceEdgeNetwork(const DeviceExec &exec, const EdgeNetwork<T> &host, bool has_blocks)
    : host_(host), has_blocks_(has_blocks) {
  std::vector<double> numbers;
  std::vector<BasisFunctions> bases;
  for (const RadialBasis &basis : host.bases_) {
    bases.push_back(basis_functions(basis));
    numbers = numbers_of(basis);    // the same for all pairs
  }
  assign(exec, basis_numbers_, numbers);
  for (BasisFunctions &basis : bases) basis.numbers = basis_numbers_.data();
  assign(exec, bases_, bases);
  if (host.tables_) {
    radial_set_.emplace(exec, host.tables_->set);
    assign(exec, powers_, host.tables_->powers);
  }

  std::vector<R> data;
  const auto add = [&](const auto &part) -> int64_t {
    const int64_t at = static_cast<int64_t>(data.size());
    data.insert(data.end(), part.begin(), part.end());
    return part.empty() ? -1 : at;
  };
  for (const auto &layer : host.hidden_)
    hidden_.push_back(
        {add(layer.product.weight.row_by_row()), add(layer.bias), add(layer.norm_weight), add(layer.norm_bias)});
  if (!host.weights_.empty()) weights_ = add(host.weights_.front().weight.row_by_row());
  column_scale_ = add(host.column_scale_);
  sender_rows_ = add(host.sender_.rows);
  receiver_rows_ = add(host.receiver_.rows);
  if (host.gate_) {
    gate_scale_ = add(host.gate_->column_scale);
    gate_norm_weight_ = add(host.gate_->norm_weight);
    gate_norm_bias_ = add(host.gate_->norm_bias);
    assign(exec, gate_column_, host.gate_->column);
  }
  assign(exec, data_, data);
}

// Computes to = from times a matrix [in, out], or times the transpose of a matrix [out, in].
template <class T>
void DeviceEdgeNetwork<T>::multiply(const DeviceExec &exec, bool transpose, int64_t count, int in, int out,
                                    const R *from, int64_t matrix, R *to) const {
  const int64_t rows = PLANES<T> * num_rows(count);
  // A host divides products into such blocks by itself, for its threads.
  const int64_t step = DeviceTraits<>::ON_HOST || !has_blocks_ ? rows : BLOCK;
  for (int64_t row = 0; row < rows; row += step)
    device_gemm(exec, transpose, step, out, in, from + row * in, constants(matrix), false, to + row * out);
}

template <class T>
void DeviceEdgeNetwork<T>::find_rows(const DeviceExec &exec, const DeviceBatchEdges &batch, const int *pair,
                                     const DeviceNetworkInput<R> &input, int *own_row, int *other_row) const {
  Kokkos::parallel_for("equi:network_rows", DeviceRange(exec, 0, batch.count),
                       rows(batch, pair, input, own_row, other_row));
}

template <class T>
void DeviceEdgeNetwork<T>::make_inputs(const DeviceExec &exec, const DeviceNetworkEdges<T> &edges, R *scratch) const {
  const int64_t count = edges.batch.count;
  const int num_inputs = host_.num_inputs_;
  const Pointer<T> inputs = numbers(place(scratch, count, host_.inputs_), count, num_inputs);
  if (host_.tables_)
    Kokkos::parallel_for(
        "equi:network_tables", DeviceRange(exec, 0, count * host_.num_basis_),
        TablesKernel<T>{edges, radial_set_->finder(), powers_.data(), host_.tables_->set.num_coefficients(),
                        host_.num_basis_, num_inputs, inputs, slopes(scratch, count)});
  else
    Kokkos::parallel_for("equi:network_basis", DeviceRange(exec, 0, count),
                         BasisKernel<T>{edges, bases(), has_bases_of_pairs(), host_.times_cutoff_, host_.num_basis_,
                                        num_inputs, inputs, slopes(scratch, count), cutoff(scratch, count)});
  for (const bool of_sender : {true, false}) {
    const AtomInputs &part = of_sender ? host_.sender_ : host_.receiver_;
    if (part.size == 0) continue;
    AtomInputsKernel<T> kernel{};
    kernel.batch = edges.batch;
    kernel.pair = edges.pair;
    kernel.num_species = host_.num_species_;
    kernel.of_sender = of_sender;
    if (part.group < 0) {
      kernel.constants = constants(of_sender ? sender_rows_ : receiver_rows_);
    } else {
      const FeatureGroup &group = host_.in_.group(part.group);
      kernel.features = edges.x.group(group) + part.channel;
      kernel.width = group.width();
      kernel.tangents = group.tangents(edges.direction);
    }
    kernel.row = of_sender ? edges.sender_row() : edges.receiver_row();
    kernel.first = part.first;
    kernel.size = part.size;
    kernel.num_inputs = num_inputs;
    kernel.inputs = inputs;
    Kokkos::parallel_for("equi:network_inputs", DeviceRange(exec, 0, count * part.size), kernel);
  }
}

template <class T>
void DeviceEdgeNetwork<T>::forward(const DeviceExec &exec, const DeviceNetworkEdges<T> &edges, R *scratch,
                                   R *weights) const {
  const int64_t count = edges.batch.count;
  if (count == 0) return;
  make_inputs(exec, edges, scratch);
  R *h = place(scratch, count, host_.inputs_);
  int width = host_.num_inputs_;
  for (size_t k = 0; k < hidden_.size(); k++) {
    const auto &layer = host_.hidden_[k];
    const Hidden &at = hidden_[k];
    R *z = place(scratch, count, layer.z);
    multiply(exec, false, count, width, layer.product.cols(), h, at.weight, z);
    width = layer.product.cols();
    h = place(scratch, count, layer.h);
    const bool is_normed = at.norm_weight >= 0;
    if (is_normed)
      Kokkos::parallel_for(
          "equi:network_norm", DeviceRange(exec, 0, count),
          NormalizeRow<T>{width, constants(at.bias), constants(at.norm_weight), constants(at.norm_bias), layer.epsilon,
                          numbers(z, count, width), numbers(place(scratch, count, layer.normalized), count, width),
                          numbers(place(scratch, count, layer.factor), count, 1)});
    Kokkos::parallel_for(
        "equi:network_activation", DeviceRange(exec, 0, count * width),
        ActivationKernel<T>{host_.activation_, host_.activation_scale_, width, is_normed ? nullptr : constants(at.bias),
                            numbers(z, count, width), numbers(h, count, width)});
  }
  if (host_.is_activated()) {
    Kokkos::parallel_for(
        "equi:network_weights", DeviceRange(exec, 0, count * width),
        ActivatedWeightsKernel<T>{host_.activated_weights(num_rows(count), scratch, constants(column_scale_)),
                                  numbers(weights, count, width)});
    return;
  }
  if (host_.has_last()) {
    R *last = place(scratch, count, host_.last_);
    Kokkos::parallel_for("equi:network_last", DeviceRange(exec, 0, count * host_.last_width_),
                         LastInputsKernel<T>{host_.last_inputs(num_rows(count), scratch, last)});
    h = last;
  }
  R *const outputs = host_.gate_ ? place(scratch, count, host_.gate_->values_and_keys) : weights;
  multiply(exec, false, count, host_.last_width_, host_.last_product_width(), h, weights_, outputs);
  if (!host_.gate_) return;
  // Columns that no value has stay zero.
  device_zero(exec, weights, weights_size(count));
  const GatedWeightsRow<T> row = gated_weights(scratch, count);
  Kokkos::parallel_for("equi:network_gate_products", DeviceRange(exec, 0, count * row.n), GateProductsKernel<T>{row});
  Kokkos::parallel_for(
      "equi:network_gate_norm", DeviceRange(exec, 0, count),
      host_.gate_norm(num_rows(count), scratch, constants(gate_norm_weight_), constants(gate_norm_bias_)));
  Kokkos::parallel_for("equi:network_gated_weights", DeviceRange(exec, 0, count * row.n),
                       GatedWeightsKernel<T>{row, numbers(weights, count, host_.num_weights_)});
}

template <class T>
GatedWeightsRow<T> DeviceEdgeNetwork<T>::gated_weights(R *scratch, int64_t count) const {
  return host_.gated_weights(num_rows(count), scratch, gate_column_.data(), constants(gate_scale_));
}

template <class T>
void DeviceEdgeNetwork<T>::backward(const DeviceExec &exec, int64_t count, R *scratch, const R *weights_adj) const {
  if (count == 0) return;
  R *adjoint = place(scratch, count, host_.adjoint_[0]), *before = place(scratch, count, host_.adjoint_[1]);
  if (host_.gate_) {
    const GatedWeightsRow<T> row = gated_weights(scratch, count);
    const auto of_weights = make_pointer<const T>(weights_adj, num_rows(count) * host_.num_weights_);
    Kokkos::parallel_for("equi:network_gated_weights_adjoint", DeviceRange(exec, 0, count * row.n),
                         GatedWeightsAdjointKernel<T>{row, of_weights});
    Kokkos::parallel_for("equi:network_gate_norm_adjoint", DeviceRange(exec, 0, count),
                         host_.gate_norm_adjoint(num_rows(count), scratch, constants(gate_norm_weight_)));
    Kokkos::parallel_for("equi:network_gate_products_adjoint", DeviceRange(exec, 0, count * row.n),
                         GateProductsAdjointKernel<T>{row});
    weights_adj = place(scratch, count, host_.gate_->values_and_keys);
  }
  if (host_.is_activated())
    Kokkos::parallel_for(
        "equi:network_weights_adjoint", DeviceRange(exec, 0, count),
        ActivatedWeightsAdjointKernel<T>{host_.activated_weights(num_rows(count), scratch, constants(column_scale_)),
                                         make_pointer<const T>(weights_adj, num_rows(count) * host_.num_weights_),
                                         numbers(adjoint, count, host_.num_weights_)});
  else
    multiply(exec, true, count, host_.last_product_width(), host_.last_width_, weights_adj, weights_, adjoint);
  if (host_.has_last()) {
    const LastInputsRow<T> row = host_.last_inputs(num_rows(count), scratch, adjoint);
    Kokkos::parallel_for("equi:network_last_adjoint", DeviceRange(exec, 0, count),
                         LastInputsAdjointKernel<T>{row, numbers(before, count, row.width)});
    std::swap(adjoint, before);
  }
  for (size_t k = hidden_.size(); k-- > 0;) {
    const auto &layer = host_.hidden_[k];
    const int width = layer.product.cols();
    R *z = place(scratch, count, layer.z);
    Kokkos::parallel_for("equi:network_activation_adjoint", DeviceRange(exec, 0, count * width),
                         ActivationAdjointKernel<T>{host_.activation_, host_.activation_scale_,
                                                    numbers(z, count, width), numbers(adjoint, count, width)});
    if (hidden_[k].norm_weight >= 0)
      Kokkos::parallel_for(
          "equi:network_norm_adjoint", DeviceRange(exec, 0, count),
          NormalizeAdjointRow<T>{width, constants(hidden_[k].norm_weight),
                                 numbers(place(scratch, count, layer.normalized), count, width),
                                 numbers(place(scratch, count, layer.factor), count, 1), numbers(z, count, width)});
    multiply(exec, true, count, width, layer.product.rows(), z, hidden_[k].weight, before);
    std::swap(adjoint, before);
  }
  if (!host_.gate_) return;
  const GatedWeightsRow<T> row = gated_weights(scratch, count);
  Kokkos::parallel_for(
      "equi:network_query_adjoints", DeviceRange(exec, 0, count * row.n),
      QueryAdjointsKernel<T>{row, numbers(adjoint, count, host_.num_inputs_) + (host_.num_inputs_ - row.n)});
}

template <class T>
void DeviceEdgeNetwork<T>::add_distance_adjoints(const DeviceExec &exec, const DeviceBatchEdges &batch, R *scratch,
                                                 D *distance_adj, int stride) const {
  const int64_t count = batch.count;
  Kokkos::parallel_for("equi:network_distance_adjoints", DeviceRange(exec, 0, count),
                       DistanceAdjointsKernel<T>{batch, host_.num_basis_, host_.num_inputs_, host_.times_cutoff_,
                                                 numbers(inputs_adj(scratch, count), count, host_.num_inputs_),
                                                 slopes(scratch, count), cutoff(scratch, count), distance_adj, stride});
}

template <class T>
void DeviceEdgeNetwork<T>::add_atom_adjoints(const DeviceExec &exec, const DeviceBatchEdges &batch, bool of_senders,
                                             R *scratch, FeatureRows<R> x_adj) const {
  const AtomInputs &part = of_senders ? host_.sender_ : host_.receiver_;
  const FeatureGroup &group = host_.in_.group(part.group);
  Kokkos::parallel_for("equi:network_atom_adjoints",
                       DeviceRange(exec, 0, static_cast<int64_t>(batch.num_atoms) * PLANES<T> * part.size),
                       AtomAdjointsKernel<R>{batch, inputs_adj(scratch, batch.count) + part.first,
                                             num_rows(batch.count), part.size, PLANES<T>, host_.num_inputs_,
                                             group.width(), group.channels, x_adj.group(group) + part.channel});
}

EQUI_INSTANTIATE_NUMBERS(DeviceEdgeNetwork)

}    // namespace equi

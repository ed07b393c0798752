// SPDX-License-Identifier: MIT
// Radial weights of edges on hosts, from networks that read features or from tables of their first functions.
#include "kokkos/layers/edge_network/edge_network.h"

#include "src/functions/radial_expansion.h"
#include "src/numbers/number_types.h"

#include <algorithm>
#include <utility>

namespace equi {

namespace {

// Tables for more pairs would be larger than the matrices that they save.
constexpr int MOST_TABLES = 25;
// Largest number of functions of the basis for all pairs together; the time to make tables grows with both. With 600
// functions and four pairs it was half a minute, while their network is a small part of an edge's cost.
constexpr int MOST_FUNCTIONS = 1600;

// A function of the distance at d[0], its next derivative `stride` further.
template <class T>
T along_direction(const double *d, int stride, double distance_tangent) {
  if constexpr (IS_DUAL<T>)
    return T(Dual<double>(d[0], d[stride] * distance_tangent));
  else
    return (void)stride, (void)distance_tangent, static_cast<T>(d[0]);
}

// A matrix whose columns are the outputs of a network, arranged as the columns of its weights in rows of `row`.
Matrix in_columns(const Matrix &from, const std::vector<EdgeColumn> &columns, int64_t row, bool is_scaled) {
  Matrix m{from.rows, static_cast<int>(row), std::vector<double>(from.rows * row)};
  for (int i = 0; i < from.rows; i++)
    for (size_t c = 0; c < columns.size(); c++)
      m.data[i * row + columns[c].column] = (is_scaled ? columns[c].scale : 1.0) * from(i, static_cast<int>(c));
  return m;
}

}    // namespace

template <class T>
EdgeNetwork<T>::EdgeNetwork(const RadialFunction &function, const FeatureLayout &in, int num_species,
                            const std::vector<EdgeColumn> &columns, int64_t row, InstructionSet set, int num_basis)
    : in_(in),
      num_species_(num_species),
      num_basis_(num_basis),
      num_inputs_(num_basis_),
      activation_(function.network.activation),
      activation_scale_(static_cast<R>(function.network.activation_scale)),
      times_cutoff_(function.times_cutoff),
      num_weights_(static_cast<int>(row)) {
  if (function.basis.depends_on_pair())
    for (int i = 0; i < num_species; i++)
      for (int j = 0; j < num_species; j++) bases_.push_back(function.basis.for_pair(i, j));
  else
    bases_.push_back(function.basis);

  const auto add_part = [&](AtomInputs &part, const Matrix &rows, int block) {
    part.first = num_inputs_;
    part.rows.assign(rows.data.begin(), rows.data.end());
    part.size = rows.cols;
    if (block >= 0) {
      part.size = in.block(block).mul;
      part.group = in.block(block).group;
      part.channel = in.block(block).channel;
    }
    num_inputs_ += part.size;
  };
  add_part(sender_, function.sender, function.sender_block);
  add_part(receiver_, function.receiver, function.receiver_block);

  const auto take = [&](int64_t width) {
    const int64_t before = scratch_row_;
    scratch_row_ += width;
    return before;
  };
  inputs_ = take(num_inputs_);
  slopes_ = take(num_basis_);
  cutoff_ = take(times_cutoff_ ? 2 : 0);
  const Network &network = function.network;
  const bool activates_last = function.output == RadialFunction::Output::activated;
  const auto row_in_columns = [&](std::vector<double> from, bool is_scaled) {
    return in_columns({1, static_cast<int>(from.size()), std::move(from)}, columns, row, is_scaled).data;
  };
  int widest = num_inputs_;
  for (size_t k = 0; k + (activates_last ? 0 : 1) < network.weights.size(); k++) {
    const bool is_last = k + 1 == network.weights.size();
    Hidden layer{Product(is_last ? in_columns(network.weights[k], columns, row, false) : network.weights[k], set),
                 {},
                 {},
                 {},
                 R(0),
                 0,
                 0,
                 0,
                 0};
    const int width = layer.product.cols();
    if (network.has_bias(k)) {
      std::vector<double> bias = network.biases[k];
      if (is_last) bias = row_in_columns(bias, false);
      layer.bias.assign(bias.begin(), bias.end());
    }
    layer.z = take(width);
    layer.h = take(width);
    if (k < network.norms.size() && !network.norms[k].weight.empty()) {
      const HiddenNorm &norm = network.norms[k];
      layer.norm_weight.assign(norm.weight.begin(), norm.weight.end());
      layer.norm_bias.assign(norm.bias.begin(), norm.bias.end());
      layer.epsilon = norm.epsilon;
      layer.normalized = take(width);
      layer.factor = take(1);
    }
    widest = std::max(widest, width);
    hidden_.push_back(std::move(layer));
  }

  if (activates_last) {
    // Zero if a column has no weight, so its activation is zero, too.
    const std::vector<double> scale = row_in_columns(std::vector<double>(columns.size(), 1.0), true);
    column_scale_.assign(scale.begin(), scale.end());
  } else {
    Matrix last = network.weights.back();
    if (network.has_bias(network.weights.size() - 1)) {
      const std::vector<double> &bias = network.biases.back();
      last.data.insert(last.data.end(), bias.begin(), bias.end());
      last.rows++;
      has_last_bias_ = true;
    }
    last_width_ = last.rows;
    weights_.emplace_back(function.gate ? last : in_columns(last, columns, row, true), set);
  }
  if (function.gate) {
    const HiddenNorm &norm = function.gate->norm;
    const int n = function.num_outputs();
    gate_ = Gate{function.gate->scale,
                 norm.epsilon,
                 {},
                 {},
                 {norm.weight.begin(), norm.weight.end()},
                 {norm.bias.begin(), norm.bias.end()},
                 take(2 * n),
                 take(n),
                 take(n),
                 take(1)};
    for (const EdgeColumn &c : columns) {
      gate_->column.push_back(static_cast<int>(c.column));
      gate_->column_scale.push_back(static_cast<R>(c.scale));
    }
  }
  last_ = take(has_last() ? last_width_ : 0);
  for (int64_t &a : adjoint_) a = take(std::max(widest, last_width_));
}

template <class T>
EdgeNetwork<T> EdgeNetwork<T>::for_distances(const RadialFunction &function, const FeatureLayout &in, int num_species,
                                             const std::vector<EdgeColumn> &columns, int64_t row,
                                             const EvaluatorOptions &options, int num_windows, InstructionSet set,
                                             int multiple) {
  const int pairs = function.depends_on_pair() ? num_species * num_species : 1;
  const bool may_have_tables =
      !options.radial_exact && pairs <= MOST_TABLES && pairs * function.basis.size() <= MOST_FUNCTIONS;
  // The matrix adds up the errors of many functions. Below FINEST the rounding of a table would exceed its error.
  constexpr double PART_OF_TOLERANCE = 0.1, FINEST = 1e-10;
  const double tolerance = radial_tolerance(options);
  EvaluatorOptions of_tables = options;
  of_tables.radial_tolerance = std::max(PART_OF_TOLERANCE * tolerance, std::min(tolerance, FINEST));
  const std::optional<RadialExpansion> expansion =
      may_have_tables ? expand_radial(function, num_species, PART_OF_TOLERANCE * tolerance) : std::nullopt;
  if (!expansion) return {function, in, num_species, columns, row, set};
  RadialSet tables(expansion->coefficients, num_species, of_tables);
  RadialWindows windows;
  if (num_windows > 1) windows = RadialWindows::divide(tables, num_windows, PART_OF_TOLERANCE * tolerance);
  std::vector<Matrix> outputs;
  for (const Matrix &functions : windows.functions) outputs.push_back(multiply(functions, expansion->outputs));
  if (outputs.empty()) outputs.push_back(expansion->outputs);
  for (Matrix &m : outputs) {
    m.rows = (m.rows + multiple - 1) / multiple * multiple;
    m.data.resize(static_cast<size_t>(m.rows) * m.cols, 0.0);
  }
  RadialFunction product;
  product.basis = function.basis;
  product.network.weights = {outputs.front()};
  EdgeNetwork network(product, in, num_species, columns, row, set, outputs.front().rows);
  for (size_t k = 1; k < outputs.size(); k++)
    network.weights_.emplace_back(in_columns(outputs[k], columns, row, true), set);
  network.tables_.emplace(std::move(tables), std::move(windows), outputs.front().rows);
  return network;
}

template <class T>
int EdgeNetwork<T>::window_of(double distance, int receiver_species, int sender_species) const {
  if (num_windows() == 1) return 0;
  return tables_->windows.of_bin[tables_->find(distance, receiver_species, sender_species).bin];
}

template <class T>
std::string EdgeNetwork<T>::describe() const {
  if (!tables_) return "by their network";
  const std::string in_windows =
      num_windows() > 1 ? " in each of " + std::to_string(num_windows()) + " windows" : std::string();
  return "from " + std::to_string(num_basis_) + " functions of the distance" + in_windows + ", " +
         tables_->set.describe();
}

template <class T>
void EdgeNetwork<T>::add_basis(const NetworkEdges<T> &edges, double *of_basis, Pointer<T> inputs, Pointer<T> slopes,
                               Pointer<T> cutoff) const {
  double of_cutoff[3];
  for (int64_t e = 0; e < edges.count; e++, inputs += num_inputs_, slopes += num_basis_) {
    const int pair = bases_.size() == 1 ? 0 : edges.receiver_species[e] * num_species_ + edges.sender_species[e];
    const double r = value_of(edges.distance[e]), along = tangent_of(edges.distance[e]);
    bases_[pair].derivatives(r, PLANES<T>, -1, of_basis);
    for (int n = 0; n < num_basis_; n++) {
      put(inputs, n, along_direction<T>(of_basis + n, num_basis_, along));
      put(slopes, n, along_direction<T>(of_basis + num_basis_ + n, num_basis_, along));
    }
    if (!times_cutoff_) continue;
    bases_[pair].cutoff_function(r, PLANES<T>, -1, of_cutoff);
    for (int k = 0; k < 2; k++) put(cutoff, 2 * e + k, along_direction<T>(of_cutoff + k, 1, along));
  }
}

template <class T>
void EdgeNetwork<T>::add_of_tables(const NetworkEdges<T> &edges, Pointer<T> inputs, Pointer<T> slopes) const {
  const int coefficients = tables_->set.num_coefficients();
  for (int64_t e = 0; e < edges.count; e++, inputs += num_inputs_, slopes += num_basis_) {
    const auto [bin, at] =
        tables_->find(value_of(edges.distance[e]), edges.receiver_species[e], edges.sender_species[e]);
    EdgeTableRow<T>{tables_->powers.data() + bin * coefficients * num_basis_,
                    coefficients,
                    num_basis_,
                    static_cast<R>(at.fraction),
                    static_cast<R>(at.bins_per_length),
                    static_cast<R>(tangent_of(edges.distance[e]))}
        .set_all(inputs, slopes);
  }
}

template <class T>
void EdgeNetwork<T>::add_inputs(const AtomInputs &part, int64_t count, const int *species, const int *rows,
                                FeatureRows<const R> x, int direction, R *inputs) const {
  if (part.size == 0) return;
  for (int plane = 0; plane < PLANES<T>; plane++)
    for (int64_t e = 0; e < count; e++) {
      R *to = inputs + (plane * count + e) * num_inputs_ + part.first;
      const R *from = part.rows.data() + static_cast<int64_t>(species[e]) * part.size;
      if (part.group >= 0) {
        const FeatureGroup &group = in_.group(part.group);
        from = x.group(group) + static_cast<int64_t>(rows[e]) * group.width() +
               (plane > 0 ? plane + direction : 0) * group.channels + part.channel;
      } else if (plane > 0) {    // rows of species are constants
        std::fill_n(to, part.size, R(0));
        continue;
      }
      std::copy_n(from, part.size, to);
    }
}

template <class T>
void EdgeNetwork<T>::add_adjoints(const AtomInputs &part, int64_t count, const R *inputs_adj, const int *rows,
                                  FeatureRows<R> x_adj) const {
  if (part.group < 0 || !x_adj.data) return;
  const FeatureGroup &group = in_.group(part.group);
  for (int plane = 0; plane < PLANES<T>; plane++)
    for (int64_t e = 0; e < count; e++) {
      const R *from = inputs_adj + (plane * count + e) * num_inputs_ + part.first;
      R *to =
          x_adj.group(group) + static_cast<int64_t>(rows[e]) * group.width() + plane * group.channels + part.channel;
      for (int u = 0; u < part.size; u++) to[u] += from[u];
    }
}

template <class T>
LastInputsRow<T> EdgeNetwork<T>::last_inputs(int64_t count, R *scratch, R *last) const {
  const int width = last_width_ - has_last_bias_;
  return {width,
          last_width_,
          times_cutoff_,
          numbers(place(scratch, count, cutoff_), count, 2),
          numbers(place(scratch, count, hidden_.empty() ? inputs_ : hidden_.back().h), count, width),
          numbers(last, count, last_width_)};
}

template <class T>
ActivatedWeightsRow<T> EdgeNetwork<T>::activated_weights(int64_t count, R *scratch, const R *column_scale) const {
  return {num_weights_, times_cutoff_, column_scale, numbers(place(scratch, count, cutoff_), count, 2),
          numbers(place(scratch, count, hidden_.back().h), count, num_weights_)};
}

template <class T>
GatedWeightsRow<T> EdgeNetwork<T>::gated_weights(int64_t count, R *scratch, const int *column,
                                                 const R *column_scale) const {
  const int n = gate_->size();
  return {n,
          num_weights_,
          num_inputs_,
          static_cast<R>(gate_->scale),
          column,
          column_scale,
          numbers(place(scratch, count, gate_->values_and_keys), count, 2 * n),
          numbers(place(scratch, count, gate_->gate), count, n),
          numbers(place(scratch, count, inputs_), count, num_inputs_) + (num_inputs_ - n)};
}

template <class T>
NormalizeRow<T> EdgeNetwork<T>::gate_norm(int64_t count, R *scratch, const R *weight, const R *bias) const {
  const int n = gate_->size();
  return {n,
          nullptr,
          weight,
          bias,
          gate_->epsilon,
          numbers(place(scratch, count, gate_->gate), count, n),
          numbers(place(scratch, count, gate_->normalized), count, n),
          numbers(place(scratch, count, gate_->factor), count, 1)};
}

template <class T>
NormalizeAdjointRow<T> EdgeNetwork<T>::gate_norm_adjoint(int64_t count, R *scratch, const R *weight) const {
  const int n = gate_->size();
  return {n, weight, numbers(place(scratch, count, gate_->normalized), count, n),
          numbers(place(scratch, count, gate_->factor), count, 1),
          numbers(place(scratch, count, gate_->gate), count, n)};
}

template <class T>
GateCall<T> EdgeNetwork<T>::activation_call(const Hidden &layer, int64_t count, R *z, R *h) const {
  const int width = layer.product.cols();
  GateCall<T> call{};
  call.activation = activation_;
  call.scale = activation_scale_;
  call.mul = width;
  call.dim = 1;
  call.rows = count;
  call.z = numbers(z, count, width);
  call.x = numbers(h, count, width);
  call.z_width = call.x_width = width;
  return call;
}

template <class T>
void EdgeNetwork<T>::forward(const HostKernels<T> &kernels, const NetworkEdges<T> &edges, R *scratch,
                             R *weights) const {
  const int64_t count = edges.count;
  double *of_basis = reinterpret_cast<double *>(scratch);
  scratch += basis_size();
  R *inputs = place(scratch, count, inputs_);
  const Pointer<T> functions = numbers(inputs, count, num_inputs_),
                   slopes = numbers(place(scratch, count, slopes_), count, num_basis_);
  if (tables_)
    add_of_tables(edges, functions, slopes);
  else
    add_basis(edges, of_basis, functions, slopes, numbers(place(scratch, count, cutoff_), count, 2));
  add_inputs(sender_, count, edges.sender_species, edges.sender_row, edges.x, edges.direction, inputs);
  add_inputs(receiver_, count, edges.receiver_species, edges.receiver_row, edges.x, edges.direction, inputs);

  R *h = inputs;
  int width = num_inputs_;
  for (const Hidden &layer : hidden_) {
    R *z = place(scratch, count, layer.z);
    layer.product.forward(PLANES<T> * count, h, z);
    width = layer.product.cols();
    if (!layer.bias.empty())    // only the values have a bias
      for (int64_t e = 0; e < count; e++)
        for (int j = 0; j < width; j++) z[e * width + j] += layer.bias[j];
    if (!layer.norm_weight.empty()) {
      const NormalizeRow<T> normalize{width,
                                      nullptr,
                                      layer.norm_weight.data(),
                                      layer.norm_bias.data(),
                                      layer.epsilon,
                                      numbers(z, count, width),
                                      numbers(place(scratch, count, layer.normalized), count, width),
                                      numbers(place(scratch, count, layer.factor), count, 1)};
      for (int64_t e = 0; e < count; e++) normalize(e);
    }
    h = place(scratch, count, layer.h);
    kernels.gate_forward(activation_call(layer, count, z, h));
  }

  if (is_activated()) {
    const ActivatedWeightsRow<T> row = activated_weights(count, scratch, column_scale_.data());
    for (int64_t e = 0; e < count; e++) {
      const T factor = row.factor(e);
      for (int j = 0; j < num_weights_; j++) row.set(e, j, factor, numbers(weights, count, num_weights_));
    }
    return;
  }
  if (has_last()) {
    R *last = place(scratch, count, last_);
    const LastInputsRow<T> row = last_inputs(count, scratch, last);
    for (int64_t e = 0; e < count; e++) {
      const T factor = row.factor(e);
      for (int j = 0; j < last_width_; j++) row.set(e, j, factor);
    }
    h = last;
  }
  R *const outputs = gate_ ? place(scratch, count, gate_->values_and_keys) : weights;
  for_last_products(edges, [&](const Product &product, int64_t first, int64_t n) {
    for (int plane = 0; plane < PLANES<T>; plane++) {
      const int64_t row = plane * count + first;
      product.forward(n, h + row * last_width_, outputs + row * last_product_width());
    }
  });
  if (!gate_) return;
  std::fill_n(weights, weights_size(count), R(0));
  const GatedWeightsRow<T> row = gated_weights(count, scratch, gate_->column.data(), gate_->column_scale.data());
  const NormalizeRow<T> normalize = gate_norm(count, scratch, gate_->norm_weight.data(), gate_->norm_bias.data());
  for (int64_t e = 0; e < count; e++) {
    for (int j = 0; j < row.n; j++) row.product(e, j);
    normalize(e);
    for (int j = 0; j < row.n; j++) row.set(e, j, numbers(weights, count, num_weights_));
  }
}

template <class T>
template <class F>
void EdgeNetwork<T>::for_last_products(const NetworkEdges<T> &edges, const F &f) const {
  const auto window = [&](int64_t e) {
    return window_of(value_of(edges.distance[e]), edges.receiver_species[e], edges.sender_species[e]);
  };
  for (int64_t first = 0, end = 0; first < edges.count; first = end) {
    const int here = window(first);
    end = num_windows() == 1 ? edges.count : first + 1;
    while (end < edges.count && window(end) == here) end++;
    f(weights_[here], first, end - first);
  }
}

template <class T>
void EdgeNetwork<T>::backward(const HostKernels<T> &kernels, const NetworkEdges<T> &edges, R *scratch,
                              const R *weights_adj, const NetworkAdjoints<T> &adjoints) const {
  const int64_t count = edges.count;
  scratch += basis_size();
  R *adjoint = place(scratch, count, adjoint_[0]), *before = place(scratch, count, adjoint_[1]);
  const auto add_of_cutoff = [&](int64_t e, T of_cutoff, Pointer<T> cutoff) {
    if (times_cutoff_ && adjoints.distance) adjoints.distance[e * adjoints.stride] += of_cutoff * cutoff[2 * e + 1];
  };
  const auto of_weights = make_pointer<const T>(weights_adj, count * num_weights_);
  std::optional<GatedWeightsRow<T>> gated;
  if (gate_) {
    gated = gated_weights(count, scratch, gate_->column.data(), gate_->column_scale.data());
    const NormalizeAdjointRow<T> normalize = gate_norm_adjoint(count, scratch, gate_->norm_weight.data());
    for (int64_t e = 0; e < count; e++) {
      for (int j = 0; j < gated->n; j++) gated->backward(e, j, of_weights);
      normalize(e);
      for (int j = 0; j < gated->n; j++) gated->product_backward(e, j);
    }
    weights_adj = place(scratch, count, gate_->values_and_keys);
  }
  if (is_activated()) {
    const ActivatedWeightsRow<T> row = activated_weights(count, scratch, column_scale_.data());
    for (int64_t e = 0; e < count; e++)
      add_of_cutoff(e, row.backward(e, of_weights, numbers(adjoint, count, num_weights_)), row.cutoff);
  } else {
    for_last_products(edges, [&](const Product &product, int64_t first, int64_t n) {
      for (int plane = 0; plane < PLANES<T>; plane++) {
        const int64_t row = plane * count + first;
        product.backward(n, weights_adj + row * last_product_width(), adjoint + row * last_width_);
      }
    });
  }
  if (has_last()) {
    const LastInputsRow<T> row = last_inputs(count, scratch, adjoint);
    const Pointer<T> h_adj = numbers(before, count, row.width);
    for (int64_t e = 0; e < count; e++) add_of_cutoff(e, row.backward(e, h_adj), row.cutoff);
    std::swap(adjoint, before);
  }
  for (auto layer = hidden_.rbegin(); layer != hidden_.rend(); ++layer) {
    // Replaces z by its adjoint.
    R *z = place(scratch, count, layer->z);
    kernels.gate_backward(activation_call(*layer, count, z, adjoint));
    if (!layer->norm_weight.empty()) {
      const int width = layer->product.cols();
      const NormalizeAdjointRow<T> normalize{
          width, layer->norm_weight.data(), numbers(place(scratch, count, layer->normalized), count, width),
          numbers(place(scratch, count, layer->factor), count, 1), numbers(z, count, width)};
      for (int64_t e = 0; e < count; e++) normalize(e);
    }
    layer->product.backward(PLANES<T> * count, z, before);
    std::swap(adjoint, before);
  }

  for (int64_t e = 0; gated && e < count; e++)
    for (int j = 0; j < gated->n; j++)
      gated->add_query(e, j, numbers(adjoint, count, num_inputs_) + (num_inputs_ - gated->n));

  if (adjoints.distance) {
    Pointer<T> of_inputs = numbers(adjoint, count, num_inputs_),
               slopes = numbers(place(scratch, count, slopes_), count, num_basis_);
    for (int64_t e = 0; e < count; e++, of_inputs += num_inputs_, slopes += num_basis_) {
      T sum = T(0);
      for (int n = 0; n < num_basis_; n++) sum += of_inputs[n] * slopes[n];
      adjoints.distance[e * adjoints.stride] += sum;
    }
  }
  add_adjoints(sender_, count, adjoint, adjoints.sender_row, adjoints.sender);
  add_adjoints(receiver_, count, adjoint, adjoints.receiver_row, adjoints.receiver);
}

EQUI_INSTANTIATE_NUMBERS(EdgeNetwork)

}    // namespace equi

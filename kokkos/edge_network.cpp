#include "edge_network.h"

#include "dense.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace equi {

template <class T>
void EdgeNetwork<T>::Product::forward(int64_t count, const T *in, T *out) const {
  gemm(false, count, cols, rows, in, weight.data(), T(0), out);
}

template <class T>
void EdgeNetwork<T>::Product::backward(int64_t count, const T *out_adj, T *in_adj) const {
  gemm(false, count, rows, cols, out_adj, transposed.data(), T(0), in_adj);
}

template <class T>
typename EdgeNetwork<T>::Product EdgeNetwork<T>::make_product(const Matrix &m) const {
  Product p{m.rows, m.cols, AlignedVector<T>(m.data.size()), AlignedVector<T>(m.data.size())};
  for (int i = 0; i < m.rows; i++)
    for (int j = 0; j < m.cols; j++)
      p.weight[static_cast<size_t>(i) * m.cols + j] = p.transposed[static_cast<size_t>(j) * m.rows + i] =
          static_cast<T>(m(i, j));
  return p;
}

template <class T>
EdgeNetwork<T>::EdgeNetwork(const RadialFunction &function, const FeatureLayout &in, int num_species,
                            const std::vector<EdgeColumn> &columns, int64_t row)
    : in_(in),
      num_species_(num_species),
      num_basis_(function.basis.size()),
      num_inputs_(num_basis_),
      activation_(function.network.activation),
      activation_scale_(static_cast<T>(function.network.activation_scale)),
      times_cutoff_(function.times_cutoff) {
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
  int widest = num_inputs_;
  for (size_t k = 0; k + 1 < network.weights.size(); k++) {
    Hidden layer{make_product(network.weights[k]), {}, {}, {}, T(0), 0, 0, 0, 0};
    const int width = layer.product.cols;
    if (k < network.biases.size()) layer.bias.assign(network.biases[k].begin(), network.biases[k].end());
    layer.z = take(width);
    layer.h = take(width);
    if (k < network.norms.size() && !network.norms[k].weight.empty()) {
      const LayerNorm &norm = network.norms[k];
      layer.norm_weight.assign(norm.weight.begin(), norm.weight.end());
      layer.norm_bias.assign(norm.bias.begin(), norm.bias.end());
      layer.epsilon = static_cast<T>(norm.epsilon);
      layer.normalized = take(width);
      layer.factor = take(1);
    }
    widest = std::max(widest, width);
    hidden_.push_back(std::move(layer));
  }

  const Matrix &last = network.weights.back();
  const std::vector<double> bias =
      network.biases.size() < network.weights.size() ? std::vector<double>() : network.biases.back();
  has_last_bias_ = !bias.empty();
  last_width_ = last.rows + has_last_bias_;
  last_ = take(times_cutoff_ || has_last_bias_ ? last_width_ : 0);
  for (int64_t &a : adjoint_) a = take(std::max(widest, last_width_));
  Matrix m{last_width_, static_cast<int>(row), std::vector<double>(last_width_ * row)};
  for (size_t c = 0; c < columns.size(); c++)
    for (int i = 0; i < last_width_; i++)
      m.data[i * row + columns[c].column] = columns[c].scale * (i < last.rows ? last(i, static_cast<int>(c)) : bias[c]);
  weights_ = make_product(m);
}

template <class T>
void EdgeNetwork<T>::add_inputs(const AtomInputs &part, int64_t count, const int *species, const int *rows,
                                FeatureRows<const T> x, T *inputs) const {
  if (part.size == 0) return;
  for (int64_t e = 0; e < count; e++) {
    const T *from = part.rows.data() + static_cast<int64_t>(species[e]) * part.size;
    if (part.group >= 0) {
      const FeatureGroup &group = in_.group(part.group);
      from = x.group(group) + static_cast<int64_t>(rows[e]) * group.width() + part.channel;
    }
    std::copy_n(from, part.size, inputs + e * num_inputs_ + part.first);
  }
}

template <class T>
void EdgeNetwork<T>::add_adjoints(const AtomInputs &part, int64_t count, const T *inputs_adj, const int *rows,
                                  FeatureRows<T> x_adj) const {
  if (part.group < 0 || !x_adj.data) return;
  const FeatureGroup &group = in_.group(part.group);
  for (int64_t e = 0; e < count; e++) {
    const T *from = inputs_adj + e * num_inputs_ + part.first;
    T *to = x_adj.group(group) + static_cast<int64_t>(rows[e]) * group.width() + part.channel;
    for (int u = 0; u < part.size; u++) to[u] += from[u];
  }
}

template <class T>
void EdgeNetwork<T>::normalize(const Hidden &layer, int64_t count, T *scratch) const {
  const int n = layer.product.cols;
  for (int64_t e = 0; e < count; e++) {
    T *z = scratch + count * layer.z + e * n, *normalized = scratch + count * layer.normalized + e * n;
    T mean = 0, variance = 0;
    for (int j = 0; j < n; j++) mean += z[j];
    mean /= n;
    for (int j = 0; j < n; j++) variance += (z[j] - mean) * (z[j] - mean);
    const T factor = 1 / std::sqrt(variance / n + layer.epsilon);
    scratch[count * layer.factor + e] = factor;
    for (int j = 0; j < n; j++) {
      normalized[j] = factor * (z[j] - mean);
      z[j] = layer.norm_weight[j] * normalized[j] + layer.norm_bias[j];
    }
  }
}

// With n = factor (z - mean) and a the adjoint of n: z_adj = factor (a - mean(a) - n mean(a n)).
template <class T>
void EdgeNetwork<T>::normalize_backward(const Hidden &layer, int64_t count, const T *scratch, T *adjoint) const {
  const int n = layer.product.cols;
  for (int64_t e = 0; e < count; e++) {
    const T *normalized = scratch + count * layer.normalized + e * n;
    T *a = adjoint + e * n;
    T mean = 0, along = 0;
    for (int j = 0; j < n; j++) {
      a[j] *= layer.norm_weight[j];
      mean += a[j];
      along += a[j] * normalized[j];
    }
    mean /= n;
    along /= n;
    for (int j = 0; j < n; j++) a[j] = scratch[count * layer.factor + e] * (a[j] - mean - normalized[j] * along);
  }
}

template <class T>
GateCall<T> EdgeNetwork<T>::activation_call(const Hidden &layer, int64_t count, T *z, T *h) const {
  GateCall<T> call{};
  call.activation = activation_;
  call.scale = activation_scale_;
  call.mul = layer.product.cols;
  call.dim = 1;
  call.rows = count;
  call.z = z;
  call.x = h;
  call.z_width = call.x_width = layer.product.cols;
  return call;
}

template <class T>
template <class G>
void EdgeNetwork<T>::forward(const HostKernels<T> &kernels, const NetworkEdges<T, G> &edges, T *scratch,
                             T *weights) const {
  const int64_t count = edges.count;
  double *of_basis = reinterpret_cast<double *>(scratch), of_cutoff[2];
  scratch += basis_size();
  T *inputs = scratch + count * inputs_;
  for (int64_t e = 0; e < count; e++) {
    const int pair = bases_.size() == 1 ? 0 : edges.receiver_species[e] * num_species_ + edges.sender_species[e];
    bases_[pair].derivatives(edges.distance[e], 1, -1, of_basis);
    for (int n = 0; n < num_basis_; n++) {
      inputs[e * num_inputs_ + n] = static_cast<T>(of_basis[n]);
      scratch[count * slopes_ + e * num_basis_ + n] = static_cast<T>(of_basis[num_basis_ + n]);
    }
    if (!times_cutoff_) continue;
    bases_[pair].cutoff_function(edges.distance[e], 1, -1, of_cutoff);
    for (int k = 0; k < 2; k++) scratch[count * cutoff_ + 2 * e + k] = static_cast<T>(of_cutoff[k]);
  }
  add_inputs(sender_, count, edges.sender_species, edges.sender_row, edges.x, inputs);
  add_inputs(receiver_, count, edges.receiver_species, edges.receiver_row, edges.x, inputs);

  const T *h = inputs;
  int width = num_inputs_;
  for (const Hidden &layer : hidden_) {
    T *z = scratch + count * layer.z;
    layer.product.forward(count, h, z);
    width = layer.product.cols;
    if (!layer.bias.empty())
      for (int64_t e = 0; e < count; e++)
        for (int j = 0; j < width; j++) z[e * width + j] += layer.bias[j];
    if (!layer.norm_weight.empty()) normalize(layer, count, scratch);
    kernels.gate_forward(activation_call(layer, count, z, scratch + count * layer.h));
    h = scratch + count * layer.h;
  }

  if (times_cutoff_ || has_last_bias_) {
    T *last = scratch + count * last_;
    for (int64_t e = 0; e < count; e++) {
      const T factor = times_cutoff_ ? scratch[count * cutoff_ + 2 * e] : T(1);
      for (int j = 0; j < width; j++) last[e * last_width_ + j] = factor * h[e * width + j];
      if (has_last_bias_) last[e * last_width_ + width] = factor;
    }
    h = last;
  }
  weights_.forward(count, h, weights);
}

template <class T>
template <class G>
void EdgeNetwork<T>::backward(const HostKernels<T> &kernels, const NetworkEdges<T, G> &edges, T *scratch,
                              const T *weights_adj, const NetworkAdjoints<T> &adjoints) const {
  const int64_t count = edges.count;
  scratch += basis_size();
  T *adjoint = scratch + count * adjoint_[0], *before = scratch + count * adjoint_[1];
  weights_.backward(count, weights_adj, adjoint);

  if (times_cutoff_ || has_last_bias_) {
    const int width = last_width_ - has_last_bias_;
    const T *h = scratch + count * (hidden_.empty() ? inputs_ : hidden_.back().h);
    for (int64_t e = 0; e < count; e++) {
      const T *from = adjoint + e * last_width_;
      const T factor = times_cutoff_ ? scratch[count * cutoff_ + 2 * e] : T(1);
      T sum = has_last_bias_ ? from[width] : T(0);
      for (int j = 0; j < width; j++) {
        sum += h[e * width + j] * from[j];
        before[e * width + j] = factor * from[j];
      }
      if (times_cutoff_ && adjoints.distance)
        adjoints.distance[e * adjoints.stride] += sum * scratch[count * cutoff_ + 2 * e + 1];
    }
    std::swap(adjoint, before);
  }
  for (auto layer = hidden_.rbegin(); layer != hidden_.rend(); ++layer) {
    // z is replaced by its adjoint.
    T *z = scratch + count * layer->z;
    kernels.gate_backward(activation_call(*layer, count, z, adjoint));
    if (!layer->norm_weight.empty()) normalize_backward(*layer, count, scratch, z);
    layer->product.backward(count, z, before);
    std::swap(adjoint, before);
  }

  if (adjoints.distance)
    for (int64_t e = 0; e < count; e++) {
      T sum = 0;
      for (int n = 0; n < num_basis_; n++)
        sum += adjoint[e * num_inputs_ + n] * scratch[count * slopes_ + e * num_basis_ + n];
      adjoints.distance[e * adjoints.stride] += sum;
    }
  add_adjoints(sender_, count, adjoint, adjoints.sender_row, adjoints.sender);
  add_adjoints(receiver_, count, adjoint, adjoints.receiver_row, adjoints.receiver);
}

template <class T>
std::size_t EdgeNetwork<T>::bytes() const {
  std::size_t numbers = 0;
  for (const Hidden &layer : hidden_) numbers += 2 * layer.product.weight.size();
  numbers += 2 * weights_.weight.size();
  return numbers * sizeof(T);
}

#define EQUI_INSTANTIATE(T, G)                                                                                  \
  template void EdgeNetwork<T>::forward<G>(const HostKernels<T> &, const NetworkEdges<T, G> &, T *, T *) const; \
  template void EdgeNetwork<T>::backward<G>(const HostKernels<T> &, const NetworkEdges<T, G> &, T *, const T *, \
                                            const NetworkAdjoints<T> &) const;

template class EdgeNetwork<float>;
template class EdgeNetwork<double>;
EQUI_INSTANTIATE(float, float)
EQUI_INSTANTIATE(float, double)
EQUI_INSTANTIATE(double, double)

}    // namespace equi

// The layers of doc/model_file.rst as ATen operators on features [rows, dim] in the order of irreps.h. Part of
// torch_model.cpp alone, its only includer: Torch's headers are slow to compile and stay in one source.
#ifndef EQUI_TORCH_LAYERS_H
#define EQUI_TORCH_LAYERS_H

#include "coupling.h"
#include "model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace equi {
namespace torch_layers {

using at::Tensor;

inline Tensor to_tensor(const double *data, at::IntArrayRef shape, at::ScalarType type) {
  Tensor t = at::empty(shape, at::kDouble);
  std::copy(data, data + t.numel(), t.data_ptr<double>());
  return t.to(type);
}

inline Tensor to_tensor(const std::vector<double> &data, at::ScalarType type) {
  return to_tensor(data.data(), {static_cast<int64_t>(data.size())}, type);
}

inline Tensor to_tensor(const Matrix &m, at::ScalarType type) {
  return to_tensor(m.data.data(), {m.rows, m.cols}, type);
}

inline Tensor to_tensor(const std::vector<int> &data) {
  Tensor t = at::empty({static_cast<int64_t>(data.size())}, at::kLong);
  std::copy(data.begin(), data.end(), t.data_ptr<int64_t>());
  return t;
}

inline Tensor activate(Activation a, const Tensor &x) {
  switch (a) {
    case Activation::identity:
      return x;
    case Activation::silu:
      return x * at::sigmoid(x);
    case Activation::tanh:
      return at::tanh(x);
    case Activation::sigmoid:
      return at::sigmoid(x);
    case Activation::relu:
      return at::relu(x);
    case Activation::abs:
      return at::abs(x);
    // The threshold, beyond which ATen returns x itself, lies where log(1 + e^x) = x also in float64; its default does
    // not.
    case Activation::ssp:
      return at::softplus(x, 1.0, 40.0) - std::log(2.0);
  }
  throw std::invalid_argument("TorchModel: unknown activation");
}

// Block b of a feature [rows, dim] as [rows, mul, 2l+1].
inline Tensor block_of(const Tensor &x, const Irreps &irreps, int b) {
  return x.narrow(1, irreps.offset(b), irreps[b].dim()).reshape({x.size(0), irreps[b].mul, irreps[b].irrep.dim()});
}

// Harmonics of unit vectors [E, 3] for l = 0..lmax as [E, (lmax+1)^2]: Y_lm = norm * Pi_l^a(y) * (C_a or S_a) with a =
// |m|, (z + i x)^a = C_a + i S_a and Pi_l^a the a-th derivative of the Legendre polynomial P_l.
inline Tensor harmonics(const Tensor &unit, int lmax) {
  const Tensor x = unit.select(1, 0), y = unit.select(1, 1), z = unit.select(1, 2);
  std::vector<Tensor> c = {at::ones_like(x)}, s = {at::zeros_like(x)};
  for (int a = 0; a < lmax; ++a) {
    c.push_back(c[a] * z - s[a] * x);
    s.push_back(s[a] * z + c[a] * x);
  }
  std::map<std::pair<int, int>, Tensor> pi;
  double double_factorial = 1.0;    // (2a-1)!!
  for (int a = 0; a <= lmax; ++a) {
    if (a > 0) double_factorial *= 2 * a - 1;
    pi[{a, a}] = at::full_like(y, double_factorial);
    for (int l = a + 1; l <= lmax; ++l) {
      Tensor p = (2.0 * l - 1.0) * y * pi[{l - 1, a}];
      if (l > a + 1) p = p - (l + a - 1.0) * pi[{l - 2, a}];
      pi[{l, a}] = p / (l - a);
    }
  }
  std::vector<Tensor> columns;
  for (int l = 0; l <= lmax; ++l)
    for (int m = -l; m <= l; ++m) {
      const int a = std::abs(m);
      double ratio = 1.0;    // (l-a)! / (l+a)!
      for (int k = l - a + 1; k <= l + a; ++k) ratio /= k;
      const double norm = std::sqrt((2 * l + 1) * (m == 0 ? 1.0 : 2.0) * ratio);
      columns.push_back(norm * pi[{l, a}] * (m >= 0 ? c[a] : s[a]));
    }
  return at::stack(columns, 1);
}

struct TorchNetwork {
  std::vector<Tensor> weights, biases;    // an undefined bias is none
  Activation activation;
  double scale;

  TorchNetwork(const Network &n, at::ScalarType type) : activation(n.activation), scale(n.activation_scale) {
    for (size_t k = 0; k < n.weights.size(); ++k) {
      weights.push_back(to_tensor(n.weights[k], type));
      const bool has_bias = k < n.biases.size() && !n.biases[k].empty();
      biases.push_back(has_bias ? to_tensor(n.biases[k], type) : Tensor());
    }
  }

  Tensor operator()(Tensor h) const {
    for (size_t k = 0; k < weights.size(); ++k) {
      h = at::matmul(h, weights[k]);
      if (biases[k].defined()) h = h + biases[k];
      if (k + 1 < weights.size()) h = scale * activate(activation, h);
    }
    return h;
  }

  // Numbers per row that autograd keeps: the hidden layers with their activations.
  double kept() const {
    double sum = 0.0;
    for (const Tensor &w : weights) sum += 4.0 * w.size(1);
    return sum;
  }
};

// Radial functions of one convolution: r [E] in float64 to weights [E, columns].
struct TorchRadial {
  Tensor wave_numbers, power;    // power [columns]: undefined if all are zero
  RadialBasis basis;
  TorchNetwork network;
  at::ScalarType type;

  TorchRadial(const RadialFunction &f, at::ScalarType type) : basis(f.basis), network(f.network, type), type(type) {
    wave_numbers = to_tensor(f.basis.wave_numbers, at::kDouble);
    if (std::any_of(f.r_power.begin(), f.r_power.end(), [](int p) { return p != 0; }))
      power = to_tensor(f.r_power).to(at::kDouble);
  }

  Tensor cutoff_function(const Tensor &r) const {
    const double c = basis.cutoff, p = basis.p;
    if (basis.cutoff_kind == RadialBasis::Cutoff::polynomial) {
      const Tensor u = r / c;
      return 1.0 - (p + 1) * (p + 2) / 2 * at::pow(u, p) + p * (p + 2) * at::pow(u, p + 1) -
             p * (p + 1) / 2 * at::pow(u, p + 2);
    }
    // No switching range: the quotient below would be infinite, and where() would pass its derivative on as NaN.
    if (basis.r_on >= c) return at::ones_like(r);
    const Tensor rr = r * r;
    const double cc = c * c, oo = basis.r_on * basis.r_on;
    const Tensor outer = (cc - rr).square() * (cc + 2.0 * rr - 3.0 * oo) / std::pow(cc - oo, 3);
    return at::where(r < basis.r_on, at::ones_like(r), outer);
  }

  Tensor operator()(const Tensor &r) const {
    const Tensor column = r.unsqueeze(1);
    const Tensor b = basis.prefactor * at::sin(column * wave_numbers) / column * cutoff_function(column);
    Tensor w = network(b.to(type));
    if (power.defined()) w = w * at::pow(column, power).to(type);
    return w;
  }
};

struct TorchConvolution {
  int input, output;
  TensorProduct product;
  TorchRadial radial;
  std::vector<Tensor> couplings;    // per path [2 l1+1, 2 l2+1, 2 l3+1]
  int64_t chunk;                    // edges
  double bytes_per_edge;

  TorchConvolution(const Convolution &c, at::ScalarType type, double chunk_bytes)
      : input(c.input), output(c.output), product(c.product), radial(c.radial, type) {
    product.validate();
    if (c.radial.num_outputs() != product.num_weights())
      throw std::invalid_argument("TorchModel: a radial network has " + std::to_string(c.radial.num_outputs()) +
                                  " outputs, its convolution needs " + std::to_string(product.num_weights()));
    double kept = radial.network.kept() + 2.0 * product.irreps_in.dim() + 4.0 * product.irreps_out.dim();
    for (const TensorProductPath &p : product.paths) {
      const int l1 = product.irreps_in[p.in].irrep.l, l3 = product.irreps_out[p.out].irrep.l;
      const std::vector<double> w = coupling(l1, p.l2, l3);
      couplings.push_back(to_tensor(w.data(), {2 * l1 + 1, 2 * p.l2 + 1, 2 * l3 + 1}, type));
      kept += (2.0 * l1 + 1) * (2 * l3 + 1) + product.irreps_in[p.in].dim();
    }
    bytes_per_edge = kept * static_cast<double>(c10::elementSize(type));
    chunk = std::max<int64_t>(1, static_cast<int64_t>(chunk_bytes / bytes_per_edge));
  }

  // Messages of edges, before the sum over neighbours: x [E, dim_in] of the senders, vec [E, 3] in float64 -> [E,
  // dim_out].
  Tensor messages(const Tensor &x, const Tensor &vec) const {
    const Tensor r = vec.square().sum(1).sqrt();
    const Tensor y = harmonics(vec / r.unsqueeze(1), product.lmax_edge).to(x.scalar_type());
    const Tensor weights = radial(r);
    std::vector<Tensor> blocks(product.irreps_out.size());
    for (size_t q = 0; q < product.paths.size(); ++q) {
      const TensorProductPath &p = product.paths[q];
      const Tensor x_block = block_of(x, product.irreps_in, p.in);
      const Tensor y_block = y.narrow(1, p.l2 * p.l2, 2 * p.l2 + 1);
      const Tensor w = weights.narrow(1, product.weight_offset(static_cast<int>(q)), product.irreps_in[p.in].mul);
      const Tensor m = at::einsum("eua,eac->euc", {x_block, at::einsum("abc,eb->eac", {couplings[q], y_block})});
      const Tensor term = (p.scale * w.unsqueeze(2) * m).flatten(1);
      blocks[p.out] = blocks[p.out].defined() ? blocks[p.out] + term : term;
    }
    for (int b = 0; b < product.irreps_out.size(); ++b)
      if (!blocks[b].defined()) blocks[b] = at::zeros({x.size(0), product.irreps_out[b].dim()}, x.options());
    if (blocks.empty()) return at::zeros({x.size(0), 0}, x.options());
    return at::cat(blocks, 1);
  }
};

struct TorchLinear {
  int input, output;
  bool per_species, accumulate;
  Irreps irreps_in, irreps_out;
  std::vector<LinearBlock> blocks;             // for the indices; their weights are emptied
  std::vector<std::vector<Tensor>> weights;    // [block][one or species]
  std::vector<Tensor> bias;                    // per output block; undefined: none

  TorchLinear(const Linear &l, const Model &model, at::ScalarType type)
      : input(l.input),
        output(l.output),
        per_species(l.per_species),
        accumulate(l.accumulate),
        irreps_in(model.features[l.input]),
        irreps_out(model.features[l.output]),
        bias(irreps_out.size()) {
    for (const LinearBlock &b : l.blocks) {
      blocks.push_back({b.in, b.out, {}});
      weights.emplace_back();
      for (const Matrix &m : b.weight) weights.back().push_back(to_tensor(m, type));
    }
    for (size_t k = 0; k < l.bias.size(); ++k)
      if (!l.bias[k].empty()) bias[k] = to_tensor(l.bias[k], type);
  }

  Tensor operator()(const Tensor &x, const Tensor &species) const {
    const int64_t rows = x.size(0);
    std::vector<Tensor> out(irreps_out.size());
    for (int k = 0; k < irreps_out.size(); ++k) {
      out[k] = at::zeros({rows, irreps_out[k].mul, irreps_out[k].irrep.dim()}, x.options());
      if (bias[k].defined()) out[k] = out[k] + bias[k].reshape({1, -1, 1});
    }
    for (size_t n = 0; n < blocks.size(); ++n) {
      const Tensor x_block = block_of(x, irreps_in, blocks[n].in);
      Tensor &y = out[blocks[n].out];
      if (!per_species) {
        y = y + at::einsum("uw,num->nwm", {weights[n][0], x_block});
        continue;
      }
      for (size_t s = 0; s < weights[n].size(); ++s) {
        const Tensor mine = at::nonzero(species == static_cast<int64_t>(s)).flatten();
        if (mine.numel() > 0)
          y = at::index_add(y, 0, mine, at::einsum("uw,num->nwm", {weights[n][s], x_block.index_select(0, mine)}));
      }
    }
    for (Tensor &t : out) t = t.flatten(1);
    return out.empty() ? at::zeros({rows, 0}, x.options()) : at::cat(out, 1);
  }
};

struct TorchGate {
  int input, output;
  Irreps irreps_in, irreps_out;
  std::vector<GateTerm> terms;

  TorchGate(const Gate &g, const Model &model)
      : input(g.input),
        output(g.output),
        irreps_in(model.features[g.input]),
        irreps_out(model.features[g.output]),
        terms(g.terms) {
    std::vector<int> count(irreps_out.size(), 0);
    for (const GateTerm &t : terms) ++count.at(t.out);
    if (std::any_of(count.begin(), count.end(), [](int c) { return c != 1; }))
      throw std::invalid_argument("TorchModel: a gate needs one term for each block of its output");
  }

  Tensor operator()(const Tensor &z) const {
    std::vector<Tensor> out(irreps_out.size());
    for (const GateTerm &t : terms) {
      const int64_t mul = irreps_out[t.out].mul;
      Tensor v = block_of(z, irreps_in, t.in).narrow(1, t.offset, mul);
      if (t.gate_in < 0)
        v = t.scale * activate(t.activation, v);
      else
        v = v * (t.scale * activate(t.activation, block_of(z, irreps_in, t.gate_in).narrow(1, t.gate_offset, mul)));
      out[t.out] = v.flatten(1);
    }
    return at::cat(out, 1);
  }
};

struct TorchEmbedding {
  int output;
  Tensor weight;
};

struct TorchReadout {
  int input, block;
  Irreps irreps;
  TorchNetwork network;
};

struct TorchScaleShift {
  Tensor scale, shift;
};

using TorchLayer =
    std::variant<TorchEmbedding, TorchLinear, TorchConvolution, TorchGate, TorchReadout, TorchScaleShift>;

struct LayerBuilder {
  const Model &model;
  at::ScalarType type;
  double chunk_bytes;

  TorchLayer operator()(const SpeciesEmbedding &l) const { return TorchEmbedding{l.output, to_tensor(l.weight, type)}; }
  TorchLayer operator()(const Linear &l) const { return TorchLinear(l, model, type); }
  TorchLayer operator()(const Convolution &l) const { return TorchConvolution(l, type, chunk_bytes); }
  TorchLayer operator()(const Gate &l) const { return TorchGate(l, model); }
  TorchLayer operator()(const Readout &l) const {
    return TorchReadout{l.input, l.block, model.features[l.input], TorchNetwork(l.network, type)};
  }
  TorchLayer operator()(const ScaleShift &l) const {
    return TorchScaleShift{to_tensor(l.scale, at::kDouble), to_tensor(l.shift, at::kDouble)};
  }
};

}    // namespace torch_layers
}    // namespace equi

#endif

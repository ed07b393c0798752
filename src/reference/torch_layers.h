// SPDX-License-Identifier: MIT
// The layers of doc/model_file.rst as ATen operators on features [rows, dim] in the order of irreps.h. Part of
// torch_model.cpp alone, its only includer: Torch's headers are slow to compile and stay in one source.
#ifndef EQUI_TORCH_LAYERS_H
#define EQUI_TORCH_LAYERS_H

#include "src/algebra/coupling.h"
#include "src/model/model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
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
  std::vector<Tensor> weights, biases;              // an undefined bias is none
  std::vector<Tensor> norm_weights, norm_biases;    // undefined: no norm
  std::vector<double> norm_epsilons;
  Activation activation;
  double scale;

  TorchNetwork(const Network &n, at::ScalarType type) : activation(n.activation), scale(n.activation_scale) {
    for (size_t k = 0; k < n.weights.size(); ++k) {
      weights.push_back(to_tensor(n.weights[k], type));
      const bool has_bias = k < n.biases.size() && !n.biases[k].empty();
      biases.push_back(has_bias ? to_tensor(n.biases[k], type) : Tensor());
      const bool has_norm = k < n.norms.size() && !n.norms[k].weight.empty();
      norm_weights.push_back(has_norm ? to_tensor(n.norms[k].weight, type) : Tensor());
      norm_biases.push_back(has_norm ? to_tensor(n.norms[k].bias, type) : Tensor());
      norm_epsilons.push_back(has_norm ? n.norms[k].epsilon : 0.0);
    }
  }

  Tensor operator()(Tensor h) const {
    for (size_t k = 0; k < weights.size(); ++k) {
      h = at::matmul(h, weights[k]);
      if (biases[k].defined()) h = h + biases[k];
      if (k + 1 == weights.size()) break;
      if (norm_weights[k].defined())
        h = at::layer_norm(h, {h.size(1)}, norm_weights[k], norm_biases[k], norm_epsilons[k]);
      h = scale * activate(activation, h);
    }
    return h;
  }

  // Numbers per row that autograd keeps: the inputs and the hidden layers with their activations.
  double kept() const {
    double sum = static_cast<double>(weights.front().size(0));
    for (const Tensor &w : weights) sum += 5.0 * w.size(1);
    return sum;
  }
};

// What a sum over edges is made of.
struct EdgeRows {
  Tensor vec;                                 // [E, 3] float64
  Tensor receiver_species, sender_species;    // [E] int64

  int64_t size() const { return vec.size(0); }
  Tensor distance() const { return vec.square().sum(1).sqrt(); }    // [E]
  // The numbers of a matrix [receiver species, sender species] as [E, 1].
  Tensor of_pair(const Tensor &matrix) const {
    return matrix.flatten().index_select(0, receiver_species * matrix.size(1) + sender_species).unsqueeze(1);
  }
};

// The feature that a sum over edges reads, of the atoms of each edge [E, dim]; undefined where it is not read.
struct EdgeFeatures {
  Tensor sender, receiver;
};

inline Tensor polynomial_cutoff_of(const Tensor &u, double p) {
  return 1.0 - (p + 1) * (p + 2) / 2 * at::pow(u, p) + p * (p + 2) * at::pow(u, p + 1) -
         p * (p + 1) / 2 * at::pow(u, p + 2);
}

// Radial functions of one convolution or density: distances [E, 1] in float64 to weights [E, columns].
struct TorchRadial {
  Tensor wave_numbers, centres;        // of the kinds that have them
  Tensor power;                        // [columns]: undefined if all are zero
  Tensor cutoff, r0;                   // a number, or [species, species]
  Tensor sender, receiver;             // [species, n], or undefined
  int sender_block, receiver_block;    // of the convolution's input, or -1
  RadialBasis basis;
  TorchNetwork network;
  RadialFunction::Output output;
  bool times_cutoff;
  at::ScalarType type;

  TorchRadial(const RadialFunction &f, at::ScalarType type)
      : sender_block(f.sender_block),
        receiver_block(f.receiver_block),
        basis(f.basis),
        network(f.network, type),
        output(f.output),
        times_cutoff(f.times_cutoff),
        type(type) {
    const auto matrix = [&](const Matrix &m, at::ScalarType t) { return m.data.empty() ? Tensor() : to_tensor(m, t); };
    wave_numbers = to_tensor(basis.wave_numbers, at::kDouble);
    centres = to_tensor(basis.centres, at::kDouble);
    cutoff = matrix(basis.pair_cutoff, at::kDouble);
    r0 = matrix(basis.pair_r0, at::kDouble);
    sender = matrix(f.sender, type);
    receiver = matrix(f.receiver, type);
    if (std::any_of(f.r_power.begin(), f.r_power.end(), [](int p) { return p != 0; }))
      power = to_tensor(f.r_power).to(at::kDouble);
  }

  // The cutoff of each edge as [E, 1], or one for all.
  Tensor cutoff_of(const EdgeRows &edges) const {
    return cutoff.defined() ? edges.of_pair(cutoff) : at::full({1, 1}, basis.cutoff, at::kDouble);
  }

  Tensor cutoff_function(const Tensor &r, const EdgeRows &edges) const {
    if (basis.cutoff_kind == RadialBasis::Cutoff::polynomial)
      return polynomial_cutoff_of(r / cutoff_of(edges), basis.p);
    const double c = basis.cutoff;
    // No switching range: the quotient below would be infinite, and where() would pass its derivative on as NaN.
    if (basis.r_on >= c) return at::ones_like(r);
    const Tensor rr = r * r;
    const double cc = c * c, oo = basis.r_on * basis.r_on;
    const Tensor outer = (cc - rr).square() * (cc + 2.0 * rr - 3.0 * oo) / std::pow(cc - oo, 3);
    return at::where(r < basis.r_on, at::ones_like(r), outer);
  }

  Tensor transformed(const Tensor &r, const EdgeRows &edges) const {
    if (basis.transform == RadialBasis::Transform::none) return r * (basis.cutoff / cutoff_of(edges));
    const Tensor own = edges.of_pair(r0);
    if (basis.transform == RadialBasis::Transform::agnesi) {
      const Tensor u = r / own;
      const double q = basis.agnesi_q, p = basis.agnesi_p;
      return 1.0 / (1.0 + basis.agnesi_a * at::pow(u, q) / (1.0 + at::pow(u, q - p)));
    }
    const Tensor p0 = 3.0 / 4.0 * own, p1 = 4.0 / 3.0 * own;
    return p0 + (r - p0) * (1.0 + at::tanh(basis.soft_alpha / (p1 - p0) * (r - (p0 + p1) / 2.0))) / 2.0;
  }

  // [E, functions], without the cutoff function.
  Tensor functions(const Tensor &x) const {
    switch (basis.kind) {
      case RadialBasis::Kind::gaussian:
        return at::exp(-0.5 * ((x - centres) / basis.width).square());
      case RadialBasis::Kind::chebyshev: {
        std::vector<Tensor> t = {at::ones_like(x), x};
        while (static_cast<int>(t.size()) <= basis.num_polynomials)
          t.push_back(2.0 * x * t[t.size() - 1] - t[t.size() - 2]);
        t.erase(t.begin());
        return at::cat(t, 1);
      }
      case RadialBasis::Kind::bessel:
        break;
    }
    return basis.prefactor * at::sin(x * wave_numbers) / x;
  }

  // x: of the two atoms [E, dim], as `irreps`; read where blocks of it are inputs of the network.
  Tensor operator()(const Tensor &r, const EdgeRows &edges, const EdgeFeatures &x = {},
                    const Irreps &irreps = {}) const {
    const Tensor f = cutoff_function(r, edges);
    Tensor b = functions(transformed(r, edges));
    if (basis.apply_cutoff) b = b * f;
    std::vector<Tensor> inputs = {b.to(type)};
    if (sender.defined()) inputs.push_back(sender.index_select(0, edges.sender_species));
    if (sender_block >= 0) inputs.push_back(block_of(x.sender, irreps, sender_block).flatten(1));
    if (receiver.defined()) inputs.push_back(receiver.index_select(0, edges.receiver_species));
    if (receiver_block >= 0) inputs.push_back(block_of(x.receiver, irreps, receiver_block).flatten(1));
    Tensor w = network(at::cat(inputs, 1));
    if (output == RadialFunction::Output::tanh_square) w = at::tanh(w.square());
    if (times_cutoff) w = w * f.to(type);
    if (power.defined()) w = w * at::pow(r, power).to(type);
    return w;
  }
};

// Work on many rows, done in chunks of them whose intermediates take about chunk_bytes.
struct Chunked {
  bool is_over_edges;    // else over atoms
  int64_t chunk = 1;
  double bytes_per_row = 0.0;

  explicit Chunked(bool is_over_edges) : is_over_edges(is_over_edges) {}
  void set_numbers_per_row(double numbers, at::ScalarType type, double chunk_bytes) {
    bytes_per_row = numbers * static_cast<double>(c10::elementSize(type));
    chunk = std::max<int64_t>(1, static_cast<int64_t>(chunk_bytes / bytes_per_row));
  }
};

// Something that each receiver sums over its edges.
struct EdgeSum : Chunked {
  int columns;
  at::ScalarType type;
  bool reads_receiver = false;    // the feature of both atoms, not of the sender alone

  EdgeSum(int columns, at::ScalarType type) : Chunked(true), columns(columns), type(type) {}
  virtual ~EdgeSum() = default;
  // Terms [E, columns] of edges.
  virtual Tensor terms(const EdgeFeatures &x, const EdgeRows &edges) const = 0;
};

struct TorchConvolution : EdgeSum {
  int input, output;
  TensorProduct product;
  TorchRadial radial;
  std::vector<Tensor> couplings;    // per path [2 l1+1, 2 l2+1, 2 l3+1]

  TorchConvolution(const Convolution &c, at::ScalarType type, double chunk_bytes)
      : EdgeSum(c.product.irreps_out.dim(), type),
        input(c.input),
        output(c.output),
        product(c.product),
        radial(c.radial, type) {
    product.validate();
    reads_receiver = c.radial.receiver_block >= 0;
    if (c.radial.num_outputs() != product.num_weights())
      throw std::invalid_argument("TorchModel: a radial network has " + std::to_string(c.radial.num_outputs()) +
                                  " outputs, its convolution needs " + std::to_string(product.num_weights()));
    double kept = radial.network.kept() + 2.0 * product.irreps_in.dim() + 4.0 * product.irreps_out.dim();
    for (const TensorProductPath &p : product.paths) {
      const int l1 = product.irreps_in[p.in].irrep.l, l3 = product.irreps_out[p.out].irrep.l;
      const std::vector<double> w = coupling(l1, p.l2, l3);
      couplings.push_back(to_tensor(w.data(), {2 * l1 + 1, 2 * p.l2 + 1, 2 * l3 + 1}, type));
      kept += (2.0 * l1 + 1) * (2 * l3 + 1) + product.irreps_in[p.in].mul * std::max(2.0 * l1 + 1, 2.0 * l3 + 1);
    }
    set_numbers_per_row(kept, type, chunk_bytes);
  }

  Tensor terms(const EdgeFeatures &features, const EdgeRows &edges) const override {
    const Tensor &x = features.sender;
    const Tensor r = edges.distance().unsqueeze(1);
    const Tensor y = harmonics(edges.vec / r, product.lmax_edge).to(x.scalar_type());
    const Tensor weights = radial(r, edges, features, product.irreps_in);
    std::vector<Tensor> blocks(product.irreps_out.size());
    for (size_t q = 0; q < product.paths.size(); ++q) {
      const TensorProductPath &p = product.paths[q];
      const Tensor x_block = block_of(x, product.irreps_in, p.in);
      const Tensor y_block = y.narrow(1, p.l2 * p.l2, 2 * p.l2 + 1);
      const int path = static_cast<int>(q);
      Tensor w = weights.narrow(1, product.weight_offset(path), product.num_weights(path));
      const Tensor m = at::einsum("eua,eac->euc", {x_block, at::einsum("abc,eb->eac", {couplings[q], y_block})});
      Tensor term;
      if (p.connection == Connection::uvw) {
        w = w.reshape({w.size(0), product.irreps_in[p.in].mul, product.irreps_out[p.out].mul});
        term = (p.scale * at::einsum("euw,euc->ewc", {w, m})).flatten(1);
      } else {
        term = (p.scale * w.unsqueeze(2) * m).flatten(1);
      }
      blocks[p.out] = blocks[p.out].defined() ? blocks[p.out] + term : term;
    }
    for (int b = 0; b < product.irreps_out.size(); ++b)
      if (!blocks[b].defined()) blocks[b] = at::zeros({x.size(0), product.irreps_out[b].dim()}, x.options());
    if (blocks.empty()) return at::zeros({x.size(0), 0}, x.options());
    return at::cat(blocks, 1);
  }
};

// The sum of a DensityNormalization.
struct TorchDensity : EdgeSum {
  int input, output;
  TorchRadial radial;
  double offset, factor;

  TorchDensity(const DensityNormalization &d, const Model &model, at::ScalarType type, double chunk_bytes)
      : EdgeSum(1, type),
        input(d.input),
        output(d.output),
        radial(d.density, type),
        offset(d.offset),
        factor(d.factor) {
    if (d.density.num_outputs() != 1 || model.features[input] != model.features[output])
      throw std::invalid_argument("TorchModel: a density normalisation needs one density and equal irreps");
    set_numbers_per_row(radial.network.kept(), type, chunk_bytes);
  }

  Tensor terms(const EdgeFeatures &, const EdgeRows &edges) const override {
    return radial(edges.distance().unsqueeze(1), edges);
  }
};

// Energies of edges, in float64.
struct TorchRepulsion : EdgeSum {
  Tensor prefactor, length, cutoff;    // [species, species]
  Tensor coefficients, exponents;
  double p;

  TorchRepulsion(const PairRepulsion &r, double chunk_bytes)
      : EdgeSum(1, at::kDouble),
        prefactor(to_tensor(r.prefactor, at::kDouble)),
        length(to_tensor(r.length, at::kDouble)),
        cutoff(to_tensor(r.cutoff, at::kDouble)),
        coefficients(to_tensor(r.coefficients, at::kDouble)),
        exponents(to_tensor(r.exponents, at::kDouble)),
        p(r.p) {
    set_numbers_per_row(20.0 + 4.0 * static_cast<double>(r.coefficients.size()), type, chunk_bytes);
  }

  Tensor terms(const EdgeFeatures &, const EdgeRows &edges) const override {
    const Tensor r = edges.distance().unsqueeze(1), u = at::clamp_max(r / edges.of_pair(cutoff), 1.0);
    const Tensor screening = at::matmul(at::exp(-r / edges.of_pair(length) * exponents), coefficients).unsqueeze(1);
    const Tensor f = at::where(u < 1.0, polynomial_cutoff_of(u, p), at::zeros_like(u));
    return edges.of_pair(prefactor) / r * screening * f;
  }
};

struct TorchContraction : Chunked {
  struct Term {
    int out, degree, dim;
    std::vector<Tensor> factors;    // [degree] of [entries]
    Tensor component, path, coefficient;
    Tensor weight;    // [species or 1, paths, mul]
  };
  int input, output;
  bool per_species;
  Irreps irreps_in, irreps_out;
  std::vector<Term> terms;

  TorchContraction(const SymmetricContraction &c, const Model &model, at::ScalarType type, double chunk_bytes)
      : Chunked(false),
        input(c.input),
        output(c.output),
        per_species(c.product.per_species),
        irreps_in(c.product.irreps_in),
        irreps_out(c.product.irreps_out) {
    c.product.validate();
    if (irreps_in != model.features[input] || irreps_out != model.features[output])
      throw std::invalid_argument("TorchModel: a symmetric contraction does not fit its features");
    double kept = 2.0 * irreps_in.dim() + 2.0 * irreps_out.dim();
    for (const ContractionTerm &t : c.product.terms) {
      Term term{t.out, t.degree, irreps_out[t.out].irrep.dim(), {}, {}, {}, {}, {}};
      std::vector<int> component, path;
      std::vector<std::vector<int>> factors(t.degree);
      std::vector<double> coefficient;
      for (const ContractionEntry &e : t.entries) {
        component.push_back(e.component);
        path.push_back(e.path);
        coefficient.push_back(e.coefficient);
        for (int n = 0; n < t.degree; ++n) factors[n].push_back(e.factor[n]);
      }
      term.component = to_tensor(component);
      term.path = to_tensor(path);
      term.coefficient = to_tensor(coefficient, type).unsqueeze(1);
      for (const std::vector<int> &f : factors) term.factors.push_back(to_tensor(f));
      std::vector<Tensor> weight;
      for (const Matrix &w : t.weight) weight.push_back(to_tensor(w, type));
      term.weight = at::stack(weight);
      kept += static_cast<double>(t.entries.size()) * irreps_in[0].mul * (2.0 * t.degree + 3.0);
      terms.push_back(std::move(term));
    }
    set_numbers_per_row(kept, type, chunk_bytes);
  }

  // x [rows, dim] and the species of its rows.
  Tensor operator()(const Tensor &x, const Tensor &species) const {
    const int64_t rows = x.size(0), mul = irreps_in[0].mul;
    std::vector<Tensor> components, out;
    for (int b = 0; b < irreps_in.size(); ++b) components.push_back(block_of(x, irreps_in, b).transpose(1, 2));
    const Tensor a = at::cat(components, 1);    // [rows, components of one channel, mul]
    for (const IrrepBlock &b : irreps_out) out.push_back(at::zeros({rows, b.irrep.dim(), mul}, x.options()));
    for (const Term &t : terms) {
      const Tensor weight = t.weight.index_select(0, per_species ? species : at::zeros_like(species));
      Tensor product = t.coefficient * weight.index_select(1, t.path);    // [rows, entries, mul]
      for (const Tensor &f : t.factors) product = product * a.index_select(1, f);
      out[t.out] = at::index_add(out[t.out], 1, t.component, product);
    }
    for (Tensor &t : out) t = t.transpose(1, 2).flatten(1);
    return at::cat(out, 1);
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

using TorchLayer = std::variant<TorchEmbedding, TorchLinear, TorchConvolution, TorchGate, TorchDensity,
                                TorchContraction, TorchReadout, TorchRepulsion, TorchScaleShift>;

// The part of a layer that is worked on in chunks, or null.
inline const Chunked *chunked_part(const TorchLayer &layer) {
  return std::visit(
      [](const auto &l) -> const Chunked * {
        if constexpr (std::is_base_of_v<Chunked, std::decay_t<decltype(l)>>)
          return &l;
        else
          return nullptr;
      },
      layer);
}

struct LayerBuilder {
  const Model &model;
  at::ScalarType type;
  double chunk_bytes;

  TorchLayer operator()(const SpeciesEmbedding &l) const { return TorchEmbedding{l.output, to_tensor(l.weight, type)}; }
  TorchLayer operator()(const Linear &l) const { return TorchLinear(l, model, type); }
  TorchLayer operator()(const Convolution &l) const { return TorchConvolution(l, type, chunk_bytes); }
  TorchLayer operator()(const Gate &l) const { return TorchGate(l, model); }
  TorchLayer operator()(const DensityNormalization &l) const { return TorchDensity(l, model, type, chunk_bytes); }
  TorchLayer operator()(const SymmetricContraction &l) const { return TorchContraction(l, model, type, chunk_bytes); }
  TorchLayer operator()(const PairRepulsion &l) const { return TorchRepulsion(l, chunk_bytes); }
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

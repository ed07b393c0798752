// SPDX-License-Identifier: MIT
// Layers that work on an atom's own features, as ATen operators. Part of torch_layers.h.
#ifndef EQUI_TORCH_ATOM_LAYERS_H
#define EQUI_TORCH_ATOM_LAYERS_H

#include "src/algebra/coupling.h"
#include "src/evaluation/evaluator.h"
#include "src/functions/wave_vectors.h"
#include "src/model/model.h"
#include "src/reference/torch_edge_layers.h"
#include "src/reference/torch_functions.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace equi {
namespace torch_layers {

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

  void evaluate(auto &run) const { run.contraction_forward(*this); }
};

inline TorchContraction make_layer(const SymmetricContraction &l, const LayerOptions &o) {
  return {l, o.model, o.type, o.chunk_bytes};
}

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

  void evaluate(auto &run) const {
    const Tensor x = run.read(input);
    Tensor y = (*this)(x, run.model.species.narrow(0, 0, x.size(0)));
    bool from_positions = run.geometric.at(input);
    if (accumulate) {
      Tensor before = run.read(output);
      from_positions = from_positions || run.geometric.at(output);
      if (from_positions) {
        y = run.owned(y);
        before = run.owned(before);
      }
      y = before + y;
    }
    run.write(output, y, from_positions);
  }
};

inline TorchLinear make_layer(const Linear &l, const LayerOptions &o) {
  return {l, o.model, o.type};
}

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

  void evaluate(auto &run) const { run.write(output, (*this)(run.read(input)), run.geometric.at(input)); }
};

inline TorchGate make_layer(const Gate &l, const LayerOptions &o) {
  return {l, o.model};
}

struct TorchEmbedding {
  int output;
  Tensor weight;

  void evaluate(auto &run) const { run.write(output, weight.index_select(0, run.model.species), false); }
};

inline TorchEmbedding make_layer(const SpeciesEmbedding &l, const LayerOptions &o) {
  return {l.output, to_tensor(l.weight, o.type)};
}

struct TorchReadout {
  int input, block;
  Irreps irreps;
  TorchNetwork network;

  void evaluate(auto &run) const {
    const Tensor x = run.owned(block_of(run.read(input), irreps, block).flatten(1));
    run.energy() = run.energy() + network(x).select(1, 0).to(at::kDouble);
  }
};

inline TorchReadout make_layer(const Readout &l, const LayerOptions &o) {
  return {l.input, l.block, o.model.features[l.input], TorchNetwork(l.network, o.type)};
}

struct TorchDirectForces {
  int input, block;
  Irreps irreps;
  double scale;

  void evaluate(auto &run) const {
    const Tensor x = run.owned(block_of(run.read(input), irreps, block).flatten(1));
    run.direct_forces = scale * x.detach().to(at::kDouble);
  }
};

inline TorchDirectForces make_layer(const DirectForces &l, const LayerOptions &o) {
  return {l.input, l.block, o.model.features[l.input], l.scale};
}

struct TorchObservable {
  int input;
  std::vector<int> blocks;
  Irreps irreps;
  int64_t offset;
  double scale;
  std::array<double, 3> field;
  bool has_field, is_weighted;

  void evaluate(auto &run) const {
    int64_t first = offset;
    for (const int block : blocks) {
      const Tensor x = scale * run.owned(block_of(run.read(input), irreps, block).flatten(1)).to(at::kDouble);
      run.observables.narrow(1, first, x.size(1)).add_(x.detach());
      if (is_weighted && run.observable_weights.defined())
        run.energy() = run.energy() + (x * run.observable_weights.narrow(1, first, x.size(1))).sum(1);
      first += x.size(1);
      if (has_field) run.energy() = run.energy() - at::mv(x, at::tensor(field, at::kDouble));
    }
  }
};

inline TorchObservable make_layer(const Observable &l, const LayerOptions &o) {
  return {l.input,       l.blocks,     o.model.features[l.input], o.model.observable_offset(l.name), l.scale, l.field,
          l.has_field(), l.is_weighted};
}

struct TorchScaleShift {
  Tensor scale, shift;

  void evaluate(auto &run) const {
    const Tensor s = run.owned(run.model.species);
    run.energy() = run.energy() * scale.index_select(0, s) + shift.index_select(0, s);
  }
};

inline TorchScaleShift make_layer(const ScaleShift &l, const LayerOptions &) {
  return {to_tensor(l.scale, at::kDouble), to_tensor(l.shift, at::kDouble)};
}

struct TorchLayerNorm {
  int input, output;
  Tensor weight, bias;
  double epsilon;

  void evaluate(auto &run) const {
    const Tensor x = run.read(input);
    run.write(output, at::layer_norm(x, {x.size(1)}, weight, bias, epsilon), run.geometric.at(input));
  }
};

inline TorchLayerNorm make_layer(const LayerNorm &l, const LayerOptions &o) {
  return {l.input, l.output, to_tensor(l.weight, o.type), to_tensor(l.bias, o.type), l.epsilon};
}

struct TorchChannelBalance {
  int input, output;
  int64_t first, share_first;    // columns; share_first -1: all atoms have the same share
  Tensor target;                 // [channels] float64
  double epsilon;
  int power;

  // The terms that a balance sums [N, terms]: the columns before the change, and the weights of shares.
  Tensor terms(const Tensor &x) const { return share_first < 0 ? before(x) : at::cat({before(x), weights(x)}, 1); }
  // The balanced x [N, dim]; sums: sums of the terms over all atoms, and the number of atoms.
  Tensor operator()(const Tensor &x, const Tensor &sums) const {
    const int64_t channels = target.size(0);
    const Tensor missing = target - sums.narrow(0, 0, channels);
    const Tensor change = share_first < 0 ? (missing / sums.narrow(0, channels, 1)).expand({x.size(0), channels})
                                          : weights(x) * (missing / (sums.narrow(0, channels, channels) + epsilon));
    const Tensor balanced = (before(x) + change).to(x.scalar_type());
    return at::cat({x.narrow(1, 0, first), balanced, x.narrow(1, first + channels, x.size(1) - first - channels)}, 1);
  }
  Tensor before(const Tensor &x) const {
    const Tensor columns = x.narrow(1, first, target.size(0)).to(at::kDouble);
    return power < 0 ? -columns * weights(x) : columns;
  }
  Tensor weights(const Tensor &x) const { return x.narrow(1, share_first, target.size(0)).to(at::kDouble).pow(power); }

  void evaluate(auto &run) const { run.balance_forward(*this); }
};

inline TorchChannelBalance make_layer(const ChannelBalance &l, const LayerOptions &o) {
  const Irreps &irreps = o.model.features[l.input];
  const int64_t share = l.has_shares() ? irreps.offset(l.share_block) + l.share_first : -1;
  return {l.input,   l.output, irreps.offset(l.block) + l.first, share, to_tensor(l.target, at::kDouble),
          l.epsilon, l.power};
}

// The wave vectors of sums over all atoms in a periodic cell. Phases are of integers and fractional coordinates, so
// wave vectors move with the cell.
struct TorchWaves {
  double cutoff, sigma;    // 1/Angstrom; the width in Angstrom that decides about converged sums
  std::string set;

  // There is no first cell, because this evaluation has no state.
  void use(WaveVectorSet wanted) {
    if (wanted == WaveVectorSet::converged) set = "converged";
    if (wanted == WaveVectorSet::sphere) set = "sphere";
    if (wanted == WaveVectorSet::frozen || (wanted == WaveVectorSet::of_file && set == "frozen"))
      throw std::invalid_argument("the reference evaluation keeps no wave vectors: use kspace sphere or converged");
  }
  // Integers [K, 3] of one of each pair of wave vectors within the cutoff. cell [3, 3]: rows are vectors.
  Tensor integers(const Tensor &cell) const {
    const double limit = set == "converged" ? std::max(cutoff, WaveVectors::converged_cutoff(sigma)) : cutoff;
    const Tensor most = at::floor(cell.norm(2, 1) * (limit / (2.0 * M_PI))).to(at::kLong);
    std::vector<Tensor> axes;
    for (int d = 0; d < 3; ++d) {
      const int64_t n = most[d].item<int64_t>();
      axes.push_back(at::arange(-n, n + 1, at::kLong));
    }
    const Tensor all = at::cartesian_prod(axes),
                 half = all.size(0) / 2 > 0 ? all.narrow(0, 0, all.size(0) / 2) : at::zeros({0, 3}, at::kLong);
    const Tensor square = vectors(half, cell).square().sum(1);
    return half.index({square < limit * limit * (1.0 - 1e-10)});
  }
  // Wave vectors [K, 3].
  static Tensor vectors(const Tensor &integers, const Tensor &cell) {
    return 2.0 * M_PI * at::matmul(integers.to(at::kDouble), at::linalg_inv(cell).t());
  }
  // Phases [K, N] at fractional coordinates [N, 3].
  static Tensor phases(const Tensor &fractions, const Tensor &integers) {
    return 2.0 * M_PI * at::matmul(integers.to(at::kDouble), fractions.t());
  }
};

// The energy of charges and their images in a periodic cell.
struct TorchEwald {
  int input;
  Tensor weights;    // [channels] float64
  EwaldFunction function;
  TorchWaves waves;

  // Charges of rows x [N, channels].
  Tensor charges(const Tensor &x) const { return at::matmul(x.to(at::kDouble), weights); }
  // The structure factors [2, K] of charges [N] at fractional coordinates [N, 3].
  static Tensor structure_factors(const Tensor &q, const Tensor &fractions, const Tensor &integers) {
    const Tensor phase = TorchWaves::phases(fractions, integers);
    return at::stack({at::matmul(at::cos(phase), q), at::matmul(at::sin(phase), q)});
  }
  // Energies of wave vectors [K].
  Tensor energies(const Tensor &factors, const Tensor &integers, const Tensor &cell) const {
    const Tensor square = TorchWaves::vectors(integers, cell).square().sum(1), volume = at::abs(at::linalg_det(cell));
    const Tensor h = function.prefactor / volume * at::exp(-0.5 * function.sigma * function.sigma * square) / square;
    return h * factors.square().sum(0);
  }

  void evaluate(auto &run) const { run.ewald_forward(*this); }
};

inline TorchEwald make_layer(const Ewald &l, const LayerOptions &) {
  return {l.input, to_tensor(l.weights, at::kDouble), l.function, {l.cutoff, l.function.sigma, l.wave_vectors}};
}

// Potentials of multipoles and their images in a periodic cell.
struct TorchPotential {
  int input, output;
  Potential layer;
  TorchWaves waves;
  OpenSum open_sum = OpenSum::framework;

  void use(const EvaluatorOptions &options) {
    waves.use(options.wave_vectors);
    open_sum = options.open;
  }
  // Charges [N, channels] and k . p [channels, K, N] of rows x, as float64. k: [K, 3].
  Tensor charges(const Tensor &x) const { return x.narrow(1, 0, layer.channels).to(at::kDouble); }
  Tensor along(const Tensor &x, const Tensor &k) const {
    const Tensor p = x.narrow(1, layer.channels, 3 * layer.channels).to(at::kDouble);
    return at::einsum("ncd,kd->ckn", {p.reshape({x.size(0), layer.channels, 3}), k});
  }
  // Structure factors [2, channels, K]: sum of (q + i k . p) exp(i k . r).
  Tensor structure_factors(const Tensor &x, const Tensor &phase, const Tensor &k) const {
    const Tensor q = charges(x).t().unsqueeze(1), c = at::cos(phase), s = at::sin(phase);
    Tensor re = (q * c).sum(2), im = (q * s).sum(2);
    if (layer.has_dipoles) {
      const Tensor kp = along(x, k);
      re = re - (kp * s).sum(2);
      im = im + (kp * c).sum(2);
    }
    return at::stack({re, im});
  }
  // The output [N, dim] of the structure factors of all ranks, in float64.
  Tensor felt(const Tensor &x, const Tensor &factors, const Tensor &phase, const Tensor &k,
              const Tensor &volume) const {
    const Tensor c = at::cos(phase).unsqueeze(0), s = at::sin(phase).unsqueeze(0), square = k.square().sum(1);
    const Tensor re = factors.select(0, 0).unsqueeze(2), im = factors.select(0, 1).unsqueeze(2);
    const Tensor real = c * re + s * im, imaginary = s * re - c * im;    // [channels, K, N]
    std::vector<Tensor> scalars, vectors;
    for (int channel = 0; channel < layer.channels; ++channel)
      for (size_t w = 0; w < layer.function.widths.size(); ++w) {
        const double own = layer.function.width, other = layer.function.widths[w];
        const Tensor h = 2.0 * layer.function.prefactor / volume *
                         at::exp(-0.5 * (own * own + other * other) * square) / square;    // [K]
        const Tensor potential = at::matmul(h, real.select(0, channel));
        scalars.push_back(layer.factors[0][w] * potential - layer.own[0][w] * charges(x).select(1, channel));
        if (!layer.has_gradients) continue;
        Tensor gradient = layer.factors[1][w] * -at::matmul((h.unsqueeze(1) * k).t(), imaginary.select(0, channel)).t();
        if (layer.has_dipoles)
          gradient = gradient - layer.own[1][w] * x.narrow(1, layer.channels + 3 * channel, 3).to(at::kDouble);
        vectors.push_back(gradient);
      }
    Tensor all = at::stack(scalars, 1);
    if (layer.has_gradients) all = at::cat({all, at::cat(vectors, 1)}, 1);
    return all;
  }

  void evaluate(auto &run) const { run.potential_forward(*this); }
};

inline TorchPotential make_layer(const Potential &l, const LayerOptions &) {
  return {l.input, l.output, l, {l.cutoff, l.function.least_width(), l.wave_vectors}};
}

struct TorchNodeProduct {
  int input, second_input, output;
  ChannelwiseProduct product;
  std::vector<Tensor> couplings;    // per path [2 l1+1, 2 l2+1, 2 l3+1], undefined for a path of a single block

  TorchNodeProduct(const NodeProduct &n, at::ScalarType type)
      : input(n.input), second_input(n.second_input), output(n.output), product(n.product) {
    product.validate();
    for (const ChannelwisePath &p : product.paths) {
      couplings.emplace_back();
      if (p.second < 0) continue;
      const int l1 = product.irreps_in[p.first].irrep.l, l2 = product.irreps_in[p.second].irrep.l,
                l3 = product.irreps_out[p.out].irrep.l;
      couplings.back() = to_tensor(coupling(l1, l2, l3).data(), {2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1}, type);
    }
  }

  Tensor operator()(const Tensor &x) const {
    std::vector<Tensor> out;
    for (const IrrepBlock &b : product.irreps_out)
      out.push_back(at::zeros({x.size(0), b.mul, b.irrep.dim()}, x.options()));
    for (size_t q = 0; q < product.paths.size(); ++q) {
      const ChannelwisePath &p = product.paths[q];
      Tensor term = block_of(x, product.irreps_in, p.first);
      if (p.second >= 0)
        term = at::einsum("nua,nub,abc->nuc", {term, block_of(x, product.irreps_in, p.second), couplings[q]});
      out[p.out] = out[p.out] + p.scale * term;
    }
    for (Tensor &t : out) t = t.flatten(1);
    return at::cat(out, 1);
  }

  void evaluate(auto &run) const {
    Tensor x = run.read(input);
    bool from_positions = run.geometric.at(input);
    if (second_input >= 0) {
      Tensor second = run.read(second_input);
      from_positions = from_positions || run.geometric.at(second_input);
      if (from_positions) {
        x = run.owned(x);
        second = run.owned(second);
      }
      x = at::cat({x, second}, 1);
    }
    run.write(output, (*this)(x), from_positions);
  }
};

inline TorchNodeProduct make_layer(const NodeProduct &l, const LayerOptions &o) {
  return {l, o.type};
}

struct TorchNormScale {
  int input, output;
  Irreps irreps;
  double offset, factor;

  void evaluate(auto &run) const {
    const Tensor x = run.read(input);
    std::vector<Tensor> blocks;
    for (int b = 0; b < irreps.size(); ++b) blocks.push_back(block_of(x, irreps, b));
    const Tensor divisor = offset + factor * at::cat(blocks, 2).square().sum(2, /*keepdim=*/true);
    for (Tensor &block : blocks) block = (block / divisor).flatten(1);
    run.write(output, at::cat(blocks, 1), run.geometric.at(input));
  }
};

inline TorchNormScale make_layer(const NormScale &l, const LayerOptions &o) {
  return {l.input, l.output, o.model.features[l.input], l.offset, l.factor};
}

struct TorchSphericalNorm {
  int input, output;
  Irreps irreps;
  std::vector<NormGroup> groups;
  std::vector<std::vector<Tensor>> weights;    // per group and block of it: [channels, 1]
  double epsilon;
  std::vector<Tensor> scale;    // per block: [channels, 1]
  Tensor bias;                  // [channels, 1] or undefined

  void evaluate(auto &run) const {
    const Tensor x = run.read(input);
    std::vector<Tensor> blocks(irreps.size());
    for (size_t g = 0; g < groups.size(); ++g) {
      const NormGroup &group = groups[g];
      Tensor squares = at::full({x.size(0), 1, 1}, epsilon, x.options());
      for (size_t k = 0; k < group.blocks.size(); ++k) {
        const int b = group.blocks[k];
        blocks[b] = block_of(x, irreps, b);
        if (group.center && is_scalar(b)) blocks[b] = blocks[b] - blocks[b].mean(1, /*keepdim=*/true);
        squares = squares + (weights[g][k] * blocks[b].square()).sum({1, 2}, /*keepdim=*/true);
      }
      for (const int b : group.blocks) {
        blocks[b] = scale[b] * blocks[b] * at::rsqrt(squares);
        if (bias.defined() && is_scalar(b)) blocks[b] = blocks[b] + bias;
      }
    }
    for (Tensor &block : blocks) block = block.flatten(1);
    run.write(output, at::cat(blocks, 1), run.geometric.at(input));
  }
  bool is_scalar(int block) const { return irreps[block].irrep == Irrep{0, 1}; }
};

inline TorchSphericalNorm make_layer(const SphericalNorm &l, const LayerOptions &o) {
  const auto columns = [&](const std::vector<std::vector<double>> &rows) {
    std::vector<Tensor> tensors;
    for (const std::vector<double> &row : rows) tensors.push_back(to_tensor(row, o.type).unsqueeze(1));
    return tensors;
  };
  std::vector<std::vector<Tensor>> weights;
  for (const NormGroup &group : l.groups) weights.push_back(columns(group.weights));
  const Tensor bias = l.bias.empty() ? Tensor() : to_tensor(l.bias, o.type).unsqueeze(1);
  return {l.input, l.output, o.model.features[l.input], l.groups, weights, l.epsilon, columns(l.scale), bias};
}

struct TorchGridNetwork {
  int input, output;
  Irreps in, out;
  Tensor to, from;    // [points, components]
  TorchNetwork network;

  void evaluate(auto &run) const {
    const Tensor x = run.read(input);
    std::vector<Tensor> components;    // [N, channels, components of a block]
    for (int b = 0; b < in.size(); ++b) components.push_back(block_of(x, in, b));
    const Tensor values = at::einsum("nuc,pc->npu", {at::cat(components, 2), to});
    const Tensor results = network(values.reshape({-1, in[0].mul})).reshape({x.size(0), to.size(0), out[0].mul});
    const Tensor y = at::einsum("npu,pc->nuc", {results, from});
    std::vector<Tensor> blocks;
    int64_t first = 0;
    for (const IrrepBlock &b : out) {
      blocks.push_back(y.narrow(2, first, b.irrep.dim()).flatten(1));
      first += b.irrep.dim();
    }
    run.write(output, at::cat(blocks, 1), run.geometric.at(input));
  }
};

inline TorchGridNetwork make_layer(const GridNetwork &l, const LayerOptions &o) {
  return {l.input,
          l.output,
          o.model.features[l.input],
          o.model.features[l.output],
          to_tensor(l.to_points, o.type),
          to_tensor(l.from_points, o.type),
          TorchNetwork(l.network, o.type)};
}

}    // namespace torch_layers
}    // namespace equi

#endif

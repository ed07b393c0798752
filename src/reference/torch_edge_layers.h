// SPDX-License-Identifier: MIT
// Layers that sum over edges as ATen operators, except the SO(2) convolution. Part of torch_layers.h.
#ifndef EQUI_TORCH_EDGE_LAYERS_H
#define EQUI_TORCH_EDGE_LAYERS_H

#include "src/algebra/coupling.h"
#include "src/model/model.h"
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

// The arguments from which layers are made. Each layer's struct has its maker next to it, make_layer(layer, options).
struct LayerOptions {
  const Model &model;
  at::ScalarType type;
  double chunk_bytes;    // bytes of work arrays
};

// Work on many rows, in chunks whose intermediates use about chunk_bytes.
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

// A quantity that each receiver sums over its edges.
struct SumOverEdges : Chunked {
  int columns;
  at::ScalarType type;
  bool reads_receiver = false;     // reads the feature of both atoms, not only of the sender
  bool is_far = false;             // over the far edges of a layer (LayerTraits)
  bool whole_receivers = false;    // a term depends on all edges of its receiver, which are then in one chunk

  SumOverEdges(int columns, at::ScalarType type) : Chunked(true), columns(columns), type(type) {}
  virtual ~SumOverEdges() = default;
  // Terms [E, columns] of edges.
  virtual Tensor terms(const EdgeFeatures &x, const EdgeRows &edges) const = 0;
  // If the terms contain exponentials: their exponents [E, n]. EdgeFeatures::largest is the largest over all edges of a
  // receiver. Undefined otherwise.
  virtual Tensor exponents(const EdgeFeatures &, const EdgeRows &) const { return {}; }
};

struct TorchConvolution : SumOverEdges {
  int input, output;
  TensorProduct product;
  TorchRadial radial;
  std::vector<Tensor> couplings;    // per path [2 l1+1, 2 l2+1, 2 l3+1]

  TorchConvolution(const Convolution &c, at::ScalarType type, double chunk_bytes)
      : SumOverEdges(c.product.irreps_out.dim(), type),
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

  void evaluate(auto &run) const { run.sum_forward(*this, input, output); }
};

inline TorchConvolution make_layer(const Convolution &l, const LayerOptions &o) {
  return {l, o.type, o.chunk_bytes};
}

// Messages of values and harmonics with weights that are products of queries and keys.
struct TorchPairAttention : SumOverEdges {
  int input, output;
  PairAttention layer;
  Irreps irreps_in;
  TorchRadial radial;
  std::vector<TorchNetwork> difference;    // of heads and of groups, or none
  int lmax = 0;

  TorchPairAttention(const PairAttention &a, const Model &model, at::ScalarType type, double chunk_bytes)
      : SumOverEdges(model.features[a.output].dim(), type),
        input(a.input),
        output(a.output),
        layer(a),
        irreps_in(model.features[a.input]),
        radial(a.radial, type) {
    reads_receiver = true;
    double kept = radial.network.kept() + 2.0 * irreps_in.dim() + 4.0 * columns + 8.0 * a.radial.num_outputs();
    for (const Network &network : a.difference) {
      difference.emplace_back(network, type);
      kept += difference.back().kept();
    }
    for (const AttentionGroup &g : a.groups) lmax = std::max(lmax, g.l);
    set_numbers_per_row(kept + 4.0 * (lmax + 1) * (lmax + 1), type, chunk_bytes);
  }

  // The squares of differences of tensors [E, groups].
  Tensor squares(const EdgeFeatures &x) const {
    std::vector<Tensor> columns;
    for (size_t g = 0; g < layer.groups.size(); ++g) {
      const int block = 5 + static_cast<int>(g);
      const Tensor d = (block_of(x.sender, irreps_in, block) - block_of(x.receiver, irreps_in, block)).flatten(1);
      columns.push_back(d.square().sum(1) / std::sqrt(2.0 * layer.groups[g].l + 1.0));
    }
    return at::stack(columns, 1);
  }

  Tensor terms(const EdgeFeatures &x, const EdgeRows &edges) const override {
    const Tensor r = edges.distance().unsqueeze(1);
    const Tensor y = harmonics(edges.vec / r, lmax).to(type);
    Tensor w = radial(r, edges);
    if (!difference.empty()) {
      const Tensor s = squares(x);
      w = w + radial.cutoff_function(r, edges).to(type) * at::cat({difference[0](s), difference[1](s)}, 1);
    }
    const auto scalars = [&](const Tensor &of, int block) { return block_of(of, irreps_in, block).flatten(1); };
    const int64_t num = edges.size(), channels = layer.channels, size = channels / layer.heads;
    const Tensor of_heads = scalars(x.receiver, 0) * scalars(x.sender, 1) * w.narrow(1, 0, channels);
    const Tensor a = layer.scale * of_heads.reshape({num, layer.heads, size}).sum(2, /*keepdim=*/true);
    std::vector<Tensor> parts = {(a * scalars(x.sender, 2).reshape({num, layer.heads, size})).flatten(1)};
    const Tensor of_groups =
        scalars(x.receiver, 3) * scalars(x.sender, 4) * w.narrow(1, channels, layer.group_channels());
    int64_t first = 0;
    for (const AttentionGroup &g : layer.groups) {
      const Tensor b = g.scale * of_groups.narrow(1, first, g.channels).sum(1, /*keepdim=*/true);
      parts.push_back(b * y.narrow(1, g.l * g.l, 2 * g.l + 1));
      first += g.channels;
    }
    return at::cat(parts, 1);
  }

  void evaluate(auto &run) const { run.sum_forward(*this, input, output); }
};

inline TorchPairAttention make_layer(const PairAttention &l, const LayerOptions &o) {
  return {l, o.model, o.type, o.chunk_bytes};
}

// The sum of a DensityNormalization.
struct TorchDensity : SumOverEdges {
  int input, output;
  TorchRadial radial;
  double offset, factor;

  TorchDensity(const DensityNormalization &d, const Model &model, at::ScalarType type, double chunk_bytes)
      : SumOverEdges(1, type),
        input(d.input),
        output(d.output),
        radial(d.density, type),
        offset(d.offset),
        factor(d.factor) {
    if (d.density.num_outputs() != 1 || model.features[input] != model.features[output])
      throw std::invalid_argument("TorchModel: a density normalization needs one density and equal irreps");
    set_numbers_per_row(radial.network.kept(), type, chunk_bytes);
  }

  Tensor terms(const EdgeFeatures &, const EdgeRows &edges) const override {
    return radial(edges.distance().unsqueeze(1), edges);
  }

  void evaluate(auto &run) const {
    const Tensor sum = run.sum_of(*this);
    run.write(output, run.owned(run.read(input)) / (offset + factor * sum), true);
  }
};

inline TorchDensity make_layer(const DensityNormalization &l, const LayerOptions &o) {
  return {l, o.model, o.type, o.chunk_bytes};
}

// Energies of edges, in float64.
struct TorchRepulsion : SumOverEdges {
  Tensor prefactor, length, cutoff;    // [species, species]
  Tensor coefficients, exponents;
  double p, on, off;

  TorchRepulsion(const PairRepulsion &r, double chunk_bytes)
      : SumOverEdges(1, at::kDouble),
        prefactor(to_tensor(r.prefactor, at::kDouble)),
        length(to_tensor(r.length, at::kDouble)),
        cutoff(to_tensor(r.cutoff, at::kDouble)),
        coefficients(to_tensor(r.coefficients, at::kDouble)),
        exponents(to_tensor(r.exponents, at::kDouble)),
        p(r.p),
        on(r.on),
        off(r.off) {
    set_numbers_per_row(20.0 + 4.0 * static_cast<double>(r.coefficients.size()), type, chunk_bytes);
  }

  Tensor terms(const EdgeFeatures &, const EdgeRows &edges) const override {
    const Tensor r = edges.distance().unsqueeze(1), u = at::clamp_max(r / edges.pair_values(cutoff), 1.0);
    const Tensor screening = at::matmul(at::exp(-r / edges.pair_values(length) * exponents), coefficients).unsqueeze(1);
    const Tensor cutoff_function = p > 0.0 ? polynomial_cutoff_of(u, p) : cosine_cutoff_of(u);
    const Tensor f = at::where(u < 1.0, cutoff_function, at::zeros_like(u));
    const Tensor energy = edges.pair_values(prefactor) / r * screening * f;
    return off > 0.0 ? energy * switch_of(r, on, off) : energy;
  }

  void evaluate(auto &run) const {
    const Tensor sum = run.sum_of(*this);
    run.energy() = run.energy() + sum.select(1, 0);
  }
};

inline TorchRepulsion make_layer(const PairRepulsion &l, const LayerOptions &o) {
  return {l, o.chunk_bytes};
}

// Energies of pairs of charges, in float64.
struct TorchCoulomb : SumOverEdges {
  int input;
  Tensor weights;    // [channels] float64
  CoulombFunction function;
  double cutoff;
  bool is_over_all_pairs;

  TorchCoulomb(const Coulomb &c, double chunk_bytes)
      : SumOverEdges(1, at::kDouble),
        input(c.input),
        weights(to_tensor(c.weights, at::kDouble)),
        function(c.function),
        cutoff(c.cutoff),
        is_over_all_pairs(c.is_over_all_pairs) {
    reads_receiver = is_far = true;
    set_numbers_per_row(20.0 + 6.0 * static_cast<double>(c.weights.size()), type, chunk_bytes);
  }

  Tensor terms(const EdgeFeatures &x, const EdgeRows &edges) const override {
    const Tensor r = edges.distance().unsqueeze(1);
    const Tensor k = at::where(r < cutoff, kernel(r), at::zeros_like(r));
    return 0.5 * k * at::matmul((x.receiver * x.sender).to(at::kDouble), weights.unsqueeze(1));
  }
  Tensor kernel(const Tensor &r) const {
    if (function.width > 0.0) {
      const Tensor v = at::erf(r / function.width) / r, w = switch_of(r, function.on, cutoff);
      return function.prefactor * (v - function.end - (1.0 - w) * function.end_slope * (r - cutoff));
    }
    const Tensor k = function.prefactor * (1.0 / r + function.square * r.square() - function.shift);
    if (function.damping == 0.0) return k;
    const Tensor u = at::clamp_max(r / function.damping, 1.0 - 1e-6);
    return k * (1.0 - at::exp(1.0 - 1.0 / (1.0 - u.square())));
  }

  void evaluate(auto &run) const {
    const Tensor sum = run.sum_of(*this, input);
    run.energy() = run.energy() + sum.select(1, 0);
  }
};

inline TorchCoulomb make_layer(const Coulomb &l, const LayerOptions &o) {
  return {l, o.chunk_bytes};
}

// Energies of pairs of effective volumes, in float64.
struct TorchDispersion : SumOverEdges {
  int input, column;
  Tensor polarizability, c6;    // [species]
  DispersionFunction function;

  TorchDispersion(const Dispersion &d, const Model &model, double chunk_bytes)
      : SumOverEdges(1, at::kDouble),
        input(d.input),
        column(model.features[d.input].offset(d.block)),
        polarizability(to_tensor(d.polarizability, at::kDouble)),
        c6(to_tensor(d.c6, at::kDouble)),
        function(d.function) {
    reads_receiver = is_far = true;
    set_numbers_per_row(80.0, type, chunk_bytes);
  }

  Tensor terms(const EdgeFeatures &x, const EdgeRows &edges) const override {
    constexpr double HARTREE = 27.211386245988, BOHR = 0.5291772105638411, FINE_STRUCTURE = 0.0072973525693;
    const Tensor r = edges.distance(), d = r / BOHR;
    const auto of_atoms = [&](const Tensor &rows, const Tensor &species) {
      const Tensor v = rows.select(1, column).to(at::kDouble);
      return std::make_pair(polarizability.index_select(0, species) * v, c6.index_select(0, species) * v.square());
    };
    const auto [a_i, c_i] = of_atoms(x.receiver, edges.receiver_species);
    const auto [a_j, c_j] = of_atoms(x.sender, edges.sender_species);
    const Tensor c = 2.0 * c_i * c_j * a_i * a_j / (a_i.square() * c_j + a_j.square() * c_i);
    const Tensor root = at::pow(0.5 * (a_i + a_j), 1.0 / 7.0), h = std::pow(FINE_STRUCTURE, -4.0 / 21.0) * root;
    const Tensor s = -0.00433008 + 0.24428889 * h + 0.04125273 * h.square() - 0.00078893 * at::pow(h, 3);
    const Tensor gamma = 0.5 / s.square(), p = function.damping * root;
    const auto damped = [&](double n) { return at::pow(d, n) + at::pow(p, n); };
    const Tensor sum = 1.0 / damped(6) + 5.0 / gamma / damped(8) + 245.0 / 8.0 / gamma.square() / damped(10);
    const Tensor w = at::where(r < function.cutoff, switch_of(r, function.on, function.cutoff), at::zeros_like(r));
    return (-0.5 * HARTREE * w * c * sum).unsqueeze(1);
  }

  void evaluate(auto &run) const {
    const Tensor sum = run.sum_of(*this, input);
    run.energy() = run.energy() + sum.select(1, 0);
  }
};

inline TorchDispersion make_layer(const Dispersion &l, const LayerOptions &o) {
  return {l, o.model, o.chunk_bytes};
}

}    // namespace torch_layers
}    // namespace equi

#endif

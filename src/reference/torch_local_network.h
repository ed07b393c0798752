// SPDX-License-Identifier: MIT
// Networks on the edges of receivers as ATen operators, all edges of some receivers at once. Part of torch_layers.h.
#ifndef EQUI_TORCH_LOCAL_NETWORK_H
#define EQUI_TORCH_LOCAL_NETWORK_H

#include "src/algebra/coupling.h"
#include "src/model/model.h"
#include "src/reference/torch_edge_layers.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

namespace equi {
namespace torch_layers {

// A chunk of edges of whole receivers, and the features that the steps have made of it.
struct LocalEdges {
  const EdgeRows &rows;
  const std::vector<Irreps> &irreps;    // of the features
  Tensor distance;                      // [E, 1] float64
  Tensor harmonics;                     // [E, (lmax+1)^2] in the type of the network
  Tensor receiver;                      // number of the receiver within the chunk [E] int64
  int64_t num_receivers = 0;
  std::vector<Tensor> features;    // of edges or of receivers [rows, dim]
  Tensor energies;                 // of edges [E] float64, undefined before the first readout

  at::ScalarType type() const { return harmonics.scalar_type(); }
  // Scalars of edges [E, channels], side by side.
  Tensor scalars(const std::vector<EdgeBlock> &blocks) const {
    std::vector<Tensor> parts;
    for (const EdgeBlock &b : blocks) parts.push_back(block(b.feature, b.block).flatten(1));
    return at::cat(parts, 1);
  }
  // [rows, mul, 2l+1]
  Tensor block(int feature, int b) const { return block_of(features[feature], irreps[feature], b); }
};

struct TorchEdgeScalars {
  int output;
  TorchBasis basis;
  Tensor weights;             // [n, C], or of pairs [species * species, n, C]
  Tensor receiver, sender;    // [species, h], or both undefined
  int64_t num_species;

  TorchEdgeScalars(const EdgeScalars &s, at::ScalarType type)
      : output(s.output), basis(s.basis), num_species(static_cast<int64_t>(s.pair_weights.size())) {
    std::vector<Tensor> of_pairs;
    for (const std::vector<Matrix> &of_receiver : s.pair_weights)
      for (const Matrix &m : of_receiver) of_pairs.push_back(to_tensor(m, type));
    weights = of_pairs.empty() ? to_tensor(s.weights, type) : at::stack(of_pairs);
    if (!s.has_rows()) return;
    receiver = to_tensor(s.receiver, type);
    sender = to_tensor(s.sender, type);
  }

  void operator()(LocalEdges &edges) const {
    const EdgeRows &rows = edges.rows;
    const Tensor b = basis.values(edges.distance, rows).to(edges.type());
    if (num_species > 0) {
      const Tensor pair = rows.receiver_species * num_species + rows.sender_species;
      edges.features[output] = at::einsum("en,enc->ec", {b, weights.index_select(0, pair)});
      return;
    }
    Tensor y = at::matmul(b, weights);
    if (receiver.defined())
      y = y *
          at::cat({receiver.index_select(0, rows.receiver_species), sender.index_select(0, rows.sender_species)}, 1);
    edges.features[output] = y;
  }
  double kept() const { return (num_species > 0 ? 2.0 * weights.size(1) : 4.0) * weights.size(-1); }
};

struct TorchEdgeDense {
  EdgeDense step;
  TorchNetwork network;

  TorchEdgeDense(const EdgeDense &d, at::ScalarType type) : step(d), network(d.network, type) {}
  void operator()(LocalEdges &edges) const { edges.features[step.output] = network(edges.scalars(step.inputs)); }
  double kept() const { return network.kept(); }
};

struct TorchEdgeTensor {
  EdgeTensor step;

  TorchEdgeTensor(const EdgeTensor &t, at::ScalarType) : step(t) {}
  void operator()(LocalEdges &edges) const {
    const Tensor w = edges.scalars({step.input});
    std::vector<Tensor> blocks;
    int64_t column = 0;
    for (const IrrepBlock &b : edges.irreps[step.output]) {
      const int l = b.irrep.l;
      const Tensor y = edges.harmonics.narrow(1, l * l, 2 * l + 1).unsqueeze(1);
      blocks.push_back((w.narrow(1, column, b.mul).unsqueeze(2) * y).flatten(1));
      if (!step.is_shared) column += b.mul;
    }
    edges.features[step.output] = at::cat(blocks, 1);
  }
  double kept() const { return 0.0; }
};

struct TorchEdgeSum {
  EdgeSum step;
  Tensor scale;    // [species]

  TorchEdgeSum(const EdgeSum &s, at::ScalarType type) : step(s), scale(to_tensor(s.scale, type)) {}
  void operator()(LocalEdges &edges) const {
    const Tensor &x = edges.features[step.input];
    // All edges of a receiver have the same factor.
    const Tensor terms = scale.index_select(0, edges.rows.receiver_species).unsqueeze(1) * x;
    const Tensor zeros = at::zeros({edges.num_receivers, x.size(1)}, x.options());
    edges.features[step.output] = at::index_add(zeros, 0, edges.receiver, terms);
  }
  double kept() const { return 0.0; }
};

struct TorchEdgeProduct {
  EdgeProduct step;
  std::vector<Tensor> weights;    // per path [channels]
  at::ScalarType type;

  TorchEdgeProduct(const EdgeProduct &p, at::ScalarType type) : step(p), type(type) {
    for (const EdgeProductPath &path : p.paths) weights.push_back(to_tensor(path.weights, type));
  }
  void operator()(LocalEdges &edges) const {
    std::vector<Tensor> out(edges.irreps[step.output].size());
    for (size_t q = 0; q < step.paths.size(); ++q) {
      const EdgeProductPath &p = step.paths[q];
      const Tensor x = edges.block(step.input, p.input);
      const Tensor g = edges.block(step.environment, p.environment).index_select(0, edges.receiver);
      const int l1 = edges.irreps[step.input][p.input].irrep.l,
                l2 = edges.irreps[step.environment][p.environment].irrep.l,
                l3 = edges.irreps[step.output][p.output].irrep.l;
      const Tensor w = to_tensor(coupling(l1, l2, l3).data(), {2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1}, type);
      const Tensor term = weights[q].unsqueeze(1) * at::einsum("eua,eub,abc->euc", {x, g, w});
      out[p.output] = out[p.output].defined() ? out[p.output] + term : term;
    }
    for (Tensor &t : out) t = t.flatten(1);
    edges.features[step.output] = at::cat(out, 1);
  }
  // Outer products of both factors.
  double kept() const {
    double sum = 0.0;
    for (const Tensor &w : weights) sum += 32.0 * w.size(0);
    return sum;
  }
};

struct TorchEdgeReadout {
  EdgeReadout step;
  TorchNetwork network;
  Tensor scale;    // [species] float64

  TorchEdgeReadout(const EdgeReadout &r, at::ScalarType type)
      : step(r), network(r.network, type), scale(to_tensor(r.scale, at::kDouble)) {}
  void operator()(LocalEdges &edges) const {
    const Tensor energies = network(edges.scalars(step.inputs)).select(1, 0).to(at::kDouble);
    const Tensor scaled = scale.index_select(0, edges.rows.receiver_species) * energies;
    edges.energies = edges.energies.defined() ? edges.energies + scaled : scaled;
  }
  double kept() const { return network.kept(); }
};

inline TorchEdgeScalars make_step(const EdgeScalars &s, at::ScalarType type) {
  return {s, type};
}
inline TorchEdgeDense make_step(const EdgeDense &s, at::ScalarType type) {
  return {s, type};
}
inline TorchEdgeTensor make_step(const EdgeTensor &s, at::ScalarType type) {
  return {s, type};
}
inline TorchEdgeSum make_step(const EdgeSum &s, at::ScalarType type) {
  return {s, type};
}
inline TorchEdgeProduct make_step(const EdgeProduct &s, at::ScalarType type) {
  return {s, type};
}
inline TorchEdgeReadout make_step(const EdgeReadout &s, at::ScalarType type) {
  return {s, type};
}

// The energies of receivers, summed over their edges in float64.
struct TorchLocalNetwork : SumOverEdges {
  using Step =
      std::variant<TorchEdgeScalars, TorchEdgeDense, TorchEdgeTensor, TorchEdgeSum, TorchEdgeProduct, TorchEdgeReadout>;
  std::vector<Irreps> irreps;
  std::vector<Step> steps;
  int lmax;
  at::ScalarType network_type;

  TorchLocalNetwork(const LocalNetwork &network, const LayerOptions &o)
      : SumOverEdges(1, at::kDouble), irreps(network.features), lmax(o.model.lmax_edge), network_type(o.type) {
    whole_receivers = true;
    double kept = 4.0 * (lmax + 1) * (lmax + 1);
    for (const Irreps &i : irreps) kept += 3.0 * i.dim();
    for (const LocalNetwork::Step &step : network.steps) {
      steps.push_back(std::visit([&](const auto &s) -> Step { return make_step(s, o.type); }, step));
      kept += std::visit([](const auto &s) { return s.kept(); }, steps.back());
    }
    set_numbers_per_row(kept, o.type, o.chunk_bytes);
  }

  Tensor terms(const EdgeFeatures &, const EdgeRows &rows) const override {
    const Tensor r = rows.distance().unsqueeze(1);
    const Tensor receiver = rows.receiver - rows.receiver.min();
    LocalEdges edges{rows,
                     irreps,
                     r,
                     harmonics(rows.vec / r, lmax).to(network_type),
                     receiver,
                     receiver.max().item<int64_t>() + 1,
                     std::vector<Tensor>(irreps.size()),
                     {}};
    for (const Step &step : steps) std::visit([&](const auto &s) { s(edges); }, step);
    return edges.energies.unsqueeze(1);
  }

  void evaluate(auto &run) const {
    const Tensor sum = run.sum_of(*this);
    run.energy() = run.energy() + sum.select(1, 0);
  }
};

inline TorchLocalNetwork make_layer(const LocalNetwork &l, const LayerOptions &o) {
  return {l, o};
}

}    // namespace torch_layers
}    // namespace equi

#endif

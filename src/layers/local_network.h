// SPDX-License-Identifier: MIT
// A network on the edges of each receiver, which adds to the receiver's energy: a strictly local model. Its features
// belong to edges, or to a receiver as the sum over its edges. They exist only within this layer, so that no atom needs
// features of another one.
#ifndef EQUI_LOCAL_NETWORK_H
#define EQUI_LOCAL_NETWORK_H

#include "src/functions/radial_function.h"
#include "src/layers/layer.h"

#include <variant>
#include <vector>

namespace equi {

// A 0e block of a feature of edges. Steps read several side by side.
struct EdgeBlock {
  int feature, block;
};

// Sets scalars of edges, one block C x 0e, with functions b_n of the distance:
//   out[c] = sum_n b_n(r) weights[n, c] (receiver[t_i] ; sender[t_j])[c]
// where the two rows stand side by side. Or each pair of species has a matrix of its own, and there are no rows.
struct EdgeScalars {
  int output;
  RadialBasis basis;
  Matrix weights;             // [n, C]
  Matrix receiver, sender;    // [species, h] with C columns together; or both empty
  // [receiver species][sender species], each [n, C]; or empty. If not, the three above are empty.
  std::vector<std::vector<Matrix>> pair_weights;

  bool has_rows() const { return receiver.cols + sender.cols > 0; }
  // The matrix [n, C] of a pair, with the factors of its rows.
  Matrix weights_of(int receiver_species, int sender_species) const;
};

// The blocks of the output, side by side, are the outputs of a network without biases.
struct EdgeDense {
  std::vector<EdgeBlock> inputs;
  int output;
  Network network;
};

// out[u, lm] = w[u, l] Y_lm. Columns of the input are those of the first block of the output, then of the next one; or
// the same columns serve all blocks, if they are shared.
struct EdgeTensor {
  EdgeBlock input;
  int output;
  bool is_shared;
};

// The environment of a receiver: the sum over all of its edges, times a factor.
struct EdgeSum {
  int input, output;            // of edges; of receivers
  std::vector<double> scale;    // [species of the receiver]
};

// out[u, c] = sum over paths of weights[u] sum_ab w(l1,l2,l3)[a,b,c] x[u,a] G[u,b], with couplings w of norm 1
// (irreps.h).
struct EdgeProductPath {
  int input, environment, output;    // blocks
  std::vector<double> weights;       // [channels], with the scale of the path
};
struct EdgeProduct {
  int input, environment, output;    // features: x of edges, G of their receiver, and the result of edges
  std::vector<EdgeProductPath> paths;
};

// Adds to the energy of the receiver: scale times the sum over its edges of a network with one output.
struct EdgeReadout {
  std::vector<EdgeBlock> inputs;
  Network network;
  std::vector<double> scale;    // [species of the receiver]
};

struct LocalNetwork {
  static constexpr const char *TYPE = "local_network";
  using Step = std::variant<EdgeScalars, EdgeDense, EdgeTensor, EdgeSum, EdgeProduct, EdgeReadout>;

  // Each feature is written by one step and read by later ones. All blocks of a feature with tensors have the same
  // number of channels.
  std::vector<Irreps> features;
  std::vector<Step> steps;

  // For each feature, whether it depends only on the distance and the species of an edge.
  std::vector<bool> radial_features() const;

  static const FieldSpecs &fields();
  static LocalNetwork read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.is_readout = t.adds_pair_energy = t.depends_on_edges = true;
    t.has_edge_networks = t.tangents_need_values = true;
    return t;
  }
  void restrict_to(const KeptSpecies &kept);
};

}    // namespace equi

#endif

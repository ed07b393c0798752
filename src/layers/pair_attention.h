// SPDX-License-Identifier: MIT
// This layer sums over an atom's neighbors with weights that are products of a query of the receiver, a key of the
// sender and a function of the edge: linear attention, without a softmax.
#ifndef EQUI_PAIR_ATTENTION_H
#define EQUI_PAIR_ATTENTION_H

#include "src/functions/radial_function.h"
#include "src/layers/layer.h"

#include <vector>

namespace equi {

// Channels of the second queries and keys whose products weight the harmonics of one degree.
struct AttentionGroup {
  int channels, l;
  double scale;
};

// The input has five 0e blocks: queries q, keys k and values v of `channels` channels each, and second queries q' and
// keys k' of group_channels() channels each. A block of one channel for each group may follow: tensors t_g of degree
// l_g. The output has a block of 0e values, and a block of one channel for each group. With receiver i and sender j:
//   value[c] += a_h v_j[c],  a_h = scale sum_{c in head h} q_i[c] k_j[c] w[c]
//   tensor_g += b_g Y_l,     b_g = scale_g sum_{c in group g} q'_i[c] k'_j[c] w[c]
//   w = radial(r) + f(r) difference(s),  s_g = |t_g(j) - t_g(i)|^2 / sqrt(2 l_g + 1)
// where f is the cutoff function of the radial basis, which multiplies `radial`, too. Columns of w are those of the
// heads, then those of the groups. Each has a difference network of its own.
struct PairAttention {
  static constexpr const char *TYPE = "pair_attention";

  int input, output;
  int channels, heads;    // channels of all heads together
  double scale;
  std::vector<AttentionGroup> groups;
  bool has_tensors;                   // in the input
  RadialFunction radial;              // channels + group_channels() outputs, with times_cutoff
  std::vector<Network> difference;    // with tensors: the networks of heads and of groups; else none

  int group_channels() const {
    int sum = 0;
    for (const AttentionGroup &g : groups) sum += g.channels;
    return sum;
  }

  static const FieldSpecs &fields();
  static PairAttention read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, output}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.reads_senders = t.reads_receivers = t.depends_on_edges = true;
    t.has_edge_networks = t.tangents_need_values = true;
    return t;
  }
  void restrict_to(const KeptSpecies &kept) { kept.radial(radial); }
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Products of the blocks of one or two features of an atom, channel by channel.
#ifndef EQUI_NODE_PRODUCT_H
#define EQUI_NODE_PRODUCT_H

#include "src/algebra/channelwise_product.h"
#include "src/layers/layer.h"

namespace equi {

struct NodeProduct {
  static constexpr const char *TYPE = "node_product";

  int input, second_input, output;    // second_input -1: none
  ChannelwiseProduct product;         // its input blocks are those of the first feature, then those of the second

  static const FieldSpecs &fields();
  static NodeProduct read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, output, true, second_input}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.needs_geometric_input = true;
    return t;
  }
  // The polynomials that the kernels of contractions evaluate.
  ContractionProduct polynomials() const { return product.polynomials(); }
  void restrict_to(const KeptSpecies &) {}
};

}    // namespace equi

#endif

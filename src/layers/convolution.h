// SPDX-License-Identifier: MIT
// This layer sums over an atom's neighbors: it adds the tensor products of the neighbors' feature with the harmonics of
// the edges, weighted by radial functions.
#ifndef EQUI_CONVOLUTION_H
#define EQUI_CONVOLUTION_H

#include "src/algebra/tensor_product.h"
#include "src/functions/radial_function.h"
#include "src/layers/layer.h"

namespace equi {

struct Convolution {
  static constexpr const char *TYPE = "convolution";

  int input, output;
  TensorProduct product;
  RadialFunction radial;    // columns in path order

  static const FieldSpecs &fields();
  static Convolution read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, output}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.reads_senders = t.depends_on_edges = true;
    t.reads_receivers = radial.reads_receiver();
    t.has_edge_networks = t.tangents_need_values = radial.reads_features();
    return t;
  }
  void restrict_to(const KeptSpecies &kept) { kept.radial(radial); }
};

}    // namespace equi

#endif

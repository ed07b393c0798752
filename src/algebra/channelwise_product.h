// SPDX-License-Identifier: MIT
// Products of the blocks of an atom's features, channel by channel, as one value: channel u of two blocks makes channel
// u of a third. The reference implementation is here. The polynomials that kernels evaluate compute the same values,
// and tests compare the two.
#ifndef EQUI_CHANNELWISE_PRODUCT_H
#define EQUI_CHANNELWISE_PRODUCT_H

#include "src/algebra/irreps.h"
#include "src/algebra/symmetric_contraction.h"

#include <optional>
#include <vector>

namespace equi {

// Adds scale sum_ab w(l1,l2,l3)[a,b,c] x1[u,a] x2[u,b] to component c of channel u of block `out`. Without a second
// block it adds scale x1[u,c].
struct ChannelwisePath {
  int first = 0, second = -1;    // input blocks, -1: none
  int out = 0;
  double scale = 1.0;
};

struct ChannelwiseProduct {
  Irreps irreps_in, irreps_out;    // all blocks have the same multiplicity
  std::vector<ChannelwisePath> paths;
  std::optional<SphereFunctions> functions;    // set for a Gaunt product, by gaunt_product()

  int mul() const { return irreps_in[0].mul; }

  // Throws std::invalid_argument naming the path if blocks, multiplicities, parities or the triangle rule do not fit.
  void validate() const;

  // One atom, features in the order of irreps.h: adds to out [irreps_out.dim()]. x [irreps_in.dim()].
  void forward(const double *x, double *out) const;
  // Adjoint: adds dL/dx for a cotangent out_adj.
  void backward(const double *x, const double *out_adj, double *x_adj) const;

  // The same product as polynomials of the components of a channel.
  ContractionProduct polynomials() const;
};

}    // namespace equi

#endif

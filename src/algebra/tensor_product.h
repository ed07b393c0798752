// SPDX-License-Identifier: MIT
// The tensor product of node features with edge harmonics, as one value. The reference here, the generic kernels and
// generated kernels are routes to it and are tested against each other.
#ifndef EQUI_TENSOR_PRODUCT_H
#define EQUI_TENSOR_PRODUCT_H

#include "src/algebra/irreps.h"

#include <cstdint>
#include <vector>

namespace equi {

// How the channels of a path are connected, in e3nn's words. uvu: channel u of the input makes channel u of the output,
// with a weight each. uvw: every channel u makes every channel w of the output, weights [u, w].
enum class Connection { uvu, uvw };

// Path q couples input block `in` with the harmonic l2 to output block `out`; scale multiplies the result.
struct TensorProductPath {
  int in = 0;
  int l2 = 0;
  int out = 0;
  double scale = 1.0;
  Connection connection = Connection::uvu;
};

struct TensorProduct {
  Irreps irreps_in;
  // A uvu path has an output block of its own, of the multiplicity of its input block. The uvw paths with one output
  // block are summed in it.
  Irreps irreps_out;
  int lmax_edge = 0;
  std::vector<TensorProductPath> paths;

  int64_t num_weights() const;    // of all paths, the columns of the radial function
  int64_t num_weights(int path) const;
  int64_t weight_offset(int path) const;

  // The scale that e3nn gives to a path ("component" and "element" normalization): sqrt(2 l3 + 1), divided for uvw by
  // the square root of the number of products that are summed in a channel of the output block.
  double component_scale(int path) const;

  // Throws std::invalid_argument naming the path if blocks, multiplicities or the triangle rule do not fit, or if there
  // are more paths or weights than model_limits.h allows; below, the weights of a valid product fit into an int.
  void validate() const;

  // One edge, features in the order of irreps.h: adds to out [irreps_out.dim()].
  // x [irreps_in.dim()], y [(lmax_edge+1)^2], w [num_weights()].
  void forward(const double *x, const double *y, const double *w, double *out) const;

  // Adjoint: adds dL/dx, dL/dy, dL/dw for a cotangent out_adj; any of the three may be null.
  void backward(const double *x, const double *y, const double *w, const double *out_adj, double *x_adj, double *y_adj,
                double *w_adj) const;
};

}    // namespace equi

#endif

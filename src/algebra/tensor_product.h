// SPDX-License-Identifier: MIT
// The tensor product of node features with edge harmonics, as one value. The reference implementation is here. The
// generic and the generated kernels compute the same values, and tests compare all of them.
#ifndef EQUI_TENSOR_PRODUCT_H
#define EQUI_TENSOR_PRODUCT_H

#include "src/algebra/irreps.h"

#include <cstdint>
#include <vector>

namespace equi {

// How the channels of a path are connected, in e3nn's words. uvu: channel u of the input makes channel u of the output,
// with one weight per channel. uvw: every channel u makes every channel w of the output, with weights [u, w].
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
  // Each uvu path has its own output block, with the multiplicity of its input block. The uvw paths with the same
  // output block are summed in it.
  Irreps irreps_out;
  int lmax_edge = 0;
  std::vector<TensorProductPath> paths;

  int64_t num_weights() const;    // weights of all paths, the columns of the radial function
  int64_t num_weights(int path) const;
  int64_t weight_offset(int path) const;

  // The scale that e3nn uses for a path ("component" and "element" normalization): sqrt(2 l3 + 1). For uvw it is
  // divided by the square root of the number of products summed in a channel of the output block.
  double component_scale(int path) const;

  // Throws std::invalid_argument naming the path if blocks, multiplicities or the triangle rule do not fit. It also
  // throws if there are more paths or weights than model_limits.h allows; within these limits the weights fit into an
  // int.
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

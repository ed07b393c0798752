// SPDX-License-Identifier: MIT
// The linears of an SO(2) convolution in the memory layout of edges (So2Shape), for hosts and devices.
#ifndef EQUI_SO2_LINEARS_H
#define EQUI_SO2_LINEARS_H

#include "kokkos/host_kernels/so2_kernels.h"
#include "kokkos/kernel_interface/feature_layout.h"
#include "kokkos/kernel_libraries/convolution_tables.h"
#include "src/layers/so2_convolution.h"

#include <array>
#include <string>
#include <vector>

namespace equi {

// Rows and columns of matrices are those of one sign of m, with padding. With a product, `out` has both factors.
struct So2PaddedLinear {
  So2Shape in, out;                              // out: including the gates
  int mul;                                       // channels of the output without padding
  std::vector<std::array<Matrix, 2>> weights;    // for m = 0 .. mmax: W and W'; m = 0 has no W'
  std::vector<double> bias;                      // [gates and orders of m = 0][channels], or empty
  bool has_gate;
  Activation scalars, gates;
  std::vector<So2ProductTerm<double>> product;    // or empty
  So2PointActivation at_points;                   // or empty

  So2Shape gated() const { return {out.lmax, out.mmax, product.empty() ? out.channels : out.channels / 2, 0}; }
};

struct So2Linears {
  // in: layout of the convolution's input.
  So2Linears(const So2Convolution &layer, const FeatureLayout &in);

  int channels_in;    // channels of one atom, padded
  So2Shape first;     // shape of the first linear's input, which has the channels of two atoms
  // Radial factors of an edge are sorted in a row by |m|, then l, then the channels that the linear reads. They
  // multiply the inputs of this linear. columns[k]: the place of factor k of the layer.
  int factors_row = 0;
  std::vector<int> columns;
  std::vector<So2PaddedLinear> linears;
  std::vector<int> score_places;    // for attention (So2AttentionCall), or empty
  int head_size = 0;

 private:
  So2PaddedLinear padded_linear(const So2Linear &linear, int mmax) const;
};

// The shape with one more m, if possible: the generators of rotations lead to it (So2TorqueCall).
inline So2Shape widened(So2Shape shape) {
  if (shape.mmax < shape.lmax) shape.mmax++;
  return shape;
}

// The columns in which the radial network stores the factors.
std::vector<EdgeColumn> network_columns(const std::vector<int> &columns);

// For the log; factors: where the radial factors come from.
std::string describe_so2_convolution(const So2Convolution &layer, const std::string &factors);

}    // namespace equi

#endif

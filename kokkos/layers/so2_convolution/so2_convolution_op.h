// SPDX-License-Identifier: MIT
// The messages of an SO(2) convolution for some edges at a time, in host memory: forward, and backward by the forward
// pass once more. The rotation into the frame of an edge is differentiated by the torque on that frame: a turn of the
// edge by a small angle vector t in its frame changes the energy by torque * t.
#ifndef EQUI_SO2_CONVOLUTION_OP_H
#define EQUI_SO2_CONVOLUTION_OP_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/layers/feature_rows.h"
#include "kokkos/runtime/buffer.h"
#include "src/layers/so2_convolution.h"

#include <vector>

namespace equi {

// Edges [0, count). R: float or double.
template <class R>
struct So2Edges {
  int64_t count;
  const int *sender, *receiver;    // rows of x
  const R *rotations;              // [count][rotations_size(lmax)] (rotations.h)
  const R *cutoff;                 // [count] cutoff function
  const R *factors;                // [count][factors_row()] radial factors
  FeatureRows<const R> x;          // its first row is not read
};

// What a backward pass writes.
template <class R>
struct So2Adjoints {
  R *factors;    // [count][factors_row()], may be those of the edges
  R *cutoff;     // [count]
  R *torque;     // [count][3]
  // Added to, at these rows. Null: not wanted.
  FeatureRows<R> sender_adj, receiver_adj;
  const int *sender, *receiver;
};

template <class R>
class So2ConvolutionOp {
 public:
  So2ConvolutionOp(const So2Convolution &layer, const FeatureLayout &in, const FeatureLayout &out);

  // Radial factors of an edge lie in a row by |m|, then l, then padded channels of the sender and of the receiver.
  // columns()[k]: the place of factor k of the layer.
  int factors_row() const { return factors_row_; }
  const std::vector<int> &columns() const { return columns_; }
  // Numbers of scratch for this number of edges.
  int64_t scratch_size(int64_t count, bool backward) const {
    return count * (backward ? backward_places_ : forward_places_).size;
  }

  // Adds the messages to rows out_row[e] of y.
  void forward(const HostKernels<R> &kernels, const So2Edges<R> &edges, FeatureRows<R> y, const int *out_row,
               R *scratch) const;
  // From the adjoint of y in these rows.
  void backward(const HostKernels<R> &kernels, const So2Edges<R> &edges, FeatureRows<const R> y_adj, const int *out_row,
                R *scratch, const So2Adjoints<R> &adjoints) const;

  std::size_t bytes() const;

 private:
  // Of each m a matrix from +m and -m to +m and -m, padded with zeros, and its transpose.
  struct Linear {
    So2Shape in, out;    // out with the gates
    int mul;             // channels of the output without padding
    std::vector<AlignedVector<R>> weight, transposed;
    AlignedVector<R> bias;    // [gates and orders of m = 0][channels], or empty
    bool has_gate;
    Activation scalars, gates;
    So2Shape gated() const { return {out.lmax, out.mmax, out.channels, 0}; }
  };
  // Numbers per edge before these arrays in the scratch.
  struct Places {
    So2Shape rotated_shape;
    int64_t rotated;                       // features of sender and receiver
    std::vector<int64_t> before, after;    // of each linear: its input, and its output before the gate
    int64_t messages;
    int64_t of_sum, of_messages;    // backward: adjoints of the sum in the frame, and of the messages
    int64_t size;
  };

  Linear make_linear(const So2Linear &linear, int mmax) const;
  So2Shape widened(So2Shape shape) const;    // with one more m where there is one
  Places make_places(bool backward) const;
  void make_messages(const HostKernels<R> &kernels, const So2Edges<R> &edges, const Places &places, R *scratch) const;
  // The call for one side of the features in `layout`; rows: of an atom's features.
  So2RotationCall<R> rotation(const So2Edges<R> &edges, So2Shape shape, R *u, int first, const FeatureLayout &layout,
                              FeatureRows<R> rows, const int *row, const R *factor) const;

  FeatureLayout in_, out_;
  int channels_in_;    // of one atom, padded
  int factors_row_ = 0;
  std::vector<int> columns_;
  So2Shape first_;    // of the first linear's input
  std::vector<Linear> linears_;
  Places forward_places_, backward_places_;
  std::vector<typename So2TorqueCall<R>::Entry> generators_;
};

}    // namespace equi

#endif

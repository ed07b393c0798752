// SPDX-License-Identifier: MIT
// The messages of an SO(2) convolution for some edges at a time, in host memory: forward and backward. The torque on
// the frame of an edge is the derivative of the rotation into that frame. A turn of the edge by a small angle vector
// t in its frame changes the energy by torque * t. With duals all of this has tangents, too: second derivatives
// along a direction.
#ifndef EQUI_HOST_SO2_CONVOLUTION_H
#define EQUI_HOST_SO2_CONVOLUTION_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/host_kernels/packed_matrix.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layers/so2_convolution/so2_edge_steps.h"
#include "kokkos/layers/so2_convolution/so2_linears.h"
#include "kokkos/runtime/buffer.h"
#include "src/layers/so2_convolution.h"

#include <tuple>
#include <vector>

namespace equi {

// Edges [0, count). T: float, double or a Dual of them. Features, factors, scratch and values are aligned to ALIGNMENT.
template <class T>
struct So2Edges {
  int64_t count;
  const int *sender, *receiver;    // rows of x
  const T *rotations;              // [count][rotations_size(lmax)] (rotations.h)
  const T *cutoff;                 // [count] cutoff function
  const Real<T> *factors;          // [planes][count][factors_row()] radial factors
  FeatureRows<const Real<T>> x;    // its first row is not read
};

// What a backward pass computes.
template <class T>
struct So2Adjoints {
  Real<T> *factors;    // [planes][count][factors_row()], may be those of the edges
  T *cutoff;           // [count]
  T *torque;           // [count][3]
  // Results are added at these rows. Null: not requested.
  FeatureRows<Real<T>> sender_adj, receiver_adj;
  const int *sender, *receiver;
};

template <class T>
class HostSo2Convolution {
  using R = Real<T>;

 public:
  // set: the instruction set to use. in, out: layouts of features with a plane for each part of a number.
  HostSo2Convolution(InstructionSet set, const So2Convolution &layer, const FeatureLayout &in,
                     const FeatureLayout &out);

  // Defined at So2Linears.
  int factors_row() const { return factors_row_; }
  const std::vector<int> &columns() const { return columns_; }
  // Size of the scratch for this number of edges.
  int64_t scratch_size(int64_t count, bool backward) const {
    return PLANES<T> * count * (backward ? backward_places_ : forward_places_).size;
  }
  // Size of the values that backward needs from forward.
  int64_t values_size(int64_t count) const { return PLANES<T> * count * values_size_; }

  int heads() const { return heads_; }    // heads of attention; 0: no attention

  // Adds the messages to rows out_row[e] of y, and writes `values`. With attention, call it between begin() and
  // finish() for these rows. softmax: of the same rows; not read without attention.
  void forward(const So2Edges<T> &edges, FeatureRows<R> y, const int *out_row, So2Softmax<T> softmax, R *scratch,
               R *values) const;
  void begin(int64_t count, So2Softmax<T> softmax) const;
  void finish(int64_t count, FeatureRows<R> y, So2Softmax<T> softmax) const;
  // Starts from the adjoint of y in these rows. values: as forward left them; if !has_values they are computed
  // first. Their content is lost. With attention, call it after begin_backward() for these rows, with y as finish()
  // has left it.
  void backward(const So2Edges<T> &edges, FeatureRows<const R> y_adj, const int *out_row, So2Softmax<T> softmax,
                R *scratch, R *values, bool has_values, const So2Adjoints<T> &adjoints) const;
  void begin_backward(int64_t count, FeatureRows<const R> y, FeatureRows<const R> y_adj, So2Softmax<T> softmax) const;

  auto members() const {
    return std::tie(linears_, score_places_, score_weight_, score_bias_, score_vector_, generators_);
  }

 private:
  // The matrices of So2ProductCall.
  using Product = std::vector<PackedMatrix<R>>;    // only the first one for m = 0
  // The products for each m, and their transposes.
  struct Linear {
    So2Shape in, out;    // out: including the gates
    int mul;             // channels of the output without padding
    std::vector<Product> products, transposed;
    AlignedVector<R> bias;    // [gates and orders of m = 0][channels], or empty
    bool has_gate;
    Activation scalars, gates;
    std::vector<So2ProductTerm<R>> product;    // or empty
    // For an activation at points: [points][components]; else empty.
    std::vector<R> to_points, from_points;
    Activation at_points;
    bool has_scalars;
    auto members() const { return std::tie(products, transposed, bias, product, to_points, from_points); }
    bool has_points() const { return !to_points.empty(); }
    bool has_step() const { return has_gate || !product.empty() || has_points(); }
    So2Shape gated() const { return {out.lmax, out.mmax, product.empty() ? out.channels : out.channels / 2, 0}; }
  };
  // Numbers per edge before these arrays in the scratch.
  struct Places {
    So2Shape rotated_shape;
    int64_t rotated;                 // features of sender and receiver
    std::vector<int64_t> before;     // the input of each linear
    int64_t sums;                    // So2ProductCall::sums
    int64_t of_sum, of_messages;     // backward: adjoints of the sum in the frame, and of the messages
    std::vector<int64_t> of_made;    // backward: adjoints of the output of linears with a product or at points
    int64_t size;
  };

  Linear make_linear(const So2PaddedLinear &linear) const;
  Product make_product(const Matrix &same, const Matrix *other) const;
  Places make_places(bool backward) const;
  R *place(R *scratch, int64_t count, int64_t before) const { return scratch + PLANES<T> * count * before; }
  void make_rotated(const So2Edges<T> &edges, const Places &places, R *scratch) const;
  void make_values(const So2Edges<T> &edges, const Places &places, R *scratch, R *values) const;
  // Multiplies u by the products of a linear to get v; the bias may be null.
  void multiply(const std::vector<Product> &products, const So2Shape &in, const So2Shape &out, int64_t count,
                const R *u, R *v, R *sums, const AlignedVector<R> *bias) const;
  So2GateCall<T> gate(const Linear &linear, int64_t count, R *z, R *h) const;
  So2BilinearCall<T> product(const Linear &linear, int64_t count, const R *z, R *h, R *z_adj) const;
  So2PointsCall<T> at_points(const Linear &linear, int64_t count, const R *z, R *h, R *z_adj) const;
  // Applies the radial factors to u, the input of the linear to which they belong, to get v.
  So2FactorCall<T> factors(int64_t count, const R *u, R *v, R *factors) const {
    return {linears_[radial_linear_].in, count, u, v, factors};
  }
  So2AttentionCall<T> attention(const So2Edges<T> &edges, const int *row, So2Softmax<T> softmax, R *values, R *messages,
                                R *z_adj, T *cutoff_adj) const;
  // Includes the edges' exponentials in the sums of their rows.
  void add_to_softmax(const So2AttentionCall<T> &call, FeatureRows<R> y) const;
  So2Sums<T> sums(FeatureRows<const R> rows) const;
  // The call for one side of the features in `layout`; rows: those of an atom's features.
  So2RotationCall<T> rotation(const So2Edges<T> &edges, So2Shape shape, R *u, int first, const FeatureLayout &layout,
                              FeatureRows<R> rows, const int *row, const T *factor) const;

  InstructionSet set_;
  const HostKernels<T> &kernels_;
  FeatureLayout in_, out_;
  int channels_in_;    // channels of one atom, padded
  int factors_row_;
  std::vector<int> columns_;
  So2Shape first_;    // shape of the first linear's input
  size_t radial_linear_;
  std::vector<Linear> linears_;
  // For attention, if the convolution has any.
  int heads_, scores_, head_size_;
  std::vector<int> score_places_;
  std::vector<R> score_weight_, score_bias_, score_vector_;
  R score_epsilon_;
  // Numbers per edge before these arrays in the values: the output of each linear before its gate, the messages, and
  // the scores of attention.
  std::vector<int64_t> after_;
  int64_t messages_, score_values_, values_size_;
  Places forward_places_, backward_places_;
  std::vector<So2Generator<R>> generators_;
};

}    // namespace equi

#endif

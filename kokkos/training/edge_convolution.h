// SPDX-License-Identifier: MIT
// The convolution whose weights are inputs for each edge, as training needs it. It is e3nn's uvu tensor product of
// the senders' features with the harmonics of the edges, summed over the edges of each receiver. It has a backward
// and a double backward.
//
// All features are in the order of irreps.h, row by row. With the trilinear form L(g, x, y, w) = <g, forward(x, y,
// w)>, backward computes its derivatives with respect to x, y and w. Along tangents x', y', w' these change by the
// tangents of a backward pass over duals. The derivative with respect to g changes by the tangent of a forward pass.
// The two give the double backward.
#ifndef EQUI_EDGE_CONVOLUTION_H
#define EQUI_EDGE_CONVOLUTION_H

#include "kokkos/kernel_libraries/convolution_tables.h"

#include <functional>
#include <string>
#include <vector>

namespace equi {

// The product, and the order of its harmonics in a row of an edge.
struct OperatorProduct {
  TensorProduct product;
  Irreps irreps_edge;                  // one channel each, each order at most once
  std::vector<int> harmonic_column;    // [l^2 + m] column of irreps_edge, -1 if it has none

  // Parses "IRREPS_IN;IRREPS_EDGE;IRREPS_OUT;INSTRUCTIONS", with instructions like "0 1 2 1.5,...": block of the
  // input, of the edge and of the output, and the factor. Throws std::invalid_argument with a description of the
  // fault.
  static OperatorProduct parse(const std::string &text);
};

// Edge e goes from row sender[e] of the features to row receiver[e] of the result.
struct EdgeList {
  int64_t count;
  const int64_t *sender, *receiver;
  int64_t num_senders, num_receivers;
};

// These throw std::out_of_range. The first does so if the edges or nodes are too many for the kernels. The second
// does so if edge e, whose rows are arguments, names a row that does not exist.
void check_sizes(const EdgeList &edges);
void check_edge(const EdgeList &edges, int64_t e, int64_t sender, int64_t receiver);

// Calls f(part) for all parts 0 .. count - 1, perhaps at the same time.
using ParallelFor = std::function<void(int count, const std::function<void(int)> &f)>;

// T: float or double. Results depend on the number of parts only by rounding, and not on threads.
template <class T>
class EdgeConvolution {
 public:
  explicit EdgeConvolution(const OperatorProduct &product);

  const OperatorProduct &product() const { return product_; }

  // x [senders, irreps_in], y [E, irreps_edge], w [E, weights in the order of instructions]. A tangent may be null,
  // which means zero.
  struct Operand {
    const T *value, *tangent = nullptr;
  };
  // Writes out [receivers, irreps_out]. Throws std::out_of_range if an edge names a row that does not exist.
  void forward(const ParallelFor &parallel, int parts, const EdgeList &edges, const T *x, const T *y, const T *w,
               T *out) const;
  // g [receivers, irreps_out]; writes the derivatives of L.
  void backward(const ParallelFor &parallel, int parts, const EdgeList &edges, const T *x, const T *y, const T *w,
                const T *g, T *x_adj, T *y_adj, T *w_adj) const;
  // Writes the derivatives with respect to g, x, y and w of <x', dL/dx> + <y', dL/dy> + <w', dL/dw> for the tangents
  // x', y', w'.
  void double_backward(const ParallelFor &parallel, int parts, const EdgeList &edges, Operand x, Operand y, Operand w,
                       const T *g, T *g_adj, T *x_adj, T *y_adj, T *w_adj) const;

 private:
  template <class N>
  struct Kernels {
    explicit Kernels(const OperatorProduct &product);
    FeatureLayout in, out;
    ConvolutionTables<N> tables;
    const HostKernels<N> &functions;
  };
  // The results: forward writes `out`, backward the rest; for duals, the tangents.
  struct Results {
    T *out = nullptr, *x_adj = nullptr, *y_adj = nullptr, *w_adj = nullptr;
  };
  template <class N>
  void run(const Kernels<N> &kernels, const ParallelFor &parallel, int parts, const EdgeList &edges, Operand x,
           Operand y, Operand w, const T *g, const Results &results) const;

  OperatorProduct product_;
  Kernels<T> plain_;
  Kernels<Dual<T>> dual_;
};

}    // namespace equi

#endif

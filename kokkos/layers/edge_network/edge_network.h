// SPDX-License-Identifier: MIT
// Radial weights of edges from a network, where no table can hold them: the network reads features of the edge's
// atoms, or the weights are too many. It is evaluated for some edges at a time, with products of matrices. The
// backward pass starts from the adjoints of the weights. With duals it also computes their tangents: the second
// derivatives along a direction.
#ifndef EQUI_EDGE_NETWORK_H
#define EQUI_EDGE_NETWORK_H

#include "kokkos/host_kernels/packed_matrix.h"
#include "kokkos/kernel_libraries/convolution_tables.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layers/edge_network/edge_network_row.h"
#include "kokkos/layers/edge_network/edge_tables.h"
#include "kokkos/runtime/buffer.h"
#include "src/functions/radial_function.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace equi {

// The inputs of the network for edges [0, count). Rows are those of x, the input of the convolution.
template <class T>
struct NetworkEdges {
  int64_t count;
  const DoubleOf<T> *distance;
  const int *receiver_species, *sender_species;
  const int *receiver_row, *sender_row;
  FeatureRows<const Real<T>> x;
  int direction = 0;    // for duals, in forward: tangents of x are in plane 1 + direction
};

// The adjoints of the network's inputs; results are added to all of them. Null: not requested.
template <class T>
struct NetworkAdjoints {
  T *distance;    // index e * stride for edge e
  int stride;
  FeatureRows<Real<T>> receiver, sender;    // adjoints of x
  const int *receiver_row, *sender_row;
};

template <class T>
class DeviceEdgeNetwork;

// Weights and arrays of the scratch have planes [PLANES<T>][edge], which matrix products treat as one matrix.
template <class T>
class EdgeNetwork {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  // in: layout of the convolution's input. columns: of the network's outputs, in rows of `row` numbers. set:
  // instruction set whose dense products are used.
  EdgeNetwork(const RadialFunction &function, const FeatureLayout &in, int num_species,
              const std::vector<EdgeColumn> &columns, int64_t row, InstructionSet set = best_instruction_set())
      : EdgeNetwork(function, in, num_species, columns, row, set, function.basis.size()) {}

  // The same weights as products of a few tabulated functions with a matrix, if options and function allow it. The
  // basis must not have too many pairs of species, or too many functions for them. With windows (radial_windows.h)
  // the functions are fewer; edges of the same window should then be consecutive. Zeros make the number of functions a
  // multiple of `multiple`.
  static EdgeNetwork for_distances(const RadialFunction &function, const FeatureLayout &in, int num_species,
                                   const std::vector<EdgeColumn> &columns, int64_t row, const EvaluatorOptions &options,
                                   int num_windows = 1, InstructionSet set = best_instruction_set(), int multiple = 1);
  int num_windows() const { return tables_ ? std::max<int>(1, tables_->windows.functions.size()) : 1; }
  int window_of(double distance, int receiver_species, int sender_species) const;

  bool reads_receiver() const { return receiver_.group >= 0; }
  bool reads_sender() const { return sender_.group >= 0; }

  // Size of the scratch for this number of edges, and of their weights.
  int64_t scratch_size(int64_t count) const { return basis_size() + PLANES<T> * count * scratch_row_; }
  int64_t weights_size(int64_t count) const { return PLANES<T> * count * num_weights_; }

  // Writes the weights of edge e into row e of each plane. scratch is aligned to a float64.
  void forward(const HostKernels<T> &kernels, const NetworkEdges<T> &edges, R *scratch, R *weights) const;

  // Starts from the adjoints of the weights, which have the same layout. scratch: as forward left it for the same
  // edges; its content is lost.
  void backward(const HostKernels<T> &kernels, const NetworkEdges<T> &edges, R *scratch, const R *weights_adj,
                const NetworkAdjoints<T> &adjoints) const;

  auto members() const {
    return std::tie(tables_, receiver_.rows, sender_.rows, hidden_, weights_, column_scale_, gate_);
  }
  // "by their network" or the tables in use, for the log.
  std::string describe() const;

 private:
  // num_basis: number of functions of the distance among the inputs.
  EdgeNetwork(const RadialFunction &function, const FeatureLayout &in, int num_species,
              const std::vector<EdgeColumn> &columns, int64_t row, InstructionSet set, int num_basis);
  // Copies the constants and the order of the scratch of another network.
  template <class U>
  friend class DeviceEdgeNetwork;
  // A product of matrices, out = in weight, for each edge and plane.
  struct Product {
    PackedMatrix<R> weight, transposed;
    Product(const Matrix &m, InstructionSet set) : weight(m, set), transposed(transpose(m), set) {}
    int rows() const { return weight.in(); }
    int cols() const { return weight.out(); }
    auto members() const { return std::tie(weight, transposed); }
    void forward(int64_t rows, const R *in, R *out) const { weight.multiply(rows, in, out); }
    void backward(int64_t rows, const R *out_adj, R *in_adj) const { transposed.multiply(rows, out_adj, in_adj); }
  };
  struct Hidden {
    Product product;
    std::vector<R> bias;                      // empty or [cols]
    std::vector<R> norm_weight, norm_bias;    // empty or [cols]
    double epsilon;
    // Numbers per edge before these arrays in the scratch: before and after the activation; normalized components
    // and the factor that normalizes them.
    int64_t z, h, normalized, factor;
    auto members() const { return std::tie(product, bias, norm_weight, norm_bias); }
  };
  // The gate of the outputs. The last product gives values and keys in the order of the function.
  struct Gate {
    double scale, epsilon;
    std::vector<int> column;    // of the weights, for each value
    std::vector<R> column_scale, norm_weight, norm_bias;
    int64_t values_and_keys, gate, normalized, factor;    // numbers per edge before these arrays in the scratch
    int size() const { return static_cast<int>(column.size()); }
    auto members() const { return std::tie(column, column_scale, norm_weight, norm_bias); }
  };
  // The part of the inputs that comes from one atom.
  struct AtomInputs {
    int first = 0, size = 0;        // columns of the inputs
    std::vector<R> rows;            // [species][size], or else:
    int group = -1, channel = 0;    // the channels of a block
  };

  // Size of the values and derivatives of the basis at one distance, in float64, with which the scratch begins.
  int64_t basis_size() const { return static_cast<int64_t>(sizeof(double) / sizeof(R)) * num_basis_ * (PLANES<T> + 1); }
  // The begin of the array that has this many numbers per edge before it in the scratch. The second function: the
  // size of an array with rows of `width`.
  static R *place(R *scratch, int64_t count, int64_t before) { return scratch + PLANES<T> * count * before; }
  static Pointer<T> numbers(R *first, int64_t count, int width) { return make_pointer<T>(first, count * width); }
  // The functions of the distance among the inputs, and their derivatives with respect to it, from the basis or from
  // tables.
  void add_basis(const NetworkEdges<T> &edges, double *of_basis, Pointer<T> inputs, Pointer<T> slopes,
                 Pointer<T> cutoff) const;
  void add_of_tables(const NetworkEdges<T> &edges, Pointer<T> inputs, Pointer<T> slopes) const;
  void add_inputs(const AtomInputs &part, int64_t count, const int *species, const int *rows, FeatureRows<const R> x,
                  int direction, R *inputs) const;
  void add_adjoints(const AtomInputs &part, int64_t count, const R *inputs_adj, const int *rows,
                    FeatureRows<R> x_adj) const;
  // last: the inputs of the last product, or their adjoints.
  LastInputsRow<T> last_inputs(int64_t count, R *scratch, R *last) const;
  // column_scale: in the memory space where it is used.
  ActivatedWeightsRow<T> activated_weights(int64_t count, R *scratch, const R *column_scale) const;
  // column, column_scale: of the gate, in the memory space where they are used.
  GatedWeightsRow<T> gated_weights(int64_t count, R *scratch, const int *column, const R *column_scale) const;
  NormalizeRow<T> gate_norm(int64_t count, R *scratch, const R *weight, const R *bias) const;
  NormalizeAdjointRow<T> gate_norm_adjoint(int64_t count, R *scratch, const R *weight) const;
  int last_product_width() const { return gate_ ? 2 * gate_->size() : num_weights_; }
  bool has_last() const { return !is_activated() && (times_cutoff_ || has_last_bias_); }
  bool is_activated() const { return weights_.empty(); }
  // Calls f(product, first edge, number of edges) for the last product of all edges.
  template <class F>
  void for_last_products(const NetworkEdges<T> &edges, const F &f) const;
  GateCall<T> activation_call(const Hidden &layer, int64_t count, R *z, R *h) const;

  FeatureLayout in_;
  int num_species_;
  std::vector<RadialBasis> bases_;         // one, or one per [receiver species, sender species]
  std::optional<EdgeTables<R>> tables_;    // tables of the functions of the distance; replaces the basis
  int num_basis_, num_inputs_;
  AtomInputs receiver_, sender_;
  std::vector<Hidden> hidden_;
  Activation activation_;
  R activation_scale_;
  bool times_cutoff_, has_last_bias_ = false;
  int num_weights_;    // in a row of an edge
  // The last product, for each window. If its outputs are activated, it is the product of the last hidden layer, and
  // its columns are those of the weights.
  std::vector<Product> weights_;
  std::vector<R> column_scale_;    // scale of activated outputs
  std::optional<Gate> gate_;
  int last_width_ = 0;    // number of inputs of the last product; a bias is one of them, with the value 1
  // Numbers per edge before the arrays of the scratch: inputs, derivatives of the basis with respect to the
  // distance, the cutoff function and its derivative, inputs of the last product, and two for adjoints.
  int64_t inputs_, slopes_, cutoff_, last_ = 0, adjoint_[2], scratch_row_ = 0;
};

}    // namespace equi

#endif

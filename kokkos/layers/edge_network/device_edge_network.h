// SPDX-License-Identifier: MIT
// Radial weights, on a device, of a convolution whose network reads features of the edge's atoms. It does what
// edge_network.h does on the host, from the same constants, for the edges of one batch at a time.
#ifndef EQUI_DEVICE_EDGE_NETWORK_H
#define EQUI_DEVICE_EDGE_NETWORK_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/geometry/device_radial_set.h"
#include "kokkos/layers/edge_network/edge_network.h"
#include "src/functions/basis_functions.h"

#include <optional>
#include <tuple>
#include <vector>

namespace equi {

// Where the network reads the features of a batch's edges in x, the convolution's input with all its rows. The batch
// consists of receivers or of senders.
template <class R>
struct DeviceNetworkInput {
  FeatureRows<const R> x;
  bool by_species;    // rows are indexed by species
  bool of_senders;
  int first_row;            // row of the batch's first atom
  int first_other;          // row 0 from which the edges count the atoms at their other ends
  int direction = 0;        // of the tangents that are read
  bool of_edges = false;    // x has the rows of copy_edge_rows() instead (device_edge_rows.h)
};

// The edges of a batch as the network reads them, in device memory.
template <class T>
struct DeviceNetworkEdges {
  DeviceBatchEdges batch;
  const DoubleOf<T> *distance;    // indexed by edge, like the pair
  const int *pair;
  const int *own_row, *other_row;    // [count] rows of x: the batch's atom of each edge, and its other atom
  FeatureRows<const Real<T>> x;
  bool of_senders;
  int direction = 0;    // of the tangents in x that are read

  const int *receiver_row() const { return of_senders ? other_row : own_row; }
  const int *sender_row() const { return of_senders ? own_row : other_row; }
};

// Writes the rows of the two atoms of an edge.
struct EdgeRowsKernel {
  DeviceBatchEdges batch;
  const int *pair;
  int num_species;
  bool by_species, of_senders, of_edges;
  int first_row, first_other;
  int *own_row, *other_row;
  KOKKOS_FUNCTION void operator()(int64_t c) const {
    const int64_t position = batch.first + c;
    if (!batch.contains(position)) return;
    if (of_edges) {
      other_row[c] = static_cast<int>(c);
      own_row[c] = static_cast<int>(batch.count + c);
      return;
    }
    if (by_species) {
      const int p = pair[batch.edge_at(position)], receiver = p / num_species, sender = p % num_species;
      own_row[c] = of_senders ? sender : receiver;
      other_row[c] = of_senders ? receiver : sender;
      return;
    }
    own_row[c] = first_row + batch.atom_at(position);
    other_row[c] = first_other + batch.other_row[position];
  }
};

template <class T>
class DeviceEdgeNetwork {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  // host must outlive this object. has_blocks: whether products have BLOCK rows at a time, so that bits of an edge's
  // weights do not depend on the number of edges.
  DeviceEdgeNetwork(const DeviceExec &exec, const EdgeNetwork<T> &host, bool has_blocks = true);

  // Size of the scratch for this number of edges, size of one plane of their weights, and of all planes.
  int64_t scratch_size(int64_t count) const { return PLANES<T> * num_rows(count) * host_.scratch_row_; }
  int64_t weights_plane(int64_t count) const { return num_rows(count) * host_.num_weights_; }
  int64_t weights_size(int64_t count) const { return PLANES<T> * weights_plane(count); }

  EdgeRowsKernel rows(const DeviceBatchEdges &batch, const int *pair, const DeviceNetworkInput<R> &input, int *own_row,
                      int *other_row) const {
    return {batch,
            pair,
            host_.num_species_,
            input.by_species,
            input.of_senders,
            input.of_edges,
            input.first_row,
            input.first_other,
            own_row,
            other_row};
  }
  // Launches the kernel of rows() for all edges.
  void find_rows(const DeviceExec &exec, const DeviceBatchEdges &batch, const int *pair,
                 const DeviceNetworkInput<R> &input, int *own_row, int *other_row) const;

  // Weights and scratch have the layout of those of EdgeNetwork for num_rows() edges. Positions that are not edges
  // get meaningless numbers.
  void forward(const DeviceExec &exec, const DeviceNetworkEdges<T> &edges, R *scratch, R *weights) const;

  // Computes the adjoints of the inputs, which stay in the scratch for the next two functions, from those of the
  // weights. scratch: as forward left it for the same number of edges.
  void backward(const DeviceExec &exec, int64_t count, R *scratch, const R *weights_adj) const;
  // distance_adj[e * stride] += the adjoint of the distance of edge e.
  void add_distance_adjoints(const DeviceExec &exec, const DeviceBatchEdges &batch, R *scratch, D *distance_adj,
                             int stride) const;
  // x_adj += adjoints of what the network has read of the batch's own atoms, senders or receivers; its first row is
  // theirs.
  void add_atom_adjoints(const DeviceExec &exec, const DeviceBatchEdges &batch, bool of_senders, R *scratch,
                         FeatureRows<R> x_adj) const;

  // The bases, with their cutoff functions: one for all pairs, or one per [receiver species, sender species]. In
  // device memory.
  const BasisFunctions *bases() const { return bases_.data(); }
  bool has_bases_of_pairs() const { return host_.bases_.size() > 1; }

  auto members() const { return std::tie(basis_numbers_, bases_, radial_set_, powers_, data_, gate_column_); }

 private:
  using Host = EdgeNetwork<T>;
  using AtomInputs = typename Host::AtomInputs;
  // Offsets in data_; -1: absent.
  struct Hidden {
    int64_t weight, bias, norm_weight, norm_bias;
  };

  // Products have this many rows at a time. A library chooses its kernel, and so the last bit of the results, by the
  // size and the alignment of a product. These must not depend on the number of positions in a launch.
  static constexpr int64_t BLOCK = DeviceTraits<>::ON_HOST ? 256 : 2048;
  int64_t num_rows(int64_t count) const { return has_blocks_ ? (count + BLOCK - 1) / BLOCK * BLOCK : count; }
  void multiply(const DeviceExec &exec, bool transpose, int64_t count, int in, int out, const R *from, int64_t matrix,
                R *to) const;

  R *place(R *scratch, int64_t count, int64_t before) const { return Host::place(scratch, num_rows(count), before); }
  Pointer<T> numbers(R *first, int64_t count, int width) const { return Host::numbers(first, num_rows(count), width); }
  Pointer<T> slopes(R *scratch, int64_t count) const {
    return numbers(place(scratch, count, host_.slopes_), count, host_.num_basis_);
  }
  Pointer<T> cutoff(R *scratch, int64_t count) const { return numbers(place(scratch, count, host_.cutoff_), count, 2); }
  const R *constants(int64_t offset) const { return offset < 0 ? nullptr : data_.data() + offset; }
  // The one of the two arrays of adjoints in which those of the inputs end.
  R *inputs_adj(R *scratch, int64_t count) const {
    return place(scratch, count, host_.adjoint_[(host_.hidden_.size() + host_.has_last()) % 2]);
  }
  GatedWeightsRow<T> gated_weights(R *scratch, int64_t count) const;
  void make_inputs(const DeviceExec &exec, const DeviceNetworkEdges<T> &edges, R *scratch) const;

  const Host &host_;
  bool has_blocks_;
  DeviceBuffer<double> basis_numbers_;
  DeviceBuffer<BasisFunctions> bases_;
  std::optional<DeviceRadialSet> radial_set_;    // tables that replace the bases
  DeviceBuffer<R> powers_;
  DeviceBuffer<R> data_;
  std::vector<Hidden> hidden_;
  int64_t weights_ = -1, column_scale_, sender_rows_, receiver_rows_;    // offsets
  // Offsets of the gate's constants, and the columns of its weights.
  int64_t gate_scale_ = -1, gate_norm_weight_ = -1, gate_norm_bias_ = -1;
  DeviceBuffer<int> gate_column_;
};

}    // namespace equi

#endif

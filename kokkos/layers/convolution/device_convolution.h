// SPDX-License-Identifier: MIT
// One convolution of a model on a device. It does what convolution_constants.h and the host kernels do on a host.
// Its path groups (device_path_groups.h) use generated kernels or the generic one. Weights of a network on features
// always use the generic one (device_edge_network.h).
#ifndef EQUI_DEVICE_CONVOLUTION_H
#define EQUI_DEVICE_CONVOLUTION_H

#include "kokkos/geometry/device_radial_set.h"
#include "kokkos/kernel_interface/device_path_group.h"
#include "kokkos/layer_interface/device_batch.h"
#include "kokkos/layers/convolution/convolution_constants.h"
#include "kokkos/layers/convolution/device_path_groups.h"
#include "kokkos/layers/convolution/device_rigid_convolution.h"
#include "kokkos/layers/edge_network/device_edge_network.h"
#include "kokkos/runtime/device_exec.h"

#include <memory>
#include <optional>
#include <tuple>
#include <vector>

namespace equi {

// T: float, double or a Dual of them.
template <class T>
class DeviceConvolution {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  using Scratch = DeviceConvScratch<T>;
  using PathGroups = DevicePathGroups<T, DevicePathGroupKernel<T>>;
  using Kernels = typename PathGroups::Kernels;
  DeviceConvolution(const DeviceExec &exec, const Convolution &convolution, const FeatureLayout &in,
                    const FeatureLayout &out, int num_species, const EvaluatorOptions &options,
                    const Kernels &kernels = device_kernels<T>());

  const ConvolutionConstants<T> &host() const { return constants_; }
  int num_generic_path_groups() const { return path_groups_.num_generic(); }
  int num_launches() const { return path_groups_.num_launches(); }    // launches of a pass

  // Prepares a batch for the next three functions: bins of the radial table, or the weights that a network computes
  // from `input`; harmonics; and, unless for backward, coupled harmonics. distance, pair and y (rows of harmonics)
  // are indexed by edge, as in DeviceEdges. found: the bins of all edges in the order of receivers, if known; else
  // null. direction, below: for duals, whose tangents are in plane 1 + direction.
  void prepare(const DeviceExec &exec, const DeviceBatchEdges &batch, const D *distance, const int *pair, const T *y,
               bool with_coupled, const DeviceNetworkInput<R> &input, const DeviceRadialBins<T> *found,
               Scratch &scratch) const;

  // Whether its weights come from tables; and the search for the bins of this number of edges in them.
  bool has_tables() const { return !network_ && !constants_.exact(); }
  DeviceBinSearch<T> search(int64_t num_edges, DeviceRadialBins<T> &to) const {
    return {*radial_set_, rows_per_bin(), num_edges, to};
  }

  // Public because nvcc requires it of functions with kernels. The first returns the batch's harmonics in adjacent
  // memory; the second is the part of prepare() for a network.
  const T *harmonics_in_order(const DeviceExec &exec, const DeviceBatchEdges &batch, const T *y,
                              Scratch &scratch) const;
  void make_weights(const DeviceExec &exec, const DeviceBatchEdges &batch, const D *distance, const int *pair,
                    const DeviceNetworkInput<R> &input, Scratch &scratch) const;

  // In an evaluation of energy moments: copies what the edges of a batch of receivers read (edge_rows.h), and returns
  // the input for prepare() with these rows, which forward() then reads, too.
  DeviceNetworkInput<R> edge_rows(const DeviceExec &exec, const DeviceBatchEdges &batch, const DeviceEdges<T> &edges,
                                  const DeviceNetworkInput<R> &input, Scratch &scratch) const;

  // Computes the outputs of the batch's atoms, which are receivers. x: the input feature with all its rows.
  void forward(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x, FeatureRows<R> out,
               int direction, Scratch &scratch) const;

  // y_adj [E][num_y] += derivatives with respect to the edges; slot 0 is for the distance. x_adj += adjoints of the
  // features that a network reads of the batch's atoms, unless x_adj is null.
  void backward(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                FeatureRows<const R> out_adj, int direction, D *y_adj, FeatureRows<R> x_adj, Scratch &scratch) const;

  // x_adj += adjoints of the batch's atoms, which are senders; x: their rows of the input. out_adj: the cotangent of
  // the output, starting at the row from which the edges count receivers.
  void gather_senders(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                      FeatureRows<const R> out_adj, FeatureRows<R> x_adj, int direction, Scratch &scratch) const;

  // For duals if values are kept: computes the tangents of rigid edges. Null if the kernels of duals compute them.
  // table: its radial table.
  using Rigid = DeviceRigidConvolution<T>;
  const Rigid *rigid() const { return rigid_.get(); }
  typename Rigid::Table table() const { return {table_.data(), constants_.num_rows(), rows_per_bin(), *radial_set_}; }

  // Both of the above for the batch's atoms at once, if can_fuse(): edges between the first `num_receivers` rows
  // have reverse edges. x, out_adj: with all their rows; x_adj: starts at the batch's first row. Needs coupled
  // harmonics.
  bool can_fuse() const;
  void fused(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
             FeatureRows<const R> out_adj, int num_receivers, D *y_adj, FeatureRows<R> x_adj, Scratch &scratch) const;

  auto members() const { return std::tie(radial_set_, network_, path_groups_, rigid_, table_); }
  // Visits the arrays of the scratch that batches of num_edges edges need.
  void for_edge_scratch(Scratch &scratch, int64_t num_edges, const ArrayVisitor &f) const;

 private:
  int rows_per_bin() const { return constants_.rows_per_bin(); }
  int64_t table_rows(const DeviceBatchEdges &batch) const {
    return constants_.exact() ? rows_per_bin() * batch.count : constants_.num_rows();
  }
  // Where kernels write the adjoints of the weights that a network has computed.
  Pointer<T> weights_adj(const DeviceBatchEdges &batch, Scratch &scratch) const;
  // Sums the derivatives that a backward pass has left for the batch's edges.
  void add_parts(const DeviceExec &exec, const DeviceBatchEdges &batch, const T *parts, D *y_adj,
                 const Scratch &scratch) const;
  // Runs the kernels of all path groups, after prepare(call, numbers before the input block).
  template <PathGroupPass PASS, class F>
  void launch(const DeviceExec &exec, const DeviceBatchEdges &batch, const Scratch &scratch, int64_t x_rows,
              int64_t out_rows, int64_t out_row, int direction, const F &prepare) const;

  FeatureLayout in_;
  bool has_edge_rows_;
  ConvolutionConstants<T> constants_;
  std::optional<DeviceRadialSet> radial_set_;
  std::unique_ptr<DeviceEdgeNetwork<T>> network_;    // replaces the radial set, or null
  PathGroups path_groups_;
  std::unique_ptr<Rigid> rigid_;
  DeviceBuffer<R> table_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// One convolution of a model on a device. It does what convolution_op.h and the host kernels do on a host. Its path
// groups (device_path_groups.h) have generated kernels or the generic one; weights of a network on features always take
// the latter (device_edge_network.h).
#ifndef EQUI_DEVICE_CONVOLUTION_H
#define EQUI_DEVICE_CONVOLUTION_H

#include "kokkos/geometry/device_radial_set.h"
#include "kokkos/kernel_interface/device_path_group.h"
#include "kokkos/layers/convolution/convolution_constants.h"
#include "kokkos/layers/convolution/device_edge_network.h"
#include "kokkos/layers/convolution/device_path_groups.h"
#include "kokkos/layers/convolution/device_rigid_convolution.h"
#include "kokkos/layers/device_batch.h"
#include "kokkos/runtime/device_exec.h"

#include <memory>
#include <optional>
#include <vector>

namespace equi {

// T: float, double or a Dual of them.
template <class T>
class DeviceConvolution {
  using R = Real<T>;

 public:
  using Scratch = DeviceConvScratch<T>;
  using PathGroups = DevicePathGroups<T, DevicePathGroupKernel<T>>;
  using Kernels = typename PathGroups::Kernels;
  DeviceConvolution(const DeviceExec &exec, const Convolution &convolution, const FeatureLayout &in,
                    const FeatureLayout &out, int num_species, const EvaluatorOptions &options,
                    const Kernels &kernels = device_kernels<T>());

  const ConvolutionConstants<T> &host() const { return constants_; }
  int num_generic_path_groups() const { return path_groups_.num_generic(); }
  int num_launches() const { return path_groups_.num_launches(); }    // of a pass

  // direction: of duals, whose tangents are in plane 1 + direction. Each of the following three needs the batch
  // prepared: bins of the radial table, or the weights that a network makes of `input`, harmonics, and coupled ones
  // unless for backward. distance, pair and y, rows of harmonics, are indexed by edge, as DeviceEdges has them. found:
  // the bins of all edges in the order of receivers, if they are known; else null.
  template <class G>
  void prepare(const DeviceExec &exec, const DeviceBatchEdges &batch, const G *distance, const int *pair, const T *y,
               bool with_coupled, const DeviceNetworkInput<R> &input, const DeviceRadialBins<T> *found,
               Scratch &scratch) const;

  // Whether its weights are those of tables, and the search for so many edges in them.
  bool has_tables() const { return !network_ && !constants_.exact(); }
  DeviceBinSearch<T> search(int64_t num_edges, DeviceRadialBins<T> &to) const {
    return {*radial_set_, rows_per_bin(), num_edges, to};
  }

  // nvcc wants functions with kernels public: where harmonics are adjacent, and the part of it that a network takes.
  const T *harmonics_in_order(const DeviceExec &exec, const DeviceBatchEdges &batch, const T *y,
                              Scratch &scratch) const;
  template <class G>
  void make_weights(const DeviceExec &exec, const DeviceBatchEdges &batch, const G *distance, const int *pair,
                    const DeviceNetworkInput<R> &input, Scratch &scratch) const;

  // Writes the outputs of the batch's atoms, receivers; x: the input feature with all its rows.
  void forward(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x, FeatureRows<R> out,
               int direction, Scratch &scratch) const;

  // y_adj [E][num_y] += derivatives by the edges, slot 0 by the distance; x_adj += what a network has read of the
  // batch's atoms, unless it is null.
  template <class G>
  void backward(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                FeatureRows<const R> out_adj, int direction, G *y_adj, FeatureRows<R> x_adj, Scratch &scratch) const;

  // x_adj += adjoints of the batch's atoms, senders, whose rows of the input are x; out_adj: the cotangent of the
  // output with all its rows.
  void gather_senders(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                      FeatureRows<const R> out_adj, FeatureRows<R> x_adj, int direction, Scratch &scratch) const;

  // Of duals where values are kept: what the rigid edges take, null where duals do, and the table for it.
  using Rigid = DeviceRigidConvolution<T>;
  const Rigid *rigid() const { return rigid_.get(); }
  typename Rigid::Table table() const { return {table_.data(), constants_.num_rows(), rows_per_bin(), *radial_set_}; }

  // Both of the above for the batch's atoms at once, where can_fuse(): the edges between `num_receivers` rows, the
  // first, have reverse ones. x, out_adj: with all their rows; x_adj: at the batch's first row. Needs coupled
  // harmonics.
  bool can_fuse() const;
  template <class G>
  void fused(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
             FeatureRows<const R> out_adj, int num_receivers, G *y_adj, FeatureRows<R> x_adj, Scratch &scratch) const;

  std::size_t bytes() const;
  // Bytes that batches of num_edges edges will add to the scratch.
  std::size_t additional_scratch_bytes(const Scratch &scratch, int64_t num_edges) const;

 private:
  int rows_per_bin() const { return constants_.rows_per_bin(); }
  int64_t table_rows(const DeviceBatchEdges &batch) const {
    return constants_.exact() ? rows_per_bin() * batch.count : constants_.num_rows();
  }
  // Where kernels put the adjoints of the weights that a network has made.
  Pointer<T> weights_adj(const DeviceBatchEdges &batch, Scratch &scratch) const;
  // Adds up what a backward pass has left of the batch's edges.
  template <class G>
  void add_parts(const DeviceExec &exec, const DeviceBatchEdges &batch, const T *parts, G *y_adj,
                 const Scratch &scratch) const;
  // The kernels of all path groups, after prepare(call, numbers before the input block).
  template <PathGroupPass PASS, class F>
  void launch(const DeviceExec &exec, const DeviceBatchEdges &batch, const Scratch &scratch, int64_t x_rows,
              int64_t out_rows, int64_t out_row, int direction, const F &prepare) const;

  ConvolutionConstants<T> constants_;
  std::optional<DeviceRadialSet> radial_set_;
  std::unique_ptr<DeviceEdgeNetwork<T>> network_;    // instead of the radial set, or null
  PathGroups path_groups_;
  std::unique_ptr<Rigid> rigid_;
  DeviceBuffer<R> table_;
};

}    // namespace equi

#endif

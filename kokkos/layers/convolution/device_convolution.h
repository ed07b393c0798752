// SPDX-License-Identifier: MIT
// One convolution of a model on a device. It does what convolution_op.h and the host kernels do on a host. A generated
// kernel takes several of its path groups in one launch (device_path_group.h); what no such kernel knows is launched
// path group by path group with the generic one, as are weights of a network on features (device_edge_network.h).
// DevicePathGroups has the code that does not depend on where the weights come from.
#ifndef EQUI_DEVICE_CONVOLUTION_H
#define EQUI_DEVICE_CONVOLUTION_H

#include "kokkos/device_kernels/device_generic_path_group.h"
#include "kokkos/geometry/device_radial_set.h"
#include "kokkos/kernel_interface/device_path_group.h"
#include "kokkos/layers/convolution/convolution_op.h"
#include "kokkos/layers/convolution/device_edge_network.h"
#include "kokkos/layers/device_batch.h"
#include "kokkos/runtime/device_exec.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace equi {

// The path groups of a convolution in device memory, and the launches of their kernels. Kernel:
// DevicePathGroupKernel<T> or DeviceEdgeKernel<T>. The tables must live as long.
template <class T, class Kernel>
class DevicePathGroups {
 public:
  // kernels: those to choose from, beside the generic one.
  using Kernels = std::vector<const Kernel *>;
  DevicePathGroups(const DeviceExec &exec, const ConvolutionTables<T> &product, int rows_per_bin,
                   const Kernels &kernels);
  int num_generic() const;
  int num_launches() const { return static_cast<int>(launches_.size()); }    // of a pass
  bool has_fused() const;                                                    // whether there are kernels for that pass

  // Numbers of an edge: coupled harmonics, and what a backward pass leaves of its derivatives
  // (DevicePathGroupCall::parts).
  int coupled_width() const { return coupled_width_; }
  int part_size() const { return part_size_; }

  // coupled [count][coupled_width] of a batch's edges from y [E][num_y].
  void couple_harmonics(const DeviceExec &exec, const DeviceBatchEdges &batch, const T *y, T *coupled) const;

  // The kernels of all path groups. `call` has what does not depend on the path group, and the arrays of all path
  // groups; the rest follows from prepare(call, path group, paths, their number, numbers before the input block).
  // out_row: the first row of paths' outputs.
  template <PathGroupPass PASS, class F>
  void launch(const DeviceExec &exec, const DevicePathGroupCall<T> &call, int64_t x_rows, int64_t out_rows,
              int64_t out_row, const F &prepare) const;

  // Derivative k of edge c by what a backward pass left: the sum of parts begin[k]..begin[k+1].
  struct PartOfSum {
    int part, width, index;
  };
  struct Sums {
    const int *begin;
    const PartOfSum *sum;
    const T *parts;
    int64_t num_edges;
    KOKKOS_FUNCTION T operator()(int64_t c, int k) const {
      T total = 0;
      for (int t = begin[k]; t < begin[k + 1]; t++)
        total += parts[num_edges * sum[t].part + c * sum[t].width + sum[t].index];
      return total;
    }
  };
  Sums sums(const T *parts, int64_t num_edges) const {
    return {sum_begin_.data(), sum_parts_.data(), parts, num_edges};
  }

  std::size_t bytes() const;

 private:
  // A path group, or some paths of one without a generated kernel.
  struct Part {
    bool is_generic;
    int path_group, first_path, num_paths;    // first_path: of the tables
    int generic_path;                         // first in generic_paths_
    int part;                                 // numbers per edge before its derivatives
  };
  // Parts that go into one launch, by their place in the kernel; -1: none.
  struct Launch {
    const Kernel *kernel;    // null: the generic one, of one part
    std::array<int, MAX_LAUNCH_PATH_GROUPS> parts;
  };
  // The launches of path groups with these keys, each in at most one of them.
  static std::vector<Launch> choose_launches(std::vector<std::string> keys, const Kernels &kernels);
  void number_parts();
  template <class F>
  DevicePathGroupCall<T> call_of(const Part &part, const DevicePathGroupCall<T> &call, int64_t x_rows, int64_t out_rows,
                                 int64_t out_row, const F &prepare) const;
  template <PathGroupPass PASS>
  void launch_generic(const DeviceExec &exec, const Part &part, const DevicePathGroupCall<T> &call) const;

  const ConvolutionTables<T> &product_;
  int rows_per_bin_, num_y_ = 1, coupled_width_ = 0, part_size_ = 0;
  std::vector<Part> parts_;
  std::vector<Launch> launches_;
  std::vector<int> first_coupled_;    // per path group, in the record of an edge
  // Coupled harmonic k = sum over coupled_begin[k]..coupled_begin[k+1] of coupled_value y[coupled_y].
  DeviceBuffer<int> coupled_begin_, coupled_y_;
  DeviceBuffer<Real<T>> coupled_value_;
  DeviceBuffer<typename GenericBody<T>::Path> generic_paths_;
  DeviceBuffer<typename GenericBody<T>::Entry> entries_;
  DeviceBuffer<typename GenericBody<T>::Coupling> couplings_;
  DeviceBuffer<int> sum_begin_;
  DeviceBuffer<PartOfSum> sum_parts_;
};

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

  const ConvolutionOp<T> &host() const { return op_; }
  int num_generic_path_groups() const { return path_groups_.num_generic(); }
  int num_launches() const { return path_groups_.num_launches(); }    // of a pass

  // Each of the following three needs the batch prepared: bins of the radial table, or the weights that a network
  // makes of `input`, and coupled harmonics unless for backward. distance, pair and y [E][num_y] are indexed by edge,
  // as DeviceEdges has them.
  template <class G>
  void prepare(const DeviceExec &exec, const DeviceBatchEdges &batch, const G *distance, const int *pair, const T *y,
               bool with_coupled, const DeviceNetworkInput<R> &input, Scratch &scratch) const;

  // The part of it that a network takes; nvcc wants functions with kernels public.
  template <class G>
  void make_weights(const DeviceExec &exec, const DeviceBatchEdges &batch, const G *distance, const int *pair,
                    const DeviceNetworkInput<R> &input, Scratch &scratch) const;

  // Writes the outputs of the batch's atoms, receivers; x: the input feature with all its rows.
  void forward(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x, FeatureRows<R> out,
               Scratch &scratch) const;

  // y_adj [E][num_y] += derivatives by the edges, slot 0 by the distance; x_adj += what a network has read of the
  // batch's atoms, unless it is null.
  template <class G>
  void backward(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                FeatureRows<const R> out_adj, const T *y, G *y_adj, FeatureRows<R> x_adj, Scratch &scratch) const;

  // x_adj += adjoints of the batch's atoms, senders, whose rows of the input are x; out_adj: the cotangent of the
  // output with all its rows.
  void gather_senders(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                      FeatureRows<const R> out_adj, FeatureRows<R> x_adj, Scratch &scratch) const;

  // Both of the above for the batch's atoms at once, where can_fuse(): the edges between `num_receivers` rows, the
  // first, have reverse ones. x, out_adj: with all their rows; x_adj: at the batch's first row. Needs coupled
  // harmonics.
  bool can_fuse() const;
  template <class G>
  void fused(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
             FeatureRows<const R> out_adj, int num_receivers, const T *y, G *y_adj, FeatureRows<R> x_adj,
             Scratch &scratch) const;

  std::size_t bytes() const;
  // Bytes that batches of num_edges edges will add to the scratch.
  std::size_t scratch_growth(const Scratch &scratch, int64_t num_edges) const;

 private:
  int rows_per_bin() const { return op_.rows_per_bin(); }
  int64_t table_rows(const DeviceBatchEdges &batch) const {
    return op_.exact() ? rows_per_bin() * batch.count : op_.num_rows();
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
              int64_t out_rows, int64_t out_row, const F &prepare) const;

  ConvolutionOp<T> op_;
  std::optional<DeviceRadialSet> radial_set_;
  std::unique_ptr<DeviceEdgeNetwork<T>> network_;    // instead of the radial set, or null
  PathGroups path_groups_;
  DeviceBuffer<R> table_;
};

}    // namespace equi

#endif

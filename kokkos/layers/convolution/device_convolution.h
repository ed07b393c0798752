// SPDX-License-Identifier: MIT
// One convolution of a model on a device. It does what convolution_op.h and the host kernels do on a host. Its path
// groups are launched one by one (device_unit.h), each with a generated kernel or with the generic one; weights of a
// network on features always take the latter (device_edge_network.h). DeviceUnits has the code that does not depend on
// where the weights come from.
#ifndef EQUI_DEVICE_CONVOLUTION_H
#define EQUI_DEVICE_CONVOLUTION_H

#include "kokkos/device_kernels/device_generic_unit.h"
#include "kokkos/geometry/device_radial_set.h"
#include "kokkos/kernel_interface/device_unit.h"
#include "kokkos/layers/convolution/convolution_op.h"
#include "kokkos/layers/convolution/device_edge_network.h"
#include "kokkos/layers/device_batch.h"
#include "kokkos/runtime/device_exec.h"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace equi {

// The units of a convolution in device memory, and the launches of their kernels. Kernel: DeviceUnitKernel<T> or
// DeviceEdgeKernel<T>. The plan must live as long.
template <class T, class Kernel>
class DeviceUnits {
 public:
  // find(key): the kernel of a unit, or null for the generic one.
  using Finder = std::function<const Kernel *(const std::string &key)>;
  DeviceUnits(const DeviceExec &exec, const ConvolutionPlan<T> &product, int rows_per_bin, const Finder &find);
  int num_generic() const;

  // Numbers of an edge: forms, and what a backward pass leaves of its derivatives (DeviceUnitCall::parts).
  int forms_width() const { return forms_width_; }
  int part_size() const { return part_size_; }

  // forms [count][forms_width] of a chunk's edges from y [E][num_y].
  void make_forms(const DeviceExec &exec, const DeviceEdgeChunk &chunk, const T *y, T *forms) const;

  // The kernels of all units. `call` has what does not depend on the unit, and the arrays of all units; the rest
  // follows from prepare(call, unit, paths, their number, numbers before the input block). out_row: the first row of
  // paths' outputs.
  template <UnitPass PASS, class F>
  void launch(const DeviceExec &exec, const DeviceUnitCall<T> &call, int64_t x_rows, int64_t out_rows, int64_t out_row,
              const F &prepare) const;

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
  // A unit, or some paths of one without a generated kernel.
  struct Part {
    const Kernel *kernel;               // null: the generic one
    int unit, first_path, num_paths;    // first_path: of the plan
    int generic_path;                   // first in generic_paths_
    int part;                           // numbers per edge before its derivatives
  };

  const ConvolutionPlan<T> &product_;
  int rows_per_bin_, num_y_ = 1, forms_width_ = 0, part_size_ = 0;
  std::vector<Part> parts_;
  std::vector<int> first_form_;    // per unit, in the record of an edge
  // Form k = sum over form_begin[k]..form_begin[k+1] of form_value y[form_y].
  DeviceBuffer<int> form_begin_, form_y_;
  DeviceBuffer<Real<T>> form_value_;
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
  using Units = DeviceUnits<T, DeviceUnitKernel<T>>;
  using Finder = typename Units::Finder;
  DeviceConvolution(const DeviceExec &exec, const Convolution &convolution, const FeatureLayout &in,
                    const FeatureLayout &out, int num_species, const EvaluatorOptions &options,
                    const Finder &find = find_device_kernel<T>);

  const ConvolutionOp<T> &host() const { return op_; }
  int num_generic_units() const { return units_.num_generic(); }

  // Each of the following three needs the chunk prepared: places in the radial table, or the weights that a network
  // makes of `input`, and forms unless for backward. distance, pair and y [E][num_y] are indexed by edge, as
  // DeviceEdges has them.
  template <class G>
  void prepare(const DeviceExec &exec, const DeviceEdgeChunk &chunk, const G *distance, const int *pair, const T *y,
               bool with_forms, const DeviceNetworkInput<R> &input, Scratch &scratch) const;

  // The part of it that a network takes; nvcc wants functions with kernels public.
  template <class G>
  void make_weights(const DeviceExec &exec, const DeviceEdgeChunk &chunk, const G *distance, const int *pair,
                    const DeviceNetworkInput<R> &input, Scratch &scratch) const;

  // Writes the outputs of the chunk's atoms, receivers; x: the input feature with all its rows.
  void forward(const DeviceExec &exec, const DeviceEdgeChunk &chunk, FeatureRows<const R> x, FeatureRows<R> out,
               Scratch &scratch) const;

  // y_adj [E][num_y] += derivatives by the edges, slot 0 by the distance; x_adj += what a network has read of the
  // chunk's atoms, unless it is null.
  template <class G>
  void backward(const DeviceExec &exec, const DeviceEdgeChunk &chunk, FeatureRows<const R> x,
                FeatureRows<const R> out_adj, const T *y, G *y_adj, FeatureRows<R> x_adj, Scratch &scratch) const;

  // x_adj += adjoints of the chunk's atoms, senders, whose rows of the input are x; out_adj: the cotangent of the
  // output with all its rows.
  void gather_senders(const DeviceExec &exec, const DeviceEdgeChunk &chunk, FeatureRows<const R> x,
                      FeatureRows<const R> out_adj, FeatureRows<R> x_adj, Scratch &scratch) const;

  std::size_t bytes() const;
  // Bytes that chunks of num_edges edges will add to the scratch.
  std::size_t scratch_growth(const Scratch &scratch, int64_t num_edges) const;

 private:
  int rows_per_bin() const { return op_.rows_per_bin(); }
  int64_t table_rows(const DeviceEdgeChunk &chunk) const {
    return op_.exact() ? rows_per_bin() * chunk.count : op_.num_rows();
  }
  // Where kernels put the adjoints of the weights that a network has made.
  Pointer<T> weights_adj(const DeviceEdgeChunk &chunk, Scratch &scratch) const;
  // The kernels of all units, after prepare(call, numbers before the input block).
  template <UnitPass PASS, class F>
  void launch(const DeviceExec &exec, const DeviceEdgeChunk &chunk, const Scratch &scratch, int64_t x_rows,
              int64_t out_rows, int64_t out_row, const F &prepare) const;

  ConvolutionOp<T> op_;
  std::optional<DeviceRadialSet> radial_set_;
  std::unique_ptr<DeviceEdgeNetwork<T>> network_;    // instead of the radial set, or null
  Units units_;
  DeviceBuffer<R> table_;
};

}    // namespace equi

#endif

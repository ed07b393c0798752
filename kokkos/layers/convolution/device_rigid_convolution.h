// SPDX-License-Identifier: MIT
// Tangents of a convolution on a device along rigid edges, whose harmonics and weights have none.
//
// What remains of duals is linear in the features and in the cotangent. The kernels of plain numbers therefore serve
// one plane of tangents at a time: forward and gather once, and backward twice, because the derivatives with respect
// to an edge are
//   y_adj' = (derivative of x' and g) + (derivative of x and g').
// The bins and coupled harmonics of edges are prepared once for all directions.
#ifndef EQUI_DEVICE_RIGID_CONVOLUTION_H
#define EQUI_DEVICE_RIGID_CONVOLUTION_H

#include "kokkos/geometry/device_radial_set.h"
#include "kokkos/kernel_libraries/convolution_tables.h"
#include "kokkos/layer_interface/device_batch.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layers/convolution/device_path_groups.h"

#include <tuple>
#include <vector>

namespace equi {

// T: a Dual, whose planes give the layout of features in memory.
template <class T>
class DeviceRigidConvolution {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  using Scratch = DeviceRigidScratch<R>;
  using PathGroups = DevicePathGroups<R, DevicePathGroupKernel<R>>;
  // The radial table of the convolution, in device memory.
  struct Table {
    const R *rows;
    int64_t num_rows;
    int rows_per_bin;
    const DeviceRadialSet &radial;
  };
  DeviceRigidConvolution(const DeviceExec &exec, const TensorProduct &product, const FeatureLayout &in,
                         const FeatureLayout &out, const TableLayout &layout, int rows_per_bin,
                         const typename PathGroups::Kernels &kernels = device_kernels<R>());

  // The next three functions prepare the bins of a batch's edges and, if with_coupled, coupled harmonics, else plain
  // ones. distance, pair and y are indexed by edge.
  void prepare(const DeviceExec &exec, const DeviceBatchEdges &batch, const D *distance, const int *pair, const T *y,
               bool with_coupled, const Table &table, Scratch &scratch) const;
  // Each as in DeviceConvolution, for the plane of a direction's tangents.
  void forward(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x, FeatureRows<R> out,
               int direction, const Table &table, Scratch &scratch) const;
  // x_moves: whether x has tangents. y_adj += tangents.
  void backward(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x, bool x_moves,
                FeatureRows<const R> out_adj, int direction, D *y_adj, const Table &table, Scratch &scratch) const;
  void gather_senders(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> out_adj,
                      FeatureRows<R> x_adj, int direction, const Table &table, Scratch &scratch) const;

  auto members() const { return std::tie(path_groups_); }
  void for_edge_scratch(Scratch &scratch, int64_t num_edges, const ArrayVisitor &f) const;

 private:
  template <PathGroupPass PASS, class F>
  void launch(const DeviceExec &exec, const DeviceBatchEdges &batch, const Table &table, const Scratch &scratch,
              int64_t x_rows, int64_t out_rows, int64_t out_row, const PathGroupPlanes &planes, const F &prepare) const;

  ConvolutionTables<R> tables_;
  PathGroups path_groups_;
};

}    // namespace equi

#endif

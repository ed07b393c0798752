// SPDX-License-Identifier: MIT
// The definitions of DeviceRigidConvolution. Only device_convolution_impl.h includes this header.
#ifndef EQUI_DEVICE_RIGID_CONVOLUTION_IMPL_H
#define EQUI_DEVICE_RIGID_CONVOLUTION_IMPL_H

#include "kokkos/layers/convolution/device_path_groups_impl.h"
#include "kokkos/layers/convolution/device_rigid_convolution.h"

namespace equi {

template <class T>
DeviceRigidConvolution<T>::DeviceRigidConvolution(const DeviceExec &exec, const TensorProduct &product,
                                                  const FeatureLayout &in, const FeatureLayout &out,
                                                  const TableLayout &layout, int rows_per_bin,
                                                  const typename PathGroups::Kernels &kernels)
    : tables_(product, in, out, layout), path_groups_(exec, tables_, rows_per_bin, kernels) {}

template <class T>
void DeviceRigidConvolution<T>::prepare(const DeviceExec &exec, const DeviceBatchEdges &batch, const D *distance,
                                        const int *pair, const T *y, bool with_coupled, const Table &table,
                                        Scratch &scratch) const {
  const int64_t n = batch.count;
  const int num_y = tables_.view().num_y, row = harmonics_row(num_y);
  const int *other_row = batch.other_row + batch.first;
  const DeviceBinSearch<R> find_bin(table.radial, table.rows_per_bin, n, scratch.bins);
  R *values = reserve_harmonics(scratch.y, n, num_y);
  Kokkos::parallel_for(
      "equi:rigid_edges", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t c) {
        if (!batch.contains(batch.first + c)) return;
        const int64_t e = batch.edge_at(batch.first + c);
        find_bin(c, distance[e], pair[e], other_row[c]);
        for (int k = 0; k < num_y; k++) values[c * row + k] = value_of(y[e * row + k]);
      });
  if (!with_coupled || !path_groups_.reads_coupled()) return;
  DeviceBatchEdges in_order = batch;
  in_order.edge = nullptr;
  path_groups_.couple_harmonics(exec, in_order, values - batch.first * row,
                                scratch.coupled.reserve(n * path_groups_.coupled_width()));
}

template <class T>
template <PathGroupPass PASS, class F>
void DeviceRigidConvolution<T>::launch(const DeviceExec &exec, const DeviceBatchEdges &batch, const Table &table,
                                       const Scratch &scratch, int64_t x_rows, int64_t out_rows, int64_t out_row,
                                       const PathGroupPlanes &planes, const F &prepare) const {
  DevicePathGroupCall<R> call{};
  call.num_atoms = batch.num_atoms;
  call.begin = batch.begin;
  call.first = batch.first;
  call.num_edges = batch.count;
  call.edges = scratch.bins.records.data();
  call.coupled = scratch.coupled.data();
  call.y = scratch.y.data() + NUMBERS_BEFORE_HARMONICS;
  call.parts = scratch.parts.data();
  path_groups_.template launch<PASS>(
      exec, call, x_rows, out_rows, out_row, planes,
      [&](DevicePathGroupCall<R> &u, const ConvPathGroup<R> &path_group, const ConvPath<R> *, int, int64_t block) {
        u.table = table.rows + table.num_rows * path_group.first_column;
        u.channel_block = table.num_rows * path_group.row;
        prepare(u, block);
      });
}

template <class T>
void DeviceRigidConvolution<T>::forward(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                                        FeatureRows<R> out, int direction, const Table &table, Scratch &scratch) const {
  const int plane = 1 + direction;
  launch<PATH_GROUP_FORWARD>(exec, batch, table, scratch, x.rows, out.rows, out.first, {plane, plane},
                             [&](DevicePathGroupCall<R> &u, int64_t block) {
                               u.x = x.data + block;
                               u.out = out.data;
                             });
}

template <class T>
void DeviceRigidConvolution<T>::backward(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                                         bool x_moves, FeatureRows<const R> out_adj, int direction, D *y_adj,
                                         const Table &table, Scratch &scratch) const {
  if (batch.count == 0) return;
  const int num_y = tables_.view().num_y, plane = 1 + direction;
  R *parts = scratch.parts.reserve(path_groups_.part_size() * batch.count);
  const auto add = [&](const PathGroupPlanes &planes) {
    launch<PATH_GROUP_BACKWARD>(exec, batch, table, scratch, x.rows, out_adj.rows, out_adj.first, planes,
                                [&](DevicePathGroupCall<R> &u, int64_t block) {
                                  u.x = x.data + block;
                                  u.out_adj = out_adj.data;
                                });
    launch_add_parts(
        exec, "equi:add_edge_tangents",
        AddPartsKernel<R, D, typename PathGroups::Sums>{batch, num_y, path_groups_.sums(parts, batch.count),
                                                        scratch.bins.bins_per_length.data(), y_adj});
  };
  if (x_moves) add({plane, 0});
  add({0, plane});
}

template <class T>
void DeviceRigidConvolution<T>::gather_senders(const DeviceExec &exec, const DeviceBatchEdges &batch,
                                               FeatureRows<const R> out_adj, FeatureRows<R> x_adj, int direction,
                                               const Table &table, Scratch &scratch) const {
  const int plane = 1 + direction;
  launch<PATH_GROUP_GATHER>(exec, batch, table, scratch, x_adj.rows, out_adj.rows, out_adj.first, {plane, plane},
                            [&](DevicePathGroupCall<R> &u, int64_t block) {
                              u.x_adj = x_adj.data + block + x_adj.first * u.x_width;
                              u.out_adj = out_adj.data;
                            });
}

template <class T>
void DeviceRigidConvolution<T>::for_edge_scratch(Scratch &scratch, int64_t num_edges, const ArrayVisitor &f) const {
  const int coupled_width = path_groups_.reads_coupled() ? path_groups_.coupled_width() : 0;
  scratch.bins.for_arrays(num_edges, f);
  f(scratch.y, num_edges * harmonics_row(tables_.view().num_y));
  f(scratch.coupled, num_edges * coupled_width);
  f(scratch.parts, num_edges * path_groups_.part_size());
}

}    // namespace equi

#endif

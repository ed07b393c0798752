// SPDX-License-Identifier: MIT
// Rows of features by edge on a device: of adjoints that receivers leave for senders, and of what edges read in an
// evaluation of energy moments.
#ifndef EQUI_DEVICE_EDGE_ROWS_H
#define EQUI_DEVICE_EDGE_ROWS_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/layer_interface/edge_rows.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/runtime/device_exec.h"

#include <cstdint>

namespace equi {

// Sums the rows of edges for each of the batch's atoms, in the order of its edges. A thread for each number of some
// groups of an atom.
template <class R>
struct GatherEdgeRowsKernel {
  static constexpr int MOST_GROUPS = 9;
  struct Group {
    const R *of_edges;
    R *x_adj;
    int width;
  };
  DeviceBatchEdges batch;
  Group groups[MOST_GROUPS];
  int row_size;    // of all groups
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const int64_t a = index / row_size;
    int k = static_cast<int>(index % row_size), g = 0;
    for (; k >= groups[g].width; g++) k -= groups[g].width;
    const Group &group = groups[g];
    R &to = group.x_adj[a * group.width + k];
    R sum = to;
    for (int64_t position = batch.begin[a]; position < batch.begin[a + 1]; position++)
      sum += group.of_edges[batch.edge_at(position) * group.width + k];
    to = sum;
  }
};

// x_adj += the rows of the edges of the batch's atoms, with which it begins.
template <class R>
void gather_edge_rows(const DeviceExec &exec, const char *label, const DeviceBatchEdges &batch,
                      const FeatureLayout &layout, FeatureRows<const R> of_edges, FeatureRows<R> x_adj) {
  GatherEdgeRowsKernel<R> kernel{batch, {}, 0};
  int count = 0;
  const auto launch = [&] {
    Kokkos::parallel_for(label, DeviceRange(exec, 0, static_cast<int64_t>(batch.num_atoms) * kernel.row_size), kernel);
    kernel.row_size = count = 0;
  };
  for (const FeatureGroup &group : layout.groups()) {
    if (count == kernel.MOST_GROUPS) launch();
    kernel.groups[count++] = {of_edges.group(group), x_adj.group(group), group.width()};
    kernel.row_size += group.width();
  }
  if (count > 0) launch();
}

// Copies numbers of a group to the rows that edges read in an evaluation of energy moments.
template <class R, class D>
struct CopyEdgeRowsKernel {
  DeviceBatchEdges batch;
  const D *distance, *unit;                // indexed by edge
  const int *sender_row, *receiver_row;    // [count] rows of x
  const R *x;
  int width, stride, channels;
  int planes;    // of the copies
  int direction;
  R *to;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int64_t component_size = planes * channels, row_size = width / stride * component_size;
    const int64_t k = n / row_size, column = n % row_size, c = k < batch.count ? k : k - batch.count;
    const int64_t position = batch.first + c;
    if (!batch.contains(position)) return;
    const int plane = plane_of_edge_row(static_cast<int>(column % component_size / channels), direction);
    const int64_t row = k < batch.count ? sender_row[c] : receiver_row[c], e = batch.edge_at(position);
    const R back = k < batch.count ? sender_factor<R>(distance[e], unit + 3 * e, plane - 1) : R(0);
    to[n] =
        edge_row_number(x + row * width + column / component_size * stride + column % channels, channels, plane, back);
  }
};

// For a batch of receivers, copies rows of x to a row for each edge, of its sender, as copy_edge_row() does. Unless
// receiver_row is null, a row for each edge follows, of its receiver. Positions that are not edges keep their rows.
template <class R, class D>
FeatureRows<R> copy_edge_rows(const DeviceExec &exec, const DeviceBatchEdges &batch, const D *distance, const D *unit,
                              const int *sender_row, const int *receiver_row, const FeatureLayout &layout,
                              FeatureRows<const R> x, int direction, const FeatureLayout &to_layout,
                              DeviceBuffer<R> &memory) {
  const int64_t num_rows = (receiver_row ? 2 : 1) * batch.count;
  const FeatureRows<R> to{memory.reserve(num_rows * to_layout.row_size()), num_rows, 0};
  for (int g = 0; g < layout.num_groups(); g++) {
    const FeatureGroup &group = layout.group(g), &to_group = to_layout.group(g);
    Kokkos::parallel_for(
        "equi:copy_edge_rows", DeviceRange(exec, 0, num_rows * to_group.width()),
        CopyEdgeRowsKernel<R, D>{batch, distance, unit, sender_row, receiver_row, x.group(group), group.width(),
                                 group.stride(), group.channels, to_group.planes, direction, to.group(to_group)});
  }
  return to;
}

// Does what store_direction() of host_edge_list.h does.
template <class R>
void store_direction(const DeviceExec &exec, int direction, int64_t count, const FeatureLayout &from_layout,
                     FeatureRows<const R> from_rows, const FeatureLayout &layout, FeatureRows<R> rows) {
  for (int g = 0; g < layout.num_groups(); g++) {
    const FeatureGroup &group = layout.group(g), &from_group = from_layout.group(g);
    const int channels = group.channels, stride = group.stride(), from_stride = from_group.stride();
    const R *from = from_rows.group(from_group);
    R *to = rows.group(group);
    Kokkos::parallel_for(
        "equi:store_direction", DeviceRange(exec, 0, count * group.irrep.dim() * channels), KOKKOS_LAMBDA(int64_t n) {
          const int64_t component = n / channels, u = n % channels;
          const R *x = from + component * from_stride + u;
          R *y = to + component * stride + u;
          if (direction == 0) y[0] = x[0];
          y[(1 + direction) * channels] = x[channels];
        });
  }
}

}    // namespace equi

#endif

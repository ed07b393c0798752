// SPDX-License-Identifier: MIT
// Rows of a feature's adjoints by edge on a device, which receivers leave for senders.
#ifndef EQUI_DEVICE_EDGE_ROWS_H
#define EQUI_DEVICE_EDGE_ROWS_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/layers/feature_rows.h"
#include "kokkos/runtime/device_exec.h"

#include <cstdint>

namespace equi {

// Sums the rows of edges for each of the batch's atoms, in the order of its edges.
template <class R>
struct GatherEdgeRowsKernel {
  DeviceBatchEdges batch;
  int width;
  const R *of_edges;
  R *x_adj;
  KOKKOS_FUNCTION void operator()(int64_t index) const {
    const int64_t a = index / width, k = index % width;
    R sum = x_adj[index];
    for (int64_t position = batch.begin[a]; position < batch.begin[a + 1]; position++)
      sum += of_edges[batch.edge_at(position) * width + k];
    x_adj[index] = sum;
  }
};

// x_adj += the rows of the edges of the batch's atoms, with which it begins.
template <class R>
void gather_edge_rows(const DeviceExec &exec, const char *label, const DeviceBatchEdges &batch,
                      const FeatureLayout &layout, FeatureRows<const R> of_edges, FeatureRows<R> x_adj) {
  for (const FeatureGroup &group : layout.groups())
    Kokkos::parallel_for(label, DeviceRange(exec, 0, static_cast<int64_t>(batch.num_atoms) * group.width()),
                         GatherEdgeRowsKernel<R>{batch, group.width(), of_edges.group(group), x_adj.group(group)});
}

}    // namespace equi

#endif

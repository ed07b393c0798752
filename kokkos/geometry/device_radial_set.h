// SPDX-License-Identifier: MIT
// The radial functions of a layer on a device. They find the rows of its tables that an edge reads (radial_set.h).
#ifndef EQUI_DEVICE_RADIAL_SET_H
#define EQUI_DEVICE_RADIAL_SET_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/geometry/radial_set.h"
#include "kokkos/runtime/device_exec.h"

#include <tuple>
#include <vector>

namespace equi {

// Edges of a batch in host memory. Exact radial functions are evaluated there, because that mode is only for checks.
// D: double, or a Dual of it.
template <class D>
struct DeviceRadialEdges {
  DeviceBuffer<D> device_distance;
  DeviceBuffer<int> device_function;
  std::vector<D> distance;
  std::vector<int> function;
  auto members() const { return std::tie(device_distance, device_function); }
};

class DeviceRadialSet {
 public:
  using Finder = RadialFinder;
  DeviceRadialSet(const DeviceExec &exec, const RadialSet &set) {
    if (!set.has_one_table()) assign(exec, pairs_, set.pairs());
    if (set.exact()) return;
    std::vector<RadialTable::Piece> pieces;
    std::vector<RadialFinder::Table> tables;
    set.find_tables(pieces, tables);
    assign(exec, pieces_, pieces);
    assign(exec, tables_, tables);
  }

  Finder finder() const { return {pairs_.bytes() > 0 ? pairs_.data() : nullptr, pieces_.data(), tables_.data()}; }

  // Sets `edges` to what an exact function needs of a batch, whose edges are counted.
  template <class D>
  void fetch(const DeviceExec &exec, const DeviceBatchEdges &batch, const D *distance, const int *pair,
             DeviceRadialEdges<D> &edges) const {
    const int64_t n = batch.count;
    D *r = edges.device_distance.reserve(n);
    int *function = edges.device_function.reserve(n);
    const Finder find = finder();
    Kokkos::parallel_for(
        "equi:distances", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t c) {
          const int64_t e = batch.edge_at(batch.first + c);
          r[c] = distance[e];
          function[c] = find.function(pair[e]);
        });
    edges.distance.resize(n);
    edges.function.resize(n);
    copy_to_host(exec, edges.distance.data(), r, n);
    copy_to_host(exec, edges.function.data(), function, n);
  }

  auto members() const { return std::tie(pairs_, pieces_, tables_); }

 private:
  DeviceBuffer<int> pairs_;    // RadialSet::pairs
  DeviceBuffer<RadialTable::Piece> pieces_;
  DeviceBuffer<RadialFinder::Table> tables_;
};

}    // namespace equi

#endif

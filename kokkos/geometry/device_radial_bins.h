// SPDX-License-Identifier: MIT
// The bins of edges, of a batch or of an evaluation, in the radial tables of convolutions on a device.
#ifndef EQUI_DEVICE_RADIAL_BINS_H
#define EQUI_DEVICE_RADIAL_BINS_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/geometry/device_radial_set.h"
#include "kokkos/kernel_interface/device_path_group.h"
#include "kokkos/kernel_interface/place_in_rows.h"
#include "kokkos/runtime/device_exec.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

namespace equi {

// The record of each edge, and the bins per Angstrom in its table, which the derivative with respect to the distance
// needs.
template <class T>
struct DeviceRadialBins {
  DeviceBuffer<DeviceEdgeRecord<T>> records;
  DeviceBuffer<Real<T>> bins_per_length;
  auto members() const { return std::tie(records, bins_per_length); }
  // Calls f(array, its size for this number of edges).
  template <class F>
  void for_arrays(int64_t num_edges, const F &f) {
    f(records, num_edges);
    f(bins_per_length, num_edges);
  }
};

// Finds them for one edge after another in the tables of a convolution.
template <class T>
struct DeviceBinSearch {
  using R = Real<T>;
  DeviceRadialSet::Finder find = {};
  int rows_per_bin = 0;
  DeviceEdgeRecord<T> *records = nullptr;
  R *bins_per_length = nullptr;

  DeviceBinSearch() = default;
  DeviceBinSearch(const DeviceRadialSet &set, int rows, int64_t num_edges, DeviceRadialBins<T> &to)
      : find(set.finder()),
        rows_per_bin(rows),
        records(to.records.reserve(num_edges)),
        bins_per_length(to.bins_per_length.reserve(num_edges)) {}
  // For edge c at a distance in Angstrom, whose tangent is used if T is a dual; pair: defined at DeviceEdges.
  template <class D>
  KOKKOS_FUNCTION void operator()(int64_t c, D distance, int pair, int other_row) const {
    const auto found = find.bin_of(static_cast<double>(value_of(distance)), pair);
    const R per_length = static_cast<R>(found.bins_per_length);
    records[c] = {make_number<T>(static_cast<R>(found.fraction), static_cast<R>(tangent_of(distance)) * per_length),
                  found.bin * rows_per_bin, other_row};
    bins_per_length[c] = per_length;
  }
};

// A search for all edges of an evaluation. by_species: records name the species of the sender instead of its row.
template <class T>
struct DeviceStepSearch {
  DeviceBinSearch<T> search;
  bool by_species = false;
};

// Several searches in a launch. The edges are not counted and have one direction.
template <class T>
struct FindBins {
  static constexpr int AT_ONCE = 8;
  DeviceBatchEdges edges;    // all
  const int *species;        // species of senders
  const DoubleOf<T> *distance;
  const int *pair;
  DeviceStepSearch<T> searches[AT_ONCE];
  KOKKOS_FUNCTION void operator()(int64_t k) const {
    const PlaceInRows place = place_in_rows(k, static_cast<int>(edges.count));
    const int64_t e = place.column;
    if (!edges.contains(e)) return;
    const DeviceStepSearch<T> &of_layer = searches[place.row];
    of_layer.search(e, distance[e], pair[e], (of_layer.by_species ? species : edges.other_row)[e]);
  }
};

template <class T>
void find_bins(const DeviceExec &exec, const DeviceEdges<T> &edges, int num_receivers,
               const std::vector<DeviceStepSearch<T>> &searches) {
  using Kernel = FindBins<T>;
  Kernel kernel{edges.receivers(0, 0, num_receivers, false),
                edges.receivers(0, 0, num_receivers, true).other_row,
                edges.distance(),
                edges.pair(),
                {}};
  for (std::size_t first = 0; first < searches.size(); first += Kernel::AT_ONCE) {
    const std::size_t count = std::min<std::size_t>(Kernel::AT_ONCE, searches.size() - first);
    std::copy_n(searches.begin() + first, count, kernel.searches);
    Kokkos::parallel_for("equi:radial_bins", DeviceRange(exec, 0, static_cast<int64_t>(count) * kernel.edges.count),
                         kernel);
  }
}

}    // namespace equi

#endif

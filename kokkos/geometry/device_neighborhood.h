// SPDX-License-Identifier: MIT
// Neighborhoods in device memory, with the transposed order of its candidates.
#ifndef EQUI_DEVICE_NEIGHBORHOOD_H
#define EQUI_DEVICE_NEIGHBORHOOD_H

#include "kokkos/runtime/device_exec.h"
#include "src/base/owned_memory.h"
#include "src/geometry/neighbor_graph.h"

#include <tuple>

namespace equi {

// The fields are those of Neighborhood; arrays are in device memory. Copies share their arrays.
struct DeviceNeighborList {
  int num_atoms = 0, num_receivers = 0, num_interior = 0, num_rows = 0;
  int64_t num_candidates = 0;
  DeviceBuffer<int> receiver, row_species, sender_atom, sender_row;
  DeviceBuffer<int64_t> first;

  auto members() const { return std::tie(receiver, row_species, sender_atom, sender_row, first); }
};

// A list with the results of transpose_neighborhood(). Receivers are cut into slices of slice_size; the last one may
// be shorter. Candidates are sorted by the slice of their receivers, then by sender, then by receiver.
struct DeviceNeighborhood : DeviceNeighborList {
  int slice_size = 0, num_slices = 0;
  DeviceBuffer<int> candidate_receiver;          // [candidates]
  DeviceBuffer<int64_t> sender_first;            // [slices*A+1]; row r in slice s is at s*A+r
  DeviceBuffer<int64_t> transposed, unsorted;    // [candidates]; scratch
  DeviceBuffer<int> count;                       // [slices*A] scratch
  DeviceBuffer<int> row_atom;                    // [A] an atom that represents the row, -1: no edge can reach it

  int slices_of(int size) const { return num_receivers > 0 ? (num_receivers - 1) / size + 1 : 1; }
  // Calls f(array, its size for slices of this size) for the results of a transposition.
  template <class F>
  void for_arrays(int size, const F &f) const {
    const int64_t positions = static_cast<int64_t>(slices_of(size)) * num_rows;
    f(candidate_receiver, num_candidates);
    f(sender_first, positions + 1);
    f(transposed, num_candidates);
    f(unsorted, num_candidates);
    f(count, positions);
    f(row_atom, num_rows);
  }
  void for_memory(const MemoryVisitor &f) const {
    visit_memory(f, static_cast<const DeviceNeighborList &>(*this));
    for_arrays(1, without_sizes(f));
  }
};

// The work of these functions has ended on return.
void copy_neighborhood(const DeviceExec &exec, const Neighborhood &from, DeviceNeighborList &to);
void transpose_neighborhood(const DeviceExec &exec, int slice_size, DeviceNeighborhood &n);

// The largest number of items of `window` consecutive receivers; receiver i has the items begin[i] .. begin[i+1] - 1.
int64_t most_in_window(const DeviceExec &exec, const int64_t *begin, int num_receivers, int window);

// Whether each candidate between two receivers has its reverse: row i is among the senders of receiver j as often as
// row j is among those of receiver i. n must be transposed.
bool has_reverse_candidates(const DeviceExec &exec, const DeviceNeighborhood &n);

// sums[k] = count(0) + ... + count(k-1) for k = 0..n.
template <class S, class Count>
void running_sums(const DeviceExec &exec, int64_t n, const Count &count, S *sums) {
  Kokkos::parallel_scan(
      "equi:sums", DeviceRange(exec, 0, n + 1), KOKKOS_LAMBDA(int64_t k, S & sum, bool is_final) {
        if (is_final) sums[k] = sum;
        if (k < n) sum += count(k);
      });
}

// Calls write(k, position) for all k < n: the position of item k after each segment is sorted. Segment s has the
// items and the positions begin[s] .. begin[s+1] - 1; is_before is a strict order of items. Each item is compared
// with all of its segment, some tens of neighbors.
template <class Segment, class Order, class Write>
void sort_segments(const DeviceExec &exec, int64_t n, const int64_t *begin, const Segment &segment,
                   const Order &is_before, const Write &write) {
  Kokkos::parallel_for(
      "equi:sort", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t k) {
        const int64_t s = segment(k);
        int64_t position = begin[s];
        for (int64_t other = begin[s]; other < begin[s + 1]; other++)
          if (is_before(other, k)) position++;
        write(k, position);
      });
}

}    // namespace equi

#endif

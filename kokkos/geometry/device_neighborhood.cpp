// SPDX-License-Identifier: MIT
// Copies a neighborhood to a device, and makes the order of its candidates by senders.
#include "kokkos/geometry/device_neighborhood.h"

namespace equi {

void copy_neighborhood(const DeviceExec &exec, const Neighborhood &from, DeviceNeighborList &to) {
  to.num_atoms = from.num_atoms;
  to.num_receivers = from.num_receivers;
  to.num_interior = from.num_interior;
  to.num_rows = from.num_rows;
  to.num_candidates = from.first[from.num_receivers];
  assign(exec, to.receiver, from.receiver);
  assign(exec, to.row_species, from.row_species);
  assign(exec, to.first, from.first);
  assign(exec, to.sender_atom, from.sender_atom);
  assign(exec, to.sender_row, from.sender_row);
}

void transpose_neighborhood(const DeviceExec &exec, int slice_size, DeviceNeighborhood &n) {
  n.slice_size = slice_size;
  n.num_slices = n.slices_of(slice_size);
  const int num_slices = n.num_slices;
  const int64_t num_rows = n.num_rows, num_receivers = n.num_receivers, num_positions = num_slices * num_rows;
  const int64_t *first = n.first.data();
  const int *sender_row = n.sender_row.data(), *sender_atom = n.sender_atom.data(), *receiver = n.receiver.data();
  int *candidate_receiver = n.candidate_receiver.reserve(n.num_candidates);
  int64_t *transposed = n.transposed.reserve(n.num_candidates), *unsorted = n.unsorted.reserve(n.num_candidates);
  int64_t *begin = n.sender_first.reserve(num_positions + 1);
  int *count = n.count.reserve(num_positions), *row_atom = n.row_atom.reserve(num_rows);
  const auto place_of = KOKKOS_LAMBDA(int64_t c) {
    return candidate_receiver[c] / slice_size * num_rows + sender_row[c];
  };

  // Counts the candidates of each row in each slice, then stores which they are.
  device_zero(exec, count, num_positions);
  Kokkos::parallel_for(
      "equi:count_senders", DeviceRange(exec, 0, num_receivers), KOKKOS_LAMBDA(int64_t i) {
        for (int64_t c = first[i]; c < first[i + 1]; c++) {
          candidate_receiver[c] = static_cast<int>(i);
          Kokkos::atomic_inc(count + place_of(c));
        }
      });
  running_sums(
      exec, num_positions, KOKKOS_LAMBDA(int64_t p) { return static_cast<int64_t>(count[p]); }, begin);
  Kokkos::parallel_for(
      "equi:list_senders", DeviceRange(exec, 0, n.num_candidates), KOKKOS_LAMBDA(int64_t c) {
        const int64_t p = place_of(c);
        unsorted[begin[p] + Kokkos::atomic_fetch_sub(count + p, 1) - 1] = c;
      });
  // Removes the dependence on the order of threads.
  sort_segments(
      exec, n.num_candidates, begin, KOKKOS_LAMBDA(int64_t k) { return place_of(unsorted[k]); },
      KOKKOS_LAMBDA(int64_t a, int64_t b) { return unsorted[a] < unsorted[b]; },
      KOKKOS_LAMBDA(int64_t k, int64_t position) { transposed[position] = unsorted[k]; });
  Kokkos::parallel_for(
      "equi:row_atoms", DeviceRange(exec, 0, num_rows), KOKKOS_LAMBDA(int64_t r) {
        int atom = r < num_receivers ? receiver[r] : -1;
        for (int s = 0; s < num_slices && atom < 0; s++)
          if (begin[s * num_rows + r] < begin[s * num_rows + r + 1])
            atom = sender_atom[transposed[begin[s * num_rows + r]]];
        row_atom[r] = atom;
      });
  exec.fence("equi: neighborhood ready for any instance");
}

int64_t most_in_window(const DeviceExec &exec, const int64_t *begin, int num_receivers, int window) {
  if (num_receivers == 0) return 0;
  int64_t most = 0;
  Kokkos::parallel_reduce(
      "equi:most_in_window", DeviceRange(exec, 0, num_receivers),
      KOKKOS_LAMBDA(int64_t i, int64_t & m) {
        const int64_t end = i + window < num_receivers ? i + window : num_receivers, count = begin[end] - begin[i];
        if (count > m) m = count;
      },
      Kokkos::Max<int64_t>(most));
  return most;
}

bool has_reverse_candidates(const DeviceExec &exec, const DeviceNeighborhood &n) {
  const int num_receivers = n.num_receivers;
  const int64_t *first = n.first.data();
  const int *sender_row = n.sender_row.data(), *candidate_receiver = n.candidate_receiver.data();
  DeviceBuffer<int> missing;
  int *num_missing = missing.reserve(1);
  device_zero(exec, num_missing, 1);
  const auto times = KOKKOS_LAMBDA(int i, int j) {
    int sum = 0;
    for (int64_t c = first[i]; c < first[i + 1]; c++) sum += sender_row[c] == j;
    return sum;
  };
  Kokkos::parallel_for(
      "equi:find_reverse_candidates", DeviceRange(exec, 0, n.num_candidates), KOKKOS_LAMBDA(int64_t c) {
        const int i = candidate_receiver[c], j = sender_row[c];
        if (j < num_receivers && times(i, j) != times(j, i)) Kokkos::atomic_inc(num_missing);
      });
  int result = 0;
  copy_to_host(exec, &result, num_missing, 1);
  return result == 0;
}

}    // namespace equi

#include "device_neighborhood.h"

namespace equi {

template <class Exec>
void copy_neighborhood(const Exec &exec, const Neighborhood &from, DeviceNeighborhood<Exec> &to) {
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
  transpose_neighborhood(exec, to);
}

template <class Exec>
void transpose_neighborhood(const Exec &exec, DeviceNeighborhood<Exec> &n) {
  const int64_t num_rows = n.num_rows, num_receivers = n.num_receivers;
  const int64_t *first = n.first.data();
  const int *sender_row = n.sender_row.data(), *sender_atom = n.sender_atom.data(), *receiver = n.receiver.data();
  int *candidate_receiver = n.candidate_receiver.reserve(n.num_candidates);
  int64_t *transposed = n.transposed.reserve(n.num_candidates), *unsorted = n.unsorted.reserve(n.num_candidates);
  int64_t *begin = n.sender_first.reserve(num_rows + 1);
  int *row_atom = n.row_atom.reserve(num_rows);

  // How many candidates each row has, then which; row_atom counts.
  device_zero(exec, row_atom, num_rows);
  Kokkos::parallel_for(
      "equi:count_senders", DeviceRange<Exec>(exec, 0, num_receivers), KOKKOS_LAMBDA(int64_t i) {
        for (int64_t c = first[i]; c < first[i + 1]; c++) {
          candidate_receiver[c] = static_cast<int>(i);
          Kokkos::atomic_inc(row_atom + sender_row[c]);
        }
      });
  running_sums(
      exec, num_rows, KOKKOS_LAMBDA(int64_t r) { return static_cast<int64_t>(row_atom[r]); }, begin);
  Kokkos::parallel_for(
      "equi:list_senders", DeviceRange<Exec>(exec, 0, n.num_candidates), KOKKOS_LAMBDA(int64_t c) {
        const int row = sender_row[c];
        unsorted[begin[row] + Kokkos::atomic_fetch_sub(row_atom + row, 1) - 1] = c;
      });
  // The order in which threads came does not stay.
  sort_segments(
      exec, n.num_candidates, begin, KOKKOS_LAMBDA(int64_t k) { return sender_row[unsorted[k]]; },
      KOKKOS_LAMBDA(int64_t a, int64_t b) { return unsorted[a] < unsorted[b]; },
      KOKKOS_LAMBDA(int64_t k, int64_t place) { transposed[place] = unsorted[k]; });
  Kokkos::parallel_for(
      "equi:row_atoms", DeviceRange<Exec>(exec, 0, num_rows), KOKKOS_LAMBDA(int64_t r) {
        row_atom[r] = r < num_receivers         ? receiver[r]
                      : begin[r] < begin[r + 1] ? sender_atom[transposed[begin[r]]]
                                                : -1;
      });
  exec.fence("equi: neighborhood ready for any instance");
}

using DeviceExec = Kokkos::DefaultExecutionSpace;
template void copy_neighborhood(const DeviceExec &, const Neighborhood &, DeviceNeighborhood<DeviceExec> &);
template void transpose_neighborhood(const DeviceExec &, DeviceNeighborhood<DeviceExec> &);

}    // namespace equi

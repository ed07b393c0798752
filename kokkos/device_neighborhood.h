// A Neighborhood in device memory, with the transposed order of its candidates.
#ifndef EQUI_DEVICE_NEIGHBORHOOD_H
#define EQUI_DEVICE_NEIGHBORHOOD_H

#include "device_exec.h"
#include "neighbor_graph.h"

namespace equi {

// Fields as in Neighborhood; arrays in device memory.
template <class Exec>
struct DeviceNeighborhood {
  int num_atoms = 0, num_receivers = 0, num_interior = 0, num_rows = 0;
  int64_t num_candidates = 0;
  DeviceBuffer<Exec, int> receiver, row_species, sender_atom, sender_row;
  DeviceBuffer<Exec, int64_t> first;

  // What transpose() makes of the above: candidates in the order of senders, those of one sender in that of receivers.
  DeviceBuffer<Exec, int> candidate_receiver;          // [candidates]
  DeviceBuffer<Exec, int64_t> sender_first;            // [A+1]
  DeviceBuffer<Exec, int64_t> transposed, unsorted;    // [candidates]; scratch
  DeviceBuffer<Exec, int> row_atom;                    // [A] an atom that stands for the row, -1: no edge can reach it

  std::size_t bytes() const {
    return receiver.bytes() + row_species.bytes() + sender_atom.bytes() + sender_row.bytes() + first.bytes() +
           candidate_receiver.bytes() + sender_first.bytes() + transposed.bytes() + unsorted.bytes() + row_atom.bytes();
  }
};

// Both are complete on return.
template <class Exec>
void copy_neighborhood(const Exec &exec, const Neighborhood &from, DeviceNeighborhood<Exec> &to);
template <class Exec>
void transpose_neighborhood(const Exec &exec, DeviceNeighborhood<Exec> &n);

// sums[k] = count(0) + ... + count(k-1) for k = 0..n.
template <class Exec, class S, class Count>
void running_sums(const Exec &exec, int64_t n, const Count &count, S *sums) {
  Kokkos::parallel_scan(
      "equi:sums", DeviceRange<Exec>(exec, 0, n + 1), KOKKOS_LAMBDA(int64_t k, S & sum, bool is_final) {
        if (is_final) sums[k] = sum;
        if (k < n) sum += count(k);
      });
}

// write(k, place) for all k < n: where item k belongs if each segment is put in order. Segment s has the items and the
// places begin[s] up to begin[s+1]; is_before is a strict order of items. Each item looks at all of its segment, some
// tens of neighbors.
template <class Exec, class Segment, class Order, class Write>
void sort_segments(const Exec &exec, int64_t n, const int64_t *begin, const Segment &segment, const Order &is_before,
                   const Write &write) {
  Kokkos::parallel_for(
      "equi:sort", DeviceRange<Exec>(exec, 0, n), KOKKOS_LAMBDA(int64_t k) {
        const int s = segment(k);
        int64_t place = begin[s];
        for (int64_t other = begin[s]; other < begin[s + 1]; other++)
          if (is_before(other, k)) place++;
        write(k, place);
      });
}

}    // namespace equi

#endif

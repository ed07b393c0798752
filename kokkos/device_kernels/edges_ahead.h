// SPDX-License-Identifier: MIT
// Prefetches data of a warp's next edges while it works on one. A warp handles its edges one after another. Without
// this it would wait at each edge for data outside the first-level cache: rows of the atom at the other end, and
// arrays by edge. So the lanes fetch these lines into the cache one edge ahead, a line per lane. Two edges ahead
// they read which atom is at the other end. Lines that many warps read are not fetched, because a line that is
// fetched again makes all of them wait. These are rows of species, and rows of the table, most of which are in the
// cache. Measured in doc/gpu_roofline.rst.
#ifndef EQUI_EDGES_AHEAD_H
#define EQUI_EDGES_AHEAD_H

#include "kokkos/kernel_interface/device_path_group.h"

#include <climits>
#include <cstdint>

namespace equi {

constexpr int LINE_BYTES = 128;
// Lines of N channel blocks of one component.
template <class R, int N>
constexpr int BLOCK_LINES = (N * ITEM_CHANNELS * static_cast<int>(sizeof(R)) + LINE_BYTES - 1) / LINE_BYTES;

// Fetches into the first-level cache; nothing waits for it. An emulated GPU reads from the address, which shows that
// the line is in memory.
KOKKOS_FORCEINLINE_FUNCTION void fetch_line([[maybe_unused]] const void *p) {
#if defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L1 [%0];" ::"l"(p));
#elif !defined(__CUDACC__) && !defined(__HIPCC__)
  (void)*static_cast<const volatile char *>(p);
#endif
}

// The edges [begin, end) of a call in order, for a lane and its N channels. LINES: lines of all components() and
// edges(), which number them, starting at FIRST.
template <class T, int N, int LINES>
class EdgesAhead {
  static constexpr int LANES = DeviceTraits<>::LANES, SLOTS = (LINES + LANES - 1) / LANES;

 public:
  KOKKOS_FORCEINLINE_FUNCTION EdgesAhead(const DevicePathGroupCall<T> &u, int begin, int end, int lane, int channel)
      : records_(u.edges),
        last_(end - 1),
        lane_(lane),
        block_(channel / ITEM_CHANNELS * ITEM_CHANNELS),
        block_channels_(u.channels - block_) {
    if (LANES > 1 && begin < end) {
      row_ = records_[begin].other_row;
      next_row_ = records_[begin < last_ ? begin + 1 : last_].other_row;
    }
  }

  // Registers NUM components of the channel blocks, in the rows of the atoms at the other end.
  template <int FIRST, int NUM, class R>
  KOKKOS_FORCEINLINE_FUNCTION void components(const R *rows, int width, int stride) {
    for_lines<FIRST, NUM * BLOCK_LINES<R, N>>([&](int slot, int k) {
      const int channel = k % BLOCK_LINES<R, N> * (LINE_BYTES / static_cast<int>(sizeof(R)));
      if (channel >= block_channels_) return;
      from_[slot] = reinterpret_cast<const char *>(rows + k / BLOCK_LINES<R, N> * stride + block_ + channel);
      bytes_[slot] = static_cast<unsigned>(width * sizeof(R));
      by_edge_[slot] = false;
    });
  }
  // Registers the first line of an edge's `width` numbers; those of earlier edges cover the rest.
  template <int FIRST>
  KOKKOS_FORCEINLINE_FUNCTION void edges(const T *numbers, int width) {
    for_lines<FIRST, 1>([&](int slot, int) {
      from_[slot] = reinterpret_cast<const char *>(numbers);
      bytes_[slot] = static_cast<unsigned>(width * sizeof(T));
      by_edge_[slot] = true;
    });
  }

  // The record of edge e. Edges must be requested in order. num_rows: number of rows of all arrays of components.
  KOKKOS_FORCEINLINE_FUNCTION DeviceEdgeRecord<T> take(int e, int num_rows = INT_MAX) {
    if constexpr (LANES == 1) return records_[e];
    // The row has been known for two edges. Even data that all lanes read together is written to a register of each.
    DeviceEdgeRecord<T> record;
    record.table_row = records_[e].table_row;
    record.fraction = records_[e].fraction;
    record.other_row = row_;
    const int next = e < last_ ? e + 1 : last_;
    row_ = next_row_;
    next_row_ = records_[e + 2 < last_ ? e + 2 : last_].other_row;
    EQUI_UNROLL for (int s = 0; s < SLOTS; s++) if (from_[s] && (by_edge_[s] || row_ < num_rows))
        fetch_line(from_[s] + static_cast<uint64_t>(static_cast<unsigned>(by_edge_[s] ? next : row_)) * bytes_[s]);
    return record;
  }

 private:
  // Calls f(slot, line) if the lane fetches one of these lines.
  template <int FIRST, int NUM, class F>
  KOKKOS_FORCEINLINE_FUNCTION void for_lines(const F &f) const {
    if constexpr (LANES > 1) EQUI_UNROLL for (int s = 0; s < SLOTS; s++) {
        const int k = s * LANES + lane_ - FIRST;
        if (0 <= k && k < NUM) f(s, k);
      }
  }

  const DeviceEdgeRecord<T> *records_;
  int last_, lane_, block_, block_channels_, row_ = 0, next_row_ = 0;    // rows: of this edge and the next one
  const char *from_[SLOTS] = {};                                         // null: the lane has no line
  unsigned bytes_[SLOTS] = {};                                           // from one row, or edge, to the next
  bool by_edge_[SLOTS] = {};
};

}    // namespace equi

#endif

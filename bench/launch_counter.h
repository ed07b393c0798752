// SPDX-License-Identifier: MIT
// Counts launches of kernels.
#ifndef EQUI_LAUNCH_COUNTER_H
#define EQUI_LAUNCH_COUNTER_H

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>

namespace equi {

// Counts the launches of kernels of the project's own while it is there: without dense products, which are cuBLAS's on
// CUDA. Kokkos waits for the device before each launch that it tells of, so that nothing is recorded in that time, nor
// is it one to measure. Only one at a time.
class LaunchCounter {
  using Callbacks = Kokkos::Tools::Experimental::EventSet;

 public:
  LaunchCounter() : before_(Kokkos::Tools::Experimental::get_callbacks()) {
    number = 0;
    Callbacks counting = before_;
    counting.begin_parallel_for = counting.begin_parallel_reduce = counting.begin_parallel_scan = count;
    Kokkos::Tools::Experimental::set_callbacks(counting);
  }
  ~LaunchCounter() { Kokkos::Tools::Experimental::set_callbacks(before_); }
  LaunchCounter(const LaunchCounter &) = delete;
  LaunchCounter &operator=(const LaunchCounter &) = delete;
  int launches() const { return number; }

 private:
  static void count(const char *label, std::uint32_t, std::uint64_t *) {
    number += std::strcmp(label, "equi:gemm") != 0;
  }
  inline static int number = 0;
  Callbacks before_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Counts launches of kernels.
#ifndef EQUI_LAUNCH_COUNTER_H
#define EQUI_LAUNCH_COUNTER_H

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>

namespace equi {

// Counts the launches of the project's own kernels during its lifetime, or of those whose labels begin with a text;
// dense products, which are cuBLAS's on CUDA, are not counted. Kokkos waits for the device before each launch that it
// reports. So nothing can be recorded in this time, and the time must not be measured. Only one counter may exist at a
// time.
class LaunchCounter {
  using Callbacks = Kokkos::Tools::Experimental::EventSet;

 public:
  explicit LaunchCounter(const char *label = "") : before_(Kokkos::Tools::Experimental::get_callbacks()) {
    number = 0;
    begin = label;
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
    number += std::strcmp(label, "equi:gemm") != 0 && std::strncmp(label, begin, std::strlen(begin)) == 0;
  }
  inline static int number = 0;
  inline static const char *begin = "";
  Callbacks before_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Runs work on a number of threads of the host's execution space, one part for each.
#ifndef EQUI_BENCH_ON_THREADS_H
#define EQUI_BENCH_ON_THREADS_H

#include "kokkos/runtime/host_exec.h"

namespace equi {
namespace bench {

// Runs f(0) .. f(threads - 1), threads <= HostExec().concurrency(). A single part runs in the caller, without waking
// other threads.
template <class F>
void on_threads(int threads, const F &f) {
  if (threads == 1) return f(0);
  Kokkos::parallel_for(
      "equi:bench", Kokkos::RangePolicy<HostExec, Kokkos::Schedule<Kokkos::Static>>(0, threads, Kokkos::ChunkSize(1)),
      f);
  HostExec().fence("equi: benchmark reads the clock");
}

}    // namespace bench
}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The peak performance of the machine: multiply-adds in registers, and memory traffic. They are the measured bounds of
// a roofline.
#ifndef EQUI_BENCH_PEAK_H
#define EQUI_BENCH_PEAK_H

#include "kokkos/host_kernels/host_kernels.h"

namespace equi {
namespace bench {

// Independent chains of multiply-adds on `threads` threads of HostExec, in GFLOP/s (a multiply-add is two). All threads
// run at the same time, and the best of many short runs of each thread is summed. Other work on the machine can only
// lower the result.
template <class T>
double peak_gflops(InstructionSet set, int threads);

// a[i] = b[i] + s c[i] on arrays far larger than the caches, in GB/s of the three arrays. The best of several runs. The
// processor may read a before it writes it; these bytes are not counted.
double triad_gbytes(int threads);

}    // namespace bench
}    // namespace equi

#endif

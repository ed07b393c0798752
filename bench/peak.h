// SPDX-License-Identifier: MIT
// What the machine can do at most: multiply-adds in registers, and memory traffic. The measured bounds of a roofline.
#ifndef EQUI_BENCH_PEAK_H
#define EQUI_BENCH_PEAK_H

#include "kokkos/host_kernels/host_kernels.h"

namespace equi {
namespace bench {

// Independent chains of multiply-adds on `threads` threads of HostExec, in GFLOP/s (a multiply-add is two). All threads
// run at the same time, and the best of many short runs of each is added up: what others do on the machine can only
// lower it.
template <class T>
double peak_gflops(InstructionSet set, int threads);

// a[i] = b[i] + s c[i] on arrays far larger than the caches, in GB/s of the three arrays. The best of several runs.
// What the processor reads of a before it writes it is not counted.
double triad_gbytes(int threads);

}    // namespace bench
}    // namespace equi

#endif

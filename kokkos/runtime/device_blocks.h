// SPDX-License-Identifier: MIT
// Launches of blocks of threads that use as much of a device's shared memory as it has. Teams of Kokkos have at most
// the 48 kB that a GPU grants without a request.
#ifndef EQUI_DEVICE_BLOCKS_H
#define EQUI_DEVICE_BLOCKS_H

#include "kokkos/runtime/device_exec.h"

#include <cstdint>

namespace equi {
// Bytes that a block can have on a host: about as many as on a GPU, for tests.
constexpr int HOST_BLOCK_BYTES = 120 << 10;
}    // namespace equi

#if defined(KOKKOS_ENABLE_CUDA)
#include "kokkos/runtime/device_blocks_cuda.h"
#else

namespace equi {

// Bytes that a block can have.
inline int64_t most_block_bytes(const DeviceExec &) {
  return DeviceTraits<>::ON_HOST ? HOST_BLOCK_BYTES : DeviceTeams<>::scratch_size_max(0);
}

template <class Kernel>
struct KernelOnTeams {
  using Member = Kokkos::TeamPolicy<DeviceExec>::member_type;
  Kernel kernel;
  int bytes;
  KOKKOS_FUNCTION void operator()(const Member &team) const {
    kernel(team, static_cast<char *>(team.team_scratch(0).get_shmem(bytes)));
  }
};

// To be called before the first launch of a kernel; not while launches are recorded.
template <int THREADS, class Kernel>
void prepare_blocks(const DeviceExec &) {}

// Calls kernel(team, memory) for blocks of THREADS threads. `memory` has so many bytes and is aligned to 8 of them. The
// team has league_rank(), team_rank(), team_size() and team_barrier() of Kokkos.
template <int THREADS, class Kernel>
void launch_blocks(const DeviceExec &exec, const char *label, int64_t num_blocks, int64_t bytes, const Kernel &kernel) {
  DeviceTeams<Kokkos::LaunchBounds<THREADS, 1> > policy(exec, static_cast<int>(num_blocks), THREADS, 1);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(bytes)));
  Kokkos::parallel_for(label, policy, KernelOnTeams<Kernel>{kernel, static_cast<int>(bytes)});
}

}    // namespace equi

#endif

#endif

// SPDX-License-Identifier: MIT
// The launches of blocks with much shared memory, on the emulated GPU. The project's header of this name has words that
// only nvcc reads.
#ifndef EQUI_EMULATED_DEVICE_BLOCKS_H
#define EQUI_EMULATED_DEVICE_BLOCKS_H

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <typeinfo>

namespace equi {

inline std::int64_t most_block_bytes(const Kokkos::Cuda &) {
  return emulation::MOST_SHARED_BYTES;
}

template <int THREADS, class Kernel>
void prepare_blocks(const Kokkos::Cuda &) {}

template <int THREADS, class Kernel>
void launch_blocks(const Kokkos::Cuda &exec, const char *label, std::int64_t num_blocks, std::int64_t bytes,
                   const Kernel &kernel) {
  static_assert(THREADS <= emulation::MAX_THREADS, "a block has no more");
  if (static_cast<std::size_t>(bytes) > emulation::MOST_SHARED_BYTES)
    throw std::runtime_error("insufficient shared memory for " + std::to_string(bytes) + " bytes");
  if (num_blocks == 0) return;
  Kokkos::Impl::tell_of_launch(Kokkos::Tools::Experimental::callbacks().begin_parallel_for, label);
  Kokkos::Impl::launch_teams(label, exec.stream(), num_blocks, THREADS, bytes, {label, kernel, true}, typeid(Kernel),
                             [](const void *f, const Kokkos::EmulatedTeamMember &team) {
                               (*static_cast<const Kernel *>(f))(team, emulation::shared_memory());
                             });
}

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The instance of Kokkos for a stream that other code owns.
#ifndef EQUI_DEVICE_STREAM_CUDA_H
#define EQUI_DEVICE_STREAM_CUDA_H

#include <Kokkos_Core.hpp>

#include <map>
#include <mutex>

namespace equi {

// Instances are costly to make and are kept. The streams of a pool, like Torch's, never end. These instances do not
// end either, because at the end of a process Kokkos may have ended first.
inline Kokkos::Cuda instance_on(void *stream) {
  static std::mutex mutex;
  static auto &instances = *new std::map<void *, Kokkos::Cuda>;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = instances.find(stream);
  if (found != instances.end()) return found->second;
  return instances.emplace(stream, Kokkos::Cuda(static_cast<cudaStream_t>(stream))).first->second;
}

}    // namespace equi

#endif

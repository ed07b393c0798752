// SPDX-License-Identifier: MIT
// Whether the kernels that were launched have started.
#ifndef EQUI_DEVICE_LAUNCHES_H
#define EQUI_DEVICE_LAUNCHES_H

#include <Kokkos_Core.hpp>

#include <stdexcept>
#include <string>

namespace equi {

// Throws where a GPU has refused a launch of this thread, or any other call, since this function was last called. What
// the kernel was to write keeps its old numbers, and nobody else tells: Kokkos does not ask, and neither a fence nor a
// later call fails. So this is called where the host reads what kernels have written, and before calls whose own errors
// are to be forgotten.
inline void check_launches() {
#if defined(KOKKOS_ENABLE_CUDA)
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess && error != cudaErrorNotReady)    // that one answers a question whether work has ended
    throw std::runtime_error(std::string("the GPU has refused a kernel or a call: ") + cudaGetErrorString(error));
#elif defined(KOKKOS_ENABLE_HIP)
  const hipError_t error = hipGetLastError();
  if (error != hipSuccess && error != hipErrorNotReady)
    throw std::runtime_error(std::string("the GPU has refused a kernel or a call: ") + hipGetErrorString(error));
#endif
}

}    // namespace equi

#endif

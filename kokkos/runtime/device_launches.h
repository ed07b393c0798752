// SPDX-License-Identifier: MIT
// Checks whether the launched kernels have started.
#ifndef EQUI_DEVICE_LAUNCHES_H
#define EQUI_DEVICE_LAUNCHES_H

#include <Kokkos_Core.hpp>

#include <stdexcept>
#include <string>

namespace equi {

// Throws if a GPU has refused a launch of this thread, or any other call, since the last call of this function. The
// memory that the kernel would have written keeps its old numbers. Nothing else reports this: Kokkos does not ask,
// and neither a fence nor a later call fails. So this is called where the host reads results of kernels, and before
// calls whose own errors are ignored.
inline void check_launches() {
#if defined(KOKKOS_ENABLE_CUDA)
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess && error != cudaErrorNotReady)    // the latter only answers whether work has ended
    throw std::runtime_error(std::string("the GPU has refused a kernel or a call: ") + cudaGetErrorString(error));
#elif defined(KOKKOS_ENABLE_HIP)
  const hipError_t error = hipGetLastError();
  if (error != hipSuccess && error != hipErrorNotReady)
    throw std::runtime_error(std::string("the GPU has refused a kernel or a call: ") + hipGetErrorString(error));
#endif
}

}    // namespace equi

#endif

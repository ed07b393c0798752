// SPDX-License-Identifier: MIT
// Errors of calls of CUDA that tell of themselves; those of launches: device_launches.h.
#ifndef EQUI_CUDA_CALLS_H
#define EQUI_CUDA_CALLS_H

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace equi {

// Throws std::runtime_error, with the name of the call, unless it has succeeded.
inline void check_call(cudaError_t error, const char *call) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(call) + " failed: " + cudaGetErrorString(error));
}

}    // namespace equi

#endif

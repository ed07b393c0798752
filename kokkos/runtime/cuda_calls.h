// SPDX-License-Identifier: MIT
// Errors of CUDA calls that return them. device_launches.h handles errors of launches.
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

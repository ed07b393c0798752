// SPDX-License-Identifier: MIT
// The launches of device_blocks.h on GPUs of NVIDIA: up to 227 kB for a block of an H100 or H200, 163 kB of an A100.
#ifndef EQUI_DEVICE_BLOCKS_CUDA_H
#define EQUI_DEVICE_BLOCKS_CUDA_H

#include "kokkos/runtime/cuda_calls.h"
#include "kokkos/runtime/device_exec.h"

#include <cstdint>

namespace equi {

inline int64_t most_block_bytes(const DeviceExec &exec) {
  int bytes = 0;
  check_call(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, exec.cuda_device()),
             "cudaDeviceGetAttribute");
  return bytes;
}

struct CudaBlock {
  __device__ int league_rank() const { return static_cast<int>(blockIdx.x); }
  __device__ int team_rank() const { return static_cast<int>(threadIdx.x); }
  __device__ int team_size() const { return static_cast<int>(blockDim.x); }
  __device__ void team_barrier() const { __syncthreads(); }
};

template <int THREADS, class Kernel>
__global__ void __launch_bounds__(THREADS, 1) run_block(const __grid_constant__ Kernel kernel) {
  extern __shared__ int4 block_memory[];
  kernel(CudaBlock(), reinterpret_cast<char *>(block_memory));
}

template <int THREADS, class Kernel>
void prepare_blocks(const DeviceExec &exec) {
  check_call(cudaFuncSetAttribute(run_block<THREADS, Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(most_block_bytes(exec))),
             "cudaFuncSetAttribute");
}

template <int THREADS, class Kernel>
void launch_blocks(const DeviceExec &exec, const char *label, int64_t num_blocks, int64_t bytes, const Kernel &kernel) {
  if (num_blocks == 0) return;
  uint64_t number = 0;
  const bool is_watched = Kokkos::Tools::profileLibraryLoaded();
  if (is_watched) Kokkos::Tools::beginParallelFor(label, Kokkos::Tools::Experimental::device_id(exec), &number);
  run_block<THREADS, Kernel><<<static_cast<unsigned>(num_blocks), THREADS, bytes, exec.cuda_stream()>>>(kernel);
  if (is_watched) Kokkos::Tools::endParallelFor(number);
}

}    // namespace equi

#endif

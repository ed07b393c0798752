// SPDX-License-Identifier: MIT
// EQUI_FUNCTION precedes a function that kernels call, on hosts and devices.
#ifndef EQUI_HOST_DEVICE_H
#define EQUI_HOST_DEVICE_H

#if defined(__CUDACC__) || defined(__HIPCC__)
#define EQUI_FUNCTION __host__ __device__ inline
#else
// Always inlined: files compiled for other instruction sets call these functions, and their copies must not be linked
// into other files.
#define EQUI_FUNCTION __attribute__((always_inline)) inline
#endif

#endif

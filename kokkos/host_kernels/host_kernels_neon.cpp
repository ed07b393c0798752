// SPDX-License-Identifier: MIT
// Host kernels compiled for NEON, which every CPU of aarch64 has.
#define EQUI_ISA        isa_neon
#define EQUI_ISA_NAME   "neon"
#define EQUI_SIMD_BYTES 16
#include "kokkos/host_kernels/host_kernels_impl.h"

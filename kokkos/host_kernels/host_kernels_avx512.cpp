// SPDX-License-Identifier: MIT
// Host kernels compiled for AVX-512 F, DQ, BW, VL; the compiler flags are set in CMakeLists.txt.
#define EQUI_ISA        isa_avx512
#define EQUI_ISA_NAME   "avx512"
#define EQUI_SIMD_BYTES 64
#include "kokkos/host_kernels/host_kernels_impl.h"

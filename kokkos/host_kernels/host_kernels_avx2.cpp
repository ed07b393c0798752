// SPDX-License-Identifier: MIT
// Host kernels compiled for AVX2 and FMA; the compiler flags are set in CMakeLists.txt.
#define EQUI_ISA        isa_avx2
#define EQUI_ISA_NAME   "avx2"
#define EQUI_SIMD_BYTES 32
#include "kokkos/host_kernels/host_kernels_impl.h"

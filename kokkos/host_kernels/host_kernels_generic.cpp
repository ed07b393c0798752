// SPDX-License-Identifier: MIT
// Host kernels compiled for any CPU of the target architecture; the compiler flags are set in CMakeLists.txt.
#define EQUI_ISA        isa_generic
#define EQUI_ISA_NAME   "generic"
#define EQUI_SIMD_BYTES 16
#include "kokkos/host_kernels/host_kernels_impl.h"

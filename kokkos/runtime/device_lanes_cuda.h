// SPDX-License-Identifier: MIT
// Functions with which the lanes of a warp exchange numbers.
#ifndef EQUI_DEVICE_LANES_CUDA_H
#define EQUI_DEVICE_LANES_CUDA_H

#include <Kokkos_Core.hpp>

namespace equi {

template <class T>
KOKKOS_FUNCTION T from_lane_xor(T value, int mask) {
  KOKKOS_IF_ON_DEVICE((return __shfl_xor_sync(0xffffffffu, value, mask, 32);))
  KOKKOS_IF_ON_HOST(((void)mask; return value;))
}

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Functions with which 32 lanes of a wave exchange numbers.
#ifndef EQUI_DEVICE_LANES_HIP_H
#define EQUI_DEVICE_LANES_HIP_H

#include <Kokkos_Core.hpp>

namespace equi {

template <class T>
KOKKOS_FUNCTION T from_lane_xor(T value, int mask) {
  KOKKOS_IF_ON_DEVICE((return __shfl_xor(value, mask, 32);))
  KOKKOS_IF_ON_HOST(((void)mask; return value;))
}

}    // namespace equi

#endif

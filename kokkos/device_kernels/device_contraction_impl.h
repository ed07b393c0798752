// SPDX-License-Identifier: MIT
// The functions that a generated device kernel of a symmetric contraction calls, and the launches around it. A *body*
// holds the products of one tree: forward and backward for one atom and one channel.
#ifndef EQUI_DEVICE_CONTRACTION_IMPL_H
#define EQUI_DEVICE_CONTRACTION_IMPL_H

#include "kokkos/kernel_interface/device_contraction_kernel.h"
#include "kokkos/runtime/device_exec.h"

namespace equi {

// One number, where the source for hosts has a register with several.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T load(const T *p) {
  return *p;
}
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void store(T *p, T value) {
  *p = value;
}

template <class Body, class T, bool BACKWARD>
struct ContractionLane {
  Body body;
  DeviceContractionCall<T> u;
  KOKKOS_FUNCTION void operator()(int64_t k) const {
    const int64_t row = k / u.channels;
    const int channel = static_cast<int>(k % u.channels);
    if constexpr (BACKWARD)
      body.backward(u, row, channel, u.coefficients_of(row, channel));
    else
      body.forward(u, row, channel, u.coefficients_of(row, channel));
  }
};

template <bool BACKWARD, class Body, class T>
void launch_contraction(const DeviceExec &exec, const Body &body, const DeviceContractionCall<T> &u) {
  const DeviceRange range(exec, 0, static_cast<int64_t>(u.count) * u.channels);
  Kokkos::parallel_for(BACKWARD ? "equi:contraction_backward" : "equi:contraction_forward", range,
                       ContractionLane<Body, T, BACKWARD>{body, u});
}

// Launches a generated body, which has no data.
template <class Body, class T>
struct DeviceContractionOf {
  static void forward(const DeviceExec &exec, const DeviceContractionCall<T> &u) {
    launch_contraction<false>(exec, Body{}, u);
  }
  static void backward(const DeviceExec &exec, const DeviceContractionCall<T> &u) {
    launch_contraction<true>(exec, Body{}, u);
  }
  static constexpr DeviceContractionKernel<T> kernel() { return {Body::KEY, forward, backward}; }
};

}    // namespace equi

#endif

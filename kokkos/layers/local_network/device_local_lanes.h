// SPDX-License-Identifier: MIT
// The lanes of local_rows.h on devices.
#ifndef EQUI_DEVICE_LOCAL_LANES_H
#define EQUI_DEVICE_LOCAL_LANES_H

#include "kokkos/kernel_interface/local_rows.h"
#include "kokkos/runtime/device_exec.h"

#include <type_traits>

namespace equi {

// A lane has one channel at a time.
struct DeviceLanes {
  static constexpr int step = DeviceTraits<>::LANES;
  int first;

  KOKKOS_FUNCTION bool is_first() const { return first == 0; }
  template <class R>
  KOKKOS_FUNCTION R load(const R *p) const {
    return *p;
  }
  template <class R>
  KOKKOS_FUNCTION Dual<std::remove_const_t<R>> load(DualPointer<R> p) const {
    return p[0];
  }
  template <class P, class V>
  KOKKOS_FUNCTION void store(P p, V v) const {
    put(p, 0, v);
  }
  template <class T>
  KOKKOS_FUNCTION T zero() const {
    return T(0);
  }
  template <class T>
  KOKKOS_FUNCTION T make(Real<T> value, Real<T> tangent) const {
    return make_number<T>(value, tangent);
  }
  template <class T>
  KOKKOS_FUNCTION T sum(T v) const {
    return SumOfLanes<DeviceTraits<>::LANES>()(v);
  }
  template <class T, int COUNT>
  KOKKOS_FUNCTION void add_sums(const T (&v)[COUNT], DoubleOf<T> *to) const {
    for (int k = 0; k < COUNT; k++) {
      const T total = sum<T>(v[k]);
      if (is_first()) to[k] += static_cast<DoubleOf<T>>(total);
    }
  }
  template <class T>
  KOKKOS_FUNCTION void activate(Activation activation, Real<T> scale, int width, Pointer<T> z, Pointer<T> h) const {
    for (int u = first; u < width; u += step) {
      const ValueAndDerivative<T> found = equi::activate(activation, T(z[u]));
      put(h, u, scale * found.value);
      put(z, u, scale * found.derivative);
    }
  }
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The kernels of local networks for one instruction set, included by host_kernels_impl.h: their rows with SIMD lanes.
#ifndef EQUI_HOST_LOCAL_IMPL_H
#define EQUI_HOST_LOCAL_IMPL_H

#include "kokkos/host_kernels/host_gate_impl.h"
#include "kokkos/kernel_interface/host_simd.h"
#include "kokkos/kernel_interface/local_rows.h"

namespace equi {
namespace EQUI_ISA {

// The lanes of local_rows.h: a register of channels at a time. N: a number type.
template <class N>
struct SimdLanes {
  static constexpr int first = 0, step = LANES<N>;

  EQUI_INLINE bool is_first() const { return true; }
  template <class P>
  EQUI_INLINE auto load(P p) const {
    return EQUI_ISA::load(p);
  }
  template <class P, class V>
  EQUI_INLINE void store(P p, V v) const {
    EQUI_ISA::store(p, v);
  }
  template <class T>
  EQUI_INLINE Simd<T> zero() const {
    return Simd<T>{};
  }
  template <class T>
  EQUI_INLINE Simd<T> make(Simd<Real<T>> value, Simd<Real<T>> tangent) const {
    if constexpr (IS_DUAL<T>)
      return {value, tangent};
    else
      return (void)tangent, value;
  }
  template <class T>
  EQUI_INLINE T sum(Simd<T> v) const {
    const Simd<T> of_one[1] = {v};
    T total[1] = {T(0)};
    add_sums_of_lanes<T, 0>(of_one, total);
    return total[0];
  }
  template <class T, int COUNT>
  EQUI_INLINE void add_sums(const Simd<T> (&v)[COUNT], DoubleOf<T> *to) const {
    add_sums<T>(v, to, std::make_integer_sequence<int, COUNT>{});
  }
  template <class T>
  EQUI_INLINE void activate(Activation activation, Real<T> scale, int width, Pointer<T> z, Pointer<T> h) const {
    for (int u = 0; u < width; u += GATE_BLOCK) activate_block<T>(activation, scale, z + u, GATE_BLOCK, h + u, z + u);
  }

 private:
  template <class T, int... K>
  EQUI_INLINE void add_sums(const Simd<T> (&v)[sizeof...(K)], DoubleOf<T> *to, std::integer_sequence<int, K...>) const {
    T sums[sizeof...(K)];
    for (T &sum : sums) sum = T(0);
    add_sums_of_lanes<T, K...>(v, sums);
    for (int k = 0; k < static_cast<int>(sizeof...(K)); k++) to[k] += static_cast<DoubleOf<T>>(sums[k]);
  }
};

template <class N, class Kernel>
static void run_rows(const Kernel &kernel, int64_t count) {
  for (int64_t r = 0; r < count; r++) kernel.row(SimdLanes<N>{}, r);
}

template <class N>
struct LocalKernelsOf {
  template <class... Kernels>
  struct List {
    static constexpr RowFunctions<Kernels...> functions() { return {{run_rows<N, Kernels>}...}; }
  };
};
template <class N>
constexpr LocalKernels<N> LOCAL_KERNELS = ForLocalKernels<LocalKernelsOf<N>::template List, N>::functions();

}    // namespace EQUI_ISA
}    // namespace equi

#endif

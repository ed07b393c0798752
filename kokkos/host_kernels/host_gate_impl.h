// SPDX-License-Identifier: MIT
// The gates for one instruction set, included by host_kernels_impl.h.
//
// Channels are handled in blocks that the compiler vectorizes. The exponential is glibc's vector version where it
// exists (with errors up to 4 units in the last place). The declaration here makes it known to g++, without the
// unsafe options that the C library's header needs; clang has an option for it.
#if defined(__GLIBC__) && defined(__x86_64__) && !defined(__clang__)
extern "C" {
__attribute__((simd("notinbranch"), const)) float expf(float) noexcept;
__attribute__((simd("notinbranch"), const)) double exp(double) noexcept;
}
#endif
#ifndef EQUI_HOST_GATE_IMPL_H
#define EQUI_HOST_GATE_IMPL_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/kernel_interface/host_simd.h"

#include <cmath>

namespace equi {
namespace EQUI_ISA {

constexpr int GATE_BLOCK = 16;

inline float exponential(float x) {
  return expf(x);
}
inline double exponential(double x) {
  return exp(x);
}

// value[k] = scale a(z[k]), derivative[k] = scale a'(z[k]) for a block of channels. Values beyond `count` are 0 or
// unchanged. Not inlined: g++ unrolls the loops before it vectorizes them where it knows the count.
template <class T>
__attribute__((noinline)) static void activate_block(Activation activation, Real<T> scale, Pointer<const T> z,
                                                     int count, Pointer<T> value, Pointer<T> derivative) {
  using R = Real<T>;
  R x[GATE_BLOCK], tangent[GATE_BLOCK];
  for (int k = 0; k < GATE_BLOCK; k++) {
    const T zk = k < count ? z[k] : T(0);
    x[k] = value_of(zk);
    tangent[k] = tangent_of(zk);
  }
  if (activation == Activation::silu || activation == Activation::sigmoid) {
    const bool is_silu = activation == Activation::silu;
    R e[GATE_BLOCK];
    for (int k = 0; k < GATE_BLOCK; k++) e[k] = exponential(-std::fabs(x[k]));
    for (int k = 0; k < GATE_BLOCK; k++) {
      // Like sigmoid() of activation.h; the other one is x s.
      const R inverse = R(1) / (R(1) + e[k]), s = (x[k] < R(0) ? e[k] : R(1)) * inverse;
      const R slope = e[k] * inverse * inverse, curvature = slope * (R(1) - R(2) * s);
      const R y = is_silu ? x[k] * s : s, first = is_silu ? s + x[k] * slope : slope;
      const R second = is_silu ? R(2) * slope + x[k] * curvature : curvature;
      put(value, k, make_number<T>(scale * y, scale * (first * tangent[k])));
      put(derivative, k, make_number<T>(scale * first, scale * (second * tangent[k])));
    }
    for (int k = count; k < GATE_BLOCK; k++) put(value, k, T(0));    // not the sigmoid of 0
    return;
  }
  for (int k = 0; k < count; k++) {
    const auto a = activate(activation, make_number<T>(x[k], tangent[k]));
    put(value, k, scale * a.value);
    put(derivative, k, scale * a.derivative);
  }
}

// A block of numbers on the stack.
template <class T>
struct GateBlock {
  alignas(64) Real<T> numbers[PLANES<T> * GATE_BLOCK];
  Pointer<T> pointer() { return make_pointer<T>(numbers, GATE_BLOCK); }
};

template <class T>
static void gate_forward(const GateCall<T> &g) {
  GateBlock<T> values, derivatives;
  const Pointer<T> value = values.pointer();
  for (int64_t r = 0; r < g.rows; r++)
    for (int u = 0; u < g.mul; u += GATE_BLOCK) {
      const int count = g.mul - u < GATE_BLOCK ? g.mul - u : GATE_BLOCK;
      const Pointer<T> z = g.z + r * g.z_width + u, x = g.x + r * g.x_width + u;
      activate_block<T>(g.activation, g.scale, g.gate ? g.gate + r * g.gate_width + u : z, count, value,
                        derivatives.pointer());
      if (!g.gate)
        for (int k = 0; k < count; k++) put(x, k, value[k]);
      else
        for (int m = 0; m < g.dim; m++) {
          const Pointer<T> zm = z + m * g.z_stride, xm = x + m * g.x_stride;
          for (int k = 0; k < count; k++) put(xm, k, zm[k] * value[k]);
        }
      // Readers of x may multiply these channels by zero weights, and NaN times zero is not zero.
      if (u + GATE_BLOCK >= g.mul)
        for (int m = 0; m < g.dim; m++)
          for (int k = count; k < count + g.padding; k++) put(x + m * g.x_stride, k, T(0));
    }
}

template <class T>
static void gate_backward(const GateCall<T> &g) {
  GateBlock<T> values, derivatives, sums;
  const Pointer<T> value = values.pointer(), derivative = derivatives.pointer(), sum = sums.pointer();
  for (int64_t r = 0; r < g.rows; r++)
    for (int u = 0; u < g.mul; u += GATE_BLOCK) {
      const int count = g.mul - u < GATE_BLOCK ? g.mul - u : GATE_BLOCK;
      const Pointer<T> z = g.z + r * g.z_width + u, x = g.x + r * g.x_width + u;
      const Pointer<T> gate = g.gate ? g.gate + r * g.gate_width + u : Pointer<T>{};
      activate_block<T>(g.activation, g.scale, gate ? gate : z, count, value, derivative);
      if (!gate) {
        for (int k = 0; k < count; k++) put(z, k, x[k] * derivative[k]);
        continue;
      }
      for (int k = 0; k < count; k++) put(sum, k, T(0));
      for (int m = 0; m < g.dim; m++) {
        const Pointer<T> zm = z + m * g.z_stride, xm = x + m * g.x_stride;
        for (int k = 0; k < count; k++) {
          const T of_z = zm[k], of_x = xm[k];
          put(sum, k, sum[k] + of_z * of_x);
          put(zm, k, of_x * value[k]);
        }
      }
      for (int k = 0; k < count; k++) put(gate, k, derivative[k] * sum[k]);
    }
}

}    // namespace EQUI_ISA
}    // namespace equi

#endif

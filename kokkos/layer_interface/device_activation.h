// SPDX-License-Identifier: MIT
// Activations of numbers in device memory, for the networks of several layers.
#ifndef EQUI_DEVICE_ACTIVATION_H
#define EQUI_DEVICE_ACTIVATION_H

#include "kokkos/runtime/device_exec.h"
#include "src/functions/activation.h"
#include "src/numbers/dual.h"

namespace equi {

// Computes h = scale activation(z + bias), and replaces z by the sum.
template <class T>
struct ActivationKernel {
  Activation activation;
  Real<T> scale;
  int width;
  const Real<T> *bias;    // or null
  Pointer<T> z, h;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const T sum = bias ? z[n] + T(bias[n % width]) : z[n];
    if (bias) put(z, n, sum);
    put(h, n, scale * activate(activation, sum).value);
  }
};

// Replaces z by its adjoint.
template <class T>
struct ActivationAdjointKernel {
  Activation activation;
  Real<T> scale;
  Pointer<T> z, h_adj;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    put(z, n, h_adj[n] * (scale * activate(activation, z[n]).derivative));
  }
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Dense products on node features on a device: one small interface, which each kind of device defines in a source of
// its own (device_dense.cpp for hosts).
#ifndef EQUI_DEVICE_DENSE_H
#define EQUI_DEVICE_DENSE_H

#include "kokkos/runtime/device_exec.h"

namespace equi {

// C = A B + beta C, all row-major in device memory, in the order of exec's other work; A [m,k], C [m,n] contiguous; B
// is [k,n], or [n,k] if transpose_b. With beta = 0 the content of C is not read.
void device_gemm(const DeviceExec &exec, bool transpose_b, int64_t m, int n, int k, const float *a, const float *b,
                 float beta, float *c);
void device_gemm(const DeviceExec &exec, bool transpose_b, int64_t m, int n, int k, const double *a, const double *b,
                 double beta, double *c);

// Must be called once before the first product.
void start_device_dense(const DeviceExec &exec);

}    // namespace equi

#endif

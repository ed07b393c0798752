// SPDX-License-Identifier: MIT
// Dense products on node features on a device: one small interface, which each kind of device defines in a source of
// its own (device_dense.cpp for hosts).
#ifndef EQUI_DEVICE_DENSE_H
#define EQUI_DEVICE_DENSE_H

#include "kokkos/runtime/device_exec.h"

namespace equi {

// What products on an instance need beside their operands. While one is there that was made for the instance, products
// on it can be asked for, by any thread; several for one instance share. It must go before Kokkos ends.
class DeviceDense {
 public:
  explicit DeviceDense(const DeviceExec &exec);
  ~DeviceDense();
  DeviceDense(const DeviceDense &) = delete;
  DeviceDense &operator=(const DeviceDense &) = delete;

 private:
  DeviceExec exec_;
};

// Products that need not wait for each other. While one is there, the products of its thread on its instance can be
// given a branch, a number from 0 on: those of a branch come one after the other, those of several may run side by
// side. All come after what was queued on the instance before, and before what is queued when the object has gone. In
// between, other work on the instance has no order with branches beyond 0, and other threads that ask for products on
// it wait for the end. One at a time for an instance; it ends before the DeviceDense.
class DenseBranches {
 public:
  explicit DenseBranches(const DeviceExec &exec);
  ~DenseBranches();
  DenseBranches(const DenseBranches &) = delete;
  DenseBranches &operator=(const DenseBranches &) = delete;

 private:
  DeviceExec exec_;
};

// Operands whose rows do not follow one another: rows of A and of C are so many numbers apart, and each holds several
// planes side by side, k numbers of A and n of C; the product is that of all planes with one B.
struct DensePlanes {
  int count;
  int64_t a_stride, c_stride;
};

// C = A B, or C += A B where `add`, all row-major in device memory, in the order of exec's other work; A [m,k], C [m,n]
// contiguous, unless `planes` says more; B is [k,n], or [n,k] if transpose_b. With add = false the content of C is not
// read. branch: of DenseBranches; without these, the product is in the order of exec. Those of float32 may run on
// tensor cores, where there are some (device_dense_tensor.h).
void device_gemm(const DeviceExec &exec, bool transpose_b, int64_t m, int n, int k, const float *a, const float *b,
                 bool add, float *c, const DensePlanes *planes = nullptr, int branch = 0);
void device_gemm(const DeviceExec &exec, bool transpose_b, int64_t m, int n, int k, const double *a, const double *b,
                 bool add, double *c, const DensePlanes *planes = nullptr, int branch = 0);

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// Dense products on node features on a device: a small interface that each kind of device defines in its own source
// (device_dense.cpp for hosts).
#ifndef EQUI_DEVICE_DENSE_H
#define EQUI_DEVICE_DENSE_H

#include "kokkos/runtime/device_exec.h"

namespace equi {

// The resources that products on an instance need besides their operands. While an object made for the instance
// exists, any thread can request products on the instance. Several objects for one instance share resources. It must
// be destroyed before Kokkos ends.
class DeviceDense {
 public:
  explicit DeviceDense(const DeviceExec &exec);
  ~DeviceDense();
  DeviceDense(const DeviceDense &) = delete;
  DeviceDense &operator=(const DeviceDense &) = delete;

 private:
  DeviceExec exec_;
};

// Products that need not wait for each other. While an object exists, products that its thread requests on its
// instance can have a branch, a number starting at 0. Products of one branch run one after another; those of several
// branches may run at the same time. All run after what was queued on the instance before, and before what is queued
// after the object's destruction. Meanwhile other work on the instance has no order with branches other than 0.
// Other threads that request products on the instance wait for the end. An instance can have one object at a time,
// which must end before the DeviceDense.
class DenseBranches {
 public:
  explicit DenseBranches(const DeviceExec &exec);
  ~DenseBranches();
  DenseBranches(const DenseBranches &) = delete;
  DenseBranches &operator=(const DenseBranches &) = delete;

 private:
  DeviceExec exec_;
};

// Operands whose rows are not adjacent. a_stride and c_stride are the distances of rows of A and of C. Each row
// holds several adjacent planes, k numbers each in A and n in C. All planes are multiplied by the same B.
struct DensePlanes {
  int count;
  int64_t a_stride, c_stride;
};

// Tensor cores take float32 operands whose rows are a multiple of this.
constexpr int DENSE_MULTIPLE = DeviceTraits<>::ON_HOST ? 1 : 4;

// Computes C = A B, or C += A B if `add`, in the order of exec's other work. All are row-major in device memory. A
// [m,k] and C [m,n] are contiguous, unless `planes` is given; B is [k,n], or [n,k] if transpose_b. With add = false
// the content of C is not read. branch: of DenseBranches; without these, the product has the order of exec. Products
// of float32 may run on tensor cores, if the device has any (device_dense_tensor.h). tf32: the operands may be rounded
// to the 11 bits of TF32.
void device_gemm(const DeviceExec &exec, bool transpose_b, int64_t m, int n, int k, const float *a, const float *b,
                 bool add, float *c, const DensePlanes *planes = nullptr, int branch = 0, bool tf32 = false);
void device_gemm(const DeviceExec &exec, bool transpose_b, int64_t m, int n, int k, const double *a, const double *b,
                 bool add, double *c, const DensePlanes *planes = nullptr, int branch = 0, bool tf32 = false);

}    // namespace equi

#endif

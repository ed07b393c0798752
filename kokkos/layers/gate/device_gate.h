// SPDX-License-Identifier: MIT
// The gate on rows in device memory, from the terms of HostGate.
#ifndef EQUI_DEVICE_GATE_H
#define EQUI_DEVICE_GATE_H

#include "kokkos/layers/gate/host_gate.h"
#include "kokkos/runtime/device_exec.h"

namespace equi {

template <class T>
class DeviceGate {
  using R = Real<T>;

 public:
  explicit DeviceGate(const HostGate<T> &gate) : gate_(gate) {}
  void forward(const DeviceExec &exec, int64_t count, FeatureRows<const R> z, FeatureRows<R> x, int direction) const;
  // z is replaced by its adjoint.
  void backward(const DeviceExec &exec, int64_t count, FeatureRows<R> z, FeatureRows<const R> x_adj,
                int direction) const;
  std::size_t bytes() const { return 0; }

 private:
  HostGate<T> gate_;
};

}    // namespace equi

#endif

// SPDX-License-Identifier: MIT
// The gate on rows in device memory.
#ifndef EQUI_DEVICE_GATE_H
#define EQUI_DEVICE_GATE_H

#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layers/gate/gate_constants.h"
#include "kokkos/runtime/device_exec.h"

#include <tuple>
#include <utility>

namespace equi {

template <class T>
class DeviceGate {
  using R = Real<T>;

 public:
  explicit DeviceGate(GateConstants constants) : constants_(std::move(constants)) {}
  void forward(const DeviceExec &exec, int64_t count, FeatureRows<const R> z, FeatureRows<R> x, int direction) const;
  // Replaces z by its adjoint.
  void backward(const DeviceExec &exec, int64_t count, FeatureRows<R> z, FeatureRows<const R> x_adj,
                int direction) const;
  auto members() const { return std::tie(); }

 private:
  GateConstants constants_;
};

}    // namespace equi

#endif

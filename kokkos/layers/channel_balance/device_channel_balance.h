// SPDX-License-Identifier: MIT
// Sums over rows of a channel balance in device memory.
#ifndef EQUI_DEVICE_CHANNEL_BALANCE_H
#define EQUI_DEVICE_CHANNEL_BALANCE_H

#include "kokkos/layers/channel_balance/channel_balance_layer.h"
#include "kokkos/runtime/device_exec.h"
#include "kokkos/runtime/device_sum.h"

#include <cstddef>

namespace equi {

template <class T>
class DeviceChannelBalance {
  using R = Real<T>;

 public:
  DeviceChannelBalance(const ChannelBalance &layer, const FeatureLayout &layout)
      : balanced_(layer, layout, PLANES<T>) {}
  int size() const { return balanced_.size; }

  // Waits for the sums. They do not depend on the order of threads.
  void sum(const DeviceExec &exec, int count, FeatureRows<const R> rows, double *sums);
  void add(const DeviceExec &exec, int count, FeatureRows<R> rows, const double *numbers);
  std::size_t bytes() const { return terms_.bytes() + numbers_.bytes() + sum_.bytes(); }

 private:
  BalancedNumbers balanced_;
  DeviceBuffer<double> terms_, numbers_;
  DeviceSum sum_;
};

}    // namespace equi

#endif
